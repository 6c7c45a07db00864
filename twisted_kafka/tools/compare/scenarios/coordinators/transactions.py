"""What a broker does of transactions without their coordinator: offsets in them, and the markers that end them.

Both brokers run with ``transaction.partition.verification.enable=false``: these producers never asked a coordinator for an id.
"""

import zlib

from twisted_kafka.coordinator.hashing import partition_for
from twisted_kafka.protocol.messages.administration.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
)
from twisted_kafka.protocol.messages.administration.configs import (
    IncrementalAlterConfigsRequestAlterableConfig as AlterableConfig,
)
from twisted_kafka.protocol.messages.administration.configs import (
    IncrementalAlterConfigsRequestAlterConfigsResource as AlterConfigsResource,
)
from twisted_kafka.protocol.messages.coordinators.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    ListGroupsRequest,
)
from twisted_kafka.protocol.messages.coordinators.offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from twisted_kafka.protocol.messages.coordinators.transaction_admin import DescribeProducersRequest, TopicRequest
from twisted_kafka.protocol.messages.coordinators.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from twisted_kafka.protocol.messages.fetch import FetchPartition
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.tools.compare.data_requests import fetch, produce
from twisted_kafka.tools.compare.preparation import SETTINGS
from twisted_kafka.tools.compare.scenarios.coordinators.groups import commit, joined
from twisted_kafka.tools.compare.talk import Talk, scenario
from twisted_kafka.tools.compare.waits import pause

OFFSETS_TOPIC = "__consumer_offsets"
VERIFICATION = "transaction.partition.verification.enable"
NOW_MS = 1_700_000_000_000


def producer_of(name: str) -> int:
    """Return a producer id that no other scenario uses, and no broker gives out."""
    return 1 << 40 | zlib.crc32(name.encode())


def txn_commit(
    group: str,
    topic: str,
    offset: int = 5,
    partition: int = 0,
    metadata: str | None = "",
    producer_epoch: int = 0,
    **fields: object,
) -> TxnOffsetCommitRequest:
    entry = TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata=metadata)
    request = TxnOffsetCommitRequest(
        transactional_id="tx." + group,
        group_id=group,
        producer_id=producer_of(group),
        producer_epoch=producer_epoch,
        topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[entry])],
    )
    for name, value in fields.items():
        setattr(request, name, value)
    return request


def marker(
    group: str, committed: bool = True, *, producer_epoch: int = 0, coordinator_epoch: int = 0, **topics: list[int]
) -> WritableTxnMarker:
    """Return the marker for the group's partition of ``__consumer_offsets``, or for the topics given."""
    named = topics or {OFFSETS_TOPIC: [partition_for(group, int(str(SETTINGS["offsets.topic.num.partitions"])))]}
    return WritableTxnMarker(
        producer_id=producer_of(group),
        producer_epoch=producer_epoch,
        transaction_result=committed,
        coordinator_epoch=coordinator_epoch,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in named.items()],
    )


def end(talk: Talk, group: str, committed: bool = True, version: int = 1, **fields: int) -> None:
    talk.ask(WriteTxnMarkersRequest(markers=[marker(group, committed, **fields)]), version)  # type: ignore[arg-type]


def offsets(talk: Talk, group: str, topic: str) -> None:
    """Note the group's offsets, stable ones only and all."""
    for require_stable in (True, False):
        for topics in ([OffsetFetchRequestTopic(name=topic, partition_indexes=[0, 1])], None):
            talk.ask(OffsetFetchRequest(group_id=group, topics=topics, require_stable=require_stable), 7)


@scenario(TxnOffsetCommitRequest)
def txn_offset_commit(talk: Talk, version: int) -> None:
    topic, group = talk.create("t", 2), talk.topic("group")
    talk.ask(commit(2, group, topic, 3), 2, note=False)
    talk.ask(txn_commit(group, topic, 7, metadata="in a transaction"), version)
    offsets(talk, group, topic)
    end(talk, group)
    offsets(talk, group, topic)
    talk.ask(txn_commit(group, topic, 8, partition=1), version)
    end(talk, group, committed=False)
    offsets(talk, group, topic)


@scenario(TxnOffsetCommitRequest)
def txn_offset_commit_bad(talk: Talk, version: int) -> None:
    topic, group = talk.create("t", 2), talk.topic("group")
    member = joined(talk, group)
    talk.ask(txn_commit(talk.topic("simple"), "no." + topic), version)
    talk.ask(txn_commit(talk.topic("simple"), topic, partition=9), version)
    talk.ask(txn_commit(talk.topic("simple"), topic, metadata="x" * 5000), version)
    talk.ask(txn_commit(talk.topic("simple"), topic, metadata=None), version)
    talk.ask(txn_commit("", topic), version)
    talk.ask(txn_commit("", "no." + topic), version)
    talk.ask(txn_commit(group, topic), version)
    mixed = txn_commit(group, topic, 9, 1)
    mixed.topics += txn_commit(group, "no." + topic).topics
    mixed.topics[0].partitions += txn_commit(group, topic, 9, 7).topics[0].partitions
    talk.ask(mixed, version)
    talk.ask(txn_commit(group, topic, topics=[]), version)
    talk.ask(txn_commit(group, topic, producer_epoch=3), version)
    fenced = talk.topic("fenced")
    for epoch in (3, 2):
        talk.ask(txn_commit(fenced, topic, producer_epoch=epoch), version)
    if version >= 3:
        for generation, member_id, instance_id in (
            (member.generation_id, member.member_id, None),
            (member.generation_id + 1, member.member_id, None),
            (member.generation_id, "stranger", None),
            (member.generation_id, member.member_id, "nobody"),
            (-1, member.member_id, None),
            (member.generation_id, "", None),
        ):
            request = txn_commit(group, topic, producer_epoch=3)
            request.generation_id_or_member_epoch, request.member_id, request.group_instance_id = generation, member_id, instance_id
            talk.ask(request, version)
        for name, generation in (("none", 3), ("simple", 3), ("simple", -1)):
            talk.ask(txn_commit(talk.topic(name), topic, generation_id_or_member_epoch=generation, member_id="x"), version)
    offsets(talk, group, topic)


@scenario(TxnOffsetCommitRequest, since=3)
def txn_offset_commit_of_members(talk: Talk, version: int) -> None:
    """A static member, and one whose group has not got its assignments yet."""
    topic, group = talk.create("t"), talk.topic("group")
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        group_instance_id="one",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"meta")],
    )
    member = talk.ask(request, 5, note=False)
    for instance_id, member_id in (
        ("one", member.member_id),
        ("one", "other"),
        ("two", member.member_id),
        (None, member.member_id),
    ):
        wanted = txn_commit(group, topic)
        wanted.generation_id_or_member_epoch, wanted.member_id, wanted.group_instance_id = 1, member_id, instance_id
        talk.ask(wanted, version)
    end(talk, group)
    offsets(talk, group, topic)


@scenario(TxnOffsetCommitRequest)
def pending_offsets(talk: Talk, version: int) -> None:
    """Deleting offsets and groups while a transaction is open, and commits outside of it."""
    topic = talk.create("t", 2)
    overtaken = talk.topic("overtaken")
    talk.ask(txn_commit(overtaken, topic, 7), version)
    talk.ask(commit(2, overtaken, topic, 9), 2)
    offsets(talk, overtaken, topic)
    end(talk, overtaken)
    offsets(talk, overtaken, topic)
    early = talk.topic("early")
    talk.ask(commit(2, early, topic, 3), 2)
    talk.ask(txn_commit(early, topic, 7), version)
    one = OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
    talk.ask(OffsetDeleteRequest(group_id=early, topics=[one]), 0)
    offsets(talk, early, topic)
    end(talk, early)
    offsets(talk, early, topic)
    gone = talk.topic("gone")
    talk.ask(commit(2, gone, topic, 3), 2)
    talk.ask(txn_commit(gone, topic, 7, 1), version)
    talk.ask(DescribeGroupsRequest(groups=[gone]), 5)
    talk.ask(DeleteGroupsRequest(groups_names=[gone]), 1)
    offsets(talk, gone, topic)
    end(talk, gone)
    offsets(talk, gone, topic)
    listed = talk.ask(ListGroupsRequest(), 4, note=False)
    names = {overtaken, gone}
    talk.answers.append(("listed", sorted((each.group_id, each.group_state) for each in listed.groups if each.group_id in names)))


def transactional(talk: Talk, topic: str, name: str, sequence: int = 0, epoch: int = 0, partition: int = 0) -> None:
    """Note what a batch of a transaction comes to."""
    batch = build_batch(
        [SimpleRecord(NOW_MS, b"k", b"v")],
        producer_id=producer_of(name),
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=True,
    )
    request = produce(topic, batch, partition)
    request.transactional_id = "tx." + name
    talk.ask(request, 9)


def committed(talk: Talk, topic: str) -> None:
    talk.ask(fetch(topic, FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000), isolation_level=1), 11)


@scenario(WriteTxnMarkersRequest)
def write_txn_markers(talk: Talk, version: int) -> None:
    topic, name = talk.create("t", 2), talk.topic("producer")
    transactional(talk, topic, name)
    committed(talk, topic)
    describe = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[0])])

    def write(*markers: WritableTxnMarker) -> None:
        talk.ask(WriteTxnMarkersRequest(markers=list(markers)), version)

    here = {topic: [0]}
    write()
    write(marker(name, **here))  # type: ignore[arg-type]
    committed(talk, topic)
    transactional(talk, topic, name, 1)
    write(marker(name, False, coordinator_epoch=4, **here))  # type: ignore[arg-type]
    committed(talk, topic)
    write(marker(name, coordinator_epoch=3, **here))  # type: ignore[arg-type]
    write(marker(name, coordinator_epoch=4, producer_epoch=2, **here))  # type: ignore[arg-type]
    write(marker(name, coordinator_epoch=4, producer_epoch=1, **here))  # type: ignore[arg-type]
    transactional(talk, topic, name, 2)
    transactional(talk, topic, name, 0, 2)
    write(marker(name, coordinator_epoch=4, producer_epoch=2, **{topic: [0, 1, 9], "no." + topic: [0]}))  # type: ignore[arg-type]
    write(marker(talk.topic("other"), **here), marker(name, coordinator_epoch=4, producer_epoch=2, **{topic: [1]}))  # type: ignore[arg-type]
    write(
        marker(name, coordinator_epoch=4, producer_epoch=2, **{topic: [0]}),  # type: ignore[arg-type]
        marker(name, coordinator_epoch=4, producer_epoch=2, **{topic: [1]}),  # type: ignore[arg-type]
    )
    write(marker(name, coordinator_epoch=4, producer_epoch=2, **{topic: []}))  # type: ignore[arg-type]
    write(marker(name, **{OFFSETS_TOPIC: [99]}))  # type: ignore[arg-type]
    group = talk.topic("group")
    talk.ask(txn_commit(group, topic, producer_epoch=5), 3)
    end(talk, group, version=version, producer_epoch=4)
    end(talk, group, version=version, producer_epoch=5, coordinator_epoch=7)
    end(talk, group, version=version, producer_epoch=5, coordinator_epoch=6)
    committed(talk, topic)
    for producers in talk.ask(describe, 0, note=False).topics[0].partitions:
        shown = sorted(
            (each.producer_id, each.producer_epoch, each.last_sequence, each.coordinator_epoch, each.current_txn_start_offset)
            for each in producers.active_producers
        )
        talk.answers.append(("producers", shown))


@scenario(TxnOffsetCommitRequest, since=3)
def transaction_verification(talk: Talk, version: int) -> None:
    """With verification, which is a dynamic setting, a transaction that no coordinator knows of cannot begin, but go on."""
    topic, group = talk.create("t", 2), talk.topic("group")
    going_on = talk.topic("going-on")
    transactional(talk, topic, going_on)
    talk.ask(txn_commit(going_on, topic), version)
    verify(talk, "true")
    try:
        talk.ask(txn_commit(group, topic), version)
        talk.ask(txn_commit(talk.topic("simple"), topic, 1, metadata="x" * 5000), version)
        transactional(talk, topic, group)
        transactional(talk, topic, group, partition=9)
        transactional(talk, topic, going_on, 1)
        talk.ask(txn_commit(going_on, topic, 6), version)
        transactional(talk, topic, going_on, 1, partition=1)
    finally:
        verify(talk, "false")
    end(talk, going_on)
    offsets(talk, going_on, topic)


def verify(talk: Talk, value: str) -> None:
    change = AlterConfigsResource(
        resource_type=4, resource_name="", configs=[AlterableConfig(name=VERIFICATION, config_operation=0, value=value)]
    )
    assert not talk.ask(IncrementalAlterConfigsRequest(resources=[change]), 1, note=False).responses[0].error_code
    asked = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=[VERIFICATION])]
    )
    talk.until(lambda: talk.ask(asked, 1, note=False).results[0].configs[0].value == value, f"{VERIFICATION} is not set")
    pause(0.2)  # Apache Kafka shows the new value a little before it acts on it
