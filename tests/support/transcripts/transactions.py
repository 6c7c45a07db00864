"""Runs a transcript of transactions: lines with ``> `` are commands, the lines below each are what it must bring about.

    > init tx                    a producer with the transactional id "tx" begins
    tx is 0/0                    it got producer id 0 and epoch 0
    [tx Empty 0/0]               the id's stored state, whenever it changes
    > add tx t-0
    tx adds: NONE
    [tx Ongoing 0/0 t-0]

A producer is named by its transactional id, and has the id and epoch that it got last; ``as=0/3`` makes it another one.
``REWRITE_TRANSCRIPTS=1 pytest tests/coordinator`` writes what really happens into the files: read the difference.
"""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from tests.support.transaction_bench import TransactionBench
from twisted_kafka.coordinator.coordinator_record import CoordinatorRecord, Producer
from twisted_kafka.protocol.errors import CoordinatorLoadInProgressError, ErrorCode
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.protocol.topic_partition import TRANSACTION_TOPIC, TopicPartition
from twisted_kafka.transaction_coordinator.transaction_metadata import TransactionMetadata
from twisted_kafka.transaction_coordinator.transaction_records import transaction_metadata, transaction_record
from twisted_kafka.transaction_coordinator.transaction_shard import Ended, Initialized
from twisted_kafka.transaction_coordinator.transaction_state import TransactionState


class TransactionTranscript:
    """One scenario's coordinator, brokers and producers."""

    def __init__(self) -> None:
        self._bench: TransactionBench | None = None
        self.settings: dict[str, Any] = {}
        self.producers: dict[str, Producer] = {}
        self.lines: list[str] = []
        self.waiting: list[tuple[Future[Any], Callable[[Any], None]]] = []
        self.states: dict[str, str] = {}
        self.shown_records = self.shown_markers = 0

    @property
    def bench(self) -> TransactionBench:
        if self._bench is None:
            self._bench = TransactionBench(**self.settings)
        return self._bench

    def run(self, command: str) -> list[str]:
        """Run one command; returns the lines that it brought about."""
        self.lines = []
        word, *rest = command.split()
        names = [each for each in rest if "=" not in each]
        options = dict(each.split("=", 1) for each in rest if "=" in each)
        if word == "config":
            self.settings = {key: int(value) for key, value in options.items()}
            return []
        getattr(self, f"do_{word}")(names, options)
        self.collect()
        return self.lines

    def answered(self, result: Any, tell: Callable[[Any], None]) -> None:
        if isinstance(result, Future):
            self.waiting.append((result, tell))
        else:
            tell(result)

    def collect(self) -> None:
        waiting, self.waiting = self.waiting, []
        for future, tell in waiting:
            if future.done():
                tell(future.result())
            else:
                self.waiting.append((future, tell))
        markers = self.bench.brokers.written
        for partition, marker in markers[self.shown_markers :]:
            outcome = "commit" if marker.committed else "abort"
            version = f", version {marker.transaction_version}" if marker.transaction_version else ""
            epoch = marker.coordinator_epoch
            self.lines.append(
                f"marker in {partition}: {outcome} of {show_producer(marker.producer)}, coordinator epoch {epoch}{version}"
            )
        self.shown_markers = len(markers)
        now = {each.transactional_id: show(each) for shard in self.bench.runtime.peek() for each in shard.store}
        for name in sorted(now.keys() | self.states.keys()):
            if now.get(name) != self.states.get(name):
                self.lines.append(f"[{now.get(name, f'{name} none')}]")
        self.states = now

    def producer(self, name: str, options: dict[str, str]) -> Producer:
        return parsed(options["as"]) if "as" in options else self.producers.get(name, Producer(77, 0))

    # producers

    def do_init(self, names: list[str], options: dict[str, str]) -> None:
        name = names[0] if names else ""
        expected = parsed(options["expected"]) if "expected" in options else None

        def tell(answer: Initialized) -> None:
            if answer.error:
                self.lines.append(f"{name}: {answer.error.name}")
                assert answer.producer == Producer(-1, -1)
            else:
                self.producers[name] = answer.producer
                self.lines.append(f"{name} is {show_producer(answer.producer)}")

        self.answered(self.bench.transactions.init_producer_id(name, int(options.get("timeout", 60_000)), expected), tell)

    def do_add(self, names: list[str], options: dict[str, str]) -> None:
        name, *added = names
        partitions, version = [partition(each) for each in added], int(options.get("version", 0))
        result = self.bench.transactions.add_partitions(name, self.producer(name, options), partitions, version)
        self.answered(result, lambda error: self.lines.append(f"{name} adds: {error.name}"))

    def do_verify(self, names: list[str], options: dict[str, str]) -> None:
        name, *asked = names
        errors = self.bench.transactions.verify_partitions(name, self.producer(name, options), [partition(each) for each in asked])
        for each, error in errors.items():
            self.lines.append(f"{each} is in {name}: {error.name}")

    def do_end(self, names: list[str], options: dict[str, str]) -> None:
        name, outcome = names
        transactions = self.bench.transactions
        has_epochs = options.get("version") == "2"
        end = transactions.end_transaction_with_bump if has_epochs else transactions.end_transaction

        def tell(ended: Ended) -> None:
            text = f"{name} ends: {ended.error.name}"
            assert (ended.producer == Producer(-1, -1)) == (not has_epochs or bool(ended.error))
            if has_epochs and not ended.error:
                self.producers[name] = ended.producer
                text += f", is {show_producer(ended.producer)}"
            self.lines.append(text)

        self.answered(end(name, self.producer(name, options), outcome == "commit"), tell)

    # administrators

    def do_describe(self, names: list[str], options: dict[str, str]) -> None:
        error, found = self.bench.transactions.describe(names[0] if names else "")
        self.lines.append(error.name if found is None else f"{show(found)} timeout {found.timeout_ms} began {found.start_ms}")

    def do_list(self, names: list[str], options: dict[str, str]) -> None:
        ids = [int(each) for each in options.get("ids", "").split(",") if each]
        states = [each for each in options.get("states", "").split(",") if each]
        error, unknown, found = self.bench.transactions.list_transactions(states, ids, int(options.get("longer", -1)))
        self.lines.append(f"{error.name} {' '.join(each.transactional_id for each in found)}".rstrip())
        if unknown:
            self.lines.append(f"unknown states: {' '.join(unknown)}")

    # what goes on around

    def do_put(self, names: list[str], options: dict[str, str]) -> None:
        """Have a record in the log, as another coordinator may have left it."""
        name, state, *added = names
        metadata = TransactionMetadata(
            name,
            parsed(options["as"]),
            int(options.get("timeout", 60_000)),
            TransactionState[state],
            frozenset(partition(each) for each in added),
            self.bench.clock.wall_ms(),
            self.bench.clock.wall_ms(),
        )
        record = transaction_record(metadata, self.bench.transaction_version)
        batch = build_batch([SimpleRecord(0, record.encode_key(), record.encode_value())])
        self.bench.log.append(TopicPartition(TRANSACTION_TOPIC, 0), batch, None)
        self.shown_records += 1

    def do_level(self, names: list[str], options: dict[str, str]) -> None:
        """Finalize a level of ``transaction.version``."""
        self.bench.transaction_version = int(names[0])

    def do_advance(self, names: list[str], options: dict[str, str]) -> None:
        self.bench.advance(int(names[0]))

    def do_restart(self, names: list[str], options: dict[str, str]) -> None:
        self.bench.restart(load=False)
        self.bench.elect(self.bench.epoch, load="unloaded" not in names)

    def do_load(self, names: list[str], options: dict[str, str]) -> None:
        self.bench.scheduler.run_due()

    def do_resign(self, names: list[str], options: dict[str, str]) -> None:
        self.bench.resign()

    def do_stop(self, names: list[str], options: dict[str, str]) -> None:
        self.bench.transactions.shutdown()

    def do_ids(self, names: list[str], options: dict[str, str]) -> None:
        """Let the metadata store fail, or not."""
        self.bench.producer_ids.failure = CoordinatorLoadInProgressError("") if names == ["fail"] else None

    def do_fail(self, names: list[str], options: dict[str, str]) -> None:
        """Let the next append fail."""
        self.bench.log.fail_next.append(ErrorCode[names[0]])

    def do_hold(self, names: list[str], options: dict[str, str]) -> None:
        """Let appends wait for replicas from now on."""
        self.bench.log.holds = True

    def do_release(self, names: list[str], options: dict[str, str]) -> None:
        """Let the replicas answer."""
        self.bench.log.release(ErrorCode[names[0]] if names else ErrorCode.NONE)

    def do_markers(self, names: list[str], options: dict[str, str]) -> None:
        """Let the brokers hold markers back, write those they hold, break, or answer with errors (``t-0=ERROR``)."""
        brokers = self.bench.brokers
        brokers.errors = {partition(name): ErrorCode[error] for name, error in options.items()}
        if "hold" in names:
            brokers.holds = True
        if "fail" in names:
            brokers.fail(ConnectionError("broken"))
        if "release" in names:
            brokers.holds = False
            brokers.release()

    def do_queues(self, names: list[str], options: dict[str, str]) -> None:
        for name in ("FencedTransactionsCount", "LogAppendRetryQueueSize"):
            self.lines.append(f"{name}: {self.bench.metrics.value('TransactionMarkerChannelManager', name)}")

    def do_log(self, names: list[str], options: dict[str, str]) -> None:
        """Show the records written since the last look."""
        records = self.bench.records()
        for record in records[self.shown_records :]:
            self.lines.append(f"  {show_record(record)}")
        self.shown_records = len(records)


def partition(text: str) -> TopicPartition:
    topic, _, index = text.rpartition("-")
    return TopicPartition(topic, int(index))


def parsed(text: str) -> Producer:
    producer_id, _, epoch = text.partition("/")
    return Producer(int(producer_id), int(epoch))


def show_producer(producer: Producer) -> str:
    return f"{producer.producer_id}/{producer.epoch}"


def show(metadata: TransactionMetadata) -> str:
    partitions = "".join(f" {each}" for each in sorted(metadata.partitions))
    ids = {"next": metadata.next_producer_id, "previous": metadata.previous_producer_id}
    others = "".join(f", {name} id {producer_id}" for name, producer_id in ids.items() if producer_id >= 0)
    return f"{metadata.transactional_id} {metadata.state.label} {show_producer(metadata.producer)}{partitions}{others}"


def show_record(record: CoordinatorRecord) -> str:
    metadata = transaction_metadata(record)
    if metadata is None:
        return f"{record.key.transactional_id}: tombstone"
    version = f" (record version {record.value_version}, client {metadata.client_version})" if record.value_version else ""
    return show(metadata) + version
