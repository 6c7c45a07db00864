"""Members of streams groups, their topologies and tasks, and their records (KIP-1071)."""

from typing import Any, Final

from twisted_kafka.group_coordinator.state.group_kinds import GROUP_RECORD_KINDS
from twisted_kafka.protocol.messages.coordinators.consumer_groups import ConsumerGroupDescribeRequest
from twisted_kafka.protocol.messages.coordinators.groups import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from twisted_kafka.protocol.messages.coordinators.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from twisted_kafka.protocol.messages.streams.streams_groups import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    StreamsGroupDescribeRequest,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestSubtopology,
    StreamsGroupHeartbeatRequestTopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
)
from twisted_kafka.protocol.messages.streams.streams_topology import StreamsGroupTopologyDescriptionUpdateRequest
from twisted_kafka.protocol.topic_partition import GROUP_METADATA_TOPIC
from twisted_kafka.tools.compare.answers import plain
from twisted_kafka.tools.compare.scenarios.coordinators.groups import join, joined
from twisted_kafka.tools.compare.scenarios.kafka_4.share_members import groups_of_other_kinds, newer, topic_of
from twisted_kafka.tools.compare.scenarios.kafka_4.written_records import written_records
from twisted_kafka.tools.compare.talk import Talk

LEAVE: Final = -1
AWAY: Final = -2
_STREAMS_KINDS: Final = {kind: GROUP_RECORD_KINDS[kind] for kind in (2, 17, 19, 20, 21, 22, 23)}

Subtopology = StreamsGroupHeartbeatRequestSubtopology
Topology = StreamsGroupHeartbeatRequestTopology


def subtopology(name: str, *sources: str, **fields: Any) -> Subtopology:
    return Subtopology(subtopology_id=name, source_topics=list(sources), **fields)


class StreamsMember:
    """A member of a streams group, with a connection of its own."""

    def __init__(self, talk: Talk, group: str, member_id: str = "a", **own: Any) -> None:
        self.talk = talk.another()
        self.group = group
        self.id = member_id * 22
        self.epoch = 0
        self.tasks: dict[str, list[TaskIds]] = {"active": [], "standby": [], "warmup": []}
        self._own = own

    def ask(self, epoch: int, *, version: int = 1, note: bool = True, **fields: Any) -> Any:
        """Send a heartbeat; keep the epoch and the tasks of the answer."""
        values: dict[str, Any] = {"group_id": self.group, "member_id": self.id, **self._own, **fields}
        answer = self.talk.ask(StreamsGroupHeartbeatRequest(member_epoch=epoch, **values), version, note=False)
        if note:
            self.talk.answers.append((f"StreamsGroupHeartbeatRequest v{version}", _plain(answer)))
        if answer is not None and not answer.error_code:
            self.epoch = answer.member_epoch
            for role in self.tasks:
                told = getattr(answer, f"{role}_tasks")
                if told is not None:
                    self.tasks[role] = told
        return answer

    def join(self, *subtopologies: Subtopology, epoch: int = 0, **fields: Any) -> Any:
        """Join with a topology."""
        values = {
            "rebalance_timeout_ms": 60_000,
            "process_id": self.id,
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
        }
        topology = Topology(epoch=epoch, subtopologies=list(subtopologies))
        return self.ask(0, **{**values, "topology": topology, **fields})

    def beat(self, **fields: Any) -> Any:
        """Send a heartbeat that reports all tasks."""
        held = {f"{role}_tasks": found for role, found in self.tasks.items()}
        return self.ask(self.epoch, **{**held, **fields})

    def settle(self, *others: "StreamsMember") -> None:
        """Send heartbeats until the group is stable."""

        def is_stable() -> bool:
            if _describe(self.talk, 1, self.group).group_state == "Stable":
                return True
            for member in (self, *others):
                member.beat(note=False)
            return False

        self.talk.until(is_stable, f"group {self.group} does not become stable")


def source(talk: Talk, name: str, partitions: int = 1) -> None:
    """Create a topic, and wait until the group coordinator knows it: with KRaft it does so later than others."""
    topic_of(talk, name, partitions)
    prober = StreamsMember(talk, talk.topic(f"knows.{name}"))

    def is_known() -> bool:
        answer = prober.join(subtopology("0", talk.topic(name)), note=False)
        return not answer.error_code and not answer.status

    talk.until(is_known, f"the coordinator does not know topic {name}")
    prober.ask(LEAVE, note=False)


def _plain(answer: Any) -> Any:
    """Return an answer with lists in order."""
    if answer is None:
        return None
    for role in ("active_tasks", "standby_tasks", "warmup_tasks"):
        (getattr(answer, role, None) or []).sort(key=lambda each: each.subtopology_id)
    for each in answer.partitions_by_user_endpoint or ():
        each.active_partitions.sort(key=lambda part: part.topic)
        each.standby_partitions.sort(key=lambda part: part.topic)
    (answer.partitions_by_user_endpoint or []).sort(key=lambda each: each.user_endpoint.port)
    (answer.status or []).sort(key=lambda each: each.status_code)
    return plain(answer)


def _describe(talk: Talk, version: int, *groups: str, **fields: Any) -> Any:
    if version == 0:
        fields.pop("include_topology_description", None)
    answer = talk.ask(StreamsGroupDescribeRequest(group_ids=list(groups), **fields), version, note=False)
    for group in answer.groups:
        group.members.sort(key=lambda member: member.member_id)
        for each in (group.topology.subtopologies or []) if group.topology else []:
            for topic in (*each.state_changelog_topics, *each.repartition_source_topics):
                topic.topic_configs.sort(key=lambda config: config.key)
        for member in group.members:
            member.client_tags.sort(key=lambda tag: tag.key)
    return answer.groups[0] if len(answer.groups) == 1 else answer


def described(talk: Talk, version: int, *groups: str, **fields: Any) -> None:
    """Note the description of groups."""
    talk.answers.append((f"StreamsGroupDescribeRequest v{version}", plain(_describe(talk, version, *groups, **fields))))


def written(talk: Talk, group: str) -> None:
    """Note the records of a group in ``__consumer_offsets``."""
    talk.answers.append(("records", written_records(talk, GROUP_METADATA_TOPIC, _STREAMS_KINDS, group)))


def internal(name: str, partitions: int = 0, **configs: str) -> TopicInfo:
    listed = [KeyValue(key=key.replace("_", "."), value=value) for key, value in configs.items()]
    return TopicInfo(name=name, partitions=partitions, topic_configs=listed)


@newer(StreamsGroupHeartbeatRequest, since=0)
def streams_heartbeats(talk: Talk, version: int) -> None:
    """A member joins, has tasks, keeps quiet, leaves, and its group is deleted: the answers and the records."""
    source(talk, "t", 3)
    member = StreamsMember(talk, talk.topic("group"))
    plain_topology = subtopology("0", talk.topic("t"))
    member.join(plain_topology, version=version)
    member.beat(version=version)
    described(talk, version, member.group)
    written(talk, member.group)
    member.ask(LEAVE, version=version)
    member.ask(LEAVE, version=version)
    described(talk, version, member.group)
    talk.ask(DeleteGroupsRequest(groups_names=[member.group]), 2)
    described(talk, version, member.group)
    written(talk, member.group)


@newer(StreamsGroupHeartbeatRequest, since=0)
def streams_heartbeats_bad(talk: Talk, version: int) -> None:
    """Unknown members, epochs of the past and of the future, requests that lack something, topologies that are invalid."""
    source(talk, "t", 2)
    topic = talk.topic("t")
    member = StreamsMember(talk, talk.topic("group"))
    member.join(subtopology("0", topic), version=version)
    for epoch in (member.epoch + 1, 2**31 - 1, AWAY, -3, 1):
        member.ask(epoch, version=version)
    stranger = StreamsMember(talk, member.group, "s")
    for epoch in (1, 5, LEAVE, AWAY):
        stranger.ask(epoch, version=version)
    nobody = StreamsMember(talk, talk.topic("none"), "n")
    for epoch in (1, LEAVE):
        nobody.ask(epoch, version=version)
    for fields in (
        *({"group_id": ""}, {"group_id": " "}, {"member_id": ""}, {"rack_id": ""}, {"instance_id": ""}),
        *({"rebalance_timeout_ms": -1}, {"active_tasks": None}, {"standby_tasks": [TaskIds(subtopology_id="0", partitions=[0])]}),
        *({"topology": None}, {"warmup_tasks": None}),
    ):
        nobody.join(subtopology("0", topic), version=version, **fields)
    for wrong in (
        subtopology("0", source_topic_regex=["t.*"]),
        subtopology("0", "__consumer_offsets"),
        subtopology("0", "a/b"),
        subtopology("0", topic, state_changelog_topics=[internal(talk.topic("c"), 2)]),
        subtopology("0"),
        subtopology("0", topic, repartition_source_topics=[internal(talk.topic("r"))]),
        subtopology("0", repartition_sink_topics=[talk.topic("r")], repartition_source_topics=[internal(talk.topic("r"))]),
    ):
        nobody.join(wrong, version=version)
    for tasks in ([TaskIds(subtopology_id="7", partitions=[0])], [TaskIds(subtopology_id="0", partitions=[2])]):
        member.ask(member.epoch, version=version, active_tasks=tasks, standby_tasks=[], warmup_tasks=[])
    member.ask(member.epoch, version=version, active_tasks=[])
    member.ask(member.epoch, version=version, topology=Topology())
    member.join(subtopology("0", topic, talk.topic("u")), version=version)
    member.join(subtopology("0", topic), epoch=1, version=version)
    member.beat(version=version)


@newer(StreamsGroupHeartbeatRequest, since=0)
def streams_topologies(talk: Talk, version: int) -> None:
    """Source topics that are missing, internal topics that are created, co-partitioned topics that do not fit."""
    topic, other, counts, words = (talk.topic(name) for name in ("t", "u", "counts", "words"))
    writer = subtopology("0", topic, repartition_sink_topics=[words])
    store = internal(counts, cleanup_policy="compact")
    reader = subtopology("1", repartition_source_topics=[internal(words)], state_changelog_topics=[store])
    member = StreamsMember(talk, talk.topic("group"))
    member.join(writer, reader, version=version)
    described(talk, version, member.group)
    source(talk, "t", 3)

    def is_ready() -> bool:
        if _describe(talk, 1, member.group).group_state != "NotReady":
            return True
        member.beat(note=False)
        return False

    talk.until(is_ready, "internal topics are not created")
    for name in (counts, words):
        talk.known(name)
    member.settle()
    described(talk, version, member.group)
    talk.answers.append(("tasks", {role: [plain(each) for each in found] for role, found in member.tasks.items()}))
    source(talk, "u", 2)
    both = subtopology("0", topic, other, copartition_groups=[CopartitionGroup(source_topics=[0, 1])])
    StreamsMember(talk, talk.topic("unfit")).join(both, version=version)
    exists = subtopology("0", other, state_changelog_topics=[internal(counts)])
    StreamsMember(talk, talk.topic("exists")).join(exists, version=version)
    fixed = subtopology("1", other, repartition_source_topics=[internal(talk.topic("r"), 5)])
    fixed.copartition_groups = [CopartitionGroup(source_topics=[0], repartition_source_topics=[0])]
    StreamsMember(talk, talk.topic("fixed")).join(
        subtopology("0", topic, repartition_sink_topics=[talk.topic("r")]), fixed, version=version
    )


@newer(StreamsGroupHeartbeatRequest, since=0)
def streams_changelogs_that_are_sources(talk: Talk, version: int) -> None:
    """A state whose changelog is the topic that its subtopology reads, as optimized topologies have it; alone, and with another.

    Kafka describes a new group as configured only after a later record in its partition of the group topic.
    """
    source(talk, "t", 2)
    topic, counts = talk.topic("t"), talk.topic("counts")
    groups = {"group": [internal(topic)], "both": [internal(topic), internal(counts)]}
    for name, changelogs in groups.items():
        member = StreamsMember(talk, talk.topic(name))
        member.join(subtopology("0", topic, state_changelog_topics=changelogs), version=version)
        if len(changelogs) > 1:
            talk.known(counts)
        member.settle()
        member.beat(note=False)
    StreamsMember(talk, talk.topic("later")).join(subtopology("0", topic), note=False)
    for name in groups:
        described(talk, version, talk.topic(name))


@newer(StreamsGroupHeartbeatRequest, since=0)
def streams_static_members(talk: Talk, version: int) -> None:
    """A static member goes away and returns with its tasks; others are refused: the answers and the records."""
    source(talk, "t", 2)
    topic = talk.topic("t")
    group = talk.topic("group")
    member = StreamsMember(talk, group, instance_id="i")
    member.join(subtopology("0", topic), version=version)
    other = StreamsMember(talk, group, "b", instance_id="i")
    other.join(subtopology("0", topic), version=version)
    member.join(subtopology("0", topic), version=version)
    member.ask(AWAY, version=version)
    described(talk, version, group)
    other.join(subtopology("0", topic), version=version, process_id=member.id)
    member.ask(2, version=version)
    other.beat(version=version)
    StreamsMember(talk, group, "c", instance_id="j").ask(2, version=version)
    other.ask(LEAVE, version=version)
    written(talk, group)


@newer(StreamsGroupHeartbeatRequest, since=0)
def streams_members_share_tasks(talk: Talk, version: int) -> None:
    """A second member takes tasks over, and gives them back; endpoints, reported offsets, a shutdown."""
    source(talk, "t", 4)
    topic, group = talk.topic("t"), talk.topic("group")
    one = StreamsMember(talk, group)
    tags = [KeyValue(key="zone", value="x")]
    one.join(subtopology("0", topic), version=version, user_endpoint=Endpoint(host="h", port=1), client_tags=tags)
    two = StreamsMember(talk, group, "b")
    two.join(subtopology("0", topic), note=False, user_endpoint=Endpoint(host="h", port=2), endpoint_information_epoch=-1)
    one.settle(two)
    described(talk, version, group)
    one.beat(version=version, endpoint_information_epoch=-1, task_offsets=[TaskOffset(subtopology_id="0", partition=1, offset=5)])
    described(talk, version, group)
    two.ask(LEAVE, note=False)
    one.settle()
    talk.answers.append(("tasks", [plain(each) for each in one.tasks["active"]]))
    one.beat(version=version, shutdown_application=True, endpoint_information_epoch=99)


@newer(StreamsGroupHeartbeatRequest, since=0)
def streams_groups_of_other_kinds(talk: Talk, version: int) -> None:
    """Streams members in groups of other kinds, other members in a streams group, and an empty group that changes its kind."""
    source(talk, "t")
    for kind, group in groups_of_other_kinds(talk).items():
        if kind in ("classic", "consumer"):
            StreamsMember(talk, group).join(subtopology("0", talk.topic("t")), version=version)
            for epoch in (1, LEAVE):
                StreamsMember(talk, group).ask(epoch, version=version)
            described(talk, version, group)
    member = StreamsMember(talk, talk.topic("group"))
    member.join(subtopology("0", talk.topic("t")), version=version)
    talk.ask(ConsumerGroupDescribeRequest(group_ids=[member.group]), 1)
    talk.ask(DescribeGroupsRequest(groups=[member.group]), 6)
    talk.ask(DeleteGroupsRequest(groups_names=[member.group]), 2)
    join(talk, 5, member.group)
    _listed(talk, member.group)
    member.ask(LEAVE, note=False)
    _listed(talk, member.group)
    joined(talk, member.group)
    described(talk, version, member.group)


def _listed(talk: Talk, group: str) -> None:
    """Note how ListGroups shows a group, by type and by state."""
    choices: tuple[dict[str, Any], ...] = (
        {},
        {"types_filter": ["streams"]},
        {"types_filter": ["consumer"]},
        {"states_filter": ["Empty"]},
        {"states_filter": ["Stable"]},
    )
    for filters in choices:
        answer = talk.ask(ListGroupsRequest(**filters), 5, note=False)
        found = [plain(each) for each in answer.groups if each.group_id == group]
        talk.answers.append(("ListGroupsRequest v5", {"error_code": answer.error_code, "found": found}))


@newer(StreamsGroupHeartbeatRequest, since=0)
def streams_offsets(talk: Talk, version: int) -> None:
    """Members commit and fetch offsets in their epochs, strangers and epochs of the future are refused."""
    source(talk, "t", 2)
    topic, group = talk.topic("t"), talk.topic("group")
    member = StreamsMember(talk, group)
    member.join(subtopology("0", topic), version=version)

    def commit(member_id: str, epoch: int, api_version: int = 9, name: str = topic) -> None:
        parts = [OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
        topics = [OffsetCommitRequestTopic(name=name, partitions=parts)]
        request = OffsetCommitRequest(group_id=group, member_id=member_id, generation_id_or_member_epoch=epoch, topics=topics)
        talk.ask(request, api_version)

    for epoch in (member.epoch, member.epoch - 1, member.epoch + 1, -1):
        commit(member.id, epoch)
        asked = OffsetFetchRequestGroup(group_id=group, member_id=member.id, member_epoch=epoch, topics=None)
        talk.ask(OffsetFetchRequest(groups=[asked]), 9)
    commit(member.id, member.epoch, 8)
    commit("stranger", member.epoch)
    commit("", -1)
    member.ask(LEAVE, note=False)
    commit("", -1)


@newer(StreamsGroupTopologyDescriptionUpdateRequest, since=0)
def streams_topology_descriptions(talk: Talk, version: int) -> None:
    """Without a plug-in, nobody keeps descriptions."""
    request = StreamsGroupTopologyDescriptionUpdateRequest(group_id=talk.topic("group"), member_id="m", topology_epoch=0)
    talk.ask(request, version)


@newer(StreamsGroupDescribeRequest, since=0)
def streams_group_describe(talk: Talk, version: int) -> None:
    """Groups with members, of other kinds, and none."""
    source(talk, "t")
    member = StreamsMember(talk, talk.topic("group"))
    member.join(subtopology("0", talk.topic("t")), note=False)
    described(talk, version, member.group, include_topology_description=True)
    described(talk, version)
    described(talk, version, talk.topic("missing"), include_authorized_operations=True)
    described(talk, version, "")
