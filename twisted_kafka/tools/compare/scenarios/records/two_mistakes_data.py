"""Two mistakes in one request of groups, offsets and records: the error names the one that Kafka looks for first."""

from itertools import product

from twisted_kafka.protocol.messages.administration.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from twisted_kafka.protocol.messages.coordinators.groups import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
)
from twisted_kafka.protocol.messages.coordinators.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from twisted_kafka.protocol.messages.coordinators.transactions import (
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from twisted_kafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from twisted_kafka.protocol.messages.list_offsets import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from twisted_kafka.protocol.messages.produce import ProduceRequest
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.tools.compare.data_requests import data, fill, produce, records
from twisted_kafka.tools.compare.scenarios.coordinators.groups import join, joined
from twisted_kafka.tools.compare.talk import Talk, scenario

PROTOCOL = JoinGroupRequestProtocol(name="range", metadata=b"meta")
OTHER = JoinGroupRequestProtocol(name="unlike", metadata=b"meta")


@scenario(JoinGroupRequest, since=9)
def joins_with_two_mistakes(talk: Talk, version: int) -> None:
    group = talk.topic("group")
    joined(talk, group)
    wrong = product(
        ("", group, talk.topic("new")),
        (30_000, 1, -1),
        ("", "stranger"),
        (("consumer", [PROTOCOL]), ("consumer", []), ("", [PROTOCOL]), ("connect", [PROTOCOL]), ("consumer", [OTHER])),
        (None, "", "unknown-instance"),
    )
    for group_id, session_ms, member, (kind, protocols), instance in wrong:
        mistakes = (not group_id) + (session_ms < 30_000) + bool(member) + ((kind, protocols) != ("consumer", [PROTOCOL]))
        if mistakes + (instance == "") >= 2:
            fields = {"protocol_type": kind, "protocols": protocols, "session_timeout_ms": session_ms}
            join(talk, version, group_id, member, group_instance_id=instance, **fields)  # type: ignore[arg-type]


@scenario(SyncGroupRequest, since=5)
def syncs_with_two_mistakes(talk: Talk, version: int) -> None:
    group = talk.topic("group")
    member = joined(talk, group)
    for group_id, generation, member_id, kind, name, instance in product(
        ("", group, talk.topic("none")),
        (member.generation_id, 99, -1),
        (member.member_id, "stranger", ""),
        ("consumer", "connect", None),
        ("range", "unlike", None),
        (None, "unknown-instance"),
    ):
        request = SyncGroupRequest(group_id=group_id, generation_id=generation, member_id=member_id, assignments=[])
        request.protocol_type, request.protocol_name, request.group_instance_id = kind, name, instance
        talk.ask(request, version)


@scenario(HeartbeatRequest, since=4)
def heartbeats_with_two_mistakes(talk: Talk, version: int) -> None:
    group = talk.topic("group")
    member = joined(talk, group)
    for group_id, generation, member_id, instance in product(
        ("", group, talk.topic("none")),
        (member.generation_id, 99, -1),
        (member.member_id, "stranger", ""),
        (None, "unknown-instance", ""),
    ):
        request = HeartbeatRequest(group_id=group_id, generation_id=generation, member_id=member_id, group_instance_id=instance)
        talk.ask(request, version)


@scenario(LeaveGroupRequest, since=5)
def leaves_with_two_mistakes(talk: Talk, version: int) -> None:
    group = talk.topic("group")
    joined(talk, group)
    for group_id, member_id, instance in product(("", group, talk.topic("none")), ("stranger", ""), (None, "unknown-instance", "")):
        members = [MemberIdentity(member_id=member_id, group_instance_id=instance)]
        talk.ask(LeaveGroupRequest(group_id=group_id, members=members), version)
        talk.ask(LeaveGroupRequest(group_id=group_id, members=members * 2), version)


@scenario(OffsetCommitRequest, since=8)
def commits_with_two_mistakes(talk: Talk, version: int) -> None:
    group, topic = talk.topic("group"), talk.create("t")
    member = joined(talk, group)
    for group_id, generation, member_id, instance, name, partition, metadata in product(
        ("", group, talk.topic("none")),
        (member.generation_id, 99, -1),
        (member.member_id, "stranger", ""),
        (None, "unknown-instance"),
        (topic, talk.topic("missing")),
        (0, 7),
        ("", "x" * 5000),
    ):
        entry = OffsetCommitRequestPartition(partition_index=partition, committed_offset=1, committed_metadata=metadata)
        request = OffsetCommitRequest(
            group_id=group_id, topics=[OffsetCommitRequestTopic(name=name, partitions=[entry])], member_id=member_id
        )
        request.generation_id_or_member_epoch, request.group_instance_id = generation, instance
        if (group_id, generation, member_id) != (talk.topic("none"), -1, "") and group_id + member_id:
            talk.ask(request, version)


@scenario(OffsetDeleteRequest)
def offset_deletions_with_two_mistakes(talk: Talk, version: int) -> None:
    group, topic = talk.topic("group"), talk.create("t")
    joined(talk, group)
    for group_id, name, partition in product(("", group, talk.topic("none")), (topic, talk.topic("missing"), ""), (0, 7, -1)):
        partitions = [OffsetDeleteRequestPartition(partition_index=partition)]
        topics = [OffsetDeleteRequestTopic(name=name, partitions=partitions)]
        talk.ask(OffsetDeleteRequest(group_id=group_id, topics=topics), version)


@scenario(ProduceRequest, since=9)
def produces_with_two_mistakes(talk: Talk, version: int) -> None:
    topic, compacted = talk.create("t"), talk.create("c", cleanup_policy="compact")
    small = talk.create("s", max_message_bytes="100")
    good = data(version)
    keyless = build_batch([record._replace(key=None) for record in records(3)])
    corrupt = good[:-1] + bytes([good[-1] ^ 1])
    old = build_batch(records(3), producer_id=4711, producer_epoch=-1, base_sequence=0)
    gap = build_batch(records(3), producer_id=4711, producer_epoch=0, base_sequence=7)
    names = (topic, compacted, small, talk.topic("missing"), "a/b", "__consumer_offsets")
    for name, partition, acks, batch in product(
        names, (0, 70_000), (1, -1, 5), (good, keyless, corrupt, gap, old, b"", None, good[:40], good + good, corrupt + good)
    ):
        mistakes = (name != topic) + (partition > 0) + (acks == 5) + (batch is not good)
        if mistakes >= 2 and batch is not None and (batch is not old or name != topic):
            talk.ask(produce(name, batch, partition, acks), version)


@scenario(ListOffsetsRequest, since=8)
def lookups_with_two_mistakes(talk: Talk, version: int) -> None:
    topic = talk.create("t")
    fill(talk, topic)
    for name, partition, epoch, timestamp, isolation in product(
        (topic, talk.topic("missing"), "a/b"), (0, 7, -1), (-1, 0, 9), (-1, -2, -3, -4, -6, 1), (0, 1)
    ):
        entry = ListOffsetsPartition(partition_index=partition, timestamp=timestamp, current_leader_epoch=epoch)
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=name, partitions=[entry])], isolation_level=isolation)
        talk.ask(request, version)
    twice = [ListOffsetsPartition(partition_index=partition, timestamp=-1, current_leader_epoch=9) for partition in (0, 0, 7, 7)]
    talk.ask(ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=twice)]), version)


@scenario(DeleteRecordsRequest, since=2)
def record_deletions_with_two_mistakes(talk: Talk, version: int) -> None:
    compacted = talk.create("c", cleanup_policy="compact")
    for name, partition, offset in product(
        (compacted, talk.topic("missing"), "a/b", "__consumer_offsets", ""), (0, 70_000, -1), (-2, -1, 10**9)
    ):
        if (name, partition) != ("__consumer_offsets", 0):
            entry = DeleteRecordsPartition(partition_index=partition, offset=offset)
            topics = [DeleteRecordsTopic(name=name, partitions=[entry])]
            talk.ask(DeleteRecordsRequest(topics=topics, timeout_ms=5000), version)


@scenario(AlterReplicaLogDirsRequest, since=2)
def moves_with_two_mistakes(talk: Talk, version: int) -> None:
    topic = talk.create("t")
    for path, name, partition in product(
        ("/nowhere", "relative", ""), (topic, talk.topic("missing"), "a/b", "x" * 249), (0, 7, -1)
    ):
        topics = [AlterReplicaLogDirTopic(name=name, partitions=[partition])]
        talk.ask(AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics)]), version)


@scenario(InitProducerIdRequest, since=4)
def producer_ids_with_two_mistakes(talk: Talk, version: int) -> None:
    for timeout_ms, producer_id, epoch in product((-1, 0, 2**31 - 1), (-1, 5, -2), (-1, 3, -2)):
        request = InitProducerIdRequest(
            transactional_id="", transaction_timeout_ms=timeout_ms, producer_id=producer_id, producer_epoch=epoch
        )
        talk.ask(request, version)


@scenario(FetchRequest, since=12, until=12)
def fetches_with_two_mistakes(talk: Talk, version: int) -> None:
    topic = talk.create("t")
    fill(talk, topic)
    for name, partition, offset, epoch, last_epoch, session, session_epoch in product(
        (topic, talk.topic("missing"), "a/b"), (0, 7), (0, -5, 10**9), (-1, 0, 9), (-1, 9), (0, 4711), (-1, 0, 5)
    ):
        wanted = FetchPartition(partition=partition, fetch_offset=offset, current_leader_epoch=epoch, partition_max_bytes=1000)
        wanted.last_fetched_epoch = last_epoch
        request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=name, partitions=[wanted])])
        request.session_id, request.session_epoch = session, session_epoch
        if (session, session_epoch) != (0, 0) and (name, partition, offset) != (topic, 0, 0):
            talk.ask(request, version)


@scenario(OffsetForLeaderEpochRequest, since=4)
def epochs_with_two_mistakes(talk: Talk, version: int) -> None:
    topic = talk.create("t")
    fill(talk, topic)
    for name, partition, current, wanted in product((topic, talk.topic("missing"), ""), (0, 7, -1), (-1, 0, 9), (-1, 0, 9)):
        entry = OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=wanted)
        talk.ask(OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=name, partitions=[entry])]), version)


@scenario(TxnOffsetCommitRequest, since=3)
def transactional_commits_with_two_mistakes(talk: Talk, version: int) -> None:
    group, topic = talk.topic("group"), talk.create("t")
    member = joined(talk, group)
    for group_id, generation, member_id, name, partition, metadata in product(
        ("", group),
        (member.generation_id, 99),
        (member.member_id, "stranger"),
        (topic, talk.topic("missing")),
        (0, 7),
        ("", "x" * 5000),
    ):
        entry = TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=1, committed_metadata=metadata)
        request = TxnOffsetCommitRequest(
            transactional_id="nobody", group_id=group_id, producer_id=4711, producer_epoch=0, member_id=member_id
        )
        request.generation_id_or_member_epoch = generation
        request.topics = [TxnOffsetCommitRequestTopic(name=name, partitions=[entry])]
        # One without a mistake would leave a transaction open.
        if (group_id, generation, member_id, name, partition, metadata) != (
            group,
            member.generation_id,
            member.member_id,
            topic,
            0,
            "",
        ):
            talk.ask(request, version)


@scenario(FindCoordinatorRequest, since=4)
def coordinators_with_two_mistakes(talk: Talk, version: int) -> None:
    for kind in (0, 1, 7, -1):
        for keys in ([""], ["", ""], ["a", ""], []):
            if (kind, keys) != (1, ["a", ""]):
                talk.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=keys), version)


@scenario(OffsetFetchRequest, since=8, until=8)
def offset_fetches_with_two_mistakes(talk: Talk, version: int) -> None:
    for group, name, partition in product(("", talk.topic("none")), (talk.topic("missing"), "", "a/b"), (0, -1)):
        topics = [OffsetFetchRequestTopics(name=name, partition_indexes=[partition])]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)] * 2, require_stable=True)
        talk.ask(request, version)
