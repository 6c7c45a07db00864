"""Committed offsets against a model: commits, transactions, deletions, expiration and restarts in any order.

- A commit outside transactions counts at once, one in a transaction when that commits, unless one that was sent later counts.
- A deletion also deletes what open transactions have committed so far.
- An offset with an open transaction is unstable, and neither it nor its group expires.
- Another broker that loads the partition knows the same.
"""

from concurrent.futures import Future
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.budget import share_of
from tests.support.coordinator_fakes import Bench
from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.group_coordinator.offsets.offset_metadata_manager import OffsetFetch
from twisted_kafka.group_coordinator.requests import Sender
from twisted_kafka.group_coordinator.shared.group_coordinator_metrics import COORDINATOR_TYPE, MANAGER_TYPE
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.coordinators.coordinator_records import OffsetCommitValue
from twisted_kafka.protocol.topic_partition import TopicPartition

GROUPS = ("g", "h")
PARTITIONS = [TopicPartition(topic, index) for topic in ("t", "u") for index in range(2)]
PRODUCERS = (7, 8)
RETENTION_MS = 1000
NONE = ErrorCode.NONE


class Model:
    """What the coordinator promises; ``groups`` are those that exist."""

    def __init__(self) -> None:
        self.committed: dict[tuple[str, TopicPartition], OffsetCommitValue] = {}
        self.pending: dict[int, dict[tuple[str, TopicPartition], OffsetCommitValue | None]] = {each: {} for each in PRODUCERS}
        self.groups: set[str] = set()
        self.commits = self.deletions = self.expirations = 0

    def put(self, key: tuple[str, TopicPartition], value: OffsetCommitValue) -> None:
        self.committed[key] = value
        for offsets in self.pending.values():
            waiting = offsets.get(key)
            if waiting is not None and waiting.offset < value.offset:  # offsets grow with each commit
                offsets[key] = None

    def drop(self, key: tuple[str, TopicPartition]) -> None:
        self.committed.pop(key, None)
        for offsets in self.pending.values():
            offsets.pop(key, None)

    def unstable(self) -> set[tuple[str, TopicPartition]]:
        return {key for offsets in self.pending.values() for key in offsets}

    def known(self) -> set[tuple[str, TopicPartition]]:
        return self.committed.keys() | self.unstable()

    def forget_groups_without_offsets(self) -> None:
        self.groups &= {group for group, _ in self.known()}


class Comparison:
    """Does each step to the coordinator and to the model."""

    def __init__(self) -> None:
        self.bench = Bench(offsets_retention_ms=RETENTION_MS, partitions=1)
        self.model = Model()
        self.offset = 0

    def value(self, expire_ms: int) -> OffsetCommitValue:
        now_ms = self.bench.clock.wall_ms()
        self.offset += 1
        expires = -1 if expire_ms < 0 else now_ms + expire_ms
        return OffsetCommitValue(offset=self.offset, commit_timestamp=now_ms, expire_timestamp=expires)

    def commit(self, group: str, partitions: list[TopicPartition], expire_ms: int) -> None:
        offsets = {partition: self.value(expire_ms) for partition in partitions}
        assert self.bench.groups.commit_offsets(Sender(group), offsets, 9) == NONE
        self.model.commits += len(offsets)
        self.model.groups.add(group)
        for partition, value in offsets.items():
            self.model.put((group, partition), value)

    def commit_in_transaction(self, producer: int, group: str, partitions: list[TopicPartition]) -> None:
        offsets = {partition: self.value(-1) for partition in partitions}
        assert self.bench.groups.commit_transactional_offsets(Sender(group), Producer(producer, 0), None, offsets) == NONE
        self.model.commits += len(offsets)
        self.model.groups.add(group)
        for partition, value in offsets.items():
            self.model.pending[producer][group, partition] = value

    def end(self, producer: int, committed: bool) -> None:
        assert self.bench.groups.end_transaction(0, Producer(producer, 0), 0, committed) == NONE
        ended, self.model.pending[producer] = self.model.pending[producer], {}
        for key, value in ended.items():
            if committed and value is not None:
                self.model.put(key, value)

    def delete(self, group: str, partitions: list[TopicPartition]) -> None:
        deleted = self.bench.groups.delete_offsets(group, partitions)
        assert not isinstance(deleted, Future)
        error, errors = deleted
        if group not in self.model.groups:
            assert (error, errors) == (ErrorCode.GROUP_ID_NOT_FOUND, {})
            return
        assert (error, errors) == (NONE, dict.fromkeys(partitions, NONE))
        self.deleted({(group, partition) for partition in partitions})

    def delete_group(self, group: str) -> None:
        known = group in self.model.groups
        assert self.bench.groups.delete_group(group) == (NONE if known else ErrorCode.GROUP_ID_NOT_FOUND)
        self.deleted({key for key in self.model.known() if key[0] == group})
        self.model.groups.discard(group)

    def delete_topic(self, partitions: list[TopicPartition]) -> None:
        self.bench.delete_partitions(partitions)
        self.deleted({(group, partition) for group in GROUPS for partition in partitions})

    def deleted(self, keys: set[tuple[str, TopicPartition]]) -> None:
        gone = keys & self.model.known()
        self.model.deletions += len(gone)
        for key in gone:
            self.model.drop(key)
        self.model.groups -= {group for group, _ in gone} - {group for group, _ in self.model.known()}

    def expire(self, after_ms: int) -> None:
        self.bench.clock.advance_ms(after_ms)
        self.bench.groups.expire_offsets()
        now_ms, model = self.bench.clock.wall_ms(), self.model
        for key, value in list(model.committed.items()):
            own_ms = value.expire_timestamp
            is_over = now_ms >= (value.commit_timestamp + RETENTION_MS if own_ms == -1 else own_ms)
            if is_over and key not in model.unstable():
                model.drop(key)
                model.expirations += 1
        model.forget_groups_without_offsets()

    def restart(self) -> None:
        self.bench.restart()
        self.model.forget_groups_without_offsets()

    def compare(self) -> None:
        bench, model = self.bench, self.model
        unstable = model.unstable()
        for group in GROUPS:
            offsets = {partition: value.offset for (owner, partition), value in model.committed.items() if owner == group}
            stable = {
                partition: ErrorCode.UNSTABLE_OFFSET_COMMIT if (group, partition) in unstable else offsets.get(partition)
                for partition in PARTITIONS
            }
            assert self.fetched(group, None, False) == offsets
            assert self.fetched(group, PARTITIONS, False) == {each: offsets.get(each) for each in PARTITIONS}
            assert self.fetched(group, PARTITIONS, True) == stable
            assert self.fetched(group, None, True) == {each: stable[each] for each in offsets}
        listed = {listing.group_id: listing.group_state for listing in bench.groups.list_groups((), ())[1]}
        assert listed == dict.fromkeys(model.groups, "Empty")
        bench.clock.advance_ms(1000)  # the gauges are counted anew each second
        value = bench.metrics.value
        assert value(MANAGER_TYPE, "NumOffsets") == len(model.committed)
        assert value(MANAGER_TYPE, "NumGroups") == value(MANAGER_TYPE, "NumGroupsEmpty") == len(model.groups)
        counted = [value(COORDINATOR_TYPE, f"offset-{name}-count") for name in ("commit", "deletion", "expiration")]
        assert counted == [model.commits, model.deletions, model.expirations]

    def fetched(self, group: str, partitions: list[TopicPartition] | None, stable: bool) -> dict[TopicPartition, Any]:
        answer: Any = self.bench.groups.fetch_offsets(OffsetFetch(Sender(group), partitions, stable))
        error, found = answer
        assert error == NONE
        return {each: value.offset if isinstance(value, OffsetCommitValue) else value for each, value in found.items()}


group_ids = st.sampled_from(GROUPS)
some_partitions = st.lists(st.sampled_from(PARTITIONS), min_size=1, max_size=3, unique=True)
producers = st.sampled_from(PRODUCERS)
commits = st.tuples(st.just("commit"), group_ids, some_partitions, st.sampled_from([-1, -1, 0, 500]))
transactional_commits = st.tuples(st.just("commit_in_transaction"), producers, group_ids, some_partitions)
steps = st.one_of(
    commits,
    transactional_commits,
    transactional_commits,
    st.tuples(st.just("end"), producers, st.booleans()),
    st.tuples(st.just("delete"), group_ids, some_partitions),
    st.tuples(st.just("delete_group"), group_ids),
    st.tuples(st.just("delete_topic"), some_partitions),
    st.tuples(st.just("expire"), st.sampled_from([0, 1, 499, 500, 999, 1000])),
    st.tuples(st.just("restart")),
)


@settings(max_examples=share_of(100))
@given(st.lists(steps, max_size=15))
def test_offsets_are_those_of_the_model(steps: list[tuple[Any, ...]]) -> None:
    comparison = Comparison()
    for name, *arguments in steps:
        getattr(comparison, name)(*arguments)
    comparison.compare()
    comparison.restart()
    comparison.compare()
