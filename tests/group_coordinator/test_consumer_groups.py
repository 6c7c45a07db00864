"""What transcripts of consumer groups do not show: assignors that fail, settings of a group, what is counted."""

import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.coordinator_fakes import Bench
from twisted_kafka.coordinator.coordinator_record import encode_batch
from twisted_kafka.group_coordinator.assignors.interface import GroupSpec
from twisted_kafka.group_coordinator.consumer import target_assignment
from twisted_kafka.group_coordinator.group_records import group_metadata, group_tombstone
from twisted_kafka.group_coordinator.requests import Client, Sender
from twisted_kafka.group_coordinator.shared.group_coordinator_metrics import COORDINATOR_TYPE, MANAGER_TYPE
from twisted_kafka.group_coordinator.state.consumer import consumer_group_records as consumer_records
from twisted_kafka.group_coordinator.state.consumer.consumer_group import ConsumerGroup
from twisted_kafka.group_coordinator.state.consumer.consumer_group_member import CurrentAssignment, Profile
from twisted_kafka.group_coordinator.state.consumer.consumer_group_state import MemberState
from twisted_kafka.group_coordinator.state.consumer.target_index import TargetIndex
from twisted_kafka.group_coordinator.state.topic_image import TopicInfo, known_topics
from twisted_kafka.metrics.instruments import Gauge
from twisted_kafka.metrics.windows import WINDOW_TICKS
from twisted_kafka.protocol.errors import ErrorCode, UnknownServerError
from twisted_kafka.protocol.messages.coordinators.consumer_group_records import ConsumerGroupTargetAssignmentMetadataKey
from twisted_kafka.protocol.messages.coordinators.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from twisted_kafka.protocol.messages.coordinators.coordinator_records import GroupMetadataValue, OffsetCommitValue
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.protocol.topic_partition import GROUP_METADATA_TOPIC, TopicPartition

LOG = TopicPartition(GROUP_METADATA_TOPIC, 0)


def read(metrics: Any) -> Any:
    return {name: each.value for name, each in metrics.items() if isinstance(each, Gauge)}


def join(bench: Bench, member_id: str, group_id: str = "g") -> Any:
    request = ConsumerGroupHeartbeatRequest(
        group_id=group_id, member_id=member_id, rebalance_timeout_ms=60_000, subscribed_topic_names=["t"], topic_partitions=[]
    )
    return bench.groups.consumer_heartbeat(request, Client("client", "/host"), 1)


class Failing:
    name = "failing"

    def assign(self, group: GroupSpec) -> None:
        raise RuntimeError("no idea")


class Greedy:
    name = "greedy"

    def assign(self, group: GroupSpec) -> dict[str, dict[bytes, frozenset[Any]]]:
        return {name: {topic: frozenset(range(n)) for topic, n in group.partition_counts.items()} for name in group.members}


def test_an_assignment_has_the_order_of_topic_ids() -> None:
    bench = Bench()
    names = [f"t{number}" for number in range(8)]
    bench.topics.change(dict.fromkeys(names, 1))
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="a", rebalance_timeout_ms=60_000, subscribed_topic_names=names, topic_partitions=[]
    )
    answer: Any = bench.groups.consumer_heartbeat(request, Client("client", "/host"), 1)
    given = [each.topic_id for each in answer.assignment.topic_partitions]
    assert len(given) == len(names)
    assert given == sorted(given)


def test_an_assignor_that_fails_changes_nothing() -> None:
    bench = Bench(assignors=["tests.group_coordinator.test_consumer_groups.Failing"])
    bench.topics.change({"t": 2})
    with pytest.raises(UnknownServerError, match="no idea"):
        join(bench, "a")
    assert bench.written() == []


class Moody:
    name = "moody"
    fails = False

    def assign(self, group: GroupSpec) -> dict[str, dict[bytes, frozenset[int]]]:
        if Moody.fails:
            raise RuntimeError("not today")
        only = next(iter(group.members))
        return {only: {topic: frozenset(range(n)) for topic, n in group.partition_counts.items()}}


def test_a_change_of_topics_is_not_lost_when_the_assignor_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(assignors=["tests.group_coordinator.test_consumer_groups.Moody"])
    bench.topics.change({"t": 1})
    assert join(bench, "a").member_epoch == 1
    bench.topics.change({"t": 2})
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=1)
    monkeypatch.setattr(Moody, "fails", True)
    with pytest.raises(UnknownServerError, match="not today"):
        bench.groups.consumer_heartbeat(request, Client("client", "/host"), 1)
    monkeypatch.setattr(Moody, "fails", False)
    answer: Any = bench.groups.consumer_heartbeat(request, Client("client", "/host"), 1)
    assert [each.partitions for each in answer.assignment.topic_partitions] == [[0, 1]]


def test_a_change_of_topics_is_not_lost_when_it_is_not_written() -> None:
    bench = Bench()
    bench.topics.change({"t": 1})
    assert join(bench, "a").member_epoch == 1
    bench.topics.change({"t": 2})
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=1)
    bench.log.fail_next.append(ErrorCode.NOT_ENOUGH_REPLICAS)
    refused: Any = bench.groups.consumer_heartbeat(request, Client("client", "/host"), 1)
    assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    answer: Any = bench.groups.consumer_heartbeat(request, Client("client", "/host"), 1)
    assert [each.partitions for each in answer.assignment.topic_partitions] == [[0, 1]]


def test_an_assignor_may_not_assign_a_partition_twice() -> None:
    bench = Bench(assignors=["tests.group_coordinator.test_consumer_groups.Greedy"])
    bench.topics.change({"t": 2})
    assert join(bench, "a").member_epoch == 1
    with pytest.raises(UnknownServerError, match="assigned twice"):
        join(bench, "b")
    assert bench.groups.describe_consumer_group("g").group_epoch == 1


def epochs(bench: Bench) -> tuple[int, int]:
    described = bench.groups.describe_consumer_group("g")
    return described.group_epoch, described.assignment_epoch


def beat(bench: Bench, member_id: str, epoch: int) -> Any:
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=epoch)
    return bench.groups.consumer_heartbeat(request, Client("client", "/host"), 1)


def test_an_interval_delays_the_next_assignment() -> None:
    bench = Bench(consumer_assignment_interval_ms=1000)
    bench.topics.change({"t": 2})
    assert join(bench, "a").member_epoch == 1
    bench.clock.advance_ms(999)
    late = join(bench, "b")
    assert (late.member_epoch, late.assignment.topic_partitions, epochs(bench)) == (1, [], (2, 1))
    assert (beat(bench, "a", 1).assignment, epochs(bench)) == (None, (2, 1))
    bench.restart()
    assert (beat(bench, "a", 1).assignment, epochs(bench)) == (None, (2, 1))
    bench.clock.advance_ms(1)
    assert [each.partitions for each in beat(bench, "a", 1).assignment.topic_partitions] == [[0]]
    assert epochs(bench) == (2, 2)
    assert join(bench, "c").error_code == 0
    assert epochs(bench) == (3, 2)
    bench.group_config_manager.update("g", {"consumer.assignment.interval.ms": "0"})
    beat(bench, "b", 1)
    assert epochs(bench) == (3, 3)


def test_without_an_interval_the_records_are_those_of_kafka_3_9() -> None:
    bench = Bench()
    bench.topics.change({"t": 2})
    join(bench, "a")
    join(bench, "b")
    assert epochs(bench) == (2, 2)
    written = [each.value for each in bench.written() if isinstance(each.key, ConsumerGroupTargetAssignmentMetadataKey)]
    assert [(value.assignment_epoch, value.assignment_timestamp) for value in written] == [(1, 0), (2, 0)]


def test_what_is_counted() -> None:
    bench = Bench(initial_rebalance_delay_ms=0, offsets_retention_ms=1000)
    bench.topics.change({"t": 2})
    join(bench, "a")
    join(bench, "b")
    offsets = {TopicPartition("u", 0): OffsetCommitValue(offset=1, commit_timestamp=bench.clock.wall_ms())}
    bench.groups.commit_offsets(Sender("simple"), offsets, 9)
    value = bench.metrics.value
    assert value(COORDINATOR_TYPE, "consumer-group-rebalance-count") == 2
    assert value(COORDINATOR_TYPE, "group-count", protocol="consumer") == 1
    assert value(COORDINATOR_TYPE, "group-count", protocol="classic") == 1
    assert value(COORDINATOR_TYPE, "consumer-group-count", state="Reconciling") == 1
    assert value(MANAGER_TYPE, "NumGroups") == value(MANAGER_TYPE, "NumGroupsEmpty") == 1
    assert value(MANAGER_TYPE, "NumOffsets") == value(COORDINATOR_TYPE, "offset-commit-count") == 1
    assert value(COORDINATOR_TYPE, "num-partitions", state="active") == 1
    assert value(COORDINATOR_TYPE, "partition-load-time-max") != 0
    bench.advance(2000)
    bench.groups.expire_offsets()
    assert value(COORDINATOR_TYPE, "offset-expiration-count") == 1
    assert value(MANAGER_TYPE, "NumOffsets") == value(MANAGER_TYPE, "NumGroups") == 0


def test_gauges_wait_for_no_operation() -> None:
    bench = Bench()
    bench.topics.change({"t": 2})
    join(bench, "a")
    metrics = {}

    def read_meanwhile(_: Any) -> None:
        reader = threading.Thread(target=lambda: metrics.update(read(bench.metrics)), daemon=True)
        reader.start()
        reader.join(5)

    bench.runtime.execute("g", read_meanwhile)
    assert metrics, "the gauges waited for the operation"


@pytest.mark.medium
def test_a_join_writes_the_targets_that_change_and_no_others() -> None:
    bench = Bench()
    bench.topics.change({"t": 2000})
    written = []
    for number in range(300):
        join(bench, f"m{number}")
        written.append(len(bench.log.batches[TopicPartition("__consumer_offsets", 0)][-1]))
    assert max(written[-50:]) < 4 * max(written[50:100])


def test_members_that_come_one_by_one_have_one_index_of_the_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[TargetIndex] = []

    def make(*arguments: Any) -> TargetIndex:
        made.append(TargetIndex(*arguments))
        return made[-1]

    monkeypatch.setattr(target_assignment, "TargetIndex", make)
    bench = Bench()
    for count in (20, 30):
        bench.topics.change({"t": count})
        join(bench, f"m{count}")
        join(bench, f"n{count}")
        before = len(made)
        for number in range(5):
            join(bench, f"m{count}-{number}")
        assert len(made) == before


def test_timers_end_with_what_they_watch() -> None:
    bench = Bench()
    bench.topics.change({"t": 2})

    def beat(member_id: str, epoch: int, *owned: int) -> None:
        topic_id = bench.topics.snapshot.topic_ids["t"]
        partitions = [ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=[*owned])]
        request = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id=member_id, member_epoch=epoch, rebalance_timeout_ms=-1, topic_partitions=partitions
        )
        assert not bench.groups.consumer_heartbeat(request, Client("client", "/host"), 1).error_code

    join(bench, "a")
    join(bench, "b")
    sessions = len(bench.timer)
    assert sessions == 2
    beat("a", 1, 0, 1)
    assert len(bench.timer) == sessions + 1, "it has to revoke a partition in time"
    beat("a", 1, 0)
    assert len(bench.timer) == sessions
    bench.group_config_manager.update("g", {"consumer.session.timeout.ms": "60000"})
    beat("a", 2, 0)
    bench.group_config_manager.update("g", {})
    beat("a", 2, 0)
    assert len(bench.timer) == sessions, "a session that became shorter has another timer, not one more"


def test_a_topic_without_id_is_not_known() -> None:
    bench = Bench()
    bench.topics.change({"t": 2, "u": 1})
    del bench.topics.snapshot.topic_ids["u"]  # type: ignore[attr-defined]
    assert known_topics(bench.topics.snapshot, ["t", "u", "v"]) == {"t": TopicInfo(b"t".ljust(16, b"."), 2)}


def test_a_loaded_group_has_the_type_of_its_latest_records() -> None:
    """Whether or not the tombstone of the other type is still in the log."""
    classic = group_metadata("g", GroupMetadataValue(protocol_type="consumer", generation=1))
    modern = consumer_records.member_profile("g", "m", Profile())
    for written in ([classic, modern], [modern, classic]):
        bench = Bench()
        bench.log.batches[LOG].append(bytes(encode_batch(written, 0, Compression.NONE)))
        bench.restart()
        [group] = bench.groups.list_groups((), ())[1]
        assert group.group_type == ("consumer" if written[-1] is modern else "classic")
    bench = Bench()
    bench.log.batches[LOG].append(bytes(encode_batch([modern, classic, group_tombstone("g")], 0, Compression.NONE)))
    bench.restart()
    assert bench.groups.list_groups((), ())[1] == []


def test_a_member_of_which_only_the_profile_was_deleted_owns_nothing() -> None:
    group = ConsumerGroup("g")
    topic_id = b"t".ljust(16, b".")
    assigned = {topic_id: frozenset([0])}
    for record in (
        consumer_records.member_profile("g", "a", Profile()),
        consumer_records.member_current("g", "a", CurrentAssignment(1, 0, MemberState.STABLE, assigned, {})),
    ):
        consumer_records.replay(group, record.key, record.value)
    assert group.owner(topic_id, 0) == "a"
    gone = consumer_records.member_profile("g", "a", None)
    consumer_records.replay(group, gone.key, gone.value)
    assert group.owner(topic_id, 0) is None


def test_work_that_waits_and_time_without_any() -> None:
    bench = Bench(partitions=3)
    value = bench.metrics.value
    assert value(COORDINATOR_TYPE, "event-queue-size") == 0
    bench.restart(load=False)
    bench.elect(epoch=1, load=False)
    assert value(COORDINATOR_TYPE, "event-queue-size") == 3  # partitions to be loaded
    bench.scheduler.run_due()
    assert value(COORDINATOR_TYPE, "event-queue-size") == 0
    bench.clock.advance_ms(4000)
    assert value(COORDINATOR_TYPE, "thread-idle-ratio-avg") == 1

    append = bench.log.append

    def slow(partition: Any, batch: Any, guard: Any) -> Any:
        bench.clock.advance_ms(2000)
        return append(partition, batch, guard)

    bench.log.append = slow
    offsets = {TopicPartition("u", 0): OffsetCommitValue(offset=1, commit_timestamp=bench.clock.wall_ms())}
    bench.groups.commit_offsets(Sender("simple"), offsets, 9)
    bench.clock.advance_ms(2000)
    assert value(COORDINATOR_TYPE, "thread-idle-ratio-avg") == 0.75
    for _ in range(WINDOW_TICKS):
        bench.metrics.tick()
    bench.clock.advance_ms(5000)
    assert value(COORDINATOR_TYPE, "thread-idle-ratio-avg") == 1


def test_the_names_are_kafkas() -> None:
    bench = Bench()
    files = Path(__file__).parents[1] / "data" / "metrics"
    lines = [
        *(files / "kafka-3.9.2-groups.tsv").read_text().splitlines(),
        *(files / "kafka-4.4.0-share-groups.tsv").read_text().splitlines(),
        *(files / "kafka-4.4.0-streams-groups.tsv").read_text().splitlines(),
    ]
    kafkas = {(bean, each) for bean, attributes in (line.split("\t") for line in lines) for each in attributes.split(",")}
    ours = set()
    for name in [name for name, _ in bench.metrics.items()]:
        tags = "".join(f",{key}={value}" for key, value in name.tags)
        if name.group == "kafka.coordinator.group":
            ours.add((str(name), "Value"))
        elif name.type == "group-coordinator-metrics":
            ours.add((f"{name.group}:type={name.type}{tags}", name.name))
    assert ours == kafkas
