"""What each client does when a broker fails: one interface to four clients, and the table of docs/testing-clients.md.

python -m tests.clients.under_faults  # prints the table, in some three minutes; needs Java and Maven
"""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol

from tests.clients.failing_kafka import failing_kafka
from tests.clients.faulting_proxy import STALLED_S
from tests.support.clients.clients import PROGRAMS, java_class_path, java_machine
from tests.support.eventually import eventually
from twisted_kafka.testing import Broker

TIMEOUT_S = 4.0
"""How long a client tries to deliver a record, and how long a test waits for one to be read."""
WARM_UP_S = 30.0
BACKOFF_MS = 50
SETTLED_S = 0.4
FETCH_WAIT_MS = 100
NOTHING = "nothing"
ACKNOWLEDGED = "acknowledged"


class Client(Protocol):
    """A producer or a consumer of partition 0 of a topic. Errors are told by the name that the client has for them."""

    def send(self, value: str) -> str:
        """Send a record and return ``ACKNOWLEDGED``, or the error."""

    def read(self, wanted: str, timeout_s: float = TIMEOUT_S) -> str:
        """Read until a record has this value; return the values, and the error or ``NOTHING`` if it does not come."""

    def close(self) -> None:
        """Close it."""


class Librdkafka:
    """confluent-kafka."""

    def __init__(self, kind: str, servers: str, topic: str) -> None:
        from confluent_kafka import Consumer, Producer, TopicPartition

        settings = {"bootstrap.servers": servers, "socket.timeout.ms": 1000, "retry.backoff.ms": BACKOFF_MS, "log_level": 0}
        self._topic = topic
        self._producer = self._consumer = None
        if kind == "producer":
            self._producer = Producer({**settings, "message.timeout.ms": int(TIMEOUT_S * 1000)})
        else:
            self._consumer = Consumer(
                {**settings, "group.id": "-", "auto.offset.reset": "earliest", "fetch.wait.max.ms": FETCH_WAIT_MS}
            )
            self._consumer.assign([TopicPartition(topic, 0, 0)])

    def send(self, value: str) -> str:
        assert self._producer is not None
        seen: list[str] = []
        told = lambda error, _: seen.append(ACKNOWLEDGED if error is None else error.name())  # noqa: E731
        self._producer.produce(self._topic, value, on_delivery=told)
        self._producer.flush(2 * TIMEOUT_S)
        return seen[0] if seen else NOTHING

    def read(self, wanted: str, timeout_s: float = TIMEOUT_S) -> str:
        assert self._consumer is not None
        consumer = self._consumer
        return _read_until(wanted, timeout_s, lambda: _of_librdkafka(consumer.poll(0.1)))

    def close(self) -> None:
        if self._producer is not None:
            self._producer.purge()
            self._producer.flush(1)
        if self._consumer is not None:
            self._consumer.close()


def _of_librdkafka(message: Any) -> list[str]:
    if message is None:
        return []
    if message.error() is not None:
        raise _ToldError(message.error().name())
    return [message.value().decode()]


class _ToldError(Exception):
    """A client's error that is not an exception of its own; the text is its name."""


def _read_until(wanted: str, timeout_s: float, poll: Callable[[], list[str]]) -> str:
    seen: list[str] = []
    due_s = time.monotonic() + timeout_s
    while time.monotonic() < due_s:
        try:
            seen += poll()
        except _ToldError as error:
            return " ".join([*seen, str(error)])
        except Exception as error:  # noqa: BLE001 whichever it is, it is what the client does
            return " ".join([*seen, type(error).__name__])
        if wanted in seen:
            return " ".join(seen)
    return " ".join([*seen, NOTHING])


class KafkaPython:
    """kafka-python."""

    def __init__(self, kind: str, servers: str, topic: str) -> None:
        from kafka import KafkaConsumer, KafkaProducer, TopicPartition

        settings = {"bootstrap_servers": servers, "request_timeout_ms": 1000, "retry_backoff_ms": BACKOFF_MS}
        self._topic = topic
        self._producer = self._consumer = None
        if kind == "producer":
            self._producer = KafkaProducer(**settings, delivery_timeout_ms=int(TIMEOUT_S * 1000))
        else:
            self._consumer = KafkaConsumer(**settings, auto_offset_reset="earliest", fetch_max_wait_ms=FETCH_WAIT_MS)
            self._consumer.assign([TopicPartition(topic, 0)])
            self._consumer.seek_to_beginning()

    def send(self, value: str) -> str:
        assert self._producer is not None
        try:
            self._producer.send(self._topic, value.encode()).get(2 * TIMEOUT_S)
        except Exception as error:  # noqa: BLE001 whichever it is, it is what the client does
            return type(error).__name__
        return ACKNOWLEDGED

    def read(self, wanted: str, timeout_s: float = TIMEOUT_S) -> str:
        consumer = self._consumer
        assert consumer is not None
        return _read_until(
            wanted, timeout_s, lambda: [each.value.decode() for records in consumer.poll(100).values() for each in records]
        )

    def close(self) -> None:
        for each in (self._producer, self._consumer):
            if each is not None:
                with suppress(Exception):
                    each.close() if each is self._consumer else each.close(timeout=0.2)


class Aiokafka:
    """aiokafka, on a loop and thread of its own."""

    def __init__(self, kind: str, servers: str, topic: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._topic = topic
        self._client: Any = self._do(self._open(kind, servers, topic))

    async def _open(self, kind: str, servers: str, topic: str) -> Any:
        from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

        settings = {"bootstrap_servers": servers, "request_timeout_ms": 1000, "retry_backoff_ms": BACKOFF_MS}
        if kind == "producer":
            client = AIOKafkaProducer(**settings, acks="all")  # the others' default, without which no replica is waited for
        else:
            client = AIOKafkaConsumer(**settings, auto_offset_reset="earliest", fetch_max_wait_ms=FETCH_WAIT_MS)
        await client.start()
        if kind == "consumer":
            client.assign([TopicPartition(topic, 0)])
            await client.seek_to_beginning()
        return client

    def _do(self, work: Any, timeout_s: float = 3 * TIMEOUT_S) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout_s)

    def send(self, value: str) -> str:
        try:
            self._do(self._client.send_and_wait(self._topic, value.encode()), TIMEOUT_S)
        except TimeoutError:
            return NOTHING
        except Exception as error:  # noqa: BLE001 whichever it is, it is what the client does
            return type(error).__name__
        return ACKNOWLEDGED

    def read(self, wanted: str, timeout_s: float = TIMEOUT_S) -> str:
        def poll() -> list[str]:
            found = self._do(self._client.getmany(timeout_ms=100))
            return [each.value.decode() for records in found.values() for each in records]

        return _read_until(wanted, timeout_s, poll)

    def close(self) -> None:
        with suppress(Exception):
            self._do(self._client.stop(), 2)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)


class JavaProgram:
    """A process that is one Java client after the other."""

    def __init__(self, class_path: str) -> None:
        command = [*java_machine(class_path), str(PROGRAMS / "java" / "Faulted.java")]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def do(self, *words: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(*words, file=self._process.stdin, flush=True)
        for line in self._process.stdout:
            if line.startswith("> "):
                return line[2:].strip()
        raise AssertionError("the Java program has ended")

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


class Java:
    """Kafka's Java client."""

    def __init__(self, program: JavaProgram, kind: str, servers: str, topic: str) -> None:
        self._program = program
        program.do(kind, servers, topic)

    def send(self, value: str) -> str:
        return self._program.do("send", value)

    def read(self, wanted: str, timeout_s: float = TIMEOUT_S) -> str:
        return self._program.do("read", wanted, str(int(timeout_s * 1000)))

    def close(self) -> None:
        self._program.do("close")


Make = Callable[[str, str, str], Client]


@contextmanager
def clients() -> Iterator[dict[str, Make]]:
    """Have the clients by name; Java's, if there is Java."""
    made: dict[str, Make] = {"librdkafka": Librdkafka, "kafka-python": KafkaPython, "aiokafka": Aiokafka}
    class_path = java_class_path()
    if class_path is None:
        yield made
        return
    program = JavaProgram(class_path)
    try:
        yield {**made, "Java": lambda kind, servers, topic: Java(program, kind, servers, topic)}
    finally:
        program.end()


class FaultyBroker(Protocol):
    """A broker, and a fault of it that can be switched on."""

    servers: str

    def fault(self, rule: Mapping[str, Any], api: str, topic: str) -> AbstractContextManager[None]:
        """Have a fault for requests of one API in a ``with`` block."""

    def create_topic(self, topic: str) -> str:
        """Create a topic with one partition, and return its name."""

    def append(self, topic: str, value: str) -> None:
        """Append a record."""

    def values(self, topic: str) -> list[str]:
        """Return what is stored."""

    def asked(self, api: str, topic: str) -> int:
        """Return how many requests there were since the fault was switched on."""


@dataclass(frozen=True)
class Fault:
    """One row of the table, by the name that the document has for it."""

    name: str
    rule: Mapping[str, Any]


ONCE = {"times": 1}
COMMON = (
    Fault('`close="before"`, once', {"close": "before", **ONCE}),
    Fault('`close="after"`, once', {"close": "after", **ONCE}),
    Fault("`lose_response`, once", {"lose_response": True, **ONCE}),
    Fault("`half_response`, once", {"half_response": True, **ONCE}),
    Fault("`corrupt_response`, once", {"corrupt_response": True, **ONCE}),
    Fault("`delay_ms=300`, once", {"delay_ms": 300, **ONCE}),
    Fault("`throttle_ms=300`, once", {"throttle_ms": 300, **ONCE}),
    Fault("`leader=7`, once", {"leader": 7, **ONCE}),
    Fault('`error="NOT_LEADER_OR_FOLLOWER"`, once', {"error": "NOT_LEADER_OR_FOLLOWER", **ONCE}),
    Fault('`error="TOPIC_AUTHORIZATION_FAILED"`', {"error": "TOPIC_AUTHORIZATION_FAILED"}),
)
OF_PRODUCE = (
    *COMMON,
    Fault('`error="MESSAGE_TOO_LARGE"`', {"error": "MESSAGE_TOO_LARGE"}),
    Fault('`error="NOT_ENOUGH_REPLICAS"`', {"error": "NOT_ENOUGH_REPLICAS"}),
    Fault('`disk="full"`, once', {"disk": "full", **ONCE}),
    Fault('`disk="stalled"` for 0.3 s', {"disk": "stalled"}),
)
OF_FETCH = (
    *COMMON,
    Fault('`error="OFFSET_OUT_OF_RANGE"`, once', {"error": "OFFSET_OUT_OF_RANGE", **ONCE}),
    Fault('`error="KAFKA_STORAGE_ERROR"`, once', {"error": "KAFKA_STORAGE_ERROR", **ONCE}),
)
BY_API = {"Produce": OF_PRODUCE, "Fetch": OF_FETCH}


class OurBroker:
    """A broker of the testing kit (``FaultyBroker``)."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.servers = broker.bootstrap_servers

    @contextmanager
    def fault(self, rule: Mapping[str, Any], api: str, topic: str) -> Iterator[None]:
        """Have a rule in force (``FaultyBroker``)."""
        self._broker.requests.clear()
        with self._broker.faults.inject(api=api, topic=topic, **rule) as fault:
            stalled = threading.Timer(STALLED_S, self._broker.faults.clear) if rule.get("disk") == "stalled" else None
            if stalled is not None:
                stalled.start()
            yield
            if stalled is not None:
                stalled.join()
            assert fault.fired, "nothing failed"

    def create_topic(self, topic: str) -> str:
        return self._broker.create_topic(topic)

    def append(self, topic: str, value: str) -> None:
        self._broker.produce(topic, [value])

    def values(self, topic: str) -> list[str]:
        return [(record.value or b"").decode() for record in self._broker.records(topic)]

    def asked(self, api: str, topic: str) -> int:
        return self._broker.requests.of(api).where(topic=topic).count()


@contextmanager
def our_broker() -> Iterator[FaultyBroker]:
    with Broker() as broker:
        yield OurBroker(broker)


def produced(broker: FaultyBroker, make: Make, topic: str, rule: Mapping[str, Any]) -> str:
    """Send a record while there is a fault, after one without; return what came of it, in words."""
    client = make("producer", broker.servers, topic)
    try:
        eventually(lambda: client.send("0") == ACKNOWLEDGED, wait_s=WARM_UP_S, pause_s=1)
        with broker.fault(rule, "Produce", topic):
            told = client.send("1")
            sent = broker.asked("Produce", topic)
        stored = broker.values(topic).count("1")
    finally:
        client.close()
    times = "again and again" if sent > 3 else _times(sent)
    return f"{told}; sent {times}, stored {_times(stored)}"


def fetched(broker: FaultyBroker, make: Make, topic: str, rule: Mapping[str, Any]) -> str:
    """Read a record while there is a fault, after one without; return what came of it, in words."""
    broker.append(topic, "0")
    client = make("consumer", broker.servers, topic)
    try:
        assert client.read("0", WARM_UP_S) == "0"
        with broker.fault(rule, "Fetch", topic):
            time.sleep(SETTLED_S)  # the Fetch that waits already is answered without it
            broker.append(topic, "1")
            # A quota of Kafka's holds until a client has been quiet, which answers without records break.
            told = client.read("1", WARM_UP_S if "throttle_ms" in rule else TIMEOUT_S)
    finally:
        client.close()
    return {"1": "read", "0 1": "read, after the first one again"}.get(told, told)


def _times(count: int) -> str:
    return ("never", "once", "twice")[count] if count < 3 else f"{count} times"


Outcomes = dict[str, dict[str, str]]
CASES: dict[str, Callable[[FaultyBroker, Make, str, Mapping[str, Any]], str]] = {"Produce": produced, "Fetch": fetched}


def outcomes(api: str, broker: FaultyBroker) -> Outcomes:
    """Return what each client does, by fault and client."""
    found: Outcomes = {}
    with clients() as makes:
        for number, fault in enumerate(BY_API[api]):
            row = found[fault.name] = {}
            for name, make in makes.items():
                topic = broker.create_topic(f"{api.lower()}-{number}-{name}")
                row[name] = CASES[api](broker, make, topic, fault.rule)
    return found


def table(found: Outcomes) -> list[str]:
    """Return the lines of a table in Markdown."""
    names = list(next(iter(found.values())))
    lines = [f"| | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    return lines + [f"| {fault} | {' | '.join(row[name] for name in names)} |" for fault, row in found.items()]


def main() -> None:
    """Print the tables; with ``--kafka``, those of Apache Kafka."""
    with failing_kafka() if "--kafka" in sys.argv else our_broker() as broker:
        for api in [each for each in BY_API if each in sys.argv] or BY_API:
            print(f"\n### {api}\n", *table(outcomes(api, broker)), sep="\n", flush=True)


if __name__ == "__main__":
    main()
