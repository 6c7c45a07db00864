"""ShareFetch and ShareAcknowledge: sessions, acknowledgements and errors (KIP-932)."""

from typing import Any

from twisted_kafka.protocol.compiler.types import NO_UUID
from twisted_kafka.protocol.messages.share.share_fetch import ShareAcknowledgeRequest, ShareFetchRequest
from twisted_kafka.tools.compare.data_requests import data, fill, produce
from twisted_kafka.tools.compare.scenarios.administration.configs import change
from twisted_kafka.tools.compare.scenarios.kafka_4.share_members import (
    ACCEPT,
    FINAL,
    REJECT,
    RELEASE,
    RENEW,
    Acknowledged,
    ShareMember,
    newer,
    reader,
    topic_of,
)
from twisted_kafka.tools.compare.talk import Talk

UNKNOWN = b"u" * 16
GAP = 0
GROUP = 32


@newer(ShareFetchRequest, since=1)
def share_fetch_and_acknowledge(talk: Talk, version: int) -> None:
    """Acknowledge within fetches: accept, release, reject, and single records of a batch."""
    member = reader(talk)
    member.fetch(version=version)
    member.fetch((0, 2, [ACCEPT]), (3, 5, [RELEASE]), (6, 8, [REJECT]), version=version)
    member.fetch((3, 5, [ACCEPT, RELEASE, GAP]), version=version)
    member.fetch((4, 4, [RELEASE]), version=version)
    member.fetch((4, 4, [ACCEPT]), version=version)
    fill(talk, member.topic, 1)
    member.fetch(version=version)
    member.fetch((9, 11, [ACCEPT]), epoch=FINAL, version=version)
    member.fetch(version=version, epoch=FINAL)
    member.fetch(version=version)


@newer(ShareFetchRequest, since=1)
def share_fetch_sessions(talk: Talk, version: int) -> None:
    """Add, forget and repeat partitions; end a session with acquired records, and begin another."""
    member = reader(talk, partitions=2)
    member.fetch(partitions=(), version=version)
    member.fetch(partitions=(), forgotten=(1,), version=version)
    member.fetch(partitions=(1,), version=version)
    member.fetch(partitions=(0, 1), version=version)
    member.fetch(partitions=(), epoch=FINAL, version=version)
    member.fetch(partitions=(0,), version=version)
    member.fetch(partitions=(0,), epoch=0, version=version)
    member.fetch(partitions=(), epoch=FINAL, version=version)
    member.fetch(partitions=(), epoch=0, version=version)


@newer(ShareFetchRequest, since=1)
def share_fetch_begins_with_an_empty_partition(talk: Talk, version: int) -> None:
    """The first fetch of a group that begins with the first record, where only some partitions have records."""
    for name, partitions, filled in (("one", 2, (1,)), ("two", 3, (2,)), ("three", 3, (1, 2)), ("none", 2, ())):
        topic_id = topic_of(talk, name, partitions)
        member = ShareMember(talk, talk.topic(f"group.{name}"), topic_id, name)
        talk.ask(change(GROUP, member.group, [("share.auto.offset.reset", 0, "earliest")]), 1, note=False)
        for partition in filled:
            talk.ask(produce(member.topic, data(8, 3), partition), 8, note=False)
        member.join()
        everywhere = tuple(range(partitions))
        member.fetch(partitions=everywhere, version=version)
        for _ in range(2):
            member.fetch(partitions=(), version=version)


@newer(ShareFetchRequest, since=1)
def share_fetch_limits(talk: Talk, version: int) -> None:
    """Limits of records, of batches and of bytes, each in a group of its own."""
    limits: tuple[dict[str, Any], ...] = (
        {"max_records": 1},
        {"max_records": 4},
        {"batch_size": 1},
        {"batch_size": 2},
        {"max_records": 5, "batch_size": 4},
        {"max_bytes": 1},
        {"min_bytes": 1000},
        {"min_bytes": 10_000_000},
        {"max_wait_ms": 0},
    )
    for number, fields in enumerate(limits):
        member = reader(talk, 4, name=f"t{number}")
        member.fetch(version=version, **fields)
        member.fetch(version=version, **fields)


@newer(ShareFetchRequest, since=1)
def share_fetch_bad_sessions(talk: Talk, version: int) -> None:
    """Sessions that do not exist, epochs of the past and of the future, and requests without a member."""
    member = reader(talk)
    stranger = ShareMember(talk, member.group, member.topic_id, member_id="s")
    for epoch in (1, 5, FINAL, -2):
        stranger.fetch(epoch=epoch, version=version)
    for epoch in (member.session_epoch + 1, 99, 2**31 - 1, -2):
        member.fetch(epoch=epoch, version=version)
    member.fetch(version=version)
    member.fetch(epoch=member.session_epoch - 1, version=version)
    member.fetch((0, 2, [ACCEPT]), epoch=0, version=version)
    member.fetch(epoch=FINAL, version=version)
    member.fetch((0, 2, [ACCEPT]), epoch=FINAL, version=version)
    for fields in ({"group_id": None}, {"member_id": ""}, {"member_id": None}, {"member_id": "x"}):
        member.fetch(epoch=0, version=version, **fields)
    stranger.fetch(epoch=0, version=version)


@newer(ShareFetchRequest, since=1)
def share_fetch_of_unknown_partitions(talk: Talk, version: int) -> None:
    """Topics and partitions that do not exist, at the beginning of a session and later."""
    member = reader(talk)
    for topic_id, partitions in (
        (UNKNOWN, (0,)),
        (UNKNOWN, (0, 1)),
        (NO_UUID, (0,)),
        (member.topic_id, (7,)),
        (member.topic_id, (-1,)),
    ):
        for epoch in (0, 1):
            member.fetch(epoch=epoch, topic_id=topic_id, partitions=partitions, version=version)
        member.fetch(epoch=2, partitions=(), version=version)
        member.fetch((0, 0, [ACCEPT]), epoch=3, topic_id=topic_id, partitions=partitions, version=version)


@newer(ShareFetchRequest, since=2)
def share_fetch_modes(talk: Talk, version: int) -> None:
    """The strict limit of records, and locks that are renewed."""
    member = reader(talk)
    member.fetch(max_records=3, share_acquire_mode=1, version=version)
    member.fetch(max_records=3, share_acquire_mode=1, version=version)
    member.fetch(max_records=500, share_acquire_mode=1, version=version)
    nothing: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
    member.fetch((0, 1, [RENEW]), is_renew_ack=True, version=version, **nothing)
    member.fetch((0, 1, [RENEW]), is_renew_ack=True, version=version)
    member.fetch((0, 1, [RENEW]), version=version)
    member.fetch((0, 1, [RENEW, ACCEPT]), is_renew_ack=True, version=version, **nothing)
    member.fetch((1, 1, [RENEW]), is_renew_ack=True, version=version, **nothing)


@newer(ShareAcknowledgeRequest, since=1)
def share_acknowledge(talk: Talk, version: int) -> None:
    """Each type of acknowledgement, and the records that are delivered again."""
    member = reader(talk, 4)
    member.fetch()
    groups_of_batches: tuple[list[Acknowledged], ...] = (
        [(0, 0, [ACCEPT])],
        [(1, 1, [RELEASE])],
        [(2, 2, [REJECT])],
        [(3, 5, [ACCEPT, RELEASE, REJECT])],
        [(6, 8, [RELEASE]), (9, 11, [ACCEPT])],
        [],
    )
    for batches in groups_of_batches:
        member.acknowledge(*batches, version=version)
    member.fetch()
    member.acknowledge((1, 8, [ACCEPT]), version=version)
    member.acknowledge((6, 8, [ACCEPT]), version=version)
    member.acknowledge((1, 1, [ACCEPT]), (4, 4, [GAP]), version=version)
    member.acknowledge(partitions=(), version=version)
    member.acknowledge(partitions=(), epoch=FINAL, version=version)
    member.acknowledge(partitions=(), epoch=FINAL, version=version)
    member.fetch()


@newer(ShareAcknowledgeRequest, since=1)
def share_acknowledge_bad_batches(talk: Talk, version: int) -> None:
    """Batches that overlap, go backwards, have wrong types, or name records that are not acquired."""
    member = reader(talk)
    member.fetch()
    groups_of_batches: tuple[list[Acknowledged], ...] = (
        [(0, 2, [ACCEPT]), (2, 4, [ACCEPT])],
        [(0, 2, [ACCEPT]), (0, 2, [ACCEPT])],
        [(3, 5, [ACCEPT]), (0, 2, [ACCEPT])],
        [(2, 0, [ACCEPT])],
        [(0, 2, [ACCEPT, ACCEPT])],
        [(0, 2, [ACCEPT] * 4)],
        [(0, 2, [])],
        [(0, 2, [9])],
        [(0, 2, [-1])],
        [(0, 2, [RENEW])],
        [(0, 2, [ACCEPT, 9, ACCEPT])],
        [(-3, -1, [ACCEPT])],
        [(7, 12, [ACCEPT])],
        [(100, 102, [ACCEPT])],
        [(0, 8, [ACCEPT]), (9, 10, [ACCEPT])],
        [(0, 8, [GAP])],
        [(0, 2, [ACCEPT])],
        [(0, 2, [ACCEPT])],
        [(0, 5, [ACCEPT])],
        [(2, 4, [RELEASE])],
    )
    for batches in groups_of_batches:
        member.acknowledge(*batches, version=version)
    member.acknowledge(partitions=(), epoch=FINAL)
    member.fetch()


@newer(ShareAcknowledgeRequest, since=1)
def share_acknowledge_of_another_member(talk: Talk, version: int) -> None:
    """A member acknowledges what another one has acquired, and what that one has released."""
    one = reader(talk)
    other = ShareMember(talk, one.group, one.topic_id, member_id="b").join()
    one.fetch(max_records=3)
    other.fetch(max_records=3)
    other.acknowledge((0, 2, [ACCEPT]), version=version)
    other.acknowledge((0, 5, [ACCEPT]), version=version)
    one.acknowledge((3, 5, [RELEASE]), version=version)
    one.acknowledge((0, 2, [RELEASE]), version=version)
    one.acknowledge((0, 2, [ACCEPT]), version=version)
    other.fetch()
    one.acknowledge((0, 2, [ACCEPT]), version=version)
    other.acknowledge((0, 8, [ACCEPT]), version=version)


@newer(ShareAcknowledgeRequest, since=1)
def share_acknowledge_bad_sessions(talk: Talk, version: int) -> None:
    """Sessions that do not exist, wrong epochs, and requests without a member."""
    member = reader(talk)
    member.fetch()
    stranger = ShareMember(talk, member.group, member.topic_id, member_id="s")
    for epoch in (0, 1, FINAL, -2):
        stranger.acknowledge((0, 2, [ACCEPT]), epoch=epoch, version=version)
    for epoch in (0, 1, 3, 99, -2):
        member.acknowledge((0, 2, [ACCEPT]), epoch=epoch, version=version)
    for fields in ({"group_id": None}, {"member_id": ""}, {"member_id": None}, {"group_id": talk.topic("no")}):
        member.acknowledge((0, 2, [ACCEPT]), epoch=2, version=version, **fields)
    member.acknowledge((0, 2, [ACCEPT]), epoch=2, version=version)


@newer(ShareAcknowledgeRequest, since=1)
def share_acknowledge_in_unknown_partitions(talk: Talk, version: int) -> None:
    """Topics and partitions that do not exist, and one that is not in the session."""
    member = reader(talk, partitions=2)
    member.fetch(partitions=(), forgotten=(1,))
    for topic_id, partitions in (
        (UNKNOWN, (0, 1)),
        (NO_UUID, (0,)),
        (member.topic_id, (7,)),
        (member.topic_id, (-1,)),
        (member.topic_id, (1,)),
        (member.topic_id, (0, 7)),
    ):
        member.acknowledge((0, 2, [ACCEPT]), topic_id=topic_id, partitions=partitions, version=version)


@newer(ShareAcknowledgeRequest, since=2)
def share_acknowledge_that_renews(talk: Talk, version: int) -> None:
    """Locks are renewed only in requests that say so."""
    member = reader(talk)
    member.fetch()
    member.acknowledge((0, 2, [RENEW]), is_renew_ack=True, version=version)
    member.acknowledge((0, 2, [RENEW]), version=version)
    member.acknowledge((0, 5, [RENEW, ACCEPT, RELEASE, REJECT, RENEW, GAP]), is_renew_ack=True, version=version)
    member.acknowledge((0, 0, [RENEW]), is_renew_ack=True, version=version)
    member.acknowledge((1, 1, [RENEW]), is_renew_ack=True, version=version)
    member.acknowledge(is_renew_ack=True, version=version)
