"""Transactions per second and what they cost, compared to Apache Kafka in the same run.

    python -m benchmarks.transactions [--rounds 3] [--seconds 3] [--ids 10000] [--only 'rate*'] [--no-kafka]

Raw requests, one in flight for each producer. A transaction adds its partitions (AddPartitionsToTxn), writes one record of 100 B to
each (Produce, acks=all) and commits (EndTxn). An answer CONCURRENT_TRANSACTIONS is tried again after RETRY_S. "idempotent" is the
same Produce outside of a transaction. The requests alone: InitProducerId of one transactional id, which bumps its epoch each time;
AddPartitionsToTxn and EndTxn in turn, of one partition; and Heartbeat. The brokers are measured in turn in each round; the table
has medians, and the broker's CPU time. Restarts: ``kill -9`` with IDS transactional ids, then the time from the first answer of the
new process until every id's coordinator answers.

``BROKER_PYTHON`` is the interpreter of this broker. Requires Java and Maven for Apache Kafka.
"""

import argparse
import contextlib
import fnmatch
import heapq
import selectors
import socket
import statistics
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import crc32c

from benchmarks.beside import frames
from benchmarks.scratch import scratch
from tests.oracle.metadata_trees import zookeeper
from tests.support.clients.served import ServedBroker, cpu_s
from tests.support.eventually import eventually
from tests.support.oracle.apache_kafka import ApacheKafka
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.record import SimpleRecord

INIT_PRODUCER_ID, ADD_PARTITIONS, END_TXN = 22, 24, 26
RETRY_S = 0.001
RETRIED = {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
RETRIED |= {ErrorCode.COORDINATOR_NOT_AVAILABLE}
WARM_S = 8.0
WAIT_S = 120.0
PARTITIONS = 100
TIMEOUT_MS = 60_000
RECORD_BYTES = 100
SETTINGS = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 50}

_SEQUENCE_AT, _CRC_AT, _CRC_FROM = 53, 17, 21


class Call(NamedTuple):
    """A request, and where its answer has the error codes: at ``first`` bytes of the body, then every ``step`` bytes."""

    frame: bytes
    first: int
    count: int = 1
    step: int = 0

    def errors(self, answer: bytes) -> set[int]:
        return {struct.unpack_from(">h", answer, 4 + self.first + each * self.step)[0] for each in range(self.count)}


def init_producer_id(transactional_id: str | None) -> Call:
    body = frames.string(transactional_id) + struct.pack(">i", TIMEOUT_MS)
    return Call(frames.request(INIT_PRODUCER_ID, 1, body), 4)


class Identity(NamedTuple):
    """A producer as the coordinator knows it."""

    transactional_id: str | None
    producer_id: int
    epoch: int

    def _prefix(self) -> bytes:
        return frames.string(self.transactional_id) + struct.pack(">qh", self.producer_id, self.epoch)

    def add_partitions(self, topic: str, partitions: int) -> Call:
        indexes = frames.array([struct.pack(">i", index) for index in range(partitions)])
        body = self._prefix() + frames.array([frames.string(topic) + indexes])
        return Call(frames.request(ADD_PARTITIONS, 1, body), 4 + 4 + 2 + len(topic) + 4 + 4, partitions, 6)

    def end(self, commit: bool = True) -> Call:
        return Call(frames.request(END_TXN, 1, self._prefix() + struct.pack("?", commit)), 4)

    def produces(self, topic: str, partitions: int) -> Iterator[Call]:
        """Yield one request after the other, each with the next sequence number."""
        record = SimpleRecord(int(time.time() * 1000), None, bytes(RECORD_BYTES))
        batch = bytearray(
            build_batch(
                [record],
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                base_sequence=0,
                is_transactional=self.transactional_id is not None,
            )
        )
        sequence = 0
        while True:
            struct.pack_into(">i", batch, _SEQUENCE_AT, sequence)
            struct.pack_into(">I", batch, _CRC_AT, crc32c.crc32c(bytes(batch[_CRC_FROM:])))
            records = frames.blob(bytes(batch))
            parts = frames.array([struct.pack(">i", index) + records for index in range(partitions)])
            body = frames.string(self.transactional_id) + struct.pack(">hi", -1, 30_000)
            yield Call(
                frames.request(frames.PRODUCE, 7, body + frames.array([frames.string(topic) + parts])),
                4 + 2 + len(topic) + 4 + 4,
                partitions,
                4 + 2 + 8 + 8 + 8,
            )
            sequence += 1


Calls = Iterator[Call]


class Client:
    """One connection that sends one call after the other."""

    def __init__(self, port: int, calls: Calls) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), WAIT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._calls = calls
        self._received = bytearray()
        self._call = Call(b"", 0)
        self.is_last = False

    def send_next(self) -> bool:
        """Send the next call; return False at the end."""
        found = next(self._calls, None)
        if found is None:
            self.is_last = True
            return False
        self._call = found
        self.send_again()
        return True

    def send_again(self) -> None:
        self.socket.sendall(self._call.frame)

    def received(self) -> "ErrorCode | None":
        """Read; return the error of a whole answer, None if it is not here yet."""
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionError("closed by the broker")
        self._received += data
        if len(self._received) < 4 or len(self._received) < 4 + struct.unpack_from(">i", self._received)[0]:
            return None
        errors = self._call.errors(bytes(self._received[4:])) - {0}
        self._received.clear()
        return ErrorCode(errors.pop()) if errors else ErrorCode.NONE


def run(port: int, sequences: list[Calls], seconds: float | None) -> tuple[int, float, int]:
    """Send sequences of calls side by side, for a time or to their ends; return answers without error, seconds, retries."""
    clients = [Client(port, calls) for calls in sequences]
    answers = retries = 0
    with selectors.EpollSelector() as selector, contextlib.ExitStack() as stack:
        for client in clients:
            stack.callback(client.socket.close)
            selector.register(client.socket, selectors.EVENT_READ, client)
            client.send_next()
        began = time.perf_counter()
        retried: list[tuple[float, int, Client]] = []
        end = began + (WAIT_S if seconds is None else seconds)
        while (now := time.perf_counter()) < end and not all(client.is_last for client in clients):
            while retried and retried[0][0] <= now:
                heapq.heappop(retried)[2].send_again()
            for key, _ in selector.select(max(0.0, retried[0][0] - now) if retried else 0.1):
                client = key.data
                error = client.received()
                if error is None:
                    continue
                if error in RETRIED:
                    retries += 1
                    heapq.heappush(retried, (now + RETRY_S, id(client), client))
                elif error:
                    raise RuntimeError(f"answered {error.name}")
                else:
                    answers += 1
                    client.send_next()
        return answers, time.perf_counter() - began, retries


class Measured:
    """A running broker with the topic of the transactions."""

    def __init__(self, name: str, port: int, pid: Callable[[], int]) -> None:
        self.name = name
        self.pid = pid
        self.port = port
        self.used = 0
        connection = frames.Connection("127.0.0.1", port)
        connection.create(["transactions"], PARTITIONS)
        self.init("first")  # makes __transaction_state
        deadline = time.monotonic() + WAIT_S
        while True:
            # Makes __consumer_offsets.
            connection.call(frames.request(frames.FIND_COORDINATOR, 2, frames.string("bench-hb") + b"\0"))
            try:
                self.member, self.generation = frames.join(connection, "bench-hb")
                break
            except RuntimeError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def init(self, transactional_id: str | None) -> Identity:
        """Get a producer id and epoch."""
        connection = frames.Connection("127.0.0.1", self.port)
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            answer = connection.call(init_producer_id(transactional_id).frame)
            _, error, producer_id, epoch = answer.get("ihqh")
            if error == 0:
                connection.close()
                return Identity(transactional_id, producer_id, epoch)
            if transactional_id is not None:  # the first look-up makes the topic
                connection.call(frames.request(frames.FIND_COORDINATOR, 2, frames.string(transactional_id) + b"\1"))
            time.sleep(0.05)
        raise TimeoutError(f"{self.name}: InitProducerId answers {ErrorCode(error).name}")

    def identities(self, producers: int, prefix: str | None) -> list[Identity]:
        self.used += 1
        return [self.init(None if prefix is None else f"{prefix}-{self.used}-{each}") for each in range(producers)]

    def load(self, sequences: list[Calls], seconds: float, per_unit: int = 1) -> dict[str, float]:
        """Return units per second and CPU microseconds per unit, which consists of ``per_unit`` calls."""
        before_s = cpu_s(self.pid())
        answers, took_s, retries = run(self.port, sequences, seconds)
        units = answers / per_unit
        return {"rate": units / took_s, "CPU us": (cpu_s(self.pid()) - before_s) * 1e6 / units, "retries": retries / units}

    def transactions(self, seconds: float, producers: int, partitions: int) -> dict[str, float]:
        def calls(identity: Identity) -> Calls:
            add, end = identity.add_partitions("transactions", partitions), identity.end()
            for produce in identity.produces("transactions", partitions):
                yield from (add, produce, end)

        return self.load([calls(each) for each in self.identities(producers, "rate")], seconds, 3)

    def idempotent(self, seconds: float, producers: int, partitions: int) -> dict[str, float]:
        return self.load([each.produces("transactions", partitions) for each in self.identities(producers, None)], seconds)

    def init_alone(self, seconds: float) -> dict[str, float]:
        def calls() -> Calls:
            while True:
                yield init_producer_id(f"init-{self.used}")

        self.used += 1
        self.init(f"init-{self.used}")
        return self.load([calls()], seconds)

    def add_and_end(self, seconds: float) -> dict[str, float]:
        def calls(identity: Identity) -> Calls:
            while True:
                yield from (identity.add_partitions("transactions", 1), identity.end())

        return self.load([calls(each) for each in self.identities(1, "pair")], seconds)

    def heartbeat(self, seconds: float) -> dict[str, float]:
        body = frames.string("bench-hb") + struct.pack(">i", self.generation) + frames.string(self.member) + frames.string(None)

        def calls() -> Calls:
            while True:
                yield Call(frames.request(frames.HEARTBEAT, 3, body), 4)

        return self.load([calls()], seconds)


Case = Callable[[Measured, float], dict[str, float]]


def _rates() -> Iterator[tuple[str, Case]]:
    for partitions in (1, PARTITIONS):
        for producers in (1, 16):
            suffix = f"{partitions} partitions, {producers} producers"
            yield f"rate: transactions, {suffix}", partial(Measured.transactions, producers=producers, partitions=partitions)
            yield f"rate: idempotent, {suffix}", partial(Measured.idempotent, producers=producers, partitions=partitions)


CASES: dict[str, Case] = {
    **dict(_rates()),
    "request: Heartbeat": Measured.heartbeat,
    "request: InitProducerId": Measured.init_alone,
    "request: AddPartitionsToTxn, EndTxn": Measured.add_and_end,
}


def measure(brokers: list[Measured], options: argparse.Namespace) -> None:
    print(f"{'':50}{'':10}" + "".join(f"{broker.name:>16}" for broker in brokers) + ("   ratio" if len(brokers) > 1 else ""))
    for name, case in CASES.items():
        if not fnmatch.fnmatchcase(name, options.only):
            continue
        found: dict[str, list[dict[str, float]]] = {broker.name: [] for broker in brokers}
        for broker in brokers:
            case(broker, WARM_S)
        for _ in range(options.rounds):
            for broker in brokers:
                found[broker.name].append(case(broker, options.seconds))
        for unit in ("rate", "CPU us", "retries"):
            values = [statistics.median(each[unit] for each in found[broker.name]) for broker in brokers]
            line = f"{name:50}{unit:10}" + "".join(f"{each:16,.1f}" for each in values)
            if len(values) > 1 and values[1]:
                line += f"   {values[0] / values[1]:.2f}"
            print(line, flush=True)


def restart(broker: Measured, ids: int, again: Callable[[], Any]) -> None:
    """Make the ids, kill the broker, start it, and print when all their coordinators answer."""
    run(broker.port, [_inits(range(first, ids, 16)) for first in range(16)], None)
    again()
    began = time.perf_counter()
    before_s = cpu_s(broker.pid())
    # Two hundred ids fall on nearly all of the 50 partitions.
    run(broker.port, [_inits(range(200))], None)
    took_s, used_s = time.perf_counter() - began, cpu_s(broker.pid()) - before_s
    print(f"{broker.name}: {ids:,} ids are available {took_s:.2f} s after the first answer, {used_s:.2f} s CPU")


def kill_and_start(kafka: ApacheKafka) -> None:
    kafka.kill_broker()
    with zookeeper(kafka.zookeeper) as client:
        # Until its session has expired, Apache Kafka does not start again.
        eventually(lambda: not client.get_children("/brokers/ids"), wait_s=WAIT_S, pause_s=0.1)
    kafka.start_broker()


def _inits(numbers: Iterable[int]) -> Calls:
    return (init_producer_id(f"id-{each}") for each in numbers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--ids", type=int, default=10_000, help="transactional ids at a restart, 0 for none")
    parser.add_argument("--only", default="*", help="pattern of case names")
    parser.add_argument("--no-kafka", action="store_true")
    options = parser.parse_args()
    with scratch() as folder, contextlib.ExitStack() as stack:
        ours = ServedBroker(folder / "ours", *[f"{key}={value}" for key, value in SETTINGS.items()])
        stack.callback(ours.kill)
        ours.start()
        brokers = [Measured("twisted_kafka", ours.port, lambda: ours.process.pid if ours.process else 0)]
        restarts: list[Callable[[], None]] = [lambda: (ours.kill(), ours.start())]  # type: ignore[func-returns-value, list-item]
        if not options.no_kafka:
            kafka = ApacheKafka(folder / "kafka", **SETTINGS)
            stack.callback(kafka.kill)
            kafka.start()
            brokers.append(Measured("Apache Kafka", kafka.port, lambda: kafka.broker_pid))
            restarts.append(partial(kill_and_start, kafka))
        measure(brokers, options)
        if options.ids:
            for broker, again in zip(brokers, restarts, strict=True):
                restart(broker, options.ids, again)


if __name__ == "__main__":
    main()
