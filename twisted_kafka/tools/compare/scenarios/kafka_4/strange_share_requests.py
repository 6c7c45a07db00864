"""Share groups: requests that no client sends, such as duplicates, empty arrays and strange numbers.

Kafka fails on some of them with UNKNOWN_SERVER_ERROR: docs/compatibility.md has these, the scenarios here do not.
"""

from typing import Any

from twisted_kafka.protocol.messages.share import share_offsets as offsets
from twisted_kafka.protocol.messages.share import share_state as wire
from twisted_kafka.protocol.messages.share.share_fetch import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
)
from twisted_kafka.protocol.messages.share.share_groups import ShareGroupDescribeRequest, ShareGroupHeartbeatRequest
from twisted_kafka.tools.compare.data_requests import fill
from twisted_kafka.tools.compare.scenarios.kafka_4.share_members import (
    ACCEPT,
    ShareMember,
    await_share_coordinator,
    newer,
    reader,
    topic_of,
)
from twisted_kafka.tools.compare.talk import Talk

LIMITS: dict[str, Any] = {"max_wait_ms": 300, "min_bytes": 1, "max_bytes": 1_000_000, "max_records": 500, "batch_size": 500}


def _batch(first: int, last: int, kind: int) -> AcknowledgementBatch:
    return AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[kind])


@newer(ShareFetchRequest, since=1)
def share_fetch_of_forgotten_partitions(talk: Talk, version: int) -> None:
    """A partition added and forgotten at once, forgotten twice, and ones that were never added."""
    member = reader(talk, partitions=2)
    own = {"group_id": member.group, "member_id": member.id, **LIMITS}

    def ask(epoch: int, topics: list[FetchTopic], *forgotten: ForgottenTopic) -> None:
        request = ShareFetchRequest(share_session_epoch=epoch, topics=topics, forgotten_topics_data=list(forgotten), **own)
        member.talk.ask(request, version)

    topic_id, epoch = member.topic_id, member.session_epoch
    again = ForgottenTopic(topic_id=topic_id, partitions=[1, 1])
    ask(epoch, [FetchTopic(topic_id=topic_id, partitions=[FetchPartition(partition_index=1)])], again)
    fill(talk, member.topic, 1)
    ask(epoch + 1, [], again)
    ask(epoch + 2, [], ForgottenTopic(topic_id=b"u" * 16, partitions=[0]), ForgottenTopic(topic_id=topic_id, partitions=[9]))


@newer(ShareFetchRequest, since=1)
def share_fetch_of_strange_numbers(talk: Talk, version: int) -> None:
    """Negative and very large limits, each in a group of its own."""
    largest = 2**31 - 1
    limits: tuple[dict[str, Any], ...] = (
        {"max_records": -1},
        {"min_bytes": -1},
        {"max_wait_ms": -1},
        {"max_records": largest, "max_bytes": largest, "batch_size": largest},
    )
    for number, fields in enumerate(limits):
        reader(talk, 2, name=f"t{number}").fetch(version=version, **fields)


@newer(ShareAcknowledgeRequest, since=1)
def share_acknowledge_repeated_partitions(talk: Talk, version: int) -> None:
    """A partition twice in one request, a topic without partitions, and a partition without batches."""
    member = reader(talk, partitions=2)
    member.fetch()
    own: dict[str, Any] = {"group_id": member.group, "member_id": member.id}

    def ask(epoch: int, *topics: AcknowledgeTopic) -> None:
        member.talk.ask(ShareAcknowledgeRequest(share_session_epoch=epoch, topics=list(topics), **own), version)

    def parts(*batches: AcknowledgementBatch) -> AcknowledgePartition:
        return AcknowledgePartition(partition_index=0, acknowledgement_batches=list(batches))

    topic_id, epoch = member.topic_id, member.session_epoch
    ask(epoch, AcknowledgeTopic(topic_id=topic_id, partitions=[parts(_batch(0, 2, ACCEPT)), parts(_batch(3, 5, ACCEPT))]))
    first = AcknowledgeTopic(topic_id=topic_id, partitions=[parts(_batch(0, 2, ACCEPT))])
    ask(epoch + 1, first, AcknowledgeTopic(topic_id=topic_id, partitions=[parts(_batch(6, 8, ACCEPT))]))
    ask(epoch + 2, AcknowledgeTopic(topic_id=topic_id, partitions=[]))
    ask(epoch + 3, AcknowledgeTopic(topic_id=topic_id, partitions=[parts()]))
    ask(epoch + 4, AcknowledgeTopic(topic_id=topic_id, partitions=[parts(_batch(2**63 - 2, 2**63 - 1, ACCEPT))]))
    ask(epoch + 5, AcknowledgeTopic(topic_id=topic_id, partitions=[parts(_batch(0, 2**63 - 1, ACCEPT))]))
    member.fetch()


def _error(talk: Talk, answer: Any) -> None:
    """Note the error of an answer only: whether an assignment comes now or later is each broker's own."""
    talk.answers.append(("error", None if answer is None else answer.error_code))


@newer(ShareGroupHeartbeatRequest, since=1)
def share_heartbeats_with_strange_subscriptions(talk: Talk, version: int) -> None:
    """No topics, repeated ones, names that no topic can have, and epochs that no member has."""
    topic = talk.topic("t")
    topic_of(talk)
    for number, names in enumerate((None, [], [topic, topic], ["a/b"], [""], ["x" * 300], ["__consumer_offsets"])):
        member = ShareMember(talk, talk.topic(f"group{number}"))
        _error(talk, member.beat(0, subscribed_topic_names=names, version=version))
    member = ShareMember(talk, talk.topic("epochs")).join()
    for epoch in (-2, -3, -(2**31), 2**31 - 1):
        _error(talk, member.beat(epoch, version=version))
    strange: tuple[dict[str, Any], ...] = (
        {"member_id": "m" * 36},
        {"member_id": "m" * 37},
        {"rack_id": "r" * 5000},
        {"rack_id": ""},
    )
    for number, fields in enumerate(strange):
        member = ShareMember(talk, talk.topic(f"long{number}"))
        _error(talk, member.beat(0, subscribed_topic_names=[topic], version=version, **fields))


@newer(ShareGroupDescribeRequest, since=1)
def share_groups_described_twice(talk: Talk, version: int) -> None:
    """No group, and groups that are named twice."""
    group = talk.topic("none")
    asked: tuple[list[str], ...] = ([], [""], [group], [group, "", group])
    for groups in asked:
        answer = talk.ask(ShareGroupDescribeRequest(group_ids=groups), version, note=False)
        talk.answers.append(("found", sorted({(each.group_id, each.error_code) for each in answer.groups})))


@newer(offsets.DescribeShareGroupOffsetsRequest, since=0)
def share_offsets_of_repeated_partitions(talk: Talk, version: int) -> None:
    """Describe with duplicates, empty arrays and empty names."""
    member = reader(talk, partitions=2)
    topic = member.topic

    def describe(*groups: Any) -> None:
        talk.ask(offsets.DescribeShareGroupOffsetsRequest(groups=list(groups)), version)

    def group(topics: Any, name: str = member.group) -> Any:
        return offsets.DescribeShareGroupOffsetsRequestGroup(group_id=name, topics=topics)

    def listed(*partitions: int, name: str = topic) -> Any:
        return offsets.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=list(partitions))

    describe()
    describe(group([]))
    describe(group([listed(0, 0)]))
    describe(group([listed(0), listed(0)]))
    describe(group([listed(0, name="")]))
    describe(group(None, name=""))


@newer(offsets.AlterShareGroupOffsetsRequest, since=0)
def share_offsets_altered_strangely(talk: Talk, version: int) -> None:
    """Alter with duplicates, empty arrays, empty names and very large offsets."""
    member = reader(talk, partitions=2)
    member.leave()
    topic = member.topic

    def listed(*offsets_of: tuple[int, int], name: str = topic) -> Any:
        partitions = [
            offsets.AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)
            for index, offset in offsets_of
        ]
        return offsets.AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=partitions)

    asked: tuple[list[Any], ...] = (
        [listed((0, 1), (0, 2))],
        [listed((0, 1)), listed((1, 2))],
        [listed()],
        [listed((0, 1), name="")],
        [listed((0, 2**63 - 1))],
        [listed((0, 4))],
    )
    for topics in asked:
        answer = talk.ask(offsets.AlterShareGroupOffsetsRequest(group_id=member.group, topics=topics), version, note=False)
        found = None if answer is None else [(each.topic_name == topic, _codes(each)) for each in answer.responses]
        talk.answers.append(("altered", (answer and answer.error_code, found)))
    talk.ask(offsets.AlterShareGroupOffsetsRequest(group_id="", topics=[listed((0, 1))]), version)


def _codes(topic: Any) -> list[tuple[int, int]]:
    return sorted((each.partition_index, each.error_code) for each in topic.partitions)


@newer(offsets.DeleteShareGroupOffsetsRequest, since=0)
def share_offsets_deleted_strangely(talk: Talk, version: int) -> None:
    """Delete with a topic twice, no topics, empty names, and topics whose offsets are deleted already."""
    member = reader(talk, partitions=2)
    member.leave()
    for topics in ([member.topic, member.topic], [""], [], [member.topic]):
        asked = [offsets.DeleteShareGroupOffsetsRequestTopic(topic_name=each) for each in topics]
        talk.ask(offsets.DeleteShareGroupOffsetsRequest(group_id=member.group, topics=asked), version)
    asked = [offsets.DeleteShareGroupOffsetsRequestTopic(topic_name=member.topic)]
    talk.ask(offsets.DeleteShareGroupOffsetsRequest(group_id="", topics=asked), version)


@newer(wire.WriteShareGroupStateRequest, since=0)
def share_states_of_several_partitions(talk: Talk, version: int) -> None:
    """Each of the five requests for several partitions at once, one of which does not exist, for none, and for one twice."""
    group, topic_id = talk.topic("group"), topic_of(talk, "t", 2)
    for partition in (0, 1, 9):
        await_share_coordinator(talk, group, topic_id, partition, exists=partition < 2)
    requests: tuple[tuple[Any, Any, Any, int, dict[str, Any]], ...] = (
        (wire.InitializeShareGroupStateRequest, wire.InitializeStateData, wire.InitializeShareGroupStateRequestPartitionData, 0,
         {"state_epoch": 1, "start_offset": 3}),
        (wire.ReadShareGroupStateRequest, wire.ReadStateData, wire.ReadShareGroupStateRequestPartitionData, 0,
         {"leader_epoch": 0}),
        (wire.WriteShareGroupStateRequest, wire.WriteStateData, wire.WriteShareGroupStateRequestPartitionData, version,
         {"state_epoch": 1, "leader_epoch": 0, "start_offset": 5, "state_batches": []}),
        (wire.ReadShareGroupStateSummaryRequest, wire.ReadStateSummaryData, wire.ReadShareGroupStateSummaryRequestPartitionData, 1,
         {"leader_epoch": 0}),
        (wire.DeleteShareGroupStateRequest, wire.DeleteStateData, wire.DeleteShareGroupStateRequestPartitionData, 0, {}),
    )  # fmt: skip
    for request, data, part, api_version, fields in requests:
        for partitions in ((0, 1), (0, 9), (), (1, 1)):
            parts = [part(partition=each, **fields) for each in partitions]
            asked = request(group_id=group, topics=[data(topic_id=topic_id, partitions=parts)])
            answer = talk.ask(asked, api_version, note=False)
            found = None if answer is None else [sorted(map(_outcome, each.partitions)) for each in answer.results]
            talk.answers.append((f"{request.__name__} {partitions}", found))


def _outcome(result: Any) -> tuple[int, int, int]:
    return result.partition, result.error_code, getattr(result, "start_offset", 0)
