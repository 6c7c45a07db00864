"""Streams groups: members, epochs, topologies, tasks, and what is written about them."""

from typing import Any

import pytest

from tests.group_coordinator.streams_members import PLAIN, WORDS, G, Streams, ids, internal, subtopology, tasks, topology
from tests.support.coordinator_fakes import join
from twisted_kafka.group_coordinator.assignors.sticky_tasks import StickyTaskAssignor
from twisted_kafka.group_coordinator.offsets.offset_metadata_manager import OffsetFetch
from twisted_kafka.group_coordinator.requests import LeavingMember, Sender, SyncRequest
from twisted_kafka.group_coordinator.shared.group_coordinator_metrics import COORDINATOR_TYPE
from twisted_kafka.group_coordinator.state.streams.configured_topology import Status
from twisted_kafka.protocol.errors import (
    ErrorCode,
    FencedInstanceIdError,
    FencedMemberEpochError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    InvalidRequestError,
    StreamsInvalidTopologyError,
    UnknownMemberIdError,
    UnknownServerError,
    UnreleasedInstanceIdError,
)
from twisted_kafka.protocol.messages.coordinators.coordinator_records import OffsetCommitValue
from twisted_kafka.protocol.messages.streams.streams_groups import Endpoint, KeyValue, TaskOffset
from twisted_kafka.protocol.topic_partition import TopicPartition

ALL = {("0", 0), ("0", 1), ("0", 2)}
LEAVE = ["CurrentMemberAssignment", "TargetAssignmentMember", "MemberMetadata", "Metadata"]


def statuses(answer: Any) -> list[tuple[int, str]]:
    return [(each.status_code, each.status_detail) for each in answer.status]


# joining and what is written


def test_the_records_of_a_groups_life_are_kafkas() -> None:
    streams = Streams()
    answer = streams.join("m")
    assert (answer.member_epoch, answer.heartbeat_interval_ms, answer.task_offset_interval_ms) == (2, 500, 60_000)
    assert (answer.acceptable_recovery_lag, answer.status, answer.topology_description_required) == (10_000, [], False)
    assert tasks(answer.active_tasks) == ALL
    written = streams.written()
    first = ["MemberMetadata", "Topology", "Metadata"]
    assigning = ["TargetAssignmentMember", "TargetAssignmentMetadata", "CurrentMemberAssignment"]
    assert [kind for kind, _ in written] == first + assigning
    values = [value for _, value in written]
    assert (values[0].client_id, values[0].client_host, values[0].process_id) == ("app", "/127.0.0.1", "m")
    assert (values[1].epoch, values[1].subtopologies[0].state_changelog_topics[0].name) == (0, "counts")
    assert (values[2].epoch, values[2].validated_topology_epoch) == (2, 0)
    assert [(each.key, each.value) for each in values[2].last_assignment_configs] == [("num.standby.replicas", "0")]
    assert (values[5].member_epoch, values[5].previous_member_epoch, values[5].state) == (2, 0, 1)
    assert values[5].active_tasks[0].assignment_epochs == [2, 2, 2]

    assert streams.beat("m").active_tasks is None
    assert len(streams.written()) == 6, "nothing has changed"
    streams.leave("m")
    assert [kind for kind, _ in streams.written()[6:]] == [*LEAVE, "TargetAssignmentMetadata"]
    assert streams.written()[-1][1].assignment_timestamp == 0
    assert streams.state() == ("Empty", 3, 3)
    assert streams.bench.groups.delete_group(G) == ErrorCode.NONE
    last = [(kind, value) for kind, value in streams.written()[11:]]
    assert last == [("TargetAssignmentMetadata", None), ("Metadata", None), ("Topology", None)]
    assert streams.described().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_is_the_same_after_it_was_loaded() -> None:
    streams = Streams()
    streams.bench.group_config_manager.update(G, {"streams.num.standby.replicas": "1"})
    streams.join("m", client_tags=[KeyValue(key="zone", value="a")], user_endpoint=Endpoint(host="h", port=1), rack_id="r")
    streams.join("n", instance_id="i")
    streams.settle()
    before = streams.described()
    assert {name: len(held["standby"]) for name, held in streams.held.items()} in ({"m": 1, "n": 2}, {"m": 2, "n": 1})
    streams.bench.restart()
    streams.bench.group_config_manager.update(G, {"streams.num.standby.replicas": "1"})
    after = streams.described()
    before.topology = after.topology  # the partitions of internal topics are looked up by the next heartbeat
    assert after == before
    length = len(streams.written())
    assert {streams.beat(name).error_code for name in "mn"} == {0}
    assert len(streams.written()) == length
    assert streams.state() == ("Stable", before.group_epoch, before.assignment_epoch)


CASES: list[tuple[dict[str, Any], str]] = [
    ({"member_id": " "}, "MemberId can't be empty"),
    ({"group_id": ""}, "GroupId can't be empty"),
    ({"rack_id": ""}, "RackId can't be empty"),
    ({"instance_id": ""}, "InstanceId can't be empty"),
    ({"user_endpoint": Endpoint(host="h" * 256, port=1)}, "The host of UserEndpoint has 256 characters"),
    ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided"),
    ({"active_tasks": None}, "ActiveTasks must be empty"),
    ({"standby_tasks": ids({("0", 1)})}, "StandbyTasks must be empty"),
    ({"warmup_tasks": None}, "WarmupTasks must be empty"),
    ({"topology": None}, "Topology must be non-null"),
    ({"epoch": -2}, "InstanceId can't be null"),
    ({"epoch": -3}, "MemberEpoch is -3"),
    ({"epoch": 1}, "Topology can only be provided"),
    ({"epoch": 1, "topology": None, "standby_tasks": None}, "If one task-type is non-null"),
    ({"topology": topology(subtopology("0", source_topic_regex=["t.*"]))}, "Regular expressions"),
    ({"task_offsets": [TaskOffset(subtopology_id="0", partition=1)] * 2}, "duplicate entry"),
]


@pytest.mark.parametrize(("fields", "message"), CASES)
def test_invalid_heartbeats(fields: dict[str, Any], message: str) -> None:
    valid = {"rebalance_timeout_ms": 1_000, "active_tasks": [], "standby_tasks": [], "warmup_tasks": [], "topology": WORDS}
    with pytest.raises(InvalidRequestError, match=message):
        Streams().ask(**{"member_id": "m", "epoch": 0, "process_id": "p", **valid, **fields})


def test_who_is_refused() -> None:
    streams = Streams(streams_max_size=2)
    with pytest.raises(GroupIdNotFoundError, match="Streams group g not found"):
        streams.ask("m", 1)
    with pytest.raises(GroupIdNotFoundError, match="Group g not found"):
        streams.ask("m", -1)
    streams.join("m")
    for member_id, error in (("n", UnknownMemberIdError), ("m", FencedMemberEpochError)):
        with pytest.raises(error):
            streams.ask(member_id, 9)
    with pytest.raises(UnknownMemberIdError):
        streams.ask("n", -1)
    with pytest.raises(FencedMemberEpochError, match="smaller"):
        streams.ask("m", 1)
    with pytest.raises(InvalidRequestError, match="Subtopology 7 does not exist"):
        streams.beat("m", active_tasks=ids({("7", 0)}))
    with pytest.raises(InvalidRequestError, match="Task 3 for subtopology 0 is invalid"):
        streams.beat("m", standby_tasks=ids({("0", 3)}))
    streams.join("n")
    with pytest.raises(GroupMaxSizeReachedError, match="maximum capacity of 2"):
        streams.join("o")
    assert streams.join("m").member_epoch == 2, "a member may rejoin"


def test_the_response_with_a_new_epoch_may_be_lost() -> None:
    streams = Streams()
    streams.join("m")
    streams.join("n")
    streams.bench.advance(1_000)
    streams.beat("m")
    answer = streams.beat("m")
    assert answer.member_epoch == 3
    streams.epochs["m"] = 2
    answer = streams.beat("m")
    assert (answer.member_epoch, tasks(answer.active_tasks)) == (3, streams.held["m"]["active"])
    streams.held["m"]["active"] = set(ALL)
    assert len(tasks(streams.beat("m").active_tasks) or ()) == 2, "it does not know that it has to revoke one"
    assert streams.beat("m").active_tasks is None
    with pytest.raises(FencedMemberEpochError):
        streams.ask("m", 2)


def test_groups_of_other_types_keep_their_ids() -> None:
    streams = Streams()
    streams.join("m")
    groups: Any = streams.bench.groups
    assert groups.describe_consumer_group(G).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert groups.join(join(G)).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert groups.heartbeat(Sender(G, "m", None, 1)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.leave(G, [LeavingMember("m")])[1][0].error == ErrorCode.UNKNOWN_MEMBER_ID
    groups.join(join("classic"))
    with pytest.raises(GroupIdNotFoundError, match="Group classic is not a streams group"):
        streams.join("m", group_id="classic")
    assert streams.described("classic").error_message == "Group classic is not a streams group."
    listings = groups.list_groups((), ("streams",))[1]
    assert [(each.group_id, each.protocol_type, each.group_state, each.group_type) for each in listings] == [
        (G, "streams", "Stable", "streams")
    ]
    assert groups.list_groups(("empty",), ("streams",))[1] == []
    assert groups.delete_group(G) == ErrorCode.NON_EMPTY_GROUP


# other types


def test_an_empty_classic_group_becomes_a_streams_group_with_its_offsets() -> None:
    streams = Streams()
    groups: Any = streams.bench.groups
    groups.commit_offsets(Sender(G), {TopicPartition("t", 0): OffsetCommitValue(offset=5)}, 8)
    streams.join("m")
    assert streams.state()[0] == "Stable"
    assert groups.fetch_offsets(_fetch())[1][TopicPartition("t", 0)].offset == 5
    streams.bench.restart()
    assert streams.state()[0] == "Stable"
    assert groups is not streams.bench.groups
    assert streams.bench.groups.fetch_offsets(_fetch())[1][TopicPartition("t", 0)].offset == 5


def test_an_application_leaves_the_classic_protocol_while_it_is_stopped() -> None:
    streams = Streams()
    groups: Any = streams.bench.groups
    joined = groups.join(join(G))
    with pytest.raises(GroupIdNotFoundError, match="Group g is not a streams group"):
        streams.join("m")
    streams.bench.advance(3_000)
    member_id = joined.result(0).member_id
    groups.sync(SyncRequest(Sender(G, member_id, None, 1), None, None, {member_id: b"given"}))
    with pytest.raises(GroupIdNotFoundError, match="Group g is not a streams group"):
        streams.join("m")
    assert groups.leave(G, [LeavingMember(member_id)])[0] == ErrorCode.NONE
    streams.join("m")
    assert (streams.bench.written()[-7].value, streams.written()[-7][0]) == (None, "GroupMetadata"), "the classic group ends"
    streams.bench.restart()
    assert streams.state()[0] == "Stable"


def test_an_empty_streams_group_becomes_a_classic_group() -> None:
    streams = Streams()
    streams.join("m")
    streams.leave("m")
    groups: Any = streams.bench.groups
    joined = groups.join(join(G))
    streams.bench.advance(3_000)
    assert joined.result(0).error == ErrorCode.NONE
    assert streams.described().error_message == "Group g is not a streams group."


def _fetch() -> OffsetFetch:
    return OffsetFetch(Sender(G), [TopicPartition("t", 0)])


# tasks


def test_tasks_move_when_their_member_has_revoked_them() -> None:
    streams = Streams()
    streams.join("m")
    answer = streams.join("n")
    assert statuses(answer) == [(Status.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured assignment interval.")]
    assert streams.state() == ("Assigning", 3, 2)
    streams.bench.advance(1_000)
    answer = streams.beat("n")
    assert (answer.member_epoch, answer.active_tasks, streams.state()[0]) == (3, None, "Reconciling"), "they are not free yet"
    answer = streams.beat("m")
    assert (answer.member_epoch, len(streams.held["m"]["active"])) == (2, 2)
    assert streams.beat("n").active_tasks is None
    assert streams.beat("m").member_epoch == 3
    assert streams.beat("n").member_epoch == 3
    assert streams.held["m"]["active"] | streams.held["n"]["active"] == ALL
    assert streams.state() == ("Stable", 3, 3)


def test_a_member_that_does_not_revoke_in_time_is_removed() -> None:
    streams = Streams()
    streams.join("m", rebalance_timeout_ms=5_000)
    streams.join("n")
    streams.bench.advance(1_000)
    streams.beat("m")
    for _ in range(4):
        streams.bench.advance(1_000)
        streams.ask("m", 2)
    assert len(streams.described().members) == 2
    streams.bench.advance(1_000)
    assert [each.member_id for each in streams.described().members] == ["n"]
    streams.beat("n")
    assert streams.held["n"]["active"] == ALL


def test_a_process_has_each_task_once() -> None:
    streams = Streams()
    streams.bench.group_config_manager.update(G, {"streams.num.standby.replicas": "1"})
    for member_id, process in (("a1", "a"), ("a2", "a"), ("b1", "b")):
        streams.join(member_id, process=process)
    streams.settle()
    held = streams.held
    assert held["a1"]["active"] | held["a2"]["active"] | held["b1"]["active"] == ALL
    of_a = [held[name][role] for name in ("a1", "a2") for role in ("active", "standby")]
    assert sum(map(len, of_a)) == len(set().union(*of_a)) == 3
    assert held["b1"]["active"] | held["b1"]["standby"] == ALL
    streams.leave("b1")
    streams.settle()
    assert held["a1"]["active"] | held["a2"]["active"] == ALL
    assert not held["a1"]["standby"]
    assert not held["a2"]["standby"], "there is no other process"


def test_a_standby_task_becomes_active_without_a_pause() -> None:
    streams = Streams()
    streams.bench.group_config_manager.update(G, {"streams.num.standby.replicas": "1"})
    streams.join("m")
    streams.join("n")
    streams.settle()
    standby = set(streams.held["n"]["standby"])
    streams.leave("m")
    streams.bench.advance(1_000)
    streams.beat("n")
    assert streams.held["n"] == {"active": ALL, "standby": set(), "warmup": set()}
    assert standby


def test_a_changed_config_of_the_group_moves_tasks() -> None:
    streams = Streams()
    streams.join("m")
    streams.join("n")
    streams.settle()
    epoch = streams.state()[1]
    streams.bench.group_config_manager.update(G, {"streams.num.standby.replicas": "1"})
    streams.settle()
    assert streams.state() == ("Stable", epoch + 1, epoch + 1)
    assert len(streams.held["m"]["standby"]) + len(streams.held["n"]["standby"]) == 3


def test_the_first_assignment_waits_for_further_members() -> None:
    streams = Streams(delay_ms=3_000)
    detail = "Assignment delayed due to the configured initial rebalance delay."
    answer = streams.join("m")
    assert (answer.member_epoch, answer.active_tasks, statuses(answer)) == (1, [], [(Status.ASSIGNMENT_DELAYED, detail)])
    streams.bench.advance(2_000)
    assert streams.join("n").member_epoch == 1
    assert streams.state() == ("Assigning", 3, 1)
    streams.bench.advance(1_000)
    assert streams.state() == ("Reconciling", 3, 3)
    assert streams.beat("m").status == []
    streams.beat("n")
    assert streams.held["m"]["active"] | streams.held["n"]["active"] == ALL
    assert min(len(streams.held[name]["active"]) for name in "mn") == 1
    assert streams.state() == ("Stable", 3, 3)


def test_a_coordinator_that_takes_over_does_not_wait_again() -> None:
    streams = Streams(delay_ms=3_000)
    streams.join("m")
    streams.bench.restart()
    assert streams.beat("m").member_epoch == 2
    assert streams.held["m"]["active"] == ALL


def test_a_failing_assignor_fails_the_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = Streams()

    def fail(_: object) -> None:
        raise ValueError("broken")

    monkeypatch.setattr(StickyTaskAssignor, "assign", lambda self, group: fail(group))
    with pytest.raises(UnknownServerError, match="Failed to compute a new target assignment for epoch 2: broken"):
        streams.join("m")
    assert streams.described().error_code == ErrorCode.GROUP_ID_NOT_FOUND


# topologies


def test_a_topology_is_not_replaced() -> None:
    streams = Streams()
    newer = topology(*WORDS.subtopologies, epoch=1)
    streams.join("m", newer)
    answer = streams.join("n", WORDS)
    detail = "The member's topology epoch 0 is behind the group's topology epoch 1."
    assert (Status.STALE_TOPOLOGY, detail) in statuses(answer)
    for other in (topology(subtopology("0", "t"), epoch=1), topology(*WORDS.subtopologies, epoch=2)):
        with pytest.raises(InvalidRequestError, match="Topology updates are not supported yet"):
            streams.join("o", other)
    assert streams.described().topology.epoch == 1


@pytest.mark.parametrize(
    ("subtopologies", "message"),
    [
        ([subtopology("0", "t", state_changelog_topics=[internal("c", 3)])], "Changelog topic c must have an undefined"),
        ([subtopology("0", "t"), subtopology("0", "t")], "same id"),
        ([subtopology("0", "t", state_changelog_topics=[internal("c"), internal("c")])], "internal topic twice"),
        ([subtopology("0", "t", repartition_source_topics=[internal("r"), internal("r")])], "internal topic twice"),
        ([subtopology("0", "t", repartition_source_topics=[internal("r", -1)])], "has -1 partitions"),
    ],
)
def test_invalid_topologies(subtopologies: Any, message: str) -> None:
    with pytest.raises(StreamsInvalidTopologyError, match=message):
        Streams().join("m", topology(*subtopologies))


def test_a_group_waits_for_its_topics() -> None:
    streams = Streams()
    streams.bench.topics.change({"t": 3})
    answer = streams.join("m")
    assert (answer.active_tasks, streams.state()) == ([], ("NotReady", 2, 2))
    assert statuses(answer) == [(Status.MISSING_INTERNAL_TOPICS, "Internal topics are missing: counts")]
    ((name, count, factor, configs),) = streams.missing
    assert (name, count, factor, configs) == ("counts", 3, 0, {"cleanup.policy": "compact"})
    described = streams.described().topology.subtopologies[0]
    assert [(each.name, each.partitions) for each in described.state_changelog_topics] == [("counts", 0)]
    streams.bench.topics.change({"t": 3, "counts": 3})
    streams.settle()
    assert streams.held["m"]["active"] == ALL
    described = streams.described().topology.subtopologies[0]
    assert [(each.name, each.partitions) for each in described.state_changelog_topics] == [("counts", 3)]
    streams.bench.topics.change({"counts": 3})
    answer = streams.beat("m")
    assert statuses(answer)[-1] == (Status.MISSING_SOURCE_TOPICS, "Source topics t are missing.")
    assert streams.state()[0] == "NotReady"
    streams.settle()
    assert streams.held["m"]["active"] == set()


def test_new_partitions_of_a_source_topic_do_not_fit_its_changelog() -> None:
    streams = Streams()
    streams.join("m")
    streams.bench.topics.change({"t": 4, "counts": 3})
    detail = "Existing topic counts has different number of partitions: expected 4, found 3"
    assert (Status.INCORRECTLY_PARTITIONED_TOPICS, detail) in statuses(streams.beat("m"))
    streams.bench.topics.change({"t": 4, "counts": 4})
    streams.settle()
    assert streams.held["m"]["active"] == {*ALL, ("0", 3)}


# static members


def test_a_static_member_returns_to_its_tasks() -> None:
    streams = Streams()
    streams.join("m", instance_id="i")
    streams.join("n")
    streams.settle()
    mine, state = set(streams.held["m"]["active"]), streams.state()
    with pytest.raises(UnreleasedInstanceIdError):
        streams.join("m2", instance_id="i")
    assert streams.ask("m", -2, instance_id="i").member_epoch == -2
    last = streams.written()[-1][1]
    assert (last.member_epoch, last.active_tasks[0].assignment_epochs) == (-2, [0] * len(mine))
    streams.join("m2", process="m", instance_id="i")
    assert streams.held["m2"]["active"] == mine
    assert streams.state() == state, "nothing moves"
    with pytest.raises(FencedInstanceIdError):
        streams.ask("m", 3, instance_id="i")
    with pytest.raises(UnknownMemberIdError, match="Instance id j is unknown"):
        streams.ask("m2", 3, instance_id="j")
    assert streams.ask("m2", -1, instance_id="i").error_code == ErrorCode.NONE


def test_a_static_member_that_does_not_return_is_removed() -> None:
    streams = Streams()
    streams.join("m", instance_id="i")
    streams.ask("m", -2, instance_id="i")
    streams.bench.advance(45_100)
    assert streams.state()[0] == "Empty"


# sessions


def test_a_session_expires() -> None:
    streams = Streams()
    streams.join("m")
    streams.join("n")
    streams.bench.advance(44_000)
    streams.beat("m")
    streams.bench.advance(1_100)
    assert [each.member_id for each in streams.described().members] == ["m"]
    streams.bench.log.fail_next = [ErrorCode.NOT_ENOUGH_REPLICAS]
    streams.bench.advance(44_000)
    assert streams.state()[0] != "Empty", "the removal could not be written"
    streams.bench.advance(500)
    assert streams.state()[0] == "Empty"


def test_a_partition_that_goes_leaves_no_timers() -> None:
    streams = Streams()
    streams.join("m")
    streams.bench.log.holds = True
    with pytest.raises(TimeoutError):  # the replicas do not confirm before the partition goes
        streams.join("n")
    before = len(streams.bench.timer)
    streams.bench.runtime.resigned(0)
    assert len(streams.bench.timer) < before
    streams.bench.log.release(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert len(streams.bench.timer) == 0


def test_a_failed_write_changes_nothing() -> None:
    streams = Streams()
    streams.bench.log.fail_next = [ErrorCode.NOT_ENOUGH_REPLICAS]
    request: dict[str, Any] = {
        "topology": WORDS,
        "rebalance_timeout_ms": 1,
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
    }
    assert streams.ask("m", 0, **request).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert streams.described().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert streams.join("m").member_epoch == 2


# what is not stored


def test_all_members_are_asked_to_shut_down() -> None:
    streams = Streams()
    streams.join("m")
    streams.join("n")
    detail = "Streams group member m encountered a fatal error and requested a shutdown for the entire application."
    assert (Status.SHUTDOWN_APPLICATION, detail) in statuses(streams.beat("m", shutdown_application=True))
    assert (Status.SHUTDOWN_APPLICATION, detail) in statuses(streams.beat("n"))
    streams.leave("n")
    streams.leave("m")
    streams.bench.advance(1_000)
    assert statuses(streams.join("m")) == []


def test_endpoints_have_the_partitions_of_their_tasks() -> None:
    streams = Streams()
    answer = streams.join("m", user_endpoint=Endpoint(host="h", port=80), endpoint_information_epoch=-1)
    (only,) = answer.partitions_by_user_endpoint
    assert (only.user_endpoint.host, only.user_endpoint.port) == ("h", 80)
    assert [(each.topic, each.partitions) for each in only.active_partitions] == [("t", [0, 1, 2])]
    streams.join("n", user_endpoint=Endpoint(host="i", port=81), endpoint_information_epoch=-1)
    streams.settle()
    answer = streams.beat("m", endpoint_information_epoch=-1)
    found = {each.user_endpoint.host: each.active_partitions for each in answer.partitions_by_user_endpoint}
    assert {host: len(parts[0].partitions) for host, parts in found.items()} == {
        host: len(streams.held[name]["active"]) for host, name in (("h", "m"), ("i", "n"))
    }
    epoch = answer.endpoint_information_epoch
    assert streams.beat("n", endpoint_information_epoch=epoch).partitions_by_user_endpoint is None
    streams.leave("n")
    streams.settle()
    assert streams.beat("m", endpoint_information_epoch=epoch).endpoint_information_epoch > epoch


def test_reported_offsets_are_described_and_prefer_a_member() -> None:
    streams = Streams()
    streams.join("m")
    streams.join("n", task_offsets=[TaskOffset(subtopology_id="0", partition=0, offset=70)])
    streams.bench.advance(1_000)
    streams.beat("n", task_end_offsets=[TaskOffset(subtopology_id="0", partition=0, offset=80)])
    member = streams.described().members[1]
    assert [(each.partition, each.offset) for each in member.task_offsets + member.task_end_offsets] == [(0, 70), (0, 80)]
    streams.leave("m")
    streams.settle()
    assert streams.held["n"]["active"] == ALL


def test_offsets_of_tasks_that_do_not_exist_are_not_kept() -> None:
    streams = Streams()
    streams.join("m")
    tasks_of_nobody = [TaskOffset(subtopology_id="0", partition=3, offset=1), TaskOffset(subtopology_id="9", partition=0, offset=1)]
    streams.beat("m", task_offsets=[*tasks_of_nobody, TaskOffset(subtopology_id="0", partition=2, offset=5)])
    (member,) = streams.described().members
    assert [(each.partition, each.offset) for each in member.task_offsets] == [(2, 5)]


def test_missing_client_tags_are_reported_to_newer_clients() -> None:
    streams = Streams()
    streams.bench.group_config_manager.update(G, {"streams.rack.aware.assignment.tags": "zone,cluster"})
    fields: dict[str, Any] = {"client_tags": [KeyValue(key="zone", value="a")], "version": 1}
    ((code, detail),) = statuses(streams.join("m", **fields))
    assert (code, "[cluster]" in detail) == (Status.MISSING_CLIENT_TAGS, True)
    assert statuses(streams.beat("m", version=0)) == []


# offsets


def commit(streams: Streams, epoch: int, partition: int = 0, topic: str = "t", version: int = 9, member_id: str = "m") -> Any:
    offsets = {TopicPartition(topic, partition): OffsetCommitValue(offset=1)}
    return streams.bench.groups.commit_offsets(Sender(G, member_id, None, epoch), offsets, version)


def test_members_commit_in_the_epochs_in_which_they_have_had_their_tasks() -> None:
    streams = Streams()
    streams.join("m", PLAIN)
    assert commit(streams, 2) == ErrorCode.NONE
    assert commit(streams, 2, version=8) == ErrorCode.UNSUPPORTED_VERSION
    assert commit(streams, 3) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(streams, 2, member_id="x") == ErrorCode.UNKNOWN_MEMBER_ID
    streams.join("n", PLAIN)
    streams.settle()
    (kept, *_), (gone, *_) = sorted(streams.held["m"]["active"]), sorted(streams.held["n"]["active"])
    assert streams.epochs["m"] == 3
    assert commit(streams, 2, kept[1]) == ErrorCode.NONE, "it has had this task since epoch 2"
    assert commit(streams, 2, gone[1]) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(streams, 2, topic="other") == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(streams, 1, kept[1]) == ErrorCode.STALE_MEMBER_EPOCH
    fetched: Any = streams.bench.groups.fetch_offsets(_fetch()._replace(sender=Sender(G, "m", None, 2)))
    assert fetched[0] == ErrorCode.STALE_MEMBER_EPOCH


def test_offsets_of_topics_that_are_read_are_kept() -> None:
    streams = Streams()
    streams.join("m", PLAIN)
    commit(streams, 2)
    partitions = [TopicPartition("t", 0)]
    groups: Any = streams.bench.groups
    assert groups.delete_offsets(G, partitions) == (ErrorCode.NONE, {partitions[0]: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC})
    streams.leave("m")
    assert groups.delete_offsets(G, partitions) == (ErrorCode.NONE, {partitions[0]: ErrorCode.NONE})
    streams.bench.groups.expire_offsets()
    assert streams.described().error_code == ErrorCode.GROUP_ID_NOT_FOUND, "a group without members and offsets ends"


def test_metrics() -> None:
    streams = Streams()
    streams.join("m")
    registry = streams.bench.metrics
    assert registry.value(COORDINATOR_TYPE, "group-count", protocol="streams") == 1
    assert registry.value(COORDINATOR_TYPE, "streams-group-count", state="Stable") == 1
    assert registry.value(COORDINATOR_TYPE, "streams-group-count", state="NotReady") == 0
    assert registry.value(COORDINATOR_TYPE, "streams-group-rebalance-count") == 1
