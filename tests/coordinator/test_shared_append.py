"""Appends that operations share: those that wait for a shard's lock, that follow within the linger time, or come together."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

from tests.support.coordinator_fakes import MemoryLog
from tests.support.eventually import WAIT_S, eventually, join
from twisted_kafka.coordinator.coordinator_record import CoordinatorRecord, RecordKinds
from twisted_kafka.coordinator.effects import MAX_BATCH_RECORDS, Effects, Write
from twisted_kafka.coordinator.runtime import CoordinatorRuntime, RuntimeSettings
from twisted_kafka.coordinator.shared_append import SharedWrite, Together
from twisted_kafka.group_coordinator.group_records import offset_commit
from twisted_kafka.group_coordinator.state.group_kinds import GROUP_RECORD_KINDS
from twisted_kafka.protocol.errors import CoordinatorNotAvailableError, ErrorCode, NotCoordinatorError
from twisted_kafka.protocol.messages.coordinators.coordinator_records import OffsetCommitValue
from twisted_kafka.protocol.records.batch import batches
from twisted_kafka.protocol.topic_partition import GROUP_METADATA_TOPIC, TopicPartition
from twisted_kafka.timing.clock import ManualClock
from twisted_kafka.timing.scheduler import ManualScheduler
from twisted_kafka.timing.timer import Timer

LOG = TopicPartition(GROUP_METADATA_TOPIC, 0)
LINGER_MS = 5


class Numbers:
    """A shard that keeps the last number of each key."""

    def __init__(self, effects: Effects) -> None:
        self.effects = effects
        self.last: dict[str, int] = {}
        self.is_broken = False

    def replay(self, record: CoordinatorRecord, producer_id: int, offset: int) -> None:
        if self.is_broken:
            raise ValueError("cannot be applied")
        assert record.value is not None
        self.last[record.key.group] = record.value.offset

    def replay_end_transaction(self, producer_id: int, committed: bool) -> None:
        pass

    def key_of(self, record: CoordinatorRecord) -> str:
        return str(record.key.group)

    def keys_of_transaction(self, producer_id: int) -> list[str]:
        return []

    def stored(self, key: str) -> int | None:
        return self.last.get(key)

    def loaded(self) -> None:
        pass

    def unloaded(self) -> None:
        pass


Answer = Any


class Bench:
    """A runtime with one active shard, and threads for operations that wait for its lock."""

    def __init__(self, linger_ms: int = -1) -> None:
        self.clock = ManualClock()
        self.log = MemoryLog()
        self.scheduler = ManualScheduler(self.clock)
        self.timer = Timer(self.clock)
        self.shards: list[Numbers] = []
        settings = RuntimeSettings(LOG.topic, lambda: 1, linger_ms=linger_ms)
        self.runtime = CoordinatorRuntime(settings, self, self.log, self.log, self.scheduler, self.timer, self.clock)
        self.runtime.startup()
        self.runtime.elected(0, 0)
        self.scheduler.run_due()
        self._threads: list[threading.Thread] = []
        self._answers: dict[str, Answer] = {}

    def kinds(self) -> RecordKinds:
        return GROUP_RECORD_KINDS

    def shard(self, partition: int, leader_epoch: int, effects: Effects) -> Numbers:
        self.shards.append(Numbers(effects))
        return self.shards[-1]

    def sizes(self) -> list[int]:
        """Return the number of records of each batch in the log."""
        return [len(list(batch.records())) for data in self.log.batches[LOG] for batch in batches(data)]

    def put(self, key: str, number: int, before: Callable[[], object] = lambda: None, count: int = 1) -> Answer:
        """Write a number; the answer is the outcome and the number before it. ``before`` is called with the shard locked."""

        def operation(shard: Numbers) -> Write[tuple[ErrorCode, int | None]]:
            was = shard.last.get(key)
            before()
            return Write(_records(key, number, count), lambda error: (error, was))

        return self.runtime.execute(key, operation)

    def pass_ms(self, ms: int) -> None:
        self.clock.advance_ms(ms)
        self.timer.expire_due()
        self.scheduler.run_due()

    def waiting(self, name: str, ask: Callable[[], Answer]) -> Callable[[], None]:
        """Return a function that asks on another thread, and returns when that waits for the lock."""

        def work() -> None:
            try:
                self._answers[name] = ask()
            except Exception as error:  # noqa: BLE001 it is the answer
                self._answers[name] = error

        def start() -> None:
            count = self.runtime.queue_size()
            self._threads.append(threading.Thread(target=work))
            self._threads[-1].start()
            eventually(lambda: self.runtime.queue_size() == count + 1)

        return start

    def asked(self, name: str) -> Answer:
        """Return the answer, or a future of it, or an exception."""
        join(self._threads)
        return self._answers[name]

    def answer(self, name: str) -> Answer:
        return result(self.asked(name))


def _records(key: str, number: int, count: int) -> list[CoordinatorRecord]:
    return [offset_commit(key, f"t{index}", 0, OffsetCommitValue(offset=number)) for index in range(count)]


def result(answer: Answer) -> Answer:
    return answer.result(WAIT_S) if isinstance(answer, Future) else answer


NONE = ErrorCode.NONE


def test_operations_on_other_keys_that_wait_for_the_lock_share_the_append() -> None:
    bench = Bench()

    def two_wait() -> None:
        bench.waiting("b", lambda: bench.put("b", 2))()
        bench.waiting("c", lambda: bench.put("c", 3))()

    first = bench.put("a", 1, two_wait)
    assert (bench.answer("b"), bench.answer("c"), result(first)) == ((NONE, None), (NONE, None), (NONE, None))
    assert bench.sizes() == [3]
    assert bench.shards[-1].last == {"a": 1, "b": 2, "c": 3}
    assert bench.put("a", 4) == (NONE, 1)
    assert bench.sizes() == [3, 1]


@pytest.mark.parametrize("kind", ["execute", "read", "everywhere"])
def test_an_operation_that_may_depend_on_the_batch_sees_it(kind: str) -> None:
    bench = Bench()
    asks: dict[str, Callable[[], Answer]] = {
        "execute": lambda: bench.put("a", 2)[1],
        "read": lambda: bench.runtime.read("a", lambda shard: shard.last.get("a")),
        "everywhere": lambda: bench.runtime.execute_everywhere(lambda shard: shard.last.get("a"))[0],
    }
    first = bench.put("a", 1, bench.waiting("second", asks[kind]))
    assert bench.answer("second") == 1
    assert result(first) == (NONE, None)


def test_an_operation_that_fails_leaves_the_batch_to_be_appended() -> None:
    bench = Bench()

    def fail(shard: Numbers) -> None:
        raise ValueError

    first = bench.put("a", 1, bench.waiting("second", lambda: bench.runtime.call("b", fail)))
    assert isinstance(bench.answer("second"), ValueError)
    assert result(first) == (NONE, None)
    assert bench.sizes() == [1]


def test_a_failed_append_changes_nothing_and_is_the_answer_of_each() -> None:
    bench = Bench()
    bench.log.fail_next = [ErrorCode.NOT_ENOUGH_REPLICAS]
    first = bench.put("a", 1, bench.waiting("b", lambda: bench.put("b", 2)))
    assert bench.answer("b") == result(first) == (ErrorCode.NOT_ENOUGH_REPLICAS, None)
    assert bench.shards[-1].last == {}
    assert bench.log.records(LOG) == []


def test_a_batch_that_is_too_large_is_appended_in_parts() -> None:
    bench = Bench()
    bench.log.fail_next = [ErrorCode.MESSAGE_TOO_LARGE, NONE, ErrorCode.MESSAGE_TOO_LARGE]
    first = bench.put("a", 1, bench.waiting("b", lambda: bench.put("b", 2)))
    assert bench.answer("b") == (ErrorCode.MESSAGE_TOO_LARGE, None)
    assert result(first) == (NONE, None)
    assert bench.shards[-1].last == {"a": 1}


TOO_LONG = "k" * 40_000
"""A key that no record has room for."""


def test_a_record_that_cannot_be_encoded_fails_its_own_operation_only() -> None:
    bench = Bench()
    first = bench.put(TOO_LONG, 1, bench.waiting("b", lambda: bench.put("b", 2)))
    assert bench.answer("b") == (NONE, None)
    assert result(first) == (ErrorCode.UNKNOWN_SERVER_ERROR, None)
    assert put_together(bench, ("c", 3), (TOO_LONG, 4)) == [(NONE, 3), (ErrorCode.UNKNOWN_SERVER_ERROR, 4)]
    assert put_together(bench, (TOO_LONG, 5), ("d", None)) == [(ErrorCode.UNKNOWN_SERVER_ERROR, 5), (NONE, None)]
    assert bench.shards[-1].last == {"b": 2, "c": 3}


def test_a_batch_has_an_end() -> None:
    bench = Bench()
    first = bench.put("a", 1, bench.waiting("b", lambda: bench.put("b", 2, count=MAX_BATCH_RECORDS)))
    assert bench.answer("b") == result(first) == (NONE, None)
    assert bench.sizes() == [1, MAX_BATCH_RECORDS]


def test_a_batch_that_cannot_be_applied_is_answered_to_all() -> None:
    bench = Bench()
    bench.shards[-1].is_broken = True
    first = bench.put("a", 1, bench.waiting("b", lambda: bench.put("b", 2)))
    assert isinstance(bench.asked("b"), CoordinatorNotAvailableError)
    with pytest.raises(CoordinatorNotAvailableError):
        result(first)


def test_replicas_confirm_all_of_a_batch() -> None:
    bench = Bench()
    bench.log.holds = True
    first = bench.put("a", 1, bench.waiting("b", lambda: bench.put("b", 2)))
    second = bench.asked("b")
    read = bench.runtime.read("b", lambda shard: shard.last.get("b"))
    assert [first.done(), second.done(), read.done()] == [False] * 3
    bench.log.release()
    assert (result(first), result(second), result(read)) == ((NONE, None), (NONE, None), 2)


def test_a_write_lingers_for_others() -> None:
    bench = Bench(LINGER_MS)
    first, second = bench.put("a", 1), bench.put("b", 2)
    bench.pass_ms(LINGER_MS - 1)
    assert not first.done()
    bench.pass_ms(1)
    assert (result(first), result(second)) == ((NONE, None), (NONE, None))
    assert bench.sizes() == [2]
    assert bench.runtime.read("a", lambda shard: shard.last.get("a")) == 1


def test_a_lingering_batch_is_appended_for_an_operation_on_its_key_and_its_timer_ends_no_later_one() -> None:
    bench = Bench(LINGER_MS)
    first = bench.put("a", 1)
    assert bench.runtime.read("a", lambda shard: shard.last.get("a")) == 1
    assert result(first) == (NONE, None)
    bench.pass_ms(LINGER_MS - 1)
    second = bench.put("a", 2)
    bench.pass_ms(1)
    assert not second.done()


def test_a_batch_of_a_partition_that_goes_is_not_appended() -> None:
    bench = Bench(LINGER_MS)
    first = bench.put("a", 1)
    bench.runtime.resigned(0)
    assert result(first) == (ErrorCode.NOT_COORDINATOR, None)
    assert bench.sizes() == []
    with pytest.raises(NotCoordinatorError):
        bench.put("a", 1)


def test_without_linger_each_write_is_appended_alone() -> None:
    bench = Bench(0)
    first = bench.put("a", 1, bench.waiting("b", lambda: bench.put("b", 2)))
    assert bench.answer("b") == first == (NONE, None)
    assert bench.sizes() == [1, 1]


def put_together(bench: Bench, *items: tuple[str, int | None], count: int = 1) -> list[Answer]:
    """Write numbers together; None as the number is an operation without a write."""

    def operation(key: str, number: int | None) -> Callable[[Numbers], Any]:
        if number is None:
            return lambda shard: (NONE, shard.last.get(key))
        return lambda shard: Write(_records(key, number, count), lambda error: (error, number))

    keys = [key for key, _ in items]
    return bench.runtime.execute_together(keys, [operation(*each) for each in items], is_read=True)


def test_operations_that_come_together_share_the_append() -> None:
    bench = Bench()
    assert put_together(bench, ("a", 1), ("b", None), ("c", 3)) == [(NONE, 1), (NONE, None), (NONE, 3)]
    assert bench.sizes() == [2]
    assert put_together(bench, ("a", None), ("b", None)) == [(NONE, 1), (NONE, None)]


@pytest.mark.medium
def test_what_is_too_large_together_is_appended_in_parts() -> None:
    bench = Bench()
    bench.log.fail_next = [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.MESSAGE_TOO_LARGE]
    assert put_together(bench, ("a", 1), ("b", None), ("c", 3)) == [(ErrorCode.MESSAGE_TOO_LARGE, 1), (NONE, None), (NONE, 3)]
    assert put_together(bench, ("a", 1), ("b", 2), count=MAX_BATCH_RECORDS) == [(NONE, 1), (NONE, 2)]
    assert bench.sizes() == [1, MAX_BATCH_RECORDS, MAX_BATCH_RECORDS]


def test_operations_that_come_together_wait_for_the_replicas() -> None:
    bench = Bench()
    bench.log.holds = True
    written = bench.put("b", 2)
    answers = put_together(bench, ("a", 1), ("b", None))
    assert not any(each.done() for each in (written, *answers))
    bench.log.release()
    assert [result(each) for each in answers] == [(NONE, 1), (NONE, 2)]


def test_operations_together_share_a_write_if_two_of_them_write() -> None:
    record = offset_commit("g", "t", 0, OffsetCommitValue(offset=1))
    many: list[CoordinatorRecord] = [record] * (MAX_BATCH_RECORDS + 1)

    def together(*outcomes: Any) -> tuple[Any, bool]:
        operations = Together[Any, Any]([partial(lambda outcome, _: outcome, each) for each in outcomes])
        return operations.run(None), operations.is_too_large

    assert together("a", "b") == (["a", "b"], False)
    one, _ = together("a", Write([record], str))
    assert type(one) is Write
    two, _ = together(Write([record], str), Write([record], str))
    assert (type(two), two.records) == (SharedWrite, [record, record])
    alone, is_too_large = together("a", Write(many, str))
    assert (len(alone.records), is_too_large) == (MAX_BATCH_RECORDS + 1, False)
    assert together(Write([record], str), Write(many, str)) == ([], True)
