"""Producers, a coordinator and partitions, and everything that may go wrong between them, from a seed.

Requests are lost, doubled and late, markers too; clocks jump; the broker is killed before and after each record that it writes; its
leadership moves to one that lacks what was not committed. A marker may wait in a broker's queue for much longer than its
coordinator does: it is applied when the next transaction is open, or under another coordinator. The partitions follow the log's own
rules for producers. Some are on other brokers, which move, go away and come back: their markers take the way over the network.

Some clients speak ``transaction.version`` 2, also with the same transactional id as others that do not, and whatever level is
finalized.
"""

import contextlib
import random
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from itertools import groupby
from typing import Any, Final

from tests.support.broker_network import LISTENER, cluster
from tests.support.coordinator_fakes import MemoryLog
from tests.support.transaction_bench import TransactionBench
from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.coordinator.interfaces import Appended
from twisted_kafka.log.batch_headers import BatchHeader
from twisted_kafka.log.producer_state.producer_state_manager import (
    BUMPED_SINCE,
    ProducerStateManager,
    VerificationGuard,
    marker_guard,
    read_marker,
)
from twisted_kafka.metadata.cache import MetadataCache, Node
from twisted_kafka.protocol.errors import ErrorCode, InvalidProducerEpochError, KafkaError
from twisted_kafka.protocol.messages.coordinators.transactions import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from twisted_kafka.protocol.records.batch import batches
from twisted_kafka.protocol.records.builder import build_batch, end_transaction_marker
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.transaction_coordinator.markers.marker_channels import MarkerChannels
from twisted_kafka.transaction_coordinator.markers.marker_writer import MarkerWriter
from twisted_kafka.transaction_coordinator.markers.transaction_marker import MarkerErrors, TransactionMarker
from twisted_kafka.transaction_coordinator.transaction_metadata import TransactionEnd
from twisted_kafka.transaction_coordinator.transaction_records import transaction_metadata
from twisted_kafka.transaction_coordinator.transaction_shard import Ended, Initialized
from twisted_kafka.transaction_coordinator.transaction_state import TransactionState
from twisted_kafka.waiting.futures import then

PARTITIONS = 4
COORDINATOR: Final = 1
BROKERS: Final = (COORDINATOR, 2, 3)
IDS = ("tx-a", "tx-b", "tx-c")
MAX_CLIENTS = 5
TIMEOUT_MS = 10_000
STEPS = 250
HEALING_MS = 60_000
WAITING_STEPS = 20
MAX_STRAYS = 50
RETRIED = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)


class Crash(BaseException):
    """The broker was killed here."""


class SimPartition:
    """A partition with data, which survives a crash of its broker."""

    def __init__(self, simulation: "Simulation", index: int) -> None:
        self.name = TopicPartition("t", index)
        self._simulation = simulation
        self.log: list[bytes] = []
        self.end_offset = 0
        self.restart()

    def restart(self) -> None:
        """Find the producers again from what is in the log."""
        self.state = ProducerStateManager(self.name, lambda: True)
        for data in self.log:
            self.state.update(BatchHeader(data, 0, 0), data)

    def append(self, batch: Any, guard: VerificationGuard | None = None) -> ErrorCode:
        data = self.end_offset.to_bytes(8, "big") + bytes(batch)[8:]
        header = BatchHeader(data, 0, 0)
        try:
            if header.is_control:
                self.state.check_marker(header, data, guard)
            elif self.state.check(header, guard, is_client=True) is not None:
                return ErrorCode.NONE
        except KafkaError as error:
            return error.code
        if not header.is_control and not self.has_open_transaction(header.producer_id):
            self._simulation.brokers.lose_strays(self.name, Producer(header.producer_id, header.producer_epoch))
        self._simulation.crash_point()
        self.log.append(data)
        self.end_offset = header.last_offset + 1
        self.state.update(header, data)
        self._simulation.crash_point()
        return ErrorCode.NONE

    def has_open_transaction(self, producer_id: int) -> bool:
        entry = self.state.producers.get(producer_id)
        return entry is not None and entry.transaction_first_offset >= 0

    def transactions(self) -> tuple[list[bytes], list[bytes], list[bytes]]:
        """Return the values of committed transactions, of aborted ones and of open ones, each in order."""
        outcome: dict[int, bool | None] = {}
        open_ones: dict[int, list[int]] = {}
        values: dict[int, bytes] = {}
        for data in self.log:
            header = BatchHeader(data, 0, 0)
            if header.is_control:
                marker = read_marker(data, header)
                assert marker is not None
                for offset in open_ones.pop(header.producer_id, []):
                    outcome[offset] = not marker[0]
                continue
            for record in next(iter(batches(data))).records():
                values[record.offset] = bytes(record.value)
                open_ones.setdefault(header.producer_id, []).append(record.offset)

        def of(wanted: bool | None) -> list[bytes]:
            return [value for offset, value in values.items() if outcome.get(offset) is wanted]

        return of(True), of(False), of(None)


class SimLog(MemoryLog):
    """``__transaction_state``: a crash before or after each record, slow replicas, and followers without the last records."""

    def __init__(self, simulation: "Simulation") -> None:
        super().__init__()
        self._simulation = simulation

    def append(self, partition: TopicPartition, batch: Any, guard: object) -> Appended | ErrorCode:
        chance = self._simulation.chance
        self._simulation.crash_point()
        if chance(0.02):
            return ErrorCode.NOT_ENOUGH_REPLICAS
        self.holds = self.holds or chance(0.03)
        appended = super().append(partition, batch, guard)
        self._simulation.crash_point()
        return appended

    def truncate(self) -> None:
        """Lose what was not committed, or the end of it, as a new leader that does not have it."""
        self.held, self.holds = [], False
        for partition, kept in self.batches.items():
            end = self.end_offsets[partition]
            committed = self.uncommitted.pop(partition, end)
            end = self._simulation.random.randint(committed, end)
            self.batches[partition] = [data for data in kept if int.from_bytes(data[:8], "big") < end]
            last = self.batches[partition][-1:]
            self.end_offsets[partition] = next(iter(batches(last[0]))).last_offset + 1 if last else 0
            if committed < self.end_offsets[partition]:
                self.uncommitted[partition] = committed


class SimBrokers:
    """Write markers: at once, late, twice, or not, whatever they say then; a coordinator's markers outlive it on the way."""

    def __init__(self, simulation: "Simulation") -> None:
        self._simulation = simulation
        self.under_way: list[tuple[TransactionMarker, Future[MarkerErrors]]] = []
        self.strays: deque[tuple[TransactionMarker, TopicPartition]] = deque(maxlen=MAX_STRAYS)
        """Copies of markers that wait in a queue, and that nobody waits for."""
        self.stray_errors: Counter[ErrorCode] = Counter()
        """What has become of those that found an open transaction of their producer."""

    def append(self, marker: TransactionMarker) -> "MarkerErrors | Future[MarkerErrors]":
        """Write a marker into partitions of the coordinator's broker; what MarkerAppender does."""
        if not self._simulation.chance(0.4):
            return self.write(marker)
        future: Future[MarkerErrors] = Future()
        self.under_way.append((marker, future))
        return future

    def forget_sender(self) -> None:
        """Let markers that are under way arrive without anybody who hears of it: their coordinator is dead.

        Otherwise it would complete the transaction in its successor's log. The successor would begin the next one without having
        written markers of its own epoch, and the dead one's other markers would end that.
        """
        self.under_way = [(marker, Future()) for marker, _ in self.under_way]

    def deliver_one(self) -> None:
        if not self.under_way:
            return
        marker, future = self.under_way.pop(self._simulation.random.randrange(len(self.under_way)))
        if self._simulation.chance(0.2):
            self.write(marker)
        errors = self.write(marker)
        if self._simulation.chance(0.1):
            future.set_exception(ConnectionError("lost"))
        else:
            future.set_result(errors)

    def write(self, marker: TransactionMarker) -> MarkerErrors:
        return {partition: self.write_one(marker, partition) for partition in sorted(marker.partitions)}

    def write_one(self, marker: TransactionMarker, partition: TopicPartition) -> ErrorCode:
        """Write a marker as the partition's leader does, or fail to, or say so and do it later."""
        chance = self._simulation.chance
        if chance(0.1):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if chance(0.2):
            self.strays.append((marker, partition))
            if chance(0.5):
                return ErrorCode.REQUEST_TIMED_OUT
        error = self._apply(marker, partition)
        return ErrorCode.REQUEST_TIMED_OUT if not error and chance(0.1) else error

    def apply_stray(self) -> None:
        """Take a marker from the queue, whoever its coordinator was and whatever has come of its transaction."""
        if not self.strays:
            return
        index = self._simulation.random.randrange(len(self.strays))
        marker, partition = self.strays[index]
        del self.strays[index]
        is_open = self._simulation.partitions[partition].has_open_transaction(marker.producer.producer_id)
        error = self._apply(marker, partition)
        self.stray_errors[error] += is_open

    def lose_strays(self, partition: TopicPartition, producer: Producer) -> None:
        """Lose the markers that the producer's next transaction cannot be told from: it has no epoch of its own.

        The protocol before version 2 assumes that such a marker has arrived by now.
        """

        def is_kept(marker: TransactionMarker, where: TopicPartition) -> bool:
            return marker.transaction_version >= BUMPED_SINCE or marker.producer != producer or where != partition

        self.strays = deque((each for each in self.strays if is_kept(*each)), MAX_STRAYS)

    def _apply(self, marker: TransactionMarker, partition: TopicPartition) -> ErrorCode:
        batch = end_transaction_marker(
            commit=marker.committed,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp_ms=self._simulation.bench.clock.wall_ms(),
            producer_id=marker.producer.producer_id,
            producer_epoch=marker.producer.epoch,
        )
        return self._simulation.partitions[partition].append(batch, marker_guard(marker.transaction_version))


class SimNetwork:
    """The way to other brokers: requests are late, doubled or lost, and so are their answers; brokers go away (IBrokerClient)."""

    def __init__(self, simulation: "Simulation") -> None:
        self._simulation = simulation
        self.leaders = {TopicPartition("t", index): 1 + index % len(BROKERS) for index in range(PARTITIONS)}
        self.alive = set(BROKERS)
        self.under_way: list[tuple[int, bytes, Future[Any]]] = []
        self.events: Counter[str] = Counter()
        self.metadata = MetadataCache(COORDINATOR)

    def restart(self) -> None:
        """Forget who sent what is under way, and have the controller tell the new broker everything."""
        self.under_way = [(broker_id, request, Future()) for broker_id, request, _ in self.under_way]
        self.metadata = MetadataCache(COORDINATOR)
        self.tell()

    def tell(self) -> None:
        """Tell the coordinator's broker who leads, and who is alive."""
        self.metadata.apply(cluster(self.leaders, *sorted(self.alive)))

    def change(self) -> None:
        """Move a leader, or take a broker away or back; the coordinator's broker may hear of it later."""
        chosen = self._simulation.random
        if chosen.random() < 0.6:
            self.leaders[chosen.choice(sorted(self.leaders))] = chosen.choice(BROKERS)
            self.events["moved"] += 1
        else:
            self.alive ^= {chosen.choice(BROKERS[1:])}
        if chosen.random() < 0.6:
            self.tell()

    def heal(self) -> None:
        """Have everybody back, tell who leads, and deliver what is under way."""
        self.alive = set(BROKERS)
        self.tell()
        while self.under_way:
            self.deliver_one()

    def send(self, node: Node, request: WriteTxnMarkersRequest) -> "Future[Any]":
        future: Future[Any] = Future()
        if node.id not in self.alive or self._simulation.chance(0.05):
            self.events["refused"] += 1
            future.set_exception(ConnectionRefusedError(f"broker {node.id}"))
            return future
        self.events["together"] += len(request.markers) > 1
        self.under_way.append((node.id, request.encode(2), future))
        if not self._simulation.chance(0.7):
            self._deliver(*self.under_way.pop())
        return future

    def disconnect(self, broker_id: int) -> None:
        """Lose the answers to what was sent to a broker; it may still do what it was told."""
        self.events["disconnected"] += 1
        lost = [each for each in self.under_way if each[0] == broker_id]
        self.under_way = [each for each in self.under_way if each[0] != broker_id]
        for _, request, future in lost:
            self._stray(request)
            future.set_exception(ConnectionResetError("disconnected"))

    def deliver_one(self) -> None:
        if self.under_way:
            self._deliver(*self.under_way.pop(self._simulation.random.randrange(len(self.under_way))))

    def _deliver(self, broker_id: int, request: bytes, future: "Future[Any]") -> None:
        chance = self._simulation.chance
        if chance(0.1):  # the request, after which there is a timeout
            self.events["lost"] += 1
            self._stray(request)
            future.set_exception(TimeoutError("no response"))
            return
        if chance(0.2):
            self.events["doubled"] += 1
            self._handle(broker_id, request)
        response = self._handle(broker_id, request)
        if chance(0.1):
            self.events["answer lost"] += 1
            future.set_exception(TimeoutError("no response"))
        else:
            future.set_result(WriteTxnMarkersResponse.decode(response.encode(2), 2))

    def _handle(self, broker_id: int, request: bytes) -> WriteTxnMarkersResponse:
        results = []
        for producer_id, topics in groupby(self._markers(request), lambda each: each[0].producer.producer_id):
            partitions = []
            for marker, where in topics:
                here = self.leaders[where] == broker_id
                self.events["not leader"] += not here
                error = self._simulation.brokers.write_one(marker, where) if here else ErrorCode.NOT_LEADER_OR_FOLLOWER
                partitions.append(WritableTxnMarkerPartitionResult(partition_index=where.partition, error_code=error))
            topic = WritableTxnMarkerTopicResult(name="t", partitions=partitions)
            results.append(WritableTxnMarkerResult(producer_id=producer_id, topics=[topic]))
        return WriteTxnMarkersResponse(markers=results)

    def _stray(self, request: bytes) -> None:
        """Leave markers to whoever delivers them late."""
        self._simulation.brokers.strays.extend(self._markers(request))

    @staticmethod
    def _markers(request: bytes) -> list[tuple[TransactionMarker, TopicPartition]]:
        return [
            (
                TransactionMarker(
                    Producer(one.producer_id, one.producer_epoch),
                    one.coordinator_epoch,
                    one.transaction_result,
                    frozenset((where,)),
                    one.transaction_version,
                ),
                where,
            )
            for one in WriteTxnMarkersRequest.decode(request, 2).markers
            for topic in one.topics
            for where in (TopicPartition(topic.name, index) for index in topic.partition_indexes)
        ]


class SimTransaction:
    """What a client put into a transaction, and what it knows of it."""

    def __init__(self, partitions: list[TopicPartition], commits: bool) -> None:
        self.partitions = partitions
        self.commits = commits
        self.acknowledged: dict[TopicPartition, list[bytes]] = {partition: [] for partition in partitions}
        self.sent: set[bytes] = set()
        self.asked_to_commit = False
        self.ended: bool | None = None
        """Whether it is known to be committed (True) or aborted (False)."""


class SimClient:
    """A producer that does as the errors say; it sends one request at a time."""

    def __init__(self, simulation: "Simulation", transactional_id: str) -> None:
        self._simulation = simulation
        self.transactional_id = transactional_id
        self.has_epochs = simulation.random.random() < 0.5
        """Whether each of its transactions has an epoch: it speaks version 2."""
        self.producer: Producer | None = None
        self.does = "init"
        self.is_fenced = False
        self.sequences: dict[TopicPartition, int] = {}
        self.transaction: SimTransaction | None = None
        self.to_send: list[tuple[TopicPartition, bytes]] = []
        self.must_continue = False
        self.answer: Future[Any] | None = None
        self.waited = 0

    def step(self) -> None:
        """Send the next request, or look whether the last one was answered."""
        if self.is_fenced:
            return
        if self.answer is not None:
            self.waited += 1
            if not self.answer.done():
                if self.waited > WAITING_STEPS:
                    self.answer = None
                return
            result, self.answer = self.answer.result(), None
        else:
            result = self._simulation.request(getattr(self, f"send_{self.does}")())
            if isinstance(result, Future):
                self.answer, self.waited = result, 0
                return
        if result is not None and not self._simulation.chance(0.1):
            getattr(self, f"got_{self.does}")(result)

    # InitProducerId

    def send_init(self) -> Callable[[], Any]:
        expected = self.producer if self.must_continue else None
        return lambda: self._simulation.bench.transactions.init_producer_id(self.transactional_id, TIMEOUT_MS, expected)

    def got_init(self, answer: Initialized) -> None:
        if answer.error:
            self.is_fenced = answer.error not in RETRIED
            return
        self.producer, self.sequences, self.must_continue = answer.producer, {}, False
        self._begin()

    def _begin(self) -> None:
        simulation = self._simulation
        names = simulation.random.sample(sorted(simulation.partitions), simulation.random.randint(1, PARTITIONS))
        self.transaction = SimTransaction(names, simulation.random.random() < 0.7)
        simulation.transactions.append(self.transaction)
        self.to_send = [(name, simulation.new_value()) for name in names for _ in range(simulation.random.randint(1, 2))]
        simulation.random.shuffle(self.to_send)
        self.does = "produce" if self.has_epochs else "add"

    # AddPartitionsToTxn

    def send_add(self) -> Callable[[], Any]:
        producer, transaction = self.producer, self.transaction
        assert producer is not None
        assert transaction is not None
        return lambda: self._simulation.bench.transactions.add_partitions(self.transactional_id, producer, transaction.partitions)

    def got_add(self, error: ErrorCode) -> None:
        if not error:
            self.does = "produce"
        else:
            self.is_fenced = error not in RETRIED

    # Produce

    def send_produce(self) -> Callable[[], Any]:
        producer, (name, value) = self.producer, self.to_send[0]
        assert producer is not None
        assert self.transaction is not None
        self.transaction.sent.add(value)
        sequence = self.sequences.get(name, 0)
        produce = self._simulation.produce_and_add if self.has_epochs else self._simulation.produce
        return lambda: produce(name, self.transactional_id, producer, sequence, value)

    def got_produce(self, error: ErrorCode) -> None:
        assert self.transaction is not None
        if error in RETRIED:
            return
        if error is ErrorCode.PRODUCER_FENCED:
            self.is_fenced = True
            return
        if error:
            # It cannot know what is in the log: it aborts, and goes on with a new epoch.
            self.transaction.commits, self.must_continue, self.does = False, not self.has_epochs, "end"
            return
        name, value = self.to_send.pop(0)
        self.transaction.acknowledged[name].append(value)
        self.sequences[name] = self.sequences.get(name, 0) + 1
        if not self.to_send:
            self.does = "end"

    # EndTxn

    def send_end(self) -> Callable[[], Any]:
        producer, transaction = self.producer, self.transaction
        assert producer is not None
        assert transaction is not None
        transaction.asked_to_commit = transaction.asked_to_commit or transaction.commits

        commits = transaction.commits
        if self.has_epochs:
            return lambda: self._simulation.bench.transactions.end_transaction_with_bump(self.transactional_id, producer, commits)

        def end() -> Any:
            # Without an epoch, an end names no transaction: one that comes when the next one has begun would end that.
            if self.transaction is transaction:
                return self._simulation.bench.transactions.end_transaction(self.transactional_id, producer, commits)
            return None

        return end

    def got_end(self, ended: Ended) -> None:
        assert self.transaction is not None
        error = ended.error
        if error in RETRIED:
            return
        if error:
            self.is_fenced = True
            return
        self.transaction.ended = self.transaction.commits
        if self.has_epochs:
            self.producer, self.sequences = ended.producer, {}
        if self.must_continue:
            self.does = "init"
        else:
            self._begin()


class Simulation:
    """One seed's world. With ``keeps_coordinator`` the broker neither crashes nor resigns."""

    def __init__(self, seed: int, *, keeps_coordinator: bool = False) -> None:
        self.random = random.Random(seed)
        self.keeps_coordinator = keeps_coordinator
        self.is_healed = False
        self.is_dead = False
        self.crashes = 0
        self._values = 0
        self.partitions = {partition.name: partition for partition in (SimPartition(self, index) for index in range(PARTITIONS))}
        self.transactions: list[SimTransaction] = []
        self.answered_ends: list[TransactionEnd] = []
        self.late: list[Callable[[], Any]] = []
        self.bench = TransactionBench(partitions=2, log=SimLog(self), abort_interval_ms=1000, id_expiration_ms=3_600_000)
        self.bench.transaction_version = self.random.randrange(3)
        self.brokers = SimBrokers(self)
        self.network = SimNetwork(self)
        self._restart()
        self.clients = [SimClient(self, name) for name in IDS]

    def chance(self, probability: float) -> bool:
        return not self.is_healed and self.random.random() < probability

    def new_value(self) -> bytes:
        self._values += 1
        return b"v%d" % self._values

    def crash_point(self) -> None:
        if self.is_dead or (not self.keeps_coordinator and self.chance(0.01)):
            self.is_dead = True
            raise Crash

    def _attempt(self, action: Callable[[], Any]) -> Any:
        """Run an action of the broker, and start it again after a crash. The threads of the scheduler survive a crash."""
        result = None
        with contextlib.suppress(Crash):
            result = action()
        if self.is_dead:
            self._crashed()
            return None
        return result

    def _crashed(self) -> None:
        self.crashes += 1
        self.brokers.forget_sender()
        while True:
            self.is_dead = False
            with contextlib.suppress(Crash):
                self._restart()
            if not self.is_dead:
                return
            self.brokers.forget_sender()

    def _restart(self) -> None:
        for partition in self.partitions.values():
            partition.restart()
        log = self.bench.log
        log.held, log.holds = [], False
        log.commit()
        self.network.restart()
        clock, metadata = self.bench.clock, self.network.metadata
        channels = MarkerChannels(self.network, metadata, LISTENER, clock)  # type: ignore[arg-type]
        writer = MarkerWriter(self.brokers, channels, metadata, lambda: True)  # type: ignore[arg-type]
        self.bench.brokers = writer  # type: ignore[assignment]
        self.bench.epoch += 1
        self.bench.start()

    def request(self, send: Callable[[], Any]) -> Any:
        """Send a request: it may come twice, and come again much later."""
        if self.chance(0.05):
            self.late.append(send)
        if self.chance(0.03):
            return None
        if self.chance(0.05):
            self._attempt(lambda: self._noted(send()))
        return self._attempt(lambda: self._noted(send()))

    def _noted(self, result: Any) -> Any:
        """Note the end that an answer tells of, as the access log does whether the client gets the answer or not."""
        if isinstance(result, Future):
            result.add_done_callback(lambda done: self._noted(done.result()))
        elif (isinstance(result, Ended) and not result.error) or isinstance(result, Initialized):
            self.answered_ends += [] if result.end is None else [result.end]
        return result

    def produce(self, name: TopicPartition, transactional_id: str, producer: Producer, sequence: int, value: bytes) -> ErrorCode:
        """Append a value as the partition's leader does: the coordinator is asked before a transaction begins here."""
        partition = self.partitions[name]
        guard = partition.state.start_verification(producer.producer_id, producer.epoch, sequence, self.bench.clock.wall_ms())
        if guard is not None:
            if self.chance(0.1):
                self.anything()
            error = self.bench.transactions.verify_partitions(transactional_id, producer, [name])[name]
            if error:
                return error
            if self.chance(0.1):
                self.anything()
        return partition.append(self._batch(producer, sequence, value), guard)

    def produce_and_add(
        self, name: TopicPartition, transactional_id: str, producer: Producer, sequence: int, value: bytes
    ) -> "ErrorCode | Future[ErrorCode]":
        """Append a value as the partition's leader does for version 2: the coordinator adds the partition before."""
        partition = self.partitions[name]
        batch = self._batch(producer, sequence, value)
        try:
            guard = partition.state.start_verification(*producer, sequence, self.bench.clock.wall_ms(), bumps_epoch=True)
        except InvalidProducerEpochError as error:
            return error.code
        if guard is None:
            return partition.append(batch)
        if self.chance(0.1):
            self.anything()

        def append(error: ErrorCode) -> ErrorCode:
            if not error and self.chance(0.1):
                self.anything()
            return error or partition.append(batch, guard)

        added = self.bench.transactions.add_partitions(transactional_id, producer, (name,), 2)
        return then(added, append) if isinstance(added, Future) else append(added)

    def _batch(self, producer: Producer, sequence: int, value: bytes) -> bytes:
        return build_batch(
            [SimpleRecord(0, None, value)],
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )

    def anything(self) -> None:
        """Let something happen that no client waits for."""
        choice = self.random.random()
        log = self.bench.log
        if choice < 0.12:
            self.brokers.deliver_one()
        elif choice < 0.25:
            self.network.deliver_one()
        elif choice < 0.28:
            self.network.change()
        elif choice < 0.35:
            self.brokers.apply_stray()
        elif choice < 0.55:
            self.bench.advance(self.random.choice((1, 100, 1000, 5000)))
        elif choice < 0.56:
            self.bench.clock.advance_ms(TIMEOUT_MS * 2)
            self.bench.advance(100)
        elif choice < 0.8 and self.late:
            self._noted(self.late.pop(self.random.randrange(len(self.late)))())
        elif choice < 0.9 and log.holds:
            log.release(self.random.choice((ErrorCode.NONE, ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT)))
        elif self.keeps_coordinator:
            pass
        elif choice < 0.92:
            self._fail_over()
        elif choice < 0.93:
            self.bench.transaction_version = self.random.randrange(3)
        elif choice < 0.94:
            self.bench.reload(self.bench.epoch + 1)
        elif choice < 0.95:  # the ISR has changed
            self.bench.elect(self.bench.epoch + 1)

    def _fail_over(self) -> None:
        """Move the coordinator to a broker without what was not committed."""
        self.bench.resign()
        assert isinstance(self.bench.log, SimLog)
        self.bench.log.truncate()
        self.bench.elect(self.bench.epoch + 1)

    def step(self) -> None:
        index = self.random.randrange(len(self.clients))
        client = self.clients[index]
        if (client.is_fenced and index < len(IDS)) or self.chance(0.003):
            self.clients[index] = SimClient(self, client.transactional_id)
        if self.chance(0.003) and len(self.clients) < MAX_CLIENTS:  # a second producer with the id, while the first one still works
            self.clients.append(SimClient(self, self.clients[index].transactional_id))
        client.step()
        if self.chance(0.3):
            self._attempt(self.anything)

    def run(self) -> None:
        for _ in range(STEPS):
            self.step()
        self.heal()

    def heal(self) -> None:
        """End all faults, deliver what is under way, and let every timeout pass."""
        self.is_healed = True
        self.bench.log.release()
        while self.brokers.under_way:
            self.brokers.deliver_one()
        self.network.heal()
        self.bench.advance(HEALING_MS)
        for late in self.late:
            self._noted(late())
        while self.brokers.strays:
            self.brokers.apply_stray()
        self.bench.advance(HEALING_MS)

    def check(self) -> None:
        """Assert what must hold of every run."""
        for metadata in self.bench.transactions.list_transactions((), (), -1).transactions:
            assert metadata.state.label in ("Empty", "CompleteCommit", "CompleteAbort"), metadata
            assert not self.bench.transactions.runtime.peek()[0].store.is_pending(metadata.transactional_id)
        seen = {name: partition.transactions() for name, partition in self.partitions.items()}
        for name, (committed, _, left) in seen.items():
            assert left == [], f"open in {name}"
            assert len(committed) == len(set(committed)), f"twice in {name}"
        self._check_ends()
        for transaction in self.transactions:
            self._check_transaction(transaction, {name: committed for name, (committed, _, _) in seen.items()})

    def _check_ends(self) -> None:
        """Assert that the access log hears of each end once; of none if the coordinator that decides does not live to tell."""
        told = Counter(end.transaction.transactional_id for end in (*self.answered_ends, *self.bench.ends))
        decided: Counter[str] = Counter()
        before: dict[str, TransactionState] = {}
        for record in self.bench.records():
            name, metadata = record.key.transactional_id, transaction_metadata(record)
            state = TransactionState.DEAD if metadata is None else metadata.state
            decided[name] += state.is_prepared and before.get(name) is TransactionState.ONGOING
            before[name] = state
        assert told <= decided, (told, decided)
        if self.keeps_coordinator:
            assert told == +decided

    def _check_transaction(self, transaction: SimTransaction, committed: dict[TopicPartition, list[bytes]]) -> None:
        visible = {name: [value for value in committed[name] if value in transaction.sent] for name in committed}
        if not transaction.asked_to_commit or transaction.ended is False:
            assert not any(visible.values()), (transaction.ended, visible)
        elif transaction.ended or any(visible.values()):
            for name, values in transaction.acknowledged.items():
                assert visible[name] == values, (transaction.ended, name, visible, transaction.acknowledged)
