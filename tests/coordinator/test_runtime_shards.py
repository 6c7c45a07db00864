"""What the runtime promises every shard: the order of replay, commit and answer, its effects, its life in and out of elections."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.coordinator_fakes import MemoryLog
from tests.support.eventually import WAIT_S
from tests.support.network_fakes import lines_of
from twisted_kafka.coordinator.coordinator_record import CoordinatorRecord, Producer, RecordKinds, decode_record
from twisted_kafka.coordinator.damage import REFUSE_DAMAGE, DamagePolicy
from twisted_kafka.coordinator.effects import MAX_BATCH_RECORDS, Effects, Write, Writes
from twisted_kafka.coordinator.loader import Loaded, load_partition
from twisted_kafka.coordinator.runtime import CoordinatorRuntime, RuntimeSettings, UncommittedStateError
from twisted_kafka.coordinator.settlers import MAX_SETTLERS
from twisted_kafka.group_coordinator.group_records import offset_commit
from twisted_kafka.group_coordinator.state.group_kinds import GROUP_RECORD_KINDS
from twisted_kafka.protocol.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    ErrorCode,
    KafkaError,
    KafkaStorageError,
    NotCoordinatorError,
)
from twisted_kafka.protocol.messages.coordinators.coordinator_records import OffsetCommitValue
from twisted_kafka.protocol.records.batch import batches
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.timing.clock import ManualClock
from twisted_kafka.timing.scheduler import ManualScheduler
from twisted_kafka.timing.timer import Timer

LOG = TopicPartition("journal", 0)
PRODUCER = Producer(7, 3)
NONE = ErrorCode.NONE


def record(number: int) -> CoordinatorRecord:
    return offset_commit("g", "t", 0, OffsetCommitValue(offset=number))


class Journal:
    """A shard that keeps what it is told."""

    def __init__(self, effects: Effects, leader_epoch: int) -> None:
        self.effects = effects
        self.leader_epoch = leader_epoch
        self.offsets: list[int] = []
        self.parked: Future[Any] = Future()
        self.events: list[Any] = []

    def replay(self, record: CoordinatorRecord, producer_id: int, offset: int) -> None:
        assert record.value is not None
        self.offsets.append(offset)
        self.events.append(record.value.offset if producer_id == -1 else (record.value.offset, producer_id))

    def replay_end_transaction(self, producer_id: int, committed: bool) -> None:
        self.events.append((producer_id, "commit" if committed else "abort"))

    def key_of(self, record: CoordinatorRecord) -> str:
        return "key"

    def keys_of_transaction(self, producer_id: int) -> list[str]:
        return ["key"]

    def stored(self, key: str) -> list[Any]:
        return list(self.events)

    def loaded(self) -> None:
        self.events.append("loaded")

    def unloaded(self) -> None:
        self.events.append("unloaded")
        self.effects.reply(self.parked, "unloaded")


class Setup:
    def __init__(
        self, partitions: int = 1, compression: Compression = Compression.NONE, *, is_started: bool = True, skips: bool = False
    ) -> None:
        self.clock = ManualClock()
        self.log = MemoryLog()
        self.scheduler = ManualScheduler(self.clock)
        self.timer = Timer(self.clock)
        self.shards: list[Journal] = []
        self.load_times: list[float] = []
        settings = RuntimeSettings(
            LOG.topic, lambda: partitions, compression=compression, on_loaded=self.load_times.append, damage=DamagePolicy(skips)
        )
        self.runtime = CoordinatorRuntime(settings, self, self.log, self.log, self.scheduler, self.timer, self.clock)
        if is_started:
            self.runtime.startup()

    def kinds(self) -> RecordKinds:
        return GROUP_RECORD_KINDS

    def shard(self, partition: int, leader_epoch: int, effects: Effects) -> Journal:
        self.shards.append(Journal(effects, leader_epoch))
        return self.shards[-1]

    def elect(self, *partitions: int, epoch: int = 0) -> Journal:
        for partition in partitions or (0,):
            self.runtime.elected(partition, epoch)
        self.scheduler.run_due()
        return self.shards[-1]

    def reload(self, epoch: int) -> Journal:
        """Let another broker lead partition 0 for a moment."""
        self.runtime.resigned(0, epoch)
        return self.elect(epoch=epoch)

    def stored(self, partition: int = 0) -> list[int]:
        return [
            decode_record(GROUP_RECORD_KINDS, each.key, each.value).value.offset
            for data in self.log.batches[TopicPartition(LOG.topic, partition)]
            for batch in batches(data)
            for each in batch.records()
        ]

    def execute(self, operation: Callable[[Journal], Any]) -> Any:
        return self.runtime.execute("key", operation)

    def write(self, *numbers: int, answer: Callable[[ErrorCode], Any] = lambda error: error) -> Any:
        return self.runtime.execute("key", lambda shard: Write([record(number) for number in numbers], answer))


def refusal(ask: Callable[[], Any]) -> type[KafkaError]:
    with pytest.raises(KafkaError) as caught:
        ask()
    return type(caught.value)


# operations


def test_nothing_is_executed_before_the_start() -> None:
    setup = Setup(is_started=False)
    setup.elect()
    assert refusal(lambda: setup.write(1)) is CoordinatorNotAvailableError
    setup.runtime.startup()
    assert setup.write(1) == NONE


def test_records_are_stored_replayed_and_then_answered() -> None:
    setup = Setup()
    journal = setup.elect()
    assert setup.write(1, 2, answer=lambda error: (error, list(journal.events))) == (NONE, ["loaded", 1, 2])
    assert setup.stored() == [1, 2]
    assert setup.write(answer=lambda error: ("nothing to write", error)) == ("nothing to write", NONE)
    setup.log.fail_next.append(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert setup.write(3) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert (setup.stored(), journal.events) == ([1, 2], ["loaded", 1, 2])
    assert setup.runtime.call("key", lambda shard: len(shard.events)) == 3


def test_effects_of_an_operation_are_written_before_its_last_records() -> None:
    setup = Setup()
    journal = setup.elect()
    outcomes: list[ErrorCode] = []

    def operation(shard: Journal) -> Write[str]:
        shard.effects.write([record(2)], outcomes.append)
        shard.effects.write([record(3)], lambda error: shard.effects.write([record(4)], outcomes.append))
        shard.effects.reply(answer, "after")
        return Write([record(1)], lambda error: "done")

    answer: Future[str] = Future()
    assert setup.execute(operation) == "done"
    assert setup.stored() == [2, 3, 4, 1]
    assert journal.events == ["loaded", 2, 3, 4, 1]
    assert (outcomes, answer.result(0)) == ([NONE, NONE], "after")


def test_an_answered_request_is_not_answered_again() -> None:
    setup = Setup()
    setup.elect()
    answer: Future[str] = Future()

    def operation(shard: Journal) -> None:
        shard.effects.reply(answer, "first")
        shard.effects.reply(answer, "second")

    setup.runtime.execute("key", operation)
    assert answer.result(0) == "first"


def test_a_write_that_waits_for_replicas_is_replayed_at_once_and_answered_later() -> None:
    setup = Setup()
    journal = setup.elect()
    setup.log.holds = True
    answer = setup.write(1, answer=lambda error: (error, len(journal.events)))
    assert journal.events == ["loaded", 1]
    seen = setup.runtime.read("key", lambda shard: list(shard.events))
    assert setup.runtime.execute("key", lambda shard: list(shard.events)) == ["loaded", 1]
    assert not answer.done()
    assert not seen.done()
    setup.log.release()
    assert answer.result(0) == (NONE, 2)
    assert seen.result(0) == ["loaded", 1]
    assert setup.runtime.read("key", lambda shard: list(shard.events)) == ["loaded", 1]


def test_what_a_late_outcome_brings_about_is_written_too() -> None:
    setup = Setup()
    journal = setup.elect()
    setup.log.holds = True
    setup.write(1, answer=lambda error: journal.effects.write([record(2)], lambda _: None))
    setup.log.release()
    assert setup.stored() == [1, 2]
    assert journal.events == ["loaded", 1, 2]


def test_what_a_late_outcome_brings_about_is_dropped_with_the_shard() -> None:
    setup = Setup()
    journal = setup.elect()
    setup.log.holds = True
    answer = setup.write(1, answer=lambda error: journal.effects.write([record(2)], lambda _: None) or error)
    setup.runtime.resigned(0, 1)
    setup.log.release(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert answer.result(0) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert setup.stored() == [1]


def test_the_outcome_may_itself_be_late() -> None:
    setup = Setup()
    setup.elect()
    later: Future[str] = Future()
    setup.log.holds = True
    answer = setup.write(1, answer=lambda error: later)
    setup.log.release()
    assert not answer.done()
    later.set_result("at last")
    assert answer.result(0) == "at last"


def test_an_append_that_fails_later_tells_its_error() -> None:
    setup = Setup()
    setup.elect()
    setup.log.holds = True
    answers = [setup.write(1), setup.write(2), setup.write(3)]
    held, setup.log.held = setup.log.held, []
    held[0].set_exception(NotCoordinatorError("gone"))
    held[1].set_exception(ZeroDivisionError())
    held[2].set_result(ErrorCode.REQUEST_TIMED_OUT)
    assert [answer.result(0) for answer in answers] == [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
    ]


def test_an_operation_that_raises_leaves_the_shard_usable() -> None:
    setup = Setup()
    setup.elect()
    with pytest.raises(ZeroDivisionError):
        setup.runtime.execute("key", lambda shard: 1 // 0)
    assert setup.write(1) == NONE


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
@pytest.mark.parametrize("producer", [None, PRODUCER])
def test_the_batch_of_a_write(compression: Compression, producer: Producer | None) -> None:
    setup = Setup(compression=compression)
    journal = setup.elect()
    write = Write([record(1), record(2)], lambda error: error, producer)
    assert setup.execute(lambda shard: write) == NONE
    (batch,) = batches(setup.log.batches[LOG][0])
    assert batch.compression == compression
    assert batch.is_transactional == (producer is not None)
    assert (batch.producer_id, batch.producer_epoch) == (producer or (-1, -1))
    assert batch.base_sequence == (-1 if producer is None else 0)
    assert (batch.base_offset, batch.last_offset) == (0, 1)
    now_ms = setup.clock.wall_ms()
    assert {each.timestamp_ms for each in batch.records()} == {batch.max_timestamp_ms} == {now_ms}
    assert setup.stored() == [1, 2]
    assert journal.events == ["loaded", *([1, 2] if producer is None else [(1, 7), (2, 7)])]


# transactions


@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_is_stored_and_replayed(committed: bool) -> None:
    setup = Setup()
    journal = setup.elect()
    assert setup.runtime.end_transaction(0, PRODUCER, 5, committed) == NONE
    (batch,) = batches(setup.log.batches[LOG][0])
    assert batch.is_control
    assert (batch.producer_id, batch.producer_epoch) == PRODUCER
    assert journal.events[-1] == (7, "commit" if committed else "abort")
    setup.log.fail_next.append(ErrorCode.INVALID_PRODUCER_EPOCH)
    assert setup.runtime.end_transaction(0, PRODUCER, 5, committed) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert len(journal.events) == 2
    setup.runtime.resigned(0, 0)
    assert setup.elect(epoch=1).events == [*journal.events[1:2], "loaded"]


# who is asked


def test_who_refuses_and_why() -> None:
    setup = Setup()
    asks: list[Callable[[], Any]] = [
        lambda: setup.runtime.check("key"),
        lambda: setup.runtime.execute("key", lambda shard: None),
        lambda: setup.runtime.read("key", lambda shard: None),
        lambda: setup.runtime.end_transaction(0, PRODUCER, 0, True),
    ]
    assert {refusal(ask) for ask in asks} == {NotCoordinatorError}
    setup.runtime.elected(0, 0)
    assert {refusal(ask) for ask in asks} == {CoordinatorLoadInProgressError}
    assert setup.runtime.is_loading()
    setup.scheduler.run_due()
    assert [ask() for ask in asks] == [None, None, None, NONE]
    assert not setup.runtime.is_loading()
    setup.runtime.resigned(0, 0)
    assert {refusal(ask) for ask in asks} == {NotCoordinatorError}
    setup.log.missing = True
    setup.elect(epoch=1)
    assert {refusal(ask) for ask in asks} == {CoordinatorNotAvailableError}
    setup.log.missing = False
    setup.elect(epoch=2)
    setup.runtime.shutdown()
    assert {refusal(ask) for ask in asks} == {CoordinatorNotAvailableError}
    assert refusal(lambda: setup.runtime.end_transaction(9, PRODUCER, 0, True)) is CoordinatorNotAvailableError


def test_an_operation_that_was_let_in_while_its_shard_goes_is_refused() -> None:
    setup = Setup(partitions=3)
    setup.elect(0, 1, 2)

    def resign(shard: Journal) -> int:
        """The first of three shards is asked; meanwhile the second one goes."""
        setup.runtime.resigned(1, 0)
        return len(shard.events)

    assert setup.runtime.execute_everywhere(resign) == [1, 1]


def test_everyone_who_is_active_is_asked() -> None:
    setup = Setup(partitions=4)
    setup.elect(0, 1, 2)
    setup.runtime.elected(3, 0)
    setup.runtime.resigned(1, 0)
    assert sorted(setup.runtime.active_partitions()) == [0, 2]
    assert setup.runtime.execute_everywhere(lambda shard: shard) == [setup.shards[0], setup.shards[2]]
    assert setup.runtime.peek() == [setup.shards[0], setup.shards[2]]
    assert setup.runtime.partition_states() == {"loading": 1, "active": 2, "failed": 0}


# elections


def test_an_election_is_followed_once() -> None:
    setup = Setup()
    setup.elect(epoch=3)
    setup.elect(epoch=3)
    setup.elect(epoch=2)
    assert len(setup.shards) == 1
    setup.write(1)
    second = setup.reload(epoch=4)
    assert setup.shards[0].events == ["loaded", 1, "unloaded"]
    assert setup.shards[0].parked.result(0) == "unloaded"
    assert second.events == [1, "loaded"]


def test_a_newer_epoch_of_the_same_leader_changes_the_epoch_only() -> None:
    setup = Setup()
    journal = setup.elect(epoch=3)
    setup.write(1)
    setup.elect(epoch=4)
    assert (setup.shards, journal.events, journal.parked.done()) == ([journal], ["loaded", 1], False)
    setup.runtime.resigned(0, 3)
    assert setup.write(2) == NONE, "an older resignation counts"
    setup.runtime.resigned(0, 4)
    assert refusal(lambda: setup.write(3)) is NotCoordinatorError


def test_a_load_goes_on_through_a_newer_epoch_of_the_same_leader() -> None:
    setup = Setup()
    setup.runtime.elected(0, 3)
    setup.elect(epoch=4)
    assert [journal.events for journal in setup.shards] == [["loaded"]]


def test_an_election_in_the_middle_of_an_append_loses_nothing() -> None:
    """A loader that is at work already must not read the log before an operation of the same partition has appended."""
    setup = Setup(partitions=2)
    setup.elect(*range(2))
    append = setup.log.append

    def interrupted(*arguments: Any) -> Any:
        setup.log.append = append
        setup.runtime.resigned(other, 1)
        setup.runtime.elected(other, 1)
        controller = threading.Thread(target=setup.runtime.elected, args=(1 - other, 1))
        controller.start()
        controller.join(1)
        setup.scheduler.run_due()
        return append(*arguments)

    other = 1 - setup.runtime.partition_for("key")
    setup.log.append = interrupted  # type: ignore[assignment]
    assert setup.write(1) == NONE
    setup.scheduler.run_due()
    assert setup.runtime.execute("key", lambda shard: shard.events[-1]) == 1


def test_a_failed_shard_acknowledges_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second write of an operation is neither appended nor acknowledged if the first one could not be applied."""
    setup = Setup()
    setup.elect()
    replay = Journal.replay

    def failing(shard: Journal, record: CoordinatorRecord, producer_id: int, offset: int) -> None:
        if shard is setup.shards[0]:
            raise ZeroDivisionError
        replay(shard, record, producer_id, offset)

    def two_writes(shard: Journal) -> Write[ErrorCode]:
        shard.effects.write([record(1)], ErrorCode)
        return Write([record(2)], ErrorCode)

    def write_and_answer(shard: Journal) -> str:
        shard.effects.write([record(3)], ErrorCode)
        return "done"

    monkeypatch.setattr(Journal, "replay", failing)
    assert refusal(lambda: setup.runtime.execute("key", two_writes)) is CoordinatorNotAvailableError
    setup.scheduler.run_due()
    assert setup.shards[1].events == [1, "loaded"]
    setup.runtime.resigned(0)
    setup.shards.clear()
    setup.elect()
    assert refusal(lambda: setup.runtime.execute("key", write_and_answer)) is CoordinatorNotAvailableError


@pytest.mark.parametrize(("epoch", "goes"), [(2, False), (3, True), (4, True), (None, True)])
def test_a_resignation_counts_unless_it_is_older_than_the_election(epoch: int | None, goes: bool) -> None:
    setup = Setup()
    journal = setup.elect(epoch=3)
    setup.runtime.resigned(0, epoch)
    setup.runtime.resigned(9, epoch)
    assert journal.events == ["loaded", *(["unloaded"] if goes else [])]


def test_a_failed_partition_is_loaded_by_the_same_election_again() -> None:
    setup = Setup()
    setup.log.missing = True
    failed = setup.elect(epoch=3)
    setup.log.missing = False
    assert setup.elect(epoch=3).events == ["loaded"]
    assert failed.events == []


def test_a_failed_partition_is_loaded_again_less_and_less_often() -> None:
    setup = Setup()
    setup.log.missing = True
    setup.elect()
    delays_s = []
    for _ in range(9):
        shards = len(setup.shards)
        waited_s = 0
        while len(setup.shards) == shards:
            setup.clock.advance_ms(1000)
            waited_s += 1
            setup.scheduler.run_due()
        delays_s.append(waited_s)
    assert delays_s == [1, 2, 4, 8, 16, 32, 64, 64, 64]
    setup.log.missing = False
    setup.clock.advance_ms(64_000)
    setup.scheduler.run_due()
    assert setup.write(1) == NONE


def test_one_task_loads_all_partitions_that_are_elected_meanwhile() -> None:
    setup = Setup(partitions=3)
    for partition in range(3):
        setup.runtime.elected(partition, 0)
    assert setup.runtime.queue_size() == 3
    assert setup.scheduler.run_due() == 1
    assert [journal.events for journal in setup.shards] == [["loaded"]] * 3
    setup.runtime.resigned(0, 0)
    setup.runtime.elected(0, 1)
    assert setup.scheduler.run_due() == 1
    assert setup.shards[-1].events == ["loaded"]


def test_no_change_of_leaders_waits_for_a_disk_that_hangs_but_the_next_shard_does(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = Setup()
    first = setup.elect()
    append, hangs, may_go_on = setup.log.append, threading.Event(), threading.Event()

    def hanging(*arguments: Any) -> Any:
        hangs.set()
        assert may_go_on.wait(WAIT_S)
        return append(*arguments)

    monkeypatch.setattr(setup.log, "append", hanging)

    def change_leaders() -> None:
        for epoch in (0, 1):
            setup.runtime.resigned(0, epoch)
            setup.runtime.elected(0, epoch + 1)

    with ThreadPoolExecutor(3) as threads:
        writing = threads.submit(setup.write, 1)
        try:
            assert hangs.wait(WAIT_S)
            threads.submit(change_leaders).result(WAIT_S)
            loading = threads.submit(setup.scheduler.run_due)
            assert setup.runtime.active_partitions() == []
        finally:
            may_go_on.set()
        assert writing.result(WAIT_S) == NONE
        loading.result(WAIT_S)
    assert first.events == ["loaded", 1, "unloaded"]
    assert [journal.events for journal in setup.shards[1:]] == [[], [1, "loaded"]], "the new shard has what the old one answered"
    assert setup.runtime.active_partitions() == [0]


def test_a_load_stops_when_the_partition_goes() -> None:
    setup = Setup()
    setup.elect()
    for number in range(3):
        setup.write(number)
    read_all = setup.log.read_all

    def resigning(partition: TopicPartition, buffer_size: int) -> Iterator[bytes]:
        for index, chunk in enumerate(read_all(partition, buffer_size)):
            if index == 1:
                setup.runtime.resigned(0, 1)
            yield chunk

    setup.log.read_all = resigning
    assert setup.reload(epoch=1).events == [0]
    assert setup.load_times == [0]
    assert setup.runtime.partition_states() == {"loading": 0, "active": 0, "failed": 0}


def test_a_load_that_fails_after_the_partition_went_leaves_it_gone() -> None:
    setup = Setup()

    def failing(partition: TopicPartition, buffer_size: int) -> Iterator[bytes]:
        setup.runtime.resigned(0, 0)
        raise NotCoordinatorError("no such log")

    setup.log.read_all = failing
    setup.elect()
    assert setup.runtime.partition_states() == {"loading": 0, "active": 0, "failed": 0}


def test_a_disk_that_hangs_delays_only_the_loading_of_its_own_partitions() -> None:
    setup = Setup(3)
    setup.log.directories = {0: Path("a"), 1: Path("a"), 2: Path("b")}
    read_all = setup.log.read_all
    states = []

    def hanging(partition: TopicPartition, buffer_size: int) -> Iterator[bytes]:
        if partition == LOG:
            setup.scheduler.run_due()  # on another thread
            states.append((setup.runtime.active_partitions(), setup.runtime.queue_size()))
        return read_all(partition, buffer_size)

    setup.log.read_all = hanging
    setup.elect(0, 1, 2)
    assert states == [([2], 1)]
    assert setup.runtime.active_partitions() == [0, 1, 2]


def test_load_times_are_told_in_milliseconds() -> None:
    setup = Setup()
    read_all = setup.log.read_all

    def slow(partition: TopicPartition, buffer_size: int) -> Iterator[bytes]:
        setup.clock.advance_ms(250)
        return read_all(partition, buffer_size)

    setup.log.read_all = slow
    setup.elect()
    assert setup.load_times == [250]


def test_what_a_load_brings_about_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def loaded(shard: Journal) -> None:
        shard.effects.write([record(1)], lambda _: None)
        shard.effects.reply(shard.parked, "loaded")

    monkeypatch.setattr(Journal, "loaded", loaded)
    setup = Setup()
    journal = setup.elect()
    assert setup.stored() == journal.events == [1]
    assert journal.parked.result(0) == "loaded"


def test_a_load_skips_what_it_does_not_know() -> None:
    setup = Setup()
    setup.elect()
    setup.write(1)
    strange = build_batch([SimpleRecord(0, b"\0\x63what", b"\0\0ever"), SimpleRecord(0, None, b"x"), record(2).simple(0)])
    marker = bytes.fromhex("0000 0007 00000000")  # a control record of another type than commit and abort
    control = build_batch([SimpleRecord(0, marker[:4], b""), SimpleRecord(0, None, b"")], producer_id=7, is_control=True)
    idempotent = build_batch([record(3).simple(0)], producer_id=7, producer_epoch=0, base_sequence=0)
    setup.log.batches[LOG] += [strange, control, idempotent]
    assert setup.reload(epoch=1).events == [1, 2, 3, "loaded"]


@pytest.mark.parametrize("skips", [False, True])
def test_a_batch_that_cannot_be_read(skips: bool) -> None:
    setup = Setup(skips=skips)
    setup.elect()
    setup.write(1)
    setup.log.append(LOG, build_batch([SimpleRecord(0, b"\0\1", b"\0\0")]), None)
    setup.write(2)
    lines = lines_of(lambda: setup.reload(epoch=1))
    if skips:
        assert setup.shards[-1].events == [1, 2, "loaded"]
        (line, _) = lines
        assert line.startswith("The batch of journal-0 at offset 1 is damaged")
    else:
        assert setup.runtime.partition_states() == {"loading": 0, "active": 0, "failed": 1}
        (line,) = lines
        assert line.startswith(
            "journal-0 is not available, and is loaded again in 1 s: The batch of journal-0 at offset 1 is damaged"
        )
        assert "coordinator.load.skip.damaged.batches=true" in line


def test_a_load_that_a_disk_ends_is_one_line() -> None:
    def failing(partition: TopicPartition, buffer_size: int) -> Iterator[bytes]:
        raise KafkaStorageError("the log directory of journal-0 is offline")

    setup = Setup()
    setup.log.read_all = failing
    (line,) = lines_of(setup.elect)
    assert line == "journal-0 is not available, and is loaded again in 1 s: the log directory of journal-0 is offline"


def test_the_records_that_are_loaded_are_counted() -> None:
    def chunk(*numbers: int) -> bytes:
        return bytes(build_batch([record(number).simple(0) for number in numbers]))

    journal = Setup().elect()

    def load(*chunks: bytes) -> Loaded:
        return load_partition(journal, GROUP_RECORD_KINDS, chunks, lambda: True, lambda _: True, partial(REFUSE_DAMAGE.found, LOG))

    assert load(chunk(1, 2) + chunk(3), chunk(4), chunk(5, 6, 7)) == Loaded(7, 2, {})
    assert journal.events == ["loaded", *range(1, 8)]
    assert load() == Loaded(0, -1, {})


# timers


def test_a_timer_acts_on_the_shard_while_it_is_active() -> None:
    setup = Setup()
    journal = setup.elect()

    def ring(number: int) -> Callable[[], None]:
        return lambda: journal.effects.write([record(number)], lambda _: journal.effects.reply(answer, number))

    answer: Future[int] = Future()
    handle = journal.effects.timers.after("cancelled", 10, ring(1))
    journal.effects.timers.after("early", 20, ring(2))
    journal.effects.timers.after("late", 30, ring(3))
    handle.cancel()
    setup.clock.advance_ms(20)
    setup.timer.expire_due()
    assert setup.stored() == [], "appended on the timer's thread"
    setup.scheduler.run_due()
    assert setup.stored() == [2]
    assert answer.result(0) == 2
    setup.runtime.resigned(0, 0)
    setup.clock.advance_ms(20)
    setup.timer.expire_due()
    setup.scheduler.run_due()
    assert setup.stored() == [2]
    assert not journal.effects.writes


def test_a_timer_waits_for_the_operation_that_runs() -> None:
    setup = Setup()
    journal = setup.elect()
    journal.effects.timers.after("timer", 10, lambda: journal.events.append("timer"))

    def operation(shard: Journal) -> int:
        setup.clock.advance_ms(10)
        setup.timer.expire_due()
        shard.events.append("operation")
        return setup.runtime.queue_size()

    assert setup.runtime.execute("key", operation) == 1
    assert journal.events == ["loaded", "operation", "timer"]
    assert setup.runtime.queue_size() == 0


def test_a_timer_that_has_expired_may_still_be_cancelled_by_the_operation_that_it_waits_for() -> None:
    setup = Setup()
    journal = setup.elect()
    handle = journal.effects.timers.after("timer", 10, lambda: journal.events.append("timer"))

    def operation(shard: Journal) -> None:
        setup.clock.advance_ms(10)
        setup.timer.expire_due()
        handle.cancel()

    setup.runtime.execute("key", operation)
    assert journal.events == ["loaded"]


def test_timers_of_many_shards_take_few_threads_of_the_scheduler() -> None:
    """An append to a stalled disk keeps a thread: the rest of the scheduler's work must have some left."""
    setup = Setup(partitions=20)
    setup.elect(*range(20))
    for journal in setup.shards:
        journal.effects.timers.after("timer", 10, partial(journal.events.append, "timer"))
    setup.clock.advance_ms(10)
    setup.timer.expire_due()
    assert setup.runtime.queue_size() == 20
    assert setup.scheduler.run_due() == MAX_SETTLERS
    assert [journal.events for journal in setup.shards] == [["loaded", "timer"]] * 20


def test_a_timer_rings_after_the_scheduler_has_ended_too() -> None:
    setup = Setup()
    journal = setup.elect()
    setup.scheduler.shutdown()
    journal.effects.timers.after("timer", 10, lambda: journal.events.append("timer"))
    setup.clock.advance_ms(10)
    setup.timer.expire_due()
    assert journal.events == ["loaded", "timer"]


def test_a_timer_that_fails_leaves_the_others() -> None:
    setup = Setup()
    journal = setup.elect()
    journal.effects.timers.after("failing", 10, lambda: journal.events.append(1 // 0))
    journal.effects.timers.after("good", 10, lambda: journal.events.append("good"))
    setup.clock.advance_ms(10)
    setup.timer.expire_due()
    setup.scheduler.run_due()
    assert journal.events == ["loaded", "good"]
    assert setup.write(1) == NONE


# work for others


def post_while_busy(setup: Setup, count: int) -> None:
    """Let timers expire while an operation runs, which has to run their actions, and answer a request for each."""
    journal = setup.shards[-1]

    def fire(number: int) -> None:
        journal.events.append(number)
        journal.effects.reply(Future(), number)

    def operation(shard: Journal) -> None:
        for number in range(count):
            shard.effects.timers.after("timer", 10, partial(fire, number))
        setup.clock.advance_ms(10)
        setup.timer.expire_due()

    setup.runtime.execute("key", operation)


def test_a_thread_does_not_work_for_others_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twisted_kafka.coordinator.runtime.MAX_SETTLED", 4)
    setup = Setup()
    journal = setup.elect()
    post_while_busy(setup, 6)
    assert journal.events == ["loaded", 0, 1, 2, 3]
    assert setup.runtime.queue_size() == 2
    setup.scheduler.run_due()
    assert journal.events == ["loaded", *range(6)]
    assert not journal.effects.replies


def test_nothing_is_left_to_a_scheduler_that_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twisted_kafka.coordinator.runtime.MAX_SETTLED", 4)
    setup = Setup()
    journal = setup.elect()
    setup.scheduler.shutdown()
    post_while_busy(setup, 6)
    assert journal.events == ["loaded", *range(6)]
    assert not journal.effects.replies


def test_replies_and_sends_are_left_to_the_scheduler_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twisted_kafka.coordinator.runtime.MAX_SETTLED", 2)
    setup = Setup()
    setup.elect()
    peer = Peer()
    parked: list[Future[Any]] = [Future() for _ in range(3)]

    def operation(shard: Journal) -> None:
        for each in parked:
            shard.effects.reply(each, "answer")
        for _ in range(3):
            shard.effects.send(peer.ask, lambda _: None)

    setup.runtime.execute("key", operation)
    assert [each.done() for each in parked] == [True, True, False]
    setup.scheduler.run_due()
    assert [each.done() for each in parked] == [True] * 3
    assert len(peer.asked) == 3


# times


def test_the_time_of_operations_and_timers_is_counted() -> None:
    setup = Setup()
    journal = setup.elect()

    def work(ms: int) -> None:
        setup.clock.advance_ms(ms)

    setup.runtime.execute("key", lambda shard: work(5))
    assert setup.runtime.busy_ns() == 5_000_000
    with pytest.raises(ZeroDivisionError):
        setup.runtime.execute("key", lambda shard: (work(2), 1 // 0))
    journal.effects.timers.after("timer", 0, lambda: work(3))
    setup.timer.expire_due()
    setup.scheduler.run_due()
    assert setup.runtime.busy_ns() == 10_000_000
    setup.reload(epoch=1)
    setup.runtime.execute("key", lambda shard: work(1))
    assert setup.runtime.busy_ns() == 11_000_000


# offsets, leader epochs


def test_a_shard_knows_its_leader_epoch_and_where_its_records_are() -> None:
    setup = Setup()
    journal = setup.elect(epoch=4)
    assert journal.leader_epoch == 4
    setup.write(1, 2)
    setup.runtime.end_transaction(0, PRODUCER, 5, True)
    setup.log.holds = True
    setup.write(3)
    setup.log.release()
    assert journal.offsets == [0, 1, 3]
    assert setup.reload(epoch=5).offsets == [0, 1, 3]
    assert setup.shards[-1].leader_epoch == 5


# committed reads


def read(setup: Setup) -> Any:
    return setup.runtime.read("key", lambda shard: [each for each in shard.events if each != "loaded"])


def in_doubt(answer: Any) -> bool:
    return type(answer.exception(0)) is UncommittedStateError


@pytest.mark.parametrize("error", [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND])
def test_a_read_of_what_is_not_committed_in_time_fails_until_it_is_committed(error: ErrorCode) -> None:
    setup = Setup()
    setup.elect()
    setup.log.holds = True
    answer = setup.write(1)
    waiting = read(setup)
    setup.log.release(error)
    assert answer.result(0) is error
    assert in_doubt(waiting)
    assert refusal(lambda: read(setup)) is UncommittedStateError
    setup.log.commit()
    assert read(setup) == [1]


def test_a_later_append_that_is_committed_ends_the_doubt() -> None:
    setup = Setup()
    setup.elect()
    setup.log.holds = True
    setup.write(1)
    setup.log.release(ErrorCode.REQUEST_TIMED_OUT)
    setup.log.holds = True
    setup.write(2)
    waiting = read(setup)
    assert not waiting.done()
    setup.log.release()
    assert waiting.result(0) == [1, 2]
    assert read(setup) == [1, 2]


def test_a_new_leader_does_not_tell_what_the_replicas_may_not_have() -> None:
    setup = Setup()
    setup.elect()
    setup.log.holds = True
    setup.write(1)
    setup.reload(epoch=1)
    assert refusal(lambda: read(setup)) is UncommittedStateError
    setup.log.commit()
    assert read(setup) == [1]
    setup.log.release()


def test_a_read_depends_on_what_it_saw_not_on_later_appends() -> None:
    setup = Setup()
    setup.elect()
    setup.log.holds = True
    setup.write(1)
    first = read(setup)
    setup.write(2)
    second = read(setup)
    held, setup.log.held = setup.log.held, []
    held[0].set_result(NONE)
    assert first.result(0) == [1]
    assert not second.done()
    held[1].set_result(ErrorCode.REQUEST_TIMED_OUT)
    assert in_doubt(second)


def test_a_read_does_not_wait_for_an_answer_that_comes_later_than_the_append() -> None:
    setup = Setup()
    setup.elect()
    setup.log.holds = True
    parked: Future[Any] = Future()
    answer = setup.write(1, answer=lambda error: parked)
    waiting = read(setup)
    setup.log.release()
    assert waiting.result(0) == [1]
    assert read(setup) == [1]
    assert not answer.done()


def test_a_read_does_not_wait_for_a_callback_that_fails() -> None:
    setup = Setup()
    setup.elect()
    setup.log.holds = True
    answer = setup.write(1, answer=lambda error: 1 // 0)
    waiting = read(setup)
    setup.log.release()
    assert isinstance(answer.exception(0), ZeroDivisionError)
    assert waiting.result(0) == [1]


def test_a_read_that_waits_is_refused_when_the_partition_goes() -> None:
    setup = Setup()
    setup.elect()
    setup.log.holds = True
    setup.write(1)
    waiting = read(setup)
    setup.runtime.resigned(0, 0)
    assert type(waiting.exception(0)) is NotCoordinatorError
    setup.log.release()


# sends


class Peer:
    """The other side of a send; a test answers it."""

    def __init__(self) -> None:
        self.asked: list[Future[Any]] = []

    def ask(self) -> "Future[Any]":
        self.asked.append(Future())
        return self.asked[-1]


def test_a_send_starts_without_the_lock_and_completes_with_it() -> None:
    setup = Setup()
    setup.elect()
    peer = Peer()
    outcomes: list[Any] = []

    def start() -> "Future[Any]":
        outcomes.append(setup.runtime.execute("key", lambda shard: "not locked"))
        return peer.ask()

    def completed(journal: Journal, done: "Future[Any]") -> None:
        outcomes.append(done.result(0))
        journal.effects.write([record(1)], outcomes.append)
        journal.effects.send(peer.ask, lambda done: outcomes.append(done.result(0)))

    def operation(shard: Journal) -> str:
        shard.effects.send(start, lambda done: completed(shard, done))
        assert not outcomes
        return "done"

    assert setup.runtime.execute("key", operation) == "done"
    peer.asked[0].set_result("first")
    assert outcomes == ["not locked", "first", NONE]
    assert setup.stored() == [1]
    peer.asked[1].set_result("second")
    assert outcomes[3:] == ["second"]


def test_an_answer_to_a_send_waits_for_the_operation_that_runs() -> None:
    setup = Setup()
    journal = setup.elect()
    peer = Peer()

    def operation(shard: Journal) -> int:
        peer.asked[0].set_result(None)
        shard.events.append("operation")
        return setup.runtime.queue_size()

    setup.runtime.execute("key", lambda shard: shard.effects.send(peer.ask, lambda _: journal.events.append("answer")))
    assert setup.runtime.execute("key", operation) == 1
    assert journal.events == ["loaded", "operation", "answer"]


@pytest.mark.medium
def test_very_many_sends_may_be_answered_at_once() -> None:
    setup = Setup()
    setup.elect()
    answered: Future[str] = Future()
    answered.set_result("at once")
    outcomes: list[str] = []

    def operation(shard: Journal) -> None:
        for _ in range(5_000):
            shard.effects.send(lambda: answered, lambda done: outcomes.append(done.result(0)))

    setup.runtime.execute("key", operation)
    assert outcomes == ["at once"] * 5_000


def test_a_send_that_fails_tells_its_exception() -> None:
    setup = Setup()
    setup.elect()
    peer = Peer()
    failures: list[Any] = []

    def refuse() -> "Future[Any]":
        raise OSError("no route")

    def operation(shard: Journal) -> None:
        shard.effects.send(refuse, lambda done: failures.append(done.exception(0)))
        shard.effects.send(peer.ask, lambda done: failures.append(done.exception(0)))

    setup.runtime.execute("key", operation)
    peer.asked[0].set_exception(TimeoutError())
    assert [type(failure) for failure in failures] == [OSError, TimeoutError]


def test_nothing_is_sent_or_told_when_the_partition_has_gone() -> None:
    setup = Setup()
    journal = setup.elect()
    peer = Peer()

    def send(shard: Journal) -> None:
        shard.effects.send(peer.ask, lambda _: journal.events.append("answer"))

    def send_while_resigning(shard: Journal) -> None:
        send(shard)
        shard.effects.reply(resigned, None)

    setup.runtime.execute("key", send)
    resigned: Future[None] = Future()
    resigned.add_done_callback(lambda _: setup.runtime.resigned(0, 0))
    setup.runtime.execute("key", send_while_resigning)
    assert len(peer.asked) == 1
    peer.asked[0].set_result(None)
    assert journal.events == ["loaded", "unloaded"]


def test_an_answer_to_a_send_that_the_shard_fails_to_take_leaves_it_usable() -> None:
    setup = Setup()
    journal = setup.elect()
    peer = Peer()

    def completed(_: "Future[Any]") -> None:
        journal.effects.write([record(1)], lambda _: None)
        raise ZeroDivisionError

    setup.runtime.execute("key", lambda shard: shard.effects.send(peer.ask, completed))
    peer.asked[0].set_result(None)
    assert setup.stored() == [1]
    assert setup.write(2) == NONE


# what fails


def test_a_queued_write_whose_callback_fails_leaves_the_others() -> None:
    setup = Setup()
    setup.elect()

    def operation(shard: Journal) -> Write[ErrorCode]:
        shard.effects.write([record(1)], lambda _: 1 // 0)
        shard.effects.write([record(2)], lambda _: None)
        return Write([record(3)], lambda error: error)

    assert setup.execute(operation) == NONE
    assert setup.stored() == [1, 2, 3]


def test_a_shard_that_can_not_apply_what_is_in_its_log_is_loaded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = Setup()
    journal = setup.elect(epoch=3)
    monkeypatch.setattr(journal, "replay", lambda *_: 1 // 0)
    journal.effects.timers.after("timer", 10, lambda: journal.events.append("timer"))
    assert refusal(lambda: setup.write(1)) is CoordinatorNotAvailableError
    assert refusal(lambda: setup.write(2)) is CoordinatorNotAvailableError
    assert journal.events == ["loaded", "unloaded"]
    assert journal.parked.result(0) == "unloaded"
    setup.clock.advance_ms(10)
    setup.timer.expire_due()
    setup.scheduler.run_due()
    setup.scheduler.run_due()
    assert setup.shards[1].events == [1, "loaded"]
    assert setup.shards[1].leader_epoch == 3
    assert setup.write(2) == NONE


def test_a_shard_that_failed_is_not_loaded_again_once_its_partition_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = Setup()
    journal = setup.elect()
    monkeypatch.setattr(journal, "replay", lambda *_: 1 // 0)
    assert refusal(lambda: setup.write(1)) is CoordinatorNotAvailableError
    setup.runtime.resigned(0, 0)
    setup.scheduler.run_due()
    assert refusal(lambda: setup.write(1)) is NotCoordinatorError
    assert len(setup.shards) == 1


@pytest.mark.medium
@pytest.mark.parametrize("count", [1, MAX_BATCH_RECORDS, MAX_BATCH_RECORDS + 1, 2 * MAX_BATCH_RECORDS])
def test_a_long_write_that_may_be_split_is_stored_in_order_and_answered_once(count: int) -> None:
    setup = Setup()
    journal = setup.elect()
    answers: list[ErrorCode] = []
    setup.log.holds = True
    answer = setup.execute(lambda _: Writes([record(number) for number in range(count)], answers.append))
    assert journal.events[1:] == list(range(count))
    assert answers == []
    setup.log.release()
    assert answers == [NONE]
    assert answer.done()
    assert len(setup.log.batches[LOG]) == -(-count // MAX_BATCH_RECORDS)
    assert journal.offsets == list(range(count))
    assert setup.stored() == list(range(count))


def test_a_long_write_ends_where_it_fails() -> None:
    setup = Setup()
    journal = setup.elect()
    setup.log.fail_next = [NONE, ErrorCode.NOT_ENOUGH_REPLICAS]
    long = [record(number) for number in range(3 * MAX_BATCH_RECORDS)]
    assert setup.execute(lambda _: Writes(long, lambda error: error)) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert journal.events[1:] == setup.stored() == list(range(MAX_BATCH_RECORDS))


def test_what_an_operation_queued_before_it_raised_is_performed() -> None:
    setup = Setup()
    setup.elect()

    def operation(shard: Journal) -> None:
        shard.effects.write([record(1)], lambda _: None)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        setup.runtime.execute("key", operation)
    assert setup.stored() == [1]


def test_a_shard_that_fails_to_unload_keeps_no_other_from_being_unloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = Setup(partitions=2)
    setup.elect(0, 1)
    monkeypatch.setattr(setup.shards[0], "unloaded", lambda: 1 // 0)
    setup.runtime.shutdown()
    assert setup.shards[1].events == ["loaded", "unloaded"]


def test_a_shard_deletes_records_of_its_partition() -> None:
    setup = Setup()
    shard = setup.elect()
    for number in range(3):
        setup.write(number)
    outcomes: list[ErrorCode] = []
    setup.runtime.call("key", lambda _: shard.effects.delete_records(2, outcomes.append))
    setup.runtime.call("key", lambda _: shard.effects.delete_records(4, outcomes.append))
    assert outcomes == [NONE, ErrorCode.OFFSET_OUT_OF_RANGE]
    assert setup.reload(1).offsets == [2]
