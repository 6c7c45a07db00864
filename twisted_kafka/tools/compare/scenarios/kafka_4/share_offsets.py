"""DescribeShareGroupOffsets, AlterShareGroupOffsets and DeleteShareGroupOffsets (KIP-932)."""

from twisted_kafka.protocol.messages.share import share_offsets as wire
from twisted_kafka.tools.compare.answers import plain
from twisted_kafka.tools.compare.scenarios.kafka_4.share_members import (
    ACCEPT,
    FINAL,
    ShareMember,
    groups_of_other_kinds,
    newer,
    reader,
)
from twisted_kafka.tools.compare.talk import Talk

Places = dict[str, list[int]]
"""Topics with their partitions."""


def described(talk: Talk, version: int, group: str, places: Places | None) -> None:
    """Note a group's offsets, topics and partitions in order."""
    topics = None
    if places is not None:
        topics = [wire.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=at) for name, at in places.items()]
    asked = wire.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=topics)
    answer = talk.ask(wire.DescribeShareGroupOffsetsRequest(groups=[asked]), version, note=False)
    for each in answer.groups:
        each.topics.sort(key=lambda topic: topic.topic_name)
        for topic in each.topics:
            topic.partitions.sort(key=lambda partition: partition.partition_index)
    talk.answers.append((f"DescribeShareGroupOffsetsRequest v{version}", plain(answer)))


def used(talk: Talk) -> ShareMember:
    """Return a member that has acknowledged three of nine records and ended its session, and is still in its group."""
    member = reader(talk, partitions=2)
    member.fetch(partitions=(0, 1), note=False)
    member.acknowledge((0, 2, [ACCEPT]), note=False)
    member.acknowledge(partitions=(), epoch=FINAL, note=False)
    return member


@newer(wire.DescribeShareGroupOffsetsRequest)
def share_offsets_described(talk: Talk, version: int) -> None:
    """Partitions with and without records, topics that do not exist, and all topics of a group.

    Apache Kafka 4.4.0 never answers about a partition that a topic does not have.
    """
    member = used(talk)
    missing = talk.topic("missing")
    for places in ({member.topic: [0, 1]}, {missing: [0]}, {missing: [0], member.topic: [0]}):
        described(talk, version, member.group, places)
    described(talk, version, member.group, {})
    described(talk, version, member.group, None)
    for group in groups_of_other_kinds(talk).values():
        choices: list[Places | None] = [{member.topic: [0]}, {}, None] if group else [{}, None]
        for some in choices:
            described(talk, version, group, some)
    talk.ask(wire.DescribeShareGroupOffsetsRequest(groups=[]), version)


def altered(talk: Talk, version: int, group: str, places: dict[str, dict[int, int]]) -> None:
    """Alter offsets, and note the answer with its topics and partitions in order."""
    topics = [
        wire.AlterShareGroupOffsetsRequestTopic(
            topic_name=name,
            partitions=[
                wire.AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)
                for index, offset in offsets.items()
            ],
        )
        for name, offsets in places.items()
    ]
    answer = talk.ask(wire.AlterShareGroupOffsetsRequest(group_id=group, topics=topics), version, note=False)
    answer.responses.sort(key=lambda topic: topic.topic_name)
    for topic in answer.responses:
        topic.partitions.sort(key=lambda partition: partition.partition_index)
    talk.answers.append((f"AlterShareGroupOffsetsRequest v{version}", plain(answer)))


@newer(wire.AlterShareGroupOffsetsRequest)
def share_offsets_altered(talk: Talk, version: int) -> None:
    """Groups with members, without, of other kinds and new ones; partitions that do not exist."""
    member = used(talk)
    topic, missing = member.topic, talk.topic("missing")
    altered(talk, version, member.group, {topic: {0: 1}})
    altered(talk, version, member.group, {missing: {0: 1}})
    member.leave()
    for places in (
        {topic: {0: 1}},
        {topic: {0: 5, 1: 7}},
        {topic: {9: 1}},
        {topic: {0: 2, 9: 1}},
        {missing: {0: 1}},
        {missing: {0: 1}, topic: {0: 3}},
        {topic: {0: -1}},
        {topic: {0: 99}},
        {},
    ):
        altered(talk, version, member.group, places)
        described(talk, 1, member.group, {topic: [0, 1]})
    for group in groups_of_other_kinds(talk).values():
        altered(talk, version, group, {topic: {0: 1}})
        if group:
            described(talk, 1, group, {topic: [0]})


def deleted(talk: Talk, version: int, group: str, *topics: str) -> None:
    """Delete offsets, and note the answer with its topics in order."""
    asked = [wire.DeleteShareGroupOffsetsRequestTopic(topic_name=each) for each in topics]
    answer = talk.ask(wire.DeleteShareGroupOffsetsRequest(group_id=group, topics=asked), version, note=False)
    answer.responses.sort(key=lambda topic: topic.topic_name)
    talk.answers.append((f"DeleteShareGroupOffsetsRequest v{version}", plain(answer)))


@newer(wire.DeleteShareGroupOffsetsRequest)
def share_offsets_deleted(talk: Talk, version: int) -> None:
    """Groups with members, without and of other kinds; topics without offsets and topics that do not exist."""
    member = used(talk)
    topic, missing, other = member.topic, talk.topic("missing"), talk.create("other")
    talk.known(other)
    deleted(talk, version, member.group, topic)
    member.leave()
    for topics in ([missing], [other], [missing, other, topic], [topic], []):
        deleted(talk, version, member.group, *topics)
        described(talk, 1, member.group, {topic: [0, 1]})
        described(talk, 1, member.group, None)
    for group in groups_of_other_kinds(talk).values():
        deleted(talk, version, group, topic)
