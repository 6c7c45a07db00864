"""The coordinator's own promises: what is refused before any group is looked at, descriptions, listings, metrics, limits."""

import sys
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from twisted.logger import capturedLogs

from tests.support.coordinator_fakes import Bench, MemoryLog, join
from tests.support.expressions import requires_expressions
from tests.support.transcripts.consumer_groups import subscription
from twisted_kafka.coordinator.coordinator_record import CoordinatorRecord, Producer, encode_batch
from twisted_kafka.coordinator.effects import MAX_BATCH_RECORDS, Write
from twisted_kafka.group_coordinator.classic.rebalance import MAX_PENDING_BYTES, PENDING_BYTES
from twisted_kafka.group_coordinator.group_records import offset_commit, offset_tombstone
from twisted_kafka.group_coordinator.offsets.offset_metadata_manager import OffsetFetch
from twisted_kafka.group_coordinator.requests import Client, JoinRequest, LeavingMember, Sender, SyncRequest
from twisted_kafka.group_coordinator.shared.group_coordinator_metrics import COORDINATOR_TYPE, MANAGER_TYPE
from twisted_kafka.group_coordinator.state.classic_group_member import MemberTerms
from twisted_kafka.group_coordinator.state.consumer import consumer_group_records as consumer_records
from twisted_kafka.group_coordinator.state.consumer.consumer_group import ResolvedRegex
from twisted_kafka.group_coordinator.state.consumer.consumer_group_member import Profile
from twisted_kafka.group_coordinator.state.offset_store import OffsetStore
from twisted_kafka.metrics.windows import WINDOW_TICKS
from twisted_kafka.protocol.errors import (
    CoordinatorLoadInProgressError,
    ErrorCode,
    InvalidGroupIdError,
    InvalidRegularExpressionError,
    NotCoordinatorError,
)
from twisted_kafka.protocol.messages.coordinators.consumer_groups import (
    ConsumerGroupDescribeResponseAssignment,
    ConsumerGroupDescribeResponseTopicPartitions,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    DescribedGroup,
    Member,
)
from twisted_kafka.protocol.messages.coordinators.coordinator_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitValue,
)
from twisted_kafka.protocol.records.batch import batches
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.protocol.topic_partition import GROUP_METADATA_TOPIC, TopicPartition
from twisted_kafka.timing.clock import ManualClock

LOG = TopicPartition(GROUP_METADATA_TOPIC, 0)


def commit(bench: Bench, count: int, group_id: str = "g", first: int = 0) -> None:
    now_ms = bench.clock.wall_ms()
    offsets = {
        TopicPartition("t", index): OffsetCommitValue(offset=1, commit_timestamp=now_ms) for index in range(first, first + count)
    }
    assert bench.groups.commit_offsets(Sender(group_id), offsets, 9) == ErrorCode.NONE


def heartbeat(bench: Bench, member_id: str, epoch: int = 0, **fields: Any) -> Any:
    fields = {"rebalance_timeout_ms": 60_000, "topic_partitions": []} | fields if epoch == 0 else fields
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=epoch, **fields)
    return bench.groups.consumer_heartbeat(request, Client(f"client-{member_id}", f"/{member_id}"), 1)


def test_the_partition_that_a_transaction_with_offsets_needs() -> None:
    bench = Bench(partitions=50)
    assert bench.groups.transactional_partition("g") == TopicPartition(GROUP_METADATA_TOPIC, bench.groups.partition_for("g"))
    with pytest.raises(InvalidGroupIdError):
        bench.groups.transactional_partition("")
    bench.restart(load=False)
    with pytest.raises(NotCoordinatorError):
        bench.groups.transactional_partition("g")
    bench.elect(load=False)
    with pytest.raises(CoordinatorLoadInProgressError):
        bench.groups.transactional_partition("g")


def test_a_group_without_a_name_has_offsets_and_nothing_else() -> None:
    bench = Bench()
    commit(bench, 1, "")
    answer: Any = bench.groups.fetch_offsets(OffsetFetch(Sender(""), None))
    assert list(answer[1]) == [TopicPartition("t", 0)]
    invalid = ErrorCode.INVALID_GROUP_ID
    joined: Any = bench.groups.join(join(""))
    synced: Any = bench.groups.sync(SyncRequest(Sender("", "m", None, 1), None, None, {}))
    assert [joined.error, synced.error, bench.groups.heartbeat(Sender("", "m", None, 1))] == [invalid] * 3
    assert bench.groups.leave("", []) == (invalid, [])
    assert bench.groups.delete_offsets("", []) == (invalid, {})


def test_requests_while_a_partition_loads() -> None:
    bench = Bench(partitions=2)
    bench.restart(load=False)
    bench.elect(load=False)
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    sender = Sender("g", "m", None, 1)
    joined: Any = bench.groups.join(join("g", "m"))
    synced: Any = bench.groups.sync(SyncRequest(sender, None, None, {}))
    assert (joined.error, joined.member_id) == (loading, "m")
    assert synced.error == ErrorCode.REBALANCE_IN_PROGRESS  # the joins are lost, but the member is at the right broker
    assert bench.groups.heartbeat(sender) == ErrorCode.NONE  # its session begins when the group is loaded
    assert bench.groups.fetch_offsets(OffsetFetch(sender, None)) == (loading, {})
    assert bench.groups.delete_group("g") == loading
    assert bench.groups.describe_group("g").error == loading
    described: Any = bench.groups.describe_consumer_group("g")
    assert (described.error_code, described.group_id) == (loading, "g")
    assert bench.groups.list_groups((), ()) == (loading, [])
    bench.scheduler.run_due()
    assert bench.groups.list_groups((), ()) == (ErrorCode.NONE, [])


@requires_expressions
def test_a_consumer_group_is_described_whole() -> None:
    bench = Bench(initial_rebalance_delay_ms=0)
    bench.topics.change({"t": 2, "u": 1})
    heartbeat(bench, "a", subscribed_topic_names=["u", "t"], instance_id="i", rack_id="r", server_assignor="range")
    terms = MemberTerms("classic", "/host", 60_000, 10_000, "consumer", (("range", subscription("t,u")),))
    joined: Any = bench.groups.join(JoinRequest("g", "", None, terms, False, True))
    heartbeat(bench, "b", subscribed_topic_names=[], subscribed_topic_regex="u.*")
    heartbeat(bench, "a", 1, topic_partitions=[])
    bench.topics.change({"t": 2})
    t = bench.topics.snapshot.topic_ids["t"]

    def owns(*partitions: int) -> ConsumerGroupDescribeResponseAssignment:
        listed = [ConsumerGroupDescribeResponseTopicPartitions(topic_id=t, topic_name="t", partitions=list(partitions))]
        return ConsumerGroupDescribeResponseAssignment(topic_partitions=listed if partitions else [])

    described: Any = bench.groups.describe_consumer_group("g")
    assert described == DescribedGroup(
        group_id="g",
        group_state="Reconciling",
        group_epoch=3,
        assignment_epoch=3,
        assignor_name="range",
        members=[
            Member(
                member_id="a",
                instance_id="i",
                rack_id="r",
                member_epoch=3,
                client_id="client-a",
                client_host="/a",
                subscribed_topic_names=["t", "u"],
                subscribed_topic_regex="",
                assignment=owns(0),
                target_assignment=owns(0),
                member_type=1,
            ),
            Member(
                member_id=joined.member_id,
                member_epoch=2,
                client_id="classic",
                client_host="/host",
                subscribed_topic_names=["t", "u"],
                subscribed_topic_regex="",
                assignment=owns(),
                target_assignment=owns(1),
                member_type=0,
            ),
            Member(
                member_id="b",
                member_epoch=3,
                client_id="client-b",
                client_host="/b",
                subscribed_topic_regex="u.*",
                assignment=owns(),
                target_assignment=owns(),
                member_type=1,
            ),
        ],
    )


def test_groups_are_listed_by_state_and_type() -> None:
    bench = Bench(initial_rebalance_delay_ms=0)
    bench.topics.change({"t": 1})
    heartbeat(bench, "a", subscribed_topic_names=["t"])
    bench.groups.join(join("classic"))
    commit(bench, 1, "simple")

    def listed(states: list[str], types: list[str]) -> list[str]:
        return sorted(listing.group_id for listing in bench.groups.list_groups(states, types)[1])

    assert listed([], []) == ["classic", "g", "simple"]
    assert listed(["stable"], []) == ["g"]
    assert listed(["EMPTY", "CompletingRebalance"], []) == ["classic", "simple"]
    assert listed([], ["Classic"]) == ["classic", "simple"]
    assert listed(["Stable"], ["consumer"]) == ["g"]
    assert listed(["Stable"], ["classic"]) == []


def test_groups_are_counted_once_a_second() -> None:
    bench = Bench()
    value = bench.metrics.value
    bench.clock.advance_ms(10_000)
    assert value(MANAGER_TYPE, "NumOffsets") == 0
    commit(bench, 3)
    bench.clock.advance_ms(999)
    assert value(MANAGER_TYPE, "NumOffsets") == value(MANAGER_TYPE, "NumGroups") == 0
    bench.clock.advance_ms(1)
    assert value(MANAGER_TYPE, "NumOffsets") == 3
    assert value(MANAGER_TYPE, "NumGroups") == 1


def test_load_times() -> None:
    class SlowLog(MemoryLog):
        took_ms = 250.0

        def read_all(self, partition: TopicPartition, buffer_size: int) -> Any:
            clock.advance_ms(self.took_ms)
            return super().read_all(partition, buffer_size)

    clock, log = ManualClock(), SlowLog()
    bench = Bench(log=log, clock=clock)
    value = bench.metrics.value

    def times() -> Any:
        return value(COORDINATOR_TYPE, "partition-load-time-avg"), value(COORDINATOR_TYPE, "partition-load-time-max")

    for epoch, log.took_ms in enumerate((50.0, 90.0), start=1):
        bench.reload(epoch=epoch)
    assert times() == (130.0, 250.0)
    for _ in range(WINDOW_TICKS):
        bench.metrics.tick()
    log.took_ms = 0.5
    bench.reload(epoch=3)
    assert times() == (0.5, 0.5)


def test_a_generation_is_counted_as_a_rebalance() -> None:
    bench = Bench(initial_rebalance_delay_ms=0)
    joined: Any = bench.groups.join(join("g"))
    assert bench.metrics.value(COORDINATOR_TYPE, "group-completed-rebalance-count") == 1
    bench.groups.join(join("g", joined.member_id))
    assert bench.metrics.value(COORDINATOR_TYPE, "group-completed-rebalance-count") == 1


@pytest.mark.medium
@pytest.mark.parametrize(
    ("count", "sizes"), [(1, [1]), (MAX_BATCH_RECORDS, [MAX_BATCH_RECORDS]), (MAX_BATCH_RECORDS + 1, [MAX_BATCH_RECORDS, 1])]
)
def test_tombstones_are_written_in_batches_of_limited_size(count: int, sizes: list[int]) -> None:
    bench = Bench()
    commit(bench, count)
    assert bench.groups.delete_group("g") == ErrorCode.NONE
    written = [len(list(batch.records())) for data in bench.log.batches[LOG][1:] for batch in batches(data)]
    assert written == sizes
    assert bench.groups.fetch_offsets(OffsetFetch(Sender("g"), None)) == (ErrorCode.NONE, {})
    bench.restart()
    assert bench.groups.list_groups((), ()) == (ErrorCode.NONE, [])


@pytest.mark.medium
def test_a_group_whose_offsets_can_not_all_be_deleted_stays() -> None:
    bench = Bench()
    bench.groups.join(join("g"))  # a rebalance later, the group is Empty in its second generation
    bench.advance(13_000)
    bench.groups.leave("g", [LeavingMember(member.member_id) for member in bench.groups.describe_group("g").members])
    commit(bench, 2 * MAX_BATCH_RECORDS + 1)
    assert bench.groups.describe_group("g").state == "Empty"

    def left() -> int:
        answer: Any = bench.groups.fetch_offsets(OffsetFetch(Sender("g"), None))
        return len(answer[1])

    for outcomes, expected in (
        ([ErrorCode.NOT_ENOUGH_REPLICAS], 2 * MAX_BATCH_RECORDS + 1),
        ([ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS], MAX_BATCH_RECORDS + 1),
    ):
        bench.log.fail_next = outcomes
        assert bench.groups.delete_group("g") == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert left() == expected
    description = bench.groups.describe_group("g")
    assert (description.state, description.protocol_type) == ("Empty", "consumer")
    assert bench.groups.delete_group("g") == ErrorCode.NONE
    assert bench.groups.list_groups((), ())[1] == []
    bench.restart()
    assert bench.groups.list_groups((), ())[1] == []


@pytest.mark.medium
def test_a_large_group_is_deleted_when_the_last_of_its_offsets_is() -> None:
    bench = Bench()
    commit(bench, MAX_BATCH_RECORDS + 1)
    bench.log.holds = True
    answer: Any = bench.groups.delete_group("g")
    assert not answer.done()
    bench.log.release(ErrorCode.REQUEST_TIMED_OUT)
    assert answer.result(0) == ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.groups.delete_group("g") == ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.log.commit()
    assert bench.groups.delete_group("g") == ErrorCode.GROUP_ID_NOT_FOUND
    bench.restart()
    assert bench.groups.list_groups((), ())[1] == []


def test_a_group_that_could_not_be_deleted_is_as_it_was() -> None:
    bench = Bench()
    pending: Any = bench.groups.join(join("g")._replace(needs_known_id=True))
    bench.log.fail_next.append(ErrorCode.NOT_ENOUGH_REPLICAS)
    commit_one = bench.groups.commit_offsets(Sender("g"), {TopicPartition("t", 0): OffsetCommitValue(offset=1)}, 9)
    assert commit_one == ErrorCode.COORDINATOR_NOT_AVAILABLE
    commit(bench, 1)
    bench.log.fail_next.append(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert bench.groups.delete_group("g") == ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.groups.join(join("g", pending.member_id))
    assert bench.groups.describe_group("g").state == "PreparingRebalance"


def test_a_deleted_group_has_no_pending_members() -> None:
    bench = Bench()
    pending: Any = bench.groups.join(join("g")._replace(needs_known_id=True))
    assert bench.groups.delete_group("g") == ErrorCode.NONE
    assert len(bench.timer) == 0
    joined: Any = bench.groups.join(join("g", pending.member_id))
    assert joined.error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_that_is_used_again_while_its_deletion_is_replicated_stays() -> None:
    bench = Bench()
    commit(bench, 1)
    bench.log.holds = True
    deletion: Any = bench.groups.delete_group("g")
    again: Any = bench.groups.commit_offsets(Sender("g"), {TopicPartition("t", 5): OffsetCommitValue(offset=2)}, 9)
    bench.log.release()
    assert (deletion.result(0), again.result(0)) == (ErrorCode.NONE, ErrorCode.NONE)
    assert [listing.group_id for listing in bench.groups.list_groups((), ())[1]] == ["g"]
    fetched: Any = bench.groups.fetch_offsets(OffsetFetch(Sender("g"), None))
    assert [value.offset for value in fetched[1].values()] == [2]
    assert bench.groups.commit_offsets(Sender("g"), {TopicPartition("t", 6): OffsetCommitValue(offset=3)}, 9) == ErrorCode.NONE


def test_a_pending_member_may_not_take_an_instance_id() -> None:
    bench = Bench(initial_rebalance_delay_ms=0)
    static: Any = bench.groups.join(join("g")._replace(instance_id="i"))
    pending: Any = bench.groups.join(join("g")._replace(needs_known_id=True))
    assert pending.error == ErrorCode.MEMBER_ID_REQUIRED
    stolen: Any = bench.groups.join(join("g", pending.member_id)._replace(instance_id="i"))
    assert stolen.error == ErrorCode.UNKNOWN_SERVER_ERROR
    member_id = static.result(0).member_id if hasattr(static, "result") else static.member_id
    assert bench.groups.heartbeat(Sender("g", member_id, "i", 1)) == ErrorCode.NONE
    assert [member.instance_id for member in bench.groups.describe_group("g").members] == ["i"]


def described_epoch(bench: Bench) -> int:
    described: Any = bench.groups.describe_consumer_group("g")
    return described.group_epoch


@requires_expressions
def test_a_change_of_topics_is_not_lost_when_a_member_brings_a_wrong_expression() -> None:
    bench = Bench()
    bench.topics.change({"t1": 1})
    heartbeat(bench, "a", subscribed_topic_names=[], subscribed_topic_regex="t.*")
    bench.topics.change({"t1": 1, "t2": 1})
    bench.clock.advance_ms(11_000)
    with pytest.raises(InvalidRegularExpressionError):
        heartbeat(bench, "b", subscribed_topic_names=[], subscribed_topic_regex="(")
    assert heartbeat(bench, "a", 1).member_epoch == described_epoch(bench) == 2


@requires_expressions
def test_a_stored_expression_that_this_broker_does_not_accept_harms_nobody_else() -> None:
    bench = Bench()
    bench.topics.change({"t1": 1})
    heartbeat(bench, "a", subscribed_topic_names=[], subscribed_topic_regex="t.*")
    stored = [
        consumer_records.member_profile("g", "b", Profile(regex="(?=t1)")),
        consumer_records.resolved_regex("g", "(?=t1)", ResolvedRegex(frozenset({"t1"}), 0)),
    ]
    bench.log.append(LOG, encode_batch(stored, 0, Compression.NONE), None)
    bench.restart()
    bench.topics.change({"t1": 1, "t2": 1})
    with capturedLogs() as logs:
        heartbeat(bench, "a", 1)
    assert described_epoch(bench) == 2
    assert "not matched again" in str(logs)
    described: Any = bench.groups.describe_consumer_group("g")
    assert {each.subscribed_topic_regex for each in described.members} == {"t.*", "(?=t1)"}


def test_the_removal_of_a_dead_member_is_tried_again_soon() -> None:
    bench = Bench()
    bench.topics.change({"t": 1})
    heartbeat(bench, "a", subscribed_topic_names=["t"])
    bench.advance(44_000)
    bench.log.fail_next = [ErrorCode.NOT_ENOUGH_REPLICAS] * 2
    bench.advance(1_400)
    assert described_epoch(bench) == 1
    bench.advance(1_000)
    described: Any = bench.groups.describe_consumer_group("g")
    assert described.members == []
    assert len(bench.timer) == 0


def test_a_member_that_keeps_its_partitions_too_long_is_removed_though_it_sends_heartbeats() -> None:
    bench = Bench()
    bench.topics.change({"t": 2})
    heartbeat(bench, "a", subscribed_topic_names=["t"])
    owned = [ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=bench.topics.snapshot.topic_ids["t"], partitions=[0, 1])]
    heartbeat(bench, "b", subscribed_topic_names=["t"])
    for second in range(60):
        heartbeat(bench, "a", 1, topic_partitions=owned)
        heartbeat(bench, "b", 2)
        if second == 59:
            bench.log.fail_next.append(ErrorCode.NOT_ENOUGH_REPLICAS)
        bench.advance(1_000)
    assert bench.log.fail_next == []
    heartbeat(bench, "a", 1, topic_partitions=owned)
    bench.advance(500)
    described: Any = bench.groups.describe_consumer_group("g")
    assert [member.member_id for member in described.members] == ["b"]


@requires_expressions
def test_a_regular_expression_has_a_longest_length() -> None:
    bench = Bench()
    bench.topics.change({"t": 1})
    assert heartbeat(bench, "a", subscribed_topic_regex="t|" + "x" * 1022).member_epoch == 1
    with pytest.raises(InvalidRegularExpressionError, match="1025"):
        heartbeat(bench, "b", subscribed_topic_regex="t|" + "x" * 1023)
    with pytest.raises(InvalidRegularExpressionError, match=r"`\(`.*missing"):
        heartbeat(bench, "b", subscribed_topic_regex="(")


def test_without_the_library_expressions_are_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    bench = Bench()
    bench.topics.change({"t": 1})
    with pytest.raises(InvalidRegularExpressionError, match="without its extra regex"):
        heartbeat(bench, "a", subscribed_topic_regex="t")
    assert heartbeat(bench, "b", subscribed_topic_names=["t"]).member_epoch == 1


def test_offsets_of_a_topic_that_was_created_again_stay_when_the_deletion_comes_late() -> None:
    bench = Bench()
    commit(bench, 3)
    bench.groups.on_partitions_deleted([TopicPartition("t", 0), TopicPartition("t", 1)])
    bench.clock.advance_ms(1)
    commit(bench, 1)
    bench.scheduler.run_due()
    answer: Any = bench.groups.fetch_offsets(OffsetFetch(Sender("g"), None))
    assert list(answer[1]) == [TopicPartition("t", 0), TopicPartition("t", 2)]


def test_deleted_topics_are_counted_over_all_groups() -> None:
    bench = Bench(partitions=3)
    for number in range(6):
        commit(bench, 2, f"g{number}")
    bench.log.fail_next = [ErrorCode.NOT_ENOUGH_REPLICAS] * 3
    gone = [TopicPartition("t", 1), TopicPartition("t", 2)]
    bench.delete_partitions(gone[:1])
    assert bench.metrics.value(COORDINATOR_TYPE, "offset-deletion-count") == 6 - 3
    bench.delete_partitions(gone)
    assert bench.metrics.value(COORDINATOR_TYPE, "offset-deletion-count") == 6
    bench.delete_partitions([])
    for number in range(6):
        answer: Any = bench.groups.fetch_offsets(OffsetFetch(Sender(f"g{number}"), None))
        assert list(answer[1]) == [TopicPartition("t", 0)]


def seen_groups(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> int:
    """Return how many offsets' groups were looked at."""
    looked = 0
    of = OffsetStore.of

    def counting(store: OffsetStore, group_id: str) -> Any:
        nonlocal looked
        looked += 1
        return of(store, group_id)

    with monkeypatch.context() as patch:
        patch.setattr(OffsetStore, "of", counting)
        act()
    return looked


def test_what_happens_to_few_groups_costs_nothing_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    for number in range(100):
        commit_of(bench, f"g{number}", "everybody")
    commit_of(bench, "g7", "few")
    commit_of(bench, "g8", "few")
    for _ in range(2):
        assert seen_groups(monkeypatch, lambda: bench.delete_partitions([TopicPartition("few", 0)])) < 10
        assert seen_groups(monkeypatch, bench.groups.expire_offsets) < 10
        bench.restart()
    assert bench.metrics.value(COORDINATOR_TYPE, "offset-deletion-count") == 2
    bench.clock.advance_ms(bench.config.offsets_retention_ms)
    commit_of(bench, "g9", "everybody")
    bench.groups.expire_offsets()
    assert [each.group_id for each in bench.groups.list_groups((), ())[1]] == ["g9"]


def test_a_check_for_expired_offsets_lets_others_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twisted_kafka.group_coordinator.offsets.offset_metadata_manager.MAX_CHECKED", 10)
    bench = Bench(partitions=2)
    for number in range(95):
        commit_of(bench, f"g{number}", "t")
    bench.clock.advance_ms(bench.config.offsets_retention_ms)
    append = bench.log.append
    at_once: list[int] = []
    locked = bench.runtime.execute_everywhere

    def operation(do: Any) -> Any:
        at_once.append(0)
        return locked(do)

    def counting(*arguments: Any) -> Any:
        at_once[-1] += 1
        return append(*arguments)

    monkeypatch.setattr(bench.log, "append", counting)
    monkeypatch.setattr(bench.runtime, "execute_everywhere", operation)
    bench.groups.expire_offsets()
    assert sum(at_once) == 95
    assert max(at_once) <= 10 * bench.partitions
    assert bench.groups.list_groups((), ()) == (ErrorCode.NONE, [])


def test_a_group_in_use_expires_when_it_no_longer_is() -> None:
    """Its offset is older than the retention, but the topic is subscribed; a rebalance may be in progress."""
    bench = Bench(initial_rebalance_delay_ms=0)
    bench.topics.change({"t": 1})
    heartbeat(bench, "a", subscribed_topic_names=["t"])
    bench.groups.commit_offsets(
        Sender("g", "a", None, 1), {TopicPartition("t", 0): OffsetCommitValue(offset=1, commit_timestamp=bench.clock.wall_ms())}, 9
    )
    bench.clock.advance_ms(bench.config.offsets_retention_ms)
    for _ in range(3):
        bench.groups.expire_offsets()
        bench.clock.advance_ms(bench.config.offsets_retention_check_interval_ms)
    assert bench.metrics.value(MANAGER_TYPE, "NumOffsets") == 1
    heartbeat(bench, "a", -1)
    bench.groups.expire_offsets()
    assert bench.groups.list_groups((), ()) == (ErrorCode.NONE, [])


def commit_of(bench: Bench, group_id: str, topic: str) -> None:
    value = OffsetCommitValue(offset=1, commit_timestamp=bench.clock.wall_ms())
    assert bench.groups.commit_offsets(Sender(group_id), {TopicPartition(topic, 0): value}, 9) is ErrorCode.NONE


@pytest.mark.medium
@pytest.mark.parametrize("own_groups", [False, True])
def test_member_ids_that_nobody_uses_take_little_memory(own_groups: bool) -> None:
    bench = Bench()
    terms = MemberTerms("client" * 100, "/127.0.0.1", 60_000, 10_000, "consumer", (("range", b""),))
    limit = MAX_PENDING_BYTES // PENDING_BYTES
    for number in range(2 * limit):
        request = JoinRequest(f"g{number if own_groups else 0}", "", None, terms, True, False)
        joined: Any = bench.groups.join(request)
        assert joined.error is ErrorCode.MEMBER_ID_REQUIRED
    assert len(bench.timer) < limit
    assert len(bench.groups.list_groups((), ())[1]) < limit
    answer: Any = bench.groups.join(request._replace(member_id=joined.member_id))
    assert isinstance(answer, Future), "the last one is known"
    bench.advance(10_000)
    assert [one.group_id for one in bench.groups.list_groups((), ())[1]] == [request.group_id], "the others' session has ended"


def test_an_offset_keeps_what_was_committed_with_it() -> None:
    bench = Bench()
    plain = OffsetCommitValue(offset=5, leader_epoch=3, metadata="m", commit_timestamp=7)
    expiring = OffsetCommitValue(offset=6, metadata="n", commit_timestamp=8, expire_timestamp=2**60)
    offsets = {TopicPartition("t", 0): plain, TopicPartition("t", 1): expiring}
    assert bench.groups.commit_offsets(Sender("g"), offsets, 9) == ErrorCode.NONE
    assert [record.value_version for record in bench.written()] == [3, 1]
    bench.restart()
    assert bench.groups.fetch_offsets(OffsetFetch(Sender("g"), None)) == (ErrorCode.NONE, offsets)


@pytest.mark.parametrize("own", [True, False])
def test_an_offset_expires_at_its_time(own: bool) -> None:
    bench = Bench(offsets_retention_ms=500)
    now_ms = bench.clock.wall_ms()
    value = OffsetCommitValue(offset=1, commit_timestamp=now_ms, expire_timestamp=now_ms + 500 if own else -1)
    bench.groups.commit_offsets(Sender("g"), {TopicPartition("t", 0): value}, 9)
    for ms, is_left in ((499, True), (1, False)):
        bench.clock.advance_ms(ms)
        bench.groups.expire_offsets()
        answer: Any = bench.groups.fetch_offsets(OffsetFetch(Sender("g"), None))
        assert bool(answer[1]) == is_left


def test_a_transaction_may_delete_an_offset() -> None:
    """Kafka's tools may write such a record; this broker does not."""
    bench = Bench()
    partition = TopicPartition("t", 0)

    def in_transaction(producer_id: int, record: CoordinatorRecord) -> bytes:
        return bytes(encode_batch([record], 0, Compression.NONE, Producer(producer_id, 0)))

    commit(bench, 1)
    bench.log.batches[LOG] += [
        in_transaction(7, offset_commit("g", "t", 0, OffsetCommitValue(offset=2))),
        in_transaction(8, offset_commit("g", "t", 0, OffsetCommitValue(offset=3))),
        in_transaction(7, offset_tombstone("g", "t", 0)),
        in_transaction(7, offset_tombstone("g", "t", 1)),
    ]
    bench.restart()
    bench.groups.end_transaction(0, Producer(7, 0), 0, True)
    unstable: Any = bench.groups.fetch_offsets(OffsetFetch(Sender("g"), [partition], True))
    assert unstable[1] == {partition: ErrorCode.UNSTABLE_OFFSET_COMMIT}
    bench.groups.end_transaction(0, Producer(8, 0), 0, False)
    stable: Any = bench.groups.fetch_offsets(OffsetFetch(Sender("g"), [partition], True))
    assert stable[1][partition].offset == 1


@pytest.mark.parametrize("order", [(7, 8), (8, 7)])
@pytest.mark.parametrize("loads", [True, False])
def test_of_two_transactions_the_commit_that_was_written_later_counts(order: tuple[int, int], loads: bool) -> None:
    bench = Bench()
    partition = TopicPartition("t", 0)
    for offset, producer_id in ((1, 7), (2, 8)):
        values = {partition: OffsetCommitValue(offset=offset)}
        bench.groups.commit_transactional_offsets(Sender("g"), Producer(producer_id, 0), None, values)
    for producer_id in order:
        bench.groups.end_transaction(0, Producer(producer_id, 0), 0, True)
    if loads:
        bench.restart()
    fetched: Any = bench.groups.fetch_offsets(OffsetFetch(Sender("g"), [partition]))
    assert fetched[1][partition].offset == 2


@pytest.mark.medium
@pytest.mark.parametrize(("version", "timeout_ms"), [(0, 20_000), (3, 30_000)])
def test_a_record_of_an_old_broker_has_the_session_timeout_for_rebalances_too(version: int, timeout_ms: int) -> None:
    bench = Bench(initial_rebalance_delay_ms=0)
    members = [
        MemberMetadata(member_id=name, client_id=name, client_host="/h", session_timeout=20_000, subscription=b"")
        for name in ("a", "b")
    ]
    for member in members:
        member.rebalance_timeout = 30_000 if version else -1
    value = GroupMetadataValue(protocol_type="connect", generation=4, protocol="x", leader="a", members=members)
    record = CoordinatorRecord(GroupMetadataKey(group="g"), 2, value, version)
    bench.log.batches[LOG].append(bytes(encode_batch([record], 0, Compression.NONE)))
    bench.restart()
    assert bench.groups.describe_group("g").state == "Stable"
    terms = MemberTerms("a", "/h", 1, 60_000, "connect", (("x", b""),))
    bench.groups.join(JoinRequest("g", "a", None, terms, True, True))
    for left_ms, state in ((timeout_ms - 1000, "PreparingRebalance"), (1000, "CompletingRebalance")):
        for _ in range(0, left_ms, 1000):
            bench.groups.heartbeat(Sender("g", "b", None, 4))
            bench.advance(1000)
        assert bench.groups.describe_group("g").state == state


def load_group(bench: Bench, *members: MemberMetadata) -> None:
    """Load a group from a record without the time of the last change: old brokers did not store it."""
    value = GroupMetadataValue(protocol_type="consumer", generation=4, protocol="range", leader="old", members=[*members])
    record = CoordinatorRecord(GroupMetadataKey(group="g"), 2, value, 3)
    bench.log.batches[LOG].append(bytes(encode_batch([record], 0, Compression.NONE)))
    bench.restart()


def test_offsets_of_a_group_whose_record_has_no_time_expire_after_their_commit() -> None:
    bench = Bench(offsets_retention_ms=60_000)
    commit(bench, 1)
    load_group(bench)
    for passed_ms, left in ((30_000, 1), (31_000, 0)):
        bench.advance(passed_ms)
        bench.groups.expire_offsets()
        assert bench.metrics.value(MANAGER_TYPE, "NumOffsets") == left


def test_static_members_without_patience_that_are_away_are_not_looked_for_all_the_time() -> None:
    bench = Bench(initial_rebalance_delay_ms=0)
    impatient = join("g")._replace(terms=join("g").terms._replace(rebalance_timeout_ms=0, session_timeout_ms=1_800_000))
    static: Any = bench.groups.join(impatient._replace(instance_id="i"))
    sender = Sender("g", static.member_id, "i", 1)
    bench.groups.sync(SyncRequest(sender, None, None, {}))
    other: Any = bench.groups.join(impatient)
    bench.groups.leave("g", [LeavingMember(bench.groups.describe_group("g").members[-1].member_id)])
    assert other.result(0).error == ErrorCode.UNKNOWN_MEMBER_ID
    waits = []
    bench.timer.add, add = lambda delay_ms, expire: waits.append(delay_ms) or add(delay_ms, expire), bench.timer.add
    bench.advance(10_000)
    assert 0 < len(waits) <= 10
    assert bench.groups.heartbeat(sender) == ErrorCode.REBALANCE_IN_PROGRESS
    again: Any = bench.groups.join(impatient._replace(instance_id="i", member_id=sender.member_id))
    assert (again.error, again.generation) == (ErrorCode.NONE, 2)


def test_a_static_member_of_a_group_whose_record_has_no_time_may_return() -> None:
    bench = Bench()
    load_group(bench, MemberMetadata(member_id="old", group_instance_id="i", session_timeout=20_000, subscription=b"\0\0"))
    result: Any = bench.groups.join(join("g")._replace(instance_id="i"))
    assert (result.error, result.generation) == (ErrorCode.NONE, 4)
    assert bench.written()[-1].value.members[0].member_id == result.member_id != "old"


def test_a_member_has_one_session_timer() -> None:
    bench = Bench(initial_rebalance_delay_ms=0)
    joined: Any = bench.groups.join(join("g"))
    sender = Sender("g", joined.member_id, None, 1)
    bench.groups.sync(SyncRequest(sender, None, None, {joined.member_id: b"x"}))
    for _ in range(20):
        bench.groups.heartbeat(sender)
        bench.clock.advance_ms(5000)
        bench.timer.expire_due()
    for generation in range(2, 10):
        bench.groups.join(join("g", joined.member_id))
        bench.groups.sync(SyncRequest(sender._replace(generation=generation), None, None, {}))
    assert len(bench.timer) == 1
    bench.groups.leave("g", [LeavingMember(joined.member_id, None)])
    assert len(bench.timer) == 0


@pytest.mark.parametrize("ends_by", ["resigning", "leaving"])
def test_no_timer_is_left_behind(ends_by: str) -> None:
    """Of pending ids, of members in any phase of a rebalance, and of members of consumer groups."""
    bench = Bench(initial_rebalance_delay_ms=1000)
    bench.topics.change({"t": 4})
    pending: Any = bench.groups.join(join("pending")._replace(needs_known_id=True))
    bench.groups.join(join("waiting"))
    bench.advance(1000)
    bench.groups.join(join("waiting"))
    bench.groups.join(join("delayed"))
    for member_id in ("a", "b", "c"):
        heartbeat(bench, member_id, subscribed_topic_names=["t"])
    heartbeat(bench, "a", 1)
    terms = MemberTerms("classic", "/host", 60_000, 10_000, "consumer", (("range", subscription("t")),))
    joined: Any = bench.groups.join(JoinRequest("g", "", None, terms, False, True))
    bench.groups.heartbeat(Sender("g", joined.member_id, None, joined.generation))
    assert len(bench.timer) >= 10
    if ends_by == "resigning":
        bench.groups.runtime.on_leadership_change([], [(0, 0)])
    else:
        bench.groups.leave("pending", [LeavingMember(pending.member_id, None)])
        for group_id in ("waiting", "delayed"):
            members = [LeavingMember(member.member_id, None) for member in bench.groups.describe_group(group_id).members]
            bench.groups.leave(group_id, members)
        bench.groups.leave("g", [LeavingMember(joined.member_id, None)])
        for member_id in ("a", "b", "c"):
            heartbeat(bench, member_id, -1)
        bench.advance(5000)
    assert len(bench.timer) == 0


def test_a_timer_of_a_member_that_is_gone_does_nothing() -> None:
    """Its removal is in the log, but the replicas did not confirm it in time: the client was told of an error."""
    bench = Bench(initial_rebalance_delay_ms=0)
    bench.topics.change({"t": 1})
    for member_id in ("a", "b"):
        heartbeat(bench, member_id, subscribed_topic_names=["t"])
    bench.log.holds = True
    answer = heartbeat(bench, "a", -1)
    bench.log.release(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    assert answer.result(0).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.clock.advance_ms(40_000)
    heartbeat(bench, "b", 2)
    with capturedLogs() as logs:
        bench.advance(10_000)
    assert [each for each in logs if "log_failure" in each] == []
    described: Any = bench.groups.describe_consumer_group("g")
    assert [member.member_id for member in described.members] == ["b"]
    assert len(bench.timer) == 1


def test_offsets_expire_until_the_stop() -> None:
    bench = Bench(offsets_retention_check_interval_ms=1000)
    expired: list[int] = []
    for is_stopped in (False, True):
        if is_stopped:
            bench.groups.shutdown()
        bench.clock.advance_ms(5000)
        expired.append(bench.scheduler.run_due())
    assert expired[0] > 0
    assert expired[1] == 0


def test_records_are_replayed_with_their_offsets_in_the_log() -> None:
    class Shard:
        def __init__(self) -> None:
            self.replayed: list[tuple[object, int, int]] = []

        def replay(self, record: object, producer_id: int, offset: int) -> None:
            self.replayed.append((record, producer_id, offset))

    records = [offset_tombstone("g", "t", number) for number in range(3)]
    shard = Shard()
    assert Write(records, lambda error: None).replay(shard, 10) == 12  # type: ignore[arg-type]
    assert shard.replayed == [(record, -1, 10 + number) for number, record in enumerate(records)]
