"""Share groups: members, epochs, assignments, the states of share partitions, and what is written about them."""

from concurrent.futures import Future
from typing import Any

import pytest

from tests.support.coordinator_fakes import Bench, join
from twisted_kafka.group_coordinator.assignors.simple import SimpleAssignor
from twisted_kafka.group_coordinator.offsets.offset_metadata_manager import OffsetFetch
from twisted_kafka.group_coordinator.requests import Client, Sender
from twisted_kafka.group_coordinator.share import share_offsets
from twisted_kafka.group_coordinator.shared.end_offsets import EndOffset
from twisted_kafka.group_coordinator.shared.group_coordinator_metrics import COORDINATOR_TYPE
from twisted_kafka.group_coordinator.state.share.share_partitions import union
from twisted_kafka.protocol.errors import (
    ErrorCode,
    FencedMemberEpochError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    InvalidRequestError,
    KafkaError,
    UnknownMemberIdError,
    UnknownServerError,
)
from twisted_kafka.protocol.messages.coordinators.consumer_groups import ConsumerGroupHeartbeatRequest
from twisted_kafka.protocol.messages.coordinators.coordinator_records import OffsetCommitValue
from twisted_kafka.protocol.messages.share.share_groups import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from twisted_kafka.protocol.topic_partition import TopicPartition

G = "g"
CLIENT = Client("app", "/127.0.0.1")


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b".")


class Share:
    """A Bench with topics t (3 partitions) and u (1), and what its members do."""

    def __init__(self, **settings: Any) -> None:
        self.bench = Bench(**settings)
        self.bench.topics.change({"t": 3, "u": 1})
        self.epochs: dict[str, int] = {}

    def ask(
        self, member_id: str, epoch: int, topics: list[str] | None = None, group_id: str = G, **fields: Any
    ) -> ShareGroupHeartbeatResponse:
        request = ShareGroupHeartbeatRequest(
            group_id=group_id, member_id=member_id, member_epoch=epoch, subscribed_topic_names=topics, **fields
        )
        answer: Any = self.bench.groups.share.heartbeat(request, CLIENT)
        return answer.result(0) if isinstance(answer, Future) else answer

    def beat(self, member_id: str, topics: list[str] | None = None) -> ShareGroupHeartbeatResponse:
        """Send a heartbeat, the first time to join."""
        answer = self.ask(member_id, self.epochs.get(member_id, 0), topics)
        assert answer.error_code == ErrorCode.NONE
        self.epochs[member_id] = answer.member_epoch
        return answer

    def leave(self, member_id: str) -> None:
        assert self.ask(member_id, -1).error_code == ErrorCode.NONE
        del self.epochs[member_id]

    def settle(self) -> None:
        """Let all members reach the newest assignment."""
        for _ in range(2):
            self.bench.advance(1_000)
            for member_id in list(self.epochs):
                self.beat(member_id)

    def described(self, group_id: str = G) -> Any:
        return self.bench.groups.share.describe(group_id)

    def assigned(self) -> dict[str, list[str]]:
        return {
            member.member_id: sorted(
                f"{topic.topic_name}-{index}" for topic in member.assignment.topic_partitions for index in topic.partitions
            )
            for member in self.described().members
        }

    def state(self) -> tuple[str, int, int]:
        group = self.described()
        return group.group_state, group.group_epoch, group.assignment_epoch

    def written(self) -> list[tuple[str, Any]]:
        return [
            (type(each.key).__name__.removeprefix("ShareGroup").removesuffix("Key"), each.value) for each in self.bench.written()
        ]


def listed(answer: ShareGroupHeartbeatResponse) -> dict[bytes, list[int]] | None:
    if answer.assignment is None:
        return None
    return {topic.topic_id: list(topic.partitions) for topic in answer.assignment.topic_partitions}


# joining and what is written


def test_the_records_of_a_groups_life_are_kafkas() -> None:
    share = Share()
    share.beat("m", ["t"])
    kinds = [kind for kind, _ in share.written()]
    first = ["MemberMetadata", "Metadata", "TargetAssignmentMember", "TargetAssignmentMetadata", "CurrentMemberAssignment"]
    assert kinds == [*first, "StatePartitionMetadata", "StatePartitionMetadata"]
    values = [value for _, value in share.written()]
    assert (values[0].client_id, values[0].client_host, values[0].subscribed_topic_names) == ("app", "/127.0.0.1", ["t"])
    assert (values[1].epoch, values[3].assignment_epoch, values[4].member_epoch, values[4].previous_member_epoch) == (2, 2, 2, 0)
    assert values[2].topic_partitions == values[4].assigned_partitions == []
    assert [(each.topic_name, each.partitions) for each in values[5].initializing_topics] == [("t", [0, 1, 2])]
    assert (values[6].initializing_topics, [each.topic_id for each in values[6].initialized_topics]) == ([], [topic_id("t")])

    share.bench.advance(1_000)
    answer = share.beat("m")
    assert (answer.member_epoch, listed(answer)) == (3, {topic_id("t"): [0, 1, 2]})
    assert [kind for kind, _ in share.written()[7:]] == first[1:]
    assert listed(share.beat("m")) is None

    share.leave("m")
    kinds = [kind for kind, _ in share.written()[11:]]
    assert kinds == ["CurrentMemberAssignment", "TargetAssignmentMember", "MemberMetadata", "Metadata", "TargetAssignmentMetadata"]
    last = share.written()[-1][1]
    assert (last.assignment_epoch, last.assignment_timestamp) == (4, 0)
    assert share.written()[-2][1].metadata_hash == 0
    assert share.state() == ("Empty", 4, 4)


def test_a_group_is_the_same_after_it_was_loaded() -> None:
    share = Share()
    share.beat("m", ["t", "u"])
    share.beat("n", ["u"])
    share.settle()
    before = share.described()
    share.bench.restart()
    assert share.described() == before
    assert share.beat("m").error_code == ErrorCode.NONE
    assert share.state()[1:] == (before.group_epoch, before.assignment_epoch)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"member_id": " "}, "MemberId can't be empty"),
        ({"group_id": ""}, "GroupId can't be empty"),
        ({"rack_id": ""}, "RackId can't be empty"),
        ({"topics": None}, "SubscribedTopicNames must be set"),
        ({"topics": []}, "SubscribedTopicNames must be set"),
        ({"epoch": -2}, "MemberEpoch is invalid"),
    ],
)
def test_invalid_heartbeats(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        Share().ask(**{"member_id": "m", "epoch": 0, "topics": ["t"], **fields})


def test_who_is_refused() -> None:
    share = Share(share_max_size=2)
    with pytest.raises(GroupIdNotFoundError, match="Share group g not found"):
        share.ask("m", 1)
    with pytest.raises(GroupIdNotFoundError, match="Group g not found"):
        share.ask("m", -1)
    share.beat("m", ["t"])
    share.settle()
    for member_id in ("n", "m"):
        with pytest.raises(UnknownMemberIdError if member_id == "n" else FencedMemberEpochError):
            share.ask(member_id, 9)
    with pytest.raises(UnknownMemberIdError):
        share.ask("n", -1)
    with pytest.raises(FencedMemberEpochError, match="smaller"):
        share.ask("m", 1)
    assert share.ask("m", 2).member_epoch == 3, "the response with the new epoch was lost"
    share.beat("n", ["t"])
    with pytest.raises(GroupMaxSizeReachedError, match="maximum capacity of 2"):
        share.ask("o", 0, ["t"])
    assert share.ask("m", 0, ["t"]).assignment is not None, "a member may rejoin"


def test_groups_of_other_types_keep_their_ids() -> None:
    share = Share()
    share.beat("m", ["t"])
    groups: Any = share.bench.groups
    assert groups.describe_consumer_group(G).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    committed = groups.commit_offsets(Sender(G), {TopicPartition("t", 0): OffsetCommitValue(offset=1)}, 9)
    assert committed == ErrorCode.GROUP_ID_NOT_FOUND
    assert groups.fetch_offsets(OffsetFetch(Sender(G), None))[0] == ErrorCode.GROUP_ID_NOT_FOUND
    assert groups.join(join(G)).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert groups.heartbeat(Sender(G, "m", None, 1)) == ErrorCode.UNKNOWN_MEMBER_ID
    with pytest.raises(GroupIdNotFoundError, match="not a consumer group"):
        groups.consumer_heartbeat(
            ConsumerGroupHeartbeatRequest(
                group_id=G, member_id="c", rebalance_timeout_ms=1, subscribed_topic_names=["t"], topic_partitions=[]
            ),
            CLIENT,
            1,
        )
    groups.join(join("classic"))
    with pytest.raises(GroupIdNotFoundError, match="Group classic is not a share group"):
        share.ask("m", 0, ["t"], group_id="classic")
    assert share.described("classic").error_message == "Group classic is not a share group."
    listings = groups.list_groups((), ("share",))[1]
    assert [(each.group_id, each.protocol_type, each.group_state, each.group_type) for each in listings] == [
        (G, "share", "Stable", "share")
    ]
    assert groups.list_groups(("empty",), ("share",))[1] == []


# assignments


def test_members_share_partitions_evenly() -> None:
    share = Share()
    for member_id in "abcd":
        share.beat(member_id, ["t"])
    share.settle()
    assigned = share.assigned()
    assert sorted(map(len, assigned.values())) == [1, 1, 2, 2]
    assert {each for found in assigned.values() for each in found} == {"t-0", "t-1", "t-2"}


def test_a_member_gets_topics_that_it_subscribes_to() -> None:
    share = Share()
    share.beat("m", ["t"])
    share.beat("n", ["u"])
    share.settle()
    assert share.assigned() == {"m": ["t-0", "t-1", "t-2"], "n": ["u-0"]}
    share.beat("o", ["u"])
    assert listed(share.beat("n", ["t"])) == {}, "it gives up what it no longer subscribes to at once"
    share.settle()
    assigned = share.assigned()
    assert (sorted(assigned["m"] + assigned["n"]), assigned["o"]) == (["t-0", "t-1", "t-2"], ["u-0"])


def test_assignments_are_not_computed_more_often_than_the_interval() -> None:
    share = Share(share_max_size=5, share_assignment_interval_ms=1_000)  # a config of its own, which it changes below
    share.beat("m", ["t"])
    share.settle()
    epoch = share.state()[1]
    share.bench.advance(1_000)
    share.beat("n", ["t"])
    assert share.state() == ("Stable", epoch + 1, epoch + 1)
    share.beat("o", ["t"])
    assert share.state() == ("Stable", epoch + 2, epoch + 1)
    share.bench.advance(999)
    share.beat("m")
    assert share.state() == ("Stable", epoch + 2, epoch + 1)
    share.bench.advance(1)
    assert share.beat("m").member_epoch == epoch + 2
    share.bench.group_config_manager.update(G, {"share.assignment.interval.ms": "0"})
    share.beat("p", ["t"])
    assert share.state() == ("Stable", epoch + 3, epoch + 3)
    share.bench.group_config_manager.update(G, {})
    config = share.bench.broker_config
    config.adopt(config.updated({"group.share.assignment.interval.ms": "0"}))
    share.beat("q", ["t"])
    assert share.state() == ("Stable", epoch + 4, epoch + 4)


def test_new_partitions_are_initialized_and_assigned() -> None:
    share = Share()
    share.beat("m", ["t"])
    share.settle()
    share.bench.topics.change({"t": 4, "u": 1})
    share.settle()
    assert share.assigned() == {"m": ["t-0", "t-1", "t-2", "t-3"]}
    assert [sorted(each.partition for topic in request.topics for each in topic.partitions) for request in requests(share)] == [
        [0, 1, 2],
        [3],
    ]


def test_a_failing_assignor_fails_the_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    share = Share()

    def fail(_: object) -> None:
        raise ValueError("broken")

    monkeypatch.setattr(SimpleAssignor, "assign", lambda self, spec: fail(spec))
    with pytest.raises(UnknownServerError, match="broken"):
        share.ask("m", 0, ["t"])
    assert share.described().error_code == ErrorCode.GROUP_ID_NOT_FOUND


# sessions


def test_a_session_expires() -> None:
    share = Share()
    share.beat("m", ["t"])
    share.beat("n", ["t"])
    share.bench.advance(44_000)
    share.beat("m")
    share.bench.advance(1_100)
    assert list(share.assigned()) == ["m"]
    share.bench.log.fail_next = [ErrorCode.NOT_ENOUGH_REPLICAS]
    share.bench.advance(44_000)
    assert share.state()[0] == "Stable", "the removal could not be written"
    share.bench.advance(500)
    assert share.state()[0] == "Empty"


def test_sessions_begin_anew_when_the_group_is_loaded() -> None:
    share = Share()
    share.beat("m", ["t"])
    share.bench.advance(40_000)
    share.bench.restart()
    share.bench.advance(40_000)
    assert share.state()[0] == "Stable"
    share.bench.advance(5_100)
    assert share.state()[0] == "Empty"


# the states of share partitions


def requests(share: Share) -> list[Any]:
    return share.bench.persister.requests


def test_partitions_are_asked_for_once_until_the_retry_interval() -> None:
    share = Share()
    share.bench.persister.holds = True
    share.beat("m", ["t"])
    share.settle()
    assert len(requests(share)) == 1
    assert share.assigned() == {"m": []}
    share.bench.advance(30_000)
    share.beat("m")
    assert len(requests(share)) == 2
    share.bench.persister.release()
    share.settle()
    assert share.assigned() == {"m": ["t-0", "t-1", "t-2"]}


def test_a_new_coordinator_asks_for_what_the_old_one_had_asked_for() -> None:
    share = Share()
    share.bench.persister.holds = True
    share.beat("m", ["t"])
    share.bench.restart()
    share.bench.persister.holds = False
    share.settle()
    assert share.assigned() == {"m": ["t-0", "t-1", "t-2"]}


def test_what_could_not_be_initialized_is_asked_for_again() -> None:
    share = Share()
    share.bench.persister.errors[topic_id("t"), 1] = ErrorCode.COORDINATOR_NOT_AVAILABLE
    share.beat("m", ["t"])
    value = share.written()[-1][1]
    assert (value.initializing_topics, value.initialized_topics) == ([], [])
    share.bench.persister.errors.clear()
    share.settle()
    assert share.assigned() == {"m": ["t-0", "t-1", "t-2"]}


def test_an_answer_that_could_not_be_written_is_asked_for_again() -> None:
    share = Share()
    share.bench.persister.holds = True
    share.beat("m", ["t"])
    share.bench.log.fail_next = [ErrorCode.NOT_ENOUGH_REPLICAS]
    share.bench.persister.release()
    share.beat("m")
    assert len(requests(share)) == 2, "at once, not after the retry interval"


def test_a_deleted_topic_is_forgotten() -> None:
    share = Share()
    share.beat("m", ["t", "u"])
    share.settle()
    share.bench.topics.change({"t": 3})
    share.bench.delete_partitions([TopicPartition("u", 0)])
    value = share.written()[-1][1]
    assert [each.topic_name for each in value.initialized_topics] == ["t"]
    share.settle()
    assert share.assigned() == {"m": ["t-0", "t-1", "t-2"]}


# offsets


def empty_group(share: Share) -> None:
    share.beat("m", ["t"])
    share.settle()
    share.leave("m")


def offsets(share: Share, partitions: dict[bytes, list[int]] | None = None, group_id: str = G) -> dict[str, tuple[int, int]]:
    found: Any = share.bench.groups.share.describe_offsets(group_id, partitions)
    found = found.result(0) if isinstance(found, Future) else found
    return {f"{topic[:1].decode()}-{index}": (each.start_offset, each.lag) for (topic, index), each in found.items()}


def test_offsets_are_altered_described_and_deleted() -> None:
    share = Share()
    empty_group(share)
    assert offsets(share) == {"t-0": (-1, -1), "t-1": (-1, -1), "t-2": (-1, -1)}
    share.bench.ends[TopicPartition("t", 1)] = EndOffset(10)
    groups: Any = share.bench.groups
    assert groups.share.alter_offsets(G, {(topic_id("t"), 1): 4, (topic_id("u"), 0): 0}).result(0) == {}
    assert offsets(share) == {"t-0": (-1, -1), "t-1": (4, 6), "t-2": (-1, -1), "u-0": (0, 0)}
    assert offsets(share, {topic_id("t"): [1, 9]}) == {"t-1": (4, 6), "t-9": (-1, -1)}
    assert groups.share.delete_offsets(G, [topic_id("t"), topic_id("v")]).result(0) == {
        topic_id("v"): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    }
    assert offsets(share) == {"u-0": (0, 0)}
    assert groups.share.delete_offsets(G, [topic_id("t")]) == {topic_id("t"): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert offsets(share, group_id="other") == {}


def test_an_end_offset_that_is_not_known_is_the_partitions_error() -> None:
    share = Share()
    empty_group(share)
    groups: Any = share.bench.groups
    groups.share.alter_offsets(G, {(topic_id("t"), 0): 0}).result(0)
    share.bench.ends[TopicPartition("t", 0)] = EndOffset(-1, ErrorCode.LEADER_NOT_AVAILABLE)
    found = groups.share.describe_offsets(G, {topic_id("t"): [0]}).result(0)
    assert found[topic_id("t"), 0].error == ErrorCode.LEADER_NOT_AVAILABLE


def test_altering_creates_a_group() -> None:
    share = Share()
    groups: Any = share.bench.groups
    assert groups.share.alter_offsets("new", {}) == {}
    assert share.described("new").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert groups.share.alter_offsets("new", {(topic_id("t"), 0): 7}).result(0) == {}
    group = share.described("new")
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Empty", 1, 1)
    assert offsets(share, group_id="new")["t-0"][0] == 7


def refusal(ask: Any) -> ErrorCode:
    try:
        answer = ask()
        if isinstance(answer, Future):
            answer.result(0)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def test_offsets_of_a_group_with_members_stay() -> None:
    share = Share()
    share.beat("m", ["t"])
    groups: Any = share.bench.groups
    assert refusal(lambda: groups.share.alter_offsets(G, {(topic_id("t"), 0): 1})) == ErrorCode.NON_EMPTY_GROUP
    assert refusal(lambda: groups.share.delete_offsets(G, [topic_id("t")])) == ErrorCode.NON_EMPTY_GROUP
    assert groups.delete_group(G) == ErrorCode.NON_EMPTY_GROUP
    assert refusal(lambda: groups.share.delete_offsets("other", [topic_id("t")])) == ErrorCode.GROUP_ID_NOT_FOUND
    for ask in (groups.share.alter_offsets, groups.share.delete_offsets):
        assert refusal(lambda ask=ask: ask("", {})) == ErrorCode.INVALID_GROUP_ID


def test_errors_of_share_coordinators_are_the_partitions() -> None:
    share = Share()
    empty_group(share)
    groups: Any = share.bench.groups
    share.bench.persister.errors[topic_id("u"), 0] = ErrorCode.FENCED_STATE_EPOCH
    altered = groups.share.alter_offsets(G, {(topic_id("t"), 0): 1, (topic_id("u"), 0): 1}).result(0)
    assert altered == {(topic_id("u"), 0): ErrorCode.FENCED_STATE_EPOCH}
    assert offsets(share)["t-0"][0] == 1
    assert "u-0" not in offsets(share)
    share.bench.persister.errors[topic_id("t"), 2] = ErrorCode.NOT_COORDINATOR
    assert groups.share.delete_offsets(G, [topic_id("t")]).result(0) == {topic_id("t"): ErrorCode.NOT_COORDINATOR}
    assert groups.delete_group(G).result(0) == ErrorCode.NOT_COORDINATOR
    assert share.described().group_state == "Empty"
    share.bench.persister.errors.clear()
    assert groups.share.delete_offsets(G, [topic_id("t")]).result(0) == {}, "a deletion can be repeated"


def test_a_deleted_group_leaves_nothing() -> None:
    share = Share()
    empty_group(share)
    groups: Any = share.bench.groups
    assert groups.delete_group(G).result(0) == ErrorCode.NONE
    assert share.bench.persister.states == {}
    assert share.described().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    share.bench.restart()
    again: Any = share.bench.groups.delete_group(G)
    assert again == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_is_deleted_whose_topic_has_gone_unnoticed() -> None:
    """The topic was deleted while the group had no coordinator."""
    share = Share()
    empty_group(share)
    share.bench.topics.change({"u": 1})
    for index in range(3):
        share.bench.persister.errors[topic_id("t"), index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert share.bench.groups.delete_group(G) == ErrorCode.NONE
    assert share.described().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_altering_many_offsets_does_not_copy_those_before_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    share = Share()
    share.bench.topics.change({"t": 1_000})
    unions = []

    def counted(*arguments: Any) -> Any:
        unions.append(arguments)
        return union(*arguments)

    monkeypatch.setattr(share_offsets, "union", counted)
    altered: Any = share.bench.groups.share.alter_offsets("new", {(topic_id("t"), index): 0 for index in range(1_000)})
    assert altered.result(0) == {}
    assert len(unions) < 10


def test_the_records_of_a_deleted_group_without_offsets_are_kafkas() -> None:
    share = Share()
    empty_group(share)
    groups: Any = share.bench.groups
    groups.share.delete_offsets(G, [topic_id("t")])
    before = len(share.written())
    assert groups.delete_group(G) == ErrorCode.NONE
    metadata, *tombstones = share.written()[before:]
    assert (metadata[0], metadata[1].initialized_topics, metadata[1].deleting_topics) == ("StatePartitionMetadata", [], [])
    assert tombstones == [("TargetAssignmentMetadata", None), ("StatePartitionMetadata", None), ("Metadata", None)]


def test_a_group_that_gets_a_member_while_its_states_are_deleted_stays() -> None:
    share = Share()
    empty_group(share)
    groups: Any = share.bench.groups
    share.bench.persister.holds = True
    answer = groups.delete_group(G)
    share.beat("m", ["t"])
    share.bench.persister.release()
    assert answer.result(0) == ErrorCode.NON_EMPTY_GROUP
    share.settle()
    assert share.assigned() == {"m": ["t-0", "t-1", "t-2"]}


def test_requests_that_wait_are_answered_when_the_partition_goes() -> None:
    share = Share()
    empty_group(share)
    groups: Any = share.bench.groups
    share.bench.persister.holds = True
    answers = [groups.share.alter_offsets(G, {(topic_id("t"), 0): 1}), groups.share.alter_offsets(G, {(topic_id("t"), 1): 1})]
    share.bench.reload(1)
    for answer in answers:
        assert refusal(lambda answer=answer: answer) == ErrorCode.NOT_COORDINATOR
    share.bench.persister.release()


def test_a_change_that_can_not_be_written_is_the_requests_error() -> None:
    share = Share()
    empty_group(share)
    groups: Any = share.bench.groups
    share.bench.log.fail_next = [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert refusal(lambda: groups.share.alter_offsets(G, {(topic_id("t"), 0): 1})) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    share.bench.log.fail_next = [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert refusal(lambda: groups.share.alter_offsets(G, {(topic_id("t"), 0): 1})) == ErrorCode.NOT_COORDINATOR
    share.bench.log.fail_next = [ErrorCode.NOT_ENOUGH_REPLICAS]
    answer = share.ask("m", 0, ["t"])
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert share.described().members == []


def test_empty_share_groups_do_not_expire() -> None:
    share = Share(offsets_retention_ms=1)
    empty_group(share)
    share.bench.advance(1_000)
    share.bench.groups.expire_offsets()
    assert share.state()[0] == "Empty"


def test_metrics() -> None:
    share = Share()
    share.beat("m", ["t"])
    registry = share.bench.metrics
    assert registry.value(COORDINATOR_TYPE, "group-count", protocol="share") == 1
    assert registry.value(COORDINATOR_TYPE, "share-group-count", state="Stable") == 1
    assert registry.value(COORDINATOR_TYPE, "share-group-rebalance-count") == 1
