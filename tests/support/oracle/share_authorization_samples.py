"""Requests of the share groups' APIs, which Apache Kafka 4 has, with the operations that each needs."""

from functools import partial
from zlib import crc32

from tests.support.oracle import authorization_samples as samples
from tests.support.oracle.authorization_samples import (
    MINE,
    MISSING,
    OTHER,
    TOPICS,
    Fields,
    Need,
    Sample,
    World,
    cluster,
    topic,
)
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.security.authorizer.acl_types import AclOperation as O
from twisted_kafka.security.authorizer.acl_types import ResourceType

SHARE_GROUP = "g.share"
"""A share group with a member that has the topics MINE and OTHER."""
EMPTY_GROUP = "g.empty"
STATE_GROUP = "g.state"
"""A group id that only share coordinators know."""
MEMBER = "a" * 22

SHARE_SAMPLES: list[Sample] = []
sample = partial(samples.sample, into=SHARE_SAMPLES)


def group(operation: O, name: str = SHARE_GROUP) -> Need:
    return Need(operation, ResourceType.GROUP, name)


@sample("share-heartbeat", ApiKey.SHARE_GROUP_HEARTBEAT, group(O.READ), topic(O.DESCRIBE))
def _(world: World) -> Fields:
    return {"group_id": SHARE_GROUP, "member_id": "x" * 22, "member_epoch": 5, "subscribed_topic_names": [MINE]}


@sample("share-heartbeat-of-two", ApiKey.SHARE_GROUP_HEARTBEAT, group(O.READ), topic(O.DESCRIBE), topic(O.DESCRIBE, OTHER))
def _(world: World) -> Fields:
    return {"group_id": SHARE_GROUP, "member_id": "x" * 22, "member_epoch": 5, "subscribed_topic_names": [MINE, OTHER]}


@sample("share-describe", ApiKey.SHARE_GROUP_DESCRIBE, group(O.DESCRIBE), topic(O.DESCRIBE), topic(O.DESCRIBE, OTHER))
def _(world: World) -> Fields:
    return {"group_ids": [SHARE_GROUP], "include_authorized_operations": True}


@sample("share-fetch", ApiKey.SHARE_FETCH, group(O.READ), topic(O.READ))
def _(world: World) -> Fields:
    """Without an unknown topic: Kafka with an authorizer fails at it."""
    topics = [
        {"topic_id": each, "partitions": [{"partition_index": 0, "acknowledgement_batches": []}]} for each in world.ids.values()
    ]
    limits = {"max_wait_ms": 300, "min_bytes": 1, "max_bytes": 1_000_000, "max_records": 1, "batch_size": 1}
    member = str(crc32(world.fresh.encode())).ljust(21, "x") + "A"  # the text of a UUID: Kafka reads it as one
    return {"group_id": SHARE_GROUP, "member_id": member, "share_session_epoch": 0, "topics": topics, **limits}


@sample("share-acknowledge", ApiKey.SHARE_ACKNOWLEDGE, group(O.READ), topic(O.READ))
def _(world: World) -> Fields:
    return {"group_id": SHARE_GROUP, "member_id": "x" * 22, "share_session_epoch": 1, "topics": []}


@sample("initialize-share-state", ApiKey.INITIALIZE_SHARE_GROUP_STATE, cluster(O.CLUSTER_ACTION))
def _(world: World) -> Fields:
    partition = {"partition": 0, "state_epoch": 1, "start_offset": 0}
    return {"group_id": STATE_GROUP, "topics": [{"topic_id": world.ids[MINE], "partitions": [partition]}]}


@sample("read-share-state", ApiKey.READ_SHARE_GROUP_STATE, cluster(O.CLUSTER_ACTION))
def _(world: World) -> Fields:
    return {"group_id": STATE_GROUP, "topics": [{"topic_id": world.ids[MINE], "partitions": [{"partition": 0, "leader_epoch": 0}]}]}


@sample("write-share-state", ApiKey.WRITE_SHARE_GROUP_STATE, cluster(O.CLUSTER_ACTION))
def _(world: World) -> Fields:
    partition = {"partition": 0, "state_epoch": 1, "leader_epoch": 0, "start_offset": 0, "state_batches": []}
    return {"group_id": STATE_GROUP, "topics": [{"topic_id": world.ids[MINE], "partitions": [partition]}]}


@sample("summarize-share-state", ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, cluster(O.CLUSTER_ACTION))
def _(world: World) -> Fields:
    return {"group_id": STATE_GROUP, "topics": [{"topic_id": world.ids[MINE], "partitions": [{"partition": 0, "leader_epoch": 0}]}]}


@sample("delete-share-state", ApiKey.DELETE_SHARE_GROUP_STATE, cluster(O.CLUSTER_ACTION))
def _(world: World) -> Fields:
    return {"group_id": STATE_GROUP, "topics": [{"topic_id": world.ids[MINE], "partitions": [{"partition": 0}]}]}


@sample("describe-share-offsets", ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, group(O.DESCRIBE), topic(O.DESCRIBE))
def _(world: World) -> Fields:
    topics = [{"topic_name": name, "partitions": [0]} for name in TOPICS]
    return {"groups": [{"group_id": SHARE_GROUP, "topics": topics}, {"group_id": EMPTY_GROUP, "topics": topics}]}


@sample("describe-all-share-offsets", ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, group(O.DESCRIBE), topic(O.DESCRIBE))
def _(world: World) -> Fields:
    return {"groups": [{"group_id": SHARE_GROUP, "topics": None}]}


@sample("alter-share-offsets", ApiKey.ALTER_SHARE_GROUP_OFFSETS, group(O.READ, EMPTY_GROUP), topic(O.READ))
def _(world: World) -> Fields:
    topics = [{"topic_name": name, "partitions": [{"partition_index": 0, "start_offset": 0}]} for name in TOPICS]
    return {"group_id": EMPTY_GROUP, "topics": topics}


@sample("delete-share-offsets", ApiKey.DELETE_SHARE_GROUP_OFFSETS, group(O.DELETE, EMPTY_GROUP), topic(O.READ))
def _(world: World) -> Fields:
    return {"group_id": EMPTY_GROUP, "topics": [{"topic_name": name} for name in (OTHER, MISSING)]}
