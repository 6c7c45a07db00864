"""Streams groups: requests that no client sends, such as empty names, null arrays and topologies that cannot be configured.

Kafka fails on some of them with UNKNOWN_SERVER_ERROR: docs/compatibility.md has these, the scenarios here do not.
"""

from typing import Any

from twisted_kafka.protocol.messages.streams.streams_groups import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    StreamsGroupDescribeRequest,
    StreamsGroupHeartbeatRequest,
    TaskIds,
    TaskOffset,
)
from twisted_kafka.protocol.messages.streams.streams_topology import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from twisted_kafka.tools.compare.scenarios.kafka_4.share_members import newer
from twisted_kafka.tools.compare.scenarios.kafka_4.streams_groups import (
    LEAVE,
    StreamsMember,
    described,
    internal,
    source,
    subtopology,
)
from twisted_kafka.tools.compare.talk import Talk

_NO_PARTITIONS: list[int] = []


@newer(StreamsGroupHeartbeatRequest, since=0)
def streams_topologies_that_cannot_be(talk: Talk, version: int) -> None:
    """Empty groups of topics, two writers of a topic, a topic in two roles, and no subtopology."""
    source(talk, "t", 2)
    topic, words = talk.topic("t"), talk.topic("words")
    for number, wrong in enumerate(
        (
            [subtopology("0", topic, copartition_groups=[CopartitionGroup()])],
            [subtopology("0", topic, repartition_sink_topics=[topic])],
            [
                subtopology("0", topic, repartition_sink_topics=[words, words]),
                subtopology("1", repartition_source_topics=[internal(words)]),
            ],
            [subtopology("", topic)],
            [subtopology("0", talk.topic("missing")), subtopology("1", topic)],
            [],
        )
    ):
        member = StreamsMember(talk, talk.topic(f"group{number}"))
        member.join(*wrong, version=version)
        described(talk, version, member.group)


@newer(StreamsGroupHeartbeatRequest, since=0)
def streams_heartbeats_with_strange_fields(talk: Talk, version: int) -> None:
    """Negative and repeated tasks, offsets of tasks that do not exist, empty names, ports and times."""
    source(talk, "t", 2)
    topic = talk.topic("t")
    plain_topology = subtopology("0", topic)
    strange: tuple[dict[str, Any], ...] = (
        {"process_id": ""},
        {"process_id": None},
        {"rebalance_timeout_ms": 0},
        {"rebalance_timeout_ms": 2**31 - 1},
        {"user_endpoint": Endpoint(host="", port=0)},
        {"user_endpoint": Endpoint(host="h" * 255, port=65535)},
        {"client_tags": [KeyValue(key="", value="")]},
        {"client_tags": None},
        {"task_offsets": [TaskOffset(subtopology_id="0", partition=-1, offset=-5)]},
        {"task_end_offsets": [TaskOffset(subtopology_id="9", partition=0, offset=1)] * 2},
        {"active_tasks": [TaskIds(subtopology_id="0", partitions=_NO_PARTITIONS)]},
        {"endpoint_information_epoch": -7},
        {"member_id": "m" * 5000},
        {"instance_id": "i" * 5000},
    )
    for number, fields in enumerate(strange):
        StreamsMember(talk, talk.topic(f"group{number}")).join(plain_topology, version=version, **fields)
    member = StreamsMember(talk, talk.topic("tasks"))
    member.join(plain_topology, version=version)
    for tasks in (
        [TaskIds(subtopology_id="0", partitions=[0]), TaskIds(subtopology_id="0", partitions=[0, 1])],
        [TaskIds(subtopology_id="0", partitions=[-1])],
        [TaskIds(subtopology_id="", partitions=[0])],
    ):
        member.ask(member.epoch, version=version, active_tasks=tasks, standby_tasks=[], warmup_tasks=[])
    both = [TaskIds(subtopology_id="0", partitions=[0])]
    member.ask(LEAVE, version=version, active_tasks=both, standby_tasks=None, warmup_tasks=None)


@newer(StreamsGroupDescribeRequest, since=0)
def streams_groups_described_twice(talk: Talk, version: int) -> None:
    """No group, and an empty name."""
    described(talk, version)
    described(talk, version, "")
    described(talk, version, talk.topic("none"))


@newer(StreamsGroupTopologyDescriptionUpdateRequest, since=0)
def streams_topology_descriptions_bad(talk: Talk, version: int) -> None:
    """Descriptions of strange nodes, and without ids."""
    node = TopologyDescriptionNode(name="n", node_type=9)
    strange = TopologyDescription(subtopologies=[TopologyDescriptionSubtopology(subtopology_id="0", nodes=[node])])
    wrong: tuple[dict[str, Any], ...] = (
        {},
        {"group_id": ""},
        {"member_id": ""},
        {"topology_epoch": -1},
        {"topology_description": strange},
    )
    for fields in wrong:
        values: dict[str, Any] = {"group_id": talk.topic("group"), "member_id": "m", **fields}
        talk.ask(StreamsGroupTopologyDescriptionUpdateRequest(**values), version)
