"""Real clients that load a cluster and record a history, each on a thread of its own.

Producers are idempotent unless told otherwise, and choose the partition themselves, so that the order of their sends is known. A
client that gives up is replaced by one of another name.
"""

import itertools
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.cluster.history import Commit, History, Isolation, Log, Outcome, Reading, Send, Transaction
from tests.support.eventually import LIBRDKAFKA_CLOSING, join

GIVE_UP_S = 600
"""No producer gives a record up while a test lasts: only brokers are tested here."""
END_S = 120.0
"""How long clients may take to end what they have begun, once the cluster is whole."""
GROUP = "readers"
_IN_TRANSACTION = 5
_ABORTED = 4
"""One transaction of so many is aborted."""
_BETWEEN_COMMITS_S = 0.2
_LEFT_S = 30
"""How long a member waits for a commit, and for its consumer to close, and how late a transactional producer may be."""


@dataclass
class Target:
    """What is loaded, and with which settings of librdkafka's producers."""

    bootstrap: str
    topic: str
    partitions: int
    acks: str = "all"
    idempotent: bool = True
    pause_s: float = 0.005
    """Between two records of a producer."""
    errors: list[str] = field(default_factory=list)
    """What clients complained of, for the output of a failed test."""

    def complain(self, who: str, error: object) -> None:
        if len(self.errors) < 1000:
            self.errors.append(f"{time.monotonic():.1f} {who}: {error}")


class Client(ABC):
    """A client that runs until it is told to end."""

    def __init__(self, target: Target, name: str) -> None:
        self.target = target
        self.name = name
        self.history = History()
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._lives = itertools.count()
        self.failure: BaseException | None = None

    def _run(self) -> None:
        try:
            while not self.ending.is_set():
                name = f"{self.name}.{next(self._lives)}"
                try:
                    self.live(name)
                except KafkaException as error:
                    self.target.complain(name, error)
                    self.ending.wait(0.2)
        except BaseException as error:  # noqa: BLE001 - for the test's thread
            self.failure = error

    @abstractmethod
    def live(self, name: str) -> None:
        """Run until ``ending`` is set; raise KafkaException to be started again under another name."""


class ConfluentProducer(Client):
    """librdkafka's."""

    def live(self, name: str) -> None:
        settings = {"acks": self.target.acks, "enable.idempotence": self.target.idempotent, "message.timeout.ms": GIVE_UP_S * 1000}
        producer = Producer({"bootstrap.servers": self.target.bootstrap, "linger.ms": 5, **_IMPATIENT, **settings})
        try:
            for number in itertools.count():
                if self.ending.is_set():
                    break
                send = Send(name, number, number % self.target.partitions, self.target.idempotent)
                self.history.sends.append(send)
                self._send(producer, send)
                producer.poll(self.target.pause_s)
        finally:
            producer.flush(END_S)

    def _send(self, producer: Any, send: Send) -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                send.acknowledge(message.offset())
            else:
                self.target.complain(send.value, error)

        producer.produce(self.target.topic, send.value.encode(), partition=send.partition, on_delivery=delivered)


class TransactionalProducer(Client):
    """librdkafka's, with transactions over all partitions; one of some is aborted.

    librdkafka may send nothing more after an AddPartitionsToTxn that took too long was answered with COORDINATOR_NOT_AVAILABLE: its
    commit then times out again and again. Such a producer is left after a while, and the broker aborts its transaction.
    """

    def live(self, name: str) -> None:
        settings = {"transactional.id": self.name, "transaction.timeout.ms": 60_000, "message.timeout.ms": 60_000}
        producer = Producer({"bootstrap.servers": self.target.bootstrap, "linger.ms": 5, **_IMPATIENT, **settings})
        self._try(producer.init_transactions)
        numbers = itertools.count()
        for count in itertools.count():
            if self.ending.is_set():
                return
            transaction = Transaction(name, count)
            self.history.transactions.append(transaction)
            self._transact(producer, transaction, numbers)

    def _transact(self, producer: Any, transaction: Transaction, numbers: "itertools.count[int]") -> None:
        producer.begin_transaction()
        for number in itertools.islice(numbers, _IN_TRANSACTION):
            send = Send(transaction.producer, number, number % self.target.partitions, transaction=transaction.number)
            self.history.sends.append(send)

            def delivered(error: KafkaError | None, message: Message, send: Send = send) -> None:
                if error is None:
                    send.acknowledge(message.offset())

            producer.produce(self.target.topic, send.value.encode(), partition=send.partition, on_delivery=delivered)
            producer.poll(self.target.pause_s)
        try:
            if transaction.number % _ABORTED == 1:
                # librdkafka ends a transaction whose records it has not sent too, which is an error that it does not survive.
                producer.flush(30)
                self._try(producer.abort_transaction)
                transaction.outcome = Outcome.FAILED
            else:
                self._try(producer.commit_transaction)
                transaction.outcome = Outcome.OK
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self.target.complain(self.name, error)
            self._try(producer.abort_transaction)
            transaction.outcome = Outcome.FAILED

    def _try(self, do: Any) -> None:
        """Do it again while the client says that it may be."""
        while True:
            try:
                do(30)
            except KafkaException as error:
                if not error.args[0].retriable() or self.thread_is_late():
                    raise
                self.target.complain(self.name, error)
            else:
                return

    def thread_is_late(self) -> bool:
        """Whether it should have ended long ago."""
        return self._late_since is not None and time.monotonic() > self._late_since + _LEFT_S

    _late_since: float | None = None

    def end_soon(self) -> None:
        """Count from now on how late it is."""
        self._late_since = time.monotonic()


class KafkaPythonProducer(Client):
    """kafka-python's."""

    def live(self, name: str) -> None:
        from kafka import KafkaProducer

        producer = KafkaProducer(
            bootstrap_servers=self.target.bootstrap,
            client_id=name,
            acks="all" if self.target.acks == "all" else int(self.target.acks),
            enable_idempotence=self.target.idempotent,
            delivery_timeout_ms=GIVE_UP_S * 1000,
            request_timeout_ms=5000,
            max_block_ms=GIVE_UP_S * 1000,
            linger_ms=5,
            reconnect_backoff_max_ms=200,
        )
        try:
            for number in itertools.count():
                if self.ending.wait(self.target.pause_s):
                    break
                send = Send(name, number, number % self.target.partitions, self.target.idempotent)
                self.history.sends.append(send)
                future = producer.send(self.target.topic, send.value.encode(), partition=send.partition)
                future.add_callback(lambda told, send=send: send.acknowledge(told.offset))
                future.add_errback(lambda error, send=send: self.target.complain(send.value, repr(error)))
        finally:
            producer.flush(END_S)
            producer.close(END_S)


class Reader(Client):
    """A consumer of all partitions, from their beginning, that never commits."""

    def __init__(self, target: Target, name: str, isolation: Isolation) -> None:
        super().__init__(target, name)
        self.isolation = isolation

    def live(self, name: str) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.target.bootstrap,
                "group.id": "none",
                "enable.auto.commit": False,
                "isolation.level": self.isolation.value,
                "auto.offset.reset": "earliest",
                **_IMPATIENT,
            }
        )
        parts = {part: Reading(name, part, self.isolation, 0) for part in range(self.target.partitions)}
        self.history.readings += parts.values()
        consumer.assign([TopicPartition(self.target.topic, part, OFFSET_BEGINNING) for part in parts])
        try:
            while not self.ending.is_set():
                for message in consumer.consume(500, 0.1):
                    if message.error() is None:
                        parts[message.partition()].records.append((message.offset(), message.value().decode()))
                    else:
                        self.target.complain(name, message.error())
        finally:
            consumer.close()


class KafkaPythonReader(Reader):
    """kafka-python's."""

    def live(self, name: str) -> None:
        from kafka import KafkaConsumer
        from kafka import TopicPartition as Partition
        from kafka.errors import KafkaError as Failed

        consumer = KafkaConsumer(
            bootstrap_servers=self.target.bootstrap,
            isolation_level=self.isolation.value,
            auto_offset_reset="earliest",
            request_timeout_ms=5000,
            reconnect_backoff_max_ms=200,
        )
        parts = {part: Reading(name, part, self.isolation, 0) for part in range(self.target.partitions)}
        self.history.readings += parts.values()
        try:
            consumer.assign([Partition(self.target.topic, part) for part in parts])
            consumer.seek_to_beginning()
            while not self.ending.is_set():
                try:
                    for partition, records in consumer.poll(100).items():
                        parts[partition.partition].records += [(each.offset, each.value.decode()) for each in records]
                except Failed as error:
                    self.target.complain(name, repr(error))
        finally:
            consumer.close(autocommit=False)


class Member(Client):
    """A member of a group that reads what is committed and commits its offsets as it goes, one commit at a time.

    librdkafka may keep a commit for ever, and with it a consumer's close, when a coordinator goes at the wrong moment
    (https://github.com/confluentinc/librdkafka/issues/3740): such a consumer is left to itself, and replaced.
    """

    def live(self, name: str) -> None:
        parts: dict[int, Reading] = {}
        committing: list[float] = []  # when the commit that is not answered yet began
        consumer = Consumer(
            {
                "bootstrap.servers": self.target.bootstrap,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "isolation.level": Isolation.READ_COMMITTED.value,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 10_000,
                "max.poll.interval.ms": _LEFT_S * 1000,
                "on_commit": lambda error, places: self._committed_now(committing.pop(), error, places),
                **_IMPATIENT,
            }
        )

        def assigned(_: Any, partitions: list[TopicPartition]) -> None:
            began = time.monotonic()
            known = self._committed(consumer, partitions)
            for place in known:
                self._note(place, began, was_read=True)
                parts[place.partition] = Reading(name, place.partition, Isolation.READ_COMMITTED, max(0, place.offset))
                place.offset = max(0, place.offset)
            self.history.readings += [parts[place.partition] for place in known]
            consumer.assign(known)

        consumer.subscribe([self.target.topic], on_assign=assigned, on_revoke=lambda *_: parts.clear())
        try:
            while not self.ending.is_set():
                is_due = self._read(consumer, parts)
                if committing:
                    if time.monotonic() > committing[0] + _LEFT_S:
                        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"a commit was not answered for {_LEFT_S} s"))
                elif is_due:
                    self._commit(consumer, parts, committing)
        finally:
            self._close(consumer)

    def _close(self, consumer: Any) -> None:
        closing = threading.Thread(target=consumer.close, daemon=True, name=f"{LIBRDKAFKA_CLOSING}{self.name}")
        closing.start()
        closing.join(_LEFT_S)
        if closing.is_alive():
            self.target.complain(self.name, f"a consumer did not close within {_LEFT_S} s")

    def _read(self, consumer: Any, parts: dict[int, Reading]) -> bool:
        # One by one: a batch may have records of before a rebalance that happened while it was collected.
        count = 0
        until = time.monotonic() + _BETWEEN_COMMITS_S
        while time.monotonic() < until and not self.ending.is_set():
            message = consumer.poll(0.05)
            if message is None:
                continue
            if message.error() is not None:
                self.target.complain(self.name, message.error())
            elif message.partition() in parts:
                parts[message.partition()].records.append((message.offset(), message.value().decode()))
                count += 1
        return count > 0

    def _committed(self, consumer: Any, partitions: list[TopicPartition]) -> list[TopicPartition]:
        while True:
            try:
                found: list[TopicPartition] = consumer.committed(partitions, timeout=5)
            except KafkaException as error:
                self.target.complain(self.name, error)
                if not error.args[0].retriable() and error.args[0].code() not in _LATER:
                    raise
            else:
                if all(place.error is None for place in found):
                    return found
                self.target.complain(self.name, [place.error for place in found])
            if self.ending.wait(0.1):
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def _commit(self, consumer: Any, parts: dict[int, Reading], committing: list[float]) -> None:
        offsets = [TopicPartition(self.target.topic, part, of.records[-1][0] + 1) for part, of in parts.items() if of.records]
        if not offsets:  # it has lost the partitions meanwhile
            return
        committing.append(time.monotonic())
        try:
            consumer.commit(offsets=offsets, asynchronous=True)
        except KafkaException as error:
            committing.pop()
            self.target.complain(self.name, error)

    def _committed_now(self, began: float, error: KafkaError | None, places: list[TopicPartition]) -> None:
        if error is not None:
            self.target.complain(self.name, error)
            return
        for place in places:
            if place.error is None:
                self._note(place, began)
            else:
                self.target.complain(self.name, place.error)

    def _note(self, place: TopicPartition, began: float, *, was_read: bool = False) -> None:
        self.history.commits.append(Commit(GROUP, place.partition, place.offset, began, time.monotonic(), was_read))


_IMPATIENT = {
    "socket.timeout.ms": 5000,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "topic.metadata.refresh.interval.ms": 5000,
    "log_level": 0,
}
_LATER = {KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._WAIT_COORD, KafkaError._ALL_BROKERS_DOWN}


def usual_clients(target: Target) -> list[Client]:
    """Return some clients of every kind; without idempotence, of those that can do without it."""
    clients: list[Client] = [
        ConfluentProducer(target, "librdkafka"),
        KafkaPythonProducer(target, "kafka-python"),
        Reader(target, "reader", Isolation.READ_UNCOMMITTED),
        KafkaPythonReader(target, "kafka-python-reader", Isolation.READ_UNCOMMITTED),
    ]
    if target.idempotent:
        clients += [
            TransactionalProducer(target, "transactional"),
            Reader(target, "committed-reader", Isolation.READ_COMMITTED),
            Member(target, "member-1"),
            Member(target, "member-2"),
        ]
    return clients


class Load:
    """Clients at work; ``end`` them when the cluster is whole again, and have the history."""

    def __init__(self, target: Target, clients: Iterable[Client] | None = None) -> None:
        self.target = target
        self.clients = usual_clients(target) if clients is None else list(clients)

    def start(self) -> None:
        for client in self.clients:
            client.thread.start()

    @property
    def acknowledged(self) -> int:
        """How many records, so far."""
        return sum(send.outcome is Outcome.OK for client in self.clients for send in list(client.history.sends))

    def end(self) -> History:
        """End the clients and read the whole log."""
        self.stop()
        for client in self.clients:
            if client.failure is not None:
                raise AssertionError(f"{client.name} failed") from client.failure
        for client in self.clients:
            if isinstance(client, TransactionalProducer):
                end_transactions(self.target, client.name)
        history = History.merged([client.history for client in self.clients])
        history.final = {isolation: read_all(self.target, isolation) for isolation in Isolation}
        return history

    def stop(self) -> None:
        """End the clients; also twice."""
        for client in self.clients:
            client.ending.set()
            if isinstance(client, TransactionalProducer):
                client.end_soon()
        join([client.thread for client in self.clients if client.thread.ident], 3 * END_S)


def end_transactions(target: Target, transactional_id: str) -> None:
    """Have a transaction that this id may have left open aborted."""
    producer = Producer({"bootstrap.servers": target.bootstrap, "transactional.id": transactional_id, **_IMPATIENT})
    deadline = time.monotonic() + END_S
    while True:
        try:
            producer.init_transactions(30)
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise
        else:
            return


def read_all(target: Target, isolation: Isolation, bootstrap: str | None = None) -> Log:
    """Read all partitions from their beginning to their end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap or target.bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation.value,
            **_IMPATIENT,
        }
    )
    log: Log = {part: [] for part in range(target.partitions)}
    ended: set[int] = set()
    deadline = time.monotonic() + END_S
    try:
        consumer.assign([TopicPartition(target.topic, part, OFFSET_BEGINNING) for part in log])
        while len(ended) < len(log):
            assert time.monotonic() < deadline, f"of the partitions {sorted(log)} only {sorted(ended)} could be read"
            for message in consumer.consume(5000, 0.2):
                if message.error() is None:
                    log[message.partition()].append((message.offset(), message.value().decode()))
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
    finally:
        consumer.close()
    return log
