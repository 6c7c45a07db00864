"""Requests of every API that asks an authorizer, each with the operations that it needs, for the matrix of who may do what."""

from collections.abc import Callable
from typing import Any, NamedTuple

from twisted_kafka.protocol.api import ApiKey, request_class
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.compiler.schema import ListOf, StructType
from twisted_kafka.protocol.compiler.types import NO_UUID
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.security.authorizer.acl_types import CLUSTER_NAME, AclOperation, ResourceType
from twisted_kafka.tools.compare.data_requests import data

MINE, OTHER, MISSING = "mine", "other", "missing"
"""Topics: the needs are about the first; the second exists, and nobody but super users may do anything with it."""
GROUP, OTHER_GROUP = "g.mine", "g.other"
TRANSACTIONAL_ID, OTHER_ID = "tx.mine", "tx.other"

Fields = dict[str, Any]


class Need(NamedTuple):
    """An operation on a resource."""

    operation: AclOperation
    resource_type: ResourceType
    name: str

    def __str__(self) -> str:
        return f"{self.operation.title} {self.resource_type.title} {self.name}"


class World(NamedTuple):
    """What a request is made for."""

    version: int
    fresh: str
    """A part of names that no other request has."""
    ids: dict[str, bytes]
    """The ids of the topics that exist."""


class Sample(NamedTuple):
    """A request in each of its versions."""

    name: str
    key: ApiKey
    fields: Callable[[World], Fields]
    needs: tuple[Need, ...]
    versions: tuple[int, int]

    def request(self, world: World) -> Message:
        made: Message = _build(request_class(self.key), self.fields(world), world.version)
        return made


def _build(cls: Any, fields: Fields, version: int) -> Any:
    """Make a struct of those of the fields that the version has."""
    values = {}
    for field in cls.FIELDS:
        if field.name in fields and field.at(version):
            values[field.name] = _built(field.type, fields[field.name], version)
    return cls(**values)


def _built(kind: Any, value: Any, version: int) -> Any:
    if isinstance(kind, ListOf) and value is not None:
        return [_built(kind.element, each, version) for each in value]
    if isinstance(kind, StructType) and value is not None:
        return _build(kind, value, version)
    return value


def topic(operation: AclOperation, name: str = MINE) -> Need:
    return Need(operation, ResourceType.TOPIC, name)


def group(operation: AclOperation) -> Need:
    return Need(operation, ResourceType.GROUP, GROUP)


def transactional_id(operation: AclOperation) -> Need:
    return Need(operation, ResourceType.TRANSACTIONAL_ID, TRANSACTIONAL_ID)


def cluster(operation: AclOperation) -> Need:
    return Need(operation, ResourceType.CLUSTER, CLUSTER_NAME)


SAMPLES: list[Sample] = []
KRAFT_SAMPLES: list[Sample] = []
"""Those of APIs and config resources that Apache Kafka 3.9 has in KRaft mode only."""


def sample(
    name: str, key: ApiKey, *needs: Need, since: int = 0, until: int = 99, into: list[Sample] = SAMPLES
) -> Callable[[Callable[[World], Fields]], Callable[[World], Fields]]:
    def register(fields: Callable[[World], Fields]) -> Callable[[World], Fields]:
        into.append(Sample(name, key, fields, needs, (since, until)))
        return fields

    return register


O = AclOperation  # noqa: E741 the table is wide enough without it

TOPICS = (MINE, OTHER, MISSING)


# Data


@sample("produce", ApiKey.PRODUCE, topic(O.WRITE))
def _(world: World) -> Fields:
    records = data(world.version, 1)
    entries = [{"name": name, "partition_data": [{"index": 0, "records": records}]} for name in TOPICS]
    return {"acks": 1, "timeout_ms": 5000, "topic_data": entries}


@sample("produce-one", ApiKey.PRODUCE, topic(O.WRITE))
def _(world: World) -> Fields:
    entry = {"name": MINE, "partition_data": [{"index": 0, "records": data(world.version, 1)}]}
    return {"acks": 1, "timeout_ms": 5000, "topic_data": [entry]}


@sample("produce-transactional", ApiKey.PRODUCE, topic(O.WRITE), transactional_id(O.WRITE), since=3)
def _(world: World) -> Fields:
    records = build_batch(
        [SimpleRecord(1_790_000_000_000, None, b"x", ())],
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        is_transactional=True,
    )
    entry = {"name": MINE, "partition_data": [{"index": 9, "records": records}]}
    return {"transactional_id": TRANSACTIONAL_ID, "acks": 1, "timeout_ms": 5000, "topic_data": [entry]}


def _fetch(world: World, names: tuple[str, ...], replica_id: int = -1) -> Fields:
    topics = [
        {
            "topic": name,
            "topic_id": world.ids.get(name, b"\1" * 16),
            "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 200, "current_leader_epoch": -1}],
        }
        for name in names
    ]
    fields: Fields = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1000, "replica_id": replica_id, "topics": topics}
    fields |= {"session_id": 0, "session_epoch": -1}
    if replica_id >= 0:
        fields["replica_state"] = {"replica_id": replica_id, "replica_epoch": -1}
    return fields


@sample("fetch", ApiKey.FETCH, topic(O.READ))
def _(world: World) -> Fields:
    return _fetch(world, TOPICS)


@sample("fetch-one", ApiKey.FETCH, topic(O.READ))
def _(world: World) -> Fields:
    return _fetch(world, (MINE,))


@sample("fetch-follower", ApiKey.FETCH, cluster(O.CLUSTER_ACTION))
def _(world: World) -> Fields:
    return _fetch(world, (MISSING,), replica_id=7)


@sample("list-offsets", ApiKey.LIST_OFFSETS, topic(O.DESCRIBE))
def _(world: World) -> Fields:
    partition = {"partition_index": 0, "timestamp": -2, "max_num_offsets": 1}
    return {"replica_id": -1, "topics": [{"name": name, "partitions": [partition]} for name in TOPICS]}


@sample("list-offsets-one", ApiKey.LIST_OFFSETS, topic(O.DESCRIBE))
def _(world: World) -> Fields:
    partition = {"partition_index": 0, "timestamp": -2, "max_num_offsets": 1}
    return {"replica_id": -1, "topics": [{"name": MINE, "partitions": [partition]}]}


@sample("offset-for-leader-epoch", ApiKey.OFFSET_FOR_LEADER_EPOCH, topic(O.DESCRIBE), cluster(O.CLUSTER_ACTION))
def _(world: World) -> Fields:
    partition = {"partition": 0, "leader_epoch": 0}
    return {"replica_id": -2, "topics": [{"topic": name, "partitions": [partition]} for name in TOPICS]}


@sample("delete-records", ApiKey.DELETE_RECORDS, topic(O.DELETE))
def _(world: World) -> Fields:
    partition = {"partition_index": 0, "offset": 0}
    return {"timeout_ms": 5000, "topics": [{"name": name, "partitions": [partition]} for name in TOPICS]}


# The cluster


@sample("metadata", ApiKey.METADATA, topic(O.DESCRIBE), topic(O.DESCRIBE, MISSING), cluster(O.DESCRIBE))
def _(world: World) -> Fields:
    # Before version 4 every question creates what is missing.
    asked = [{"name": name} for name in (TOPICS if world.version >= 4 else (MINE, OTHER))]
    fields: Fields = {"topics": asked, "include_topic_authorized_operations": True}
    return fields | {"allow_auto_topic_creation": False, "include_cluster_authorized_operations": True}


@sample("metadata-operations", ApiKey.METADATA, topic(O.ALL), cluster(O.ALTER), cluster(O.ALTER_CONFIGS), since=8)
def _(world: World) -> Fields:
    asked = [{"name": MINE}]
    fields: Fields = {"topics": asked, "include_topic_authorized_operations": True}
    return fields | {"allow_auto_topic_creation": False, "include_cluster_authorized_operations": True}


@sample("metadata-all", ApiKey.METADATA, topic(O.DESCRIBE))
def _(world: World) -> Fields:
    return {"topics": None if world.version else [], "include_topic_authorized_operations": True}


@sample("metadata-by-id", ApiKey.METADATA, topic(O.DESCRIBE), since=12)
def _(world: World) -> Fields:
    ids = [world.ids[MINE], world.ids[OTHER], b"\1" * 16]
    return {"topics": [{"topic_id": each, "name": None} for each in ids], "include_topic_authorized_operations": True}


@sample("metadata-created", ApiKey.METADATA, topic(O.DESCRIBE, "*"), topic(O.CREATE, "*"), cluster(O.CREATE), since=4)
def _(world: World) -> Fields:
    return {"topics": [{"name": f"auto.{world.fresh}"}, {"name": "bad/name"}], "allow_auto_topic_creation": True}


@sample("describe-cluster", ApiKey.DESCRIBE_CLUSTER, cluster(O.DESCRIBE), cluster(O.ALTER))
def _(world: World) -> Fields:
    return {"include_cluster_authorized_operations": True, "endpoint_type": 1}


# Groups


@sample("find-coordinator", ApiKey.FIND_COORDINATOR, group(O.DESCRIBE))
def _(world: World) -> Fields:
    return {"key": GROUP, "key_type": 0, "coordinator_keys": [GROUP, OTHER_GROUP]}


@sample("find-transaction-coordinator", ApiKey.FIND_COORDINATOR, transactional_id(O.DESCRIBE), since=1)
def _(world: World) -> Fields:
    return {"key": TRANSACTIONAL_ID, "key_type": 1, "coordinator_keys": [TRANSACTIONAL_ID, OTHER_ID]}


@sample("join-group", ApiKey.JOIN_GROUP, group(O.READ))
def _(world: World) -> Fields:
    fields: Fields = {"group_id": GROUP, "session_timeout_ms": 1, "rebalance_timeout_ms": 1000, "protocol_type": "consumer"}
    return fields | {"protocols": [{"name": "range", "metadata": b""}]}


@sample("sync-group", ApiKey.SYNC_GROUP, group(O.READ))
def _(world: World) -> Fields:
    return {"group_id": GROUP, "generation_id": 1, "member_id": "x", "protocol_type": "consumer", "protocol_name": "range"}


@sample("heartbeat", ApiKey.HEARTBEAT, group(O.READ))
def _(world: World) -> Fields:
    return {"group_id": GROUP, "generation_id": 1, "member_id": "x"}


@sample("leave-group", ApiKey.LEAVE_GROUP, group(O.READ))
def _(world: World) -> Fields:
    return {"group_id": GROUP, "member_id": "x", "members": [{"member_id": "x"}]}


@sample("describe-groups", ApiKey.DESCRIBE_GROUPS, group(O.DESCRIBE), group(O.DELETE))
def _(world: World) -> Fields:
    return {"groups": [GROUP, OTHER_GROUP], "include_authorized_operations": True}


@sample("list-groups", ApiKey.LIST_GROUPS, group(O.DESCRIBE), cluster(O.DESCRIBE))
def _(world: World) -> Fields:
    return {}


@sample("delete-groups", ApiKey.DELETE_GROUPS, Need(O.DELETE, ResourceType.GROUP, "g.gone"))
def _(world: World) -> Fields:
    return {"groups_names": ["g.gone", "g.gone"] if world.fresh.startswith("super") else [OTHER_GROUP, "g.gone"]}


@sample("offset-commit", ApiKey.OFFSET_COMMIT, group(O.READ), topic(O.READ))
def _(world: World) -> Fields:
    partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    topics = [{"name": name, "partitions": [partition]} for name in TOPICS]
    return {"group_id": GROUP, "topics": topics}


@sample("offset-commit-one", ApiKey.OFFSET_COMMIT, group(O.READ), topic(O.READ))
def _(world: World) -> Fields:
    partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    return {"group_id": GROUP, "topics": [{"name": MINE, "partitions": [partition]}]}


@sample("offset-fetch", ApiKey.OFFSET_FETCH, group(O.DESCRIBE), topic(O.DESCRIBE))
def _(world: World) -> Fields:
    topics = [{"name": name, "partition_indexes": [0]} for name in TOPICS]
    groups = [{"group_id": name, "topics": topics} for name in (GROUP, OTHER_GROUP)]
    return {"group_id": GROUP, "topics": topics, "groups": groups}


@sample("offset-fetch-all", ApiKey.OFFSET_FETCH, group(O.DESCRIBE), topic(O.DESCRIBE), since=2)
def _(world: World) -> Fields:
    groups = [{"group_id": name, "topics": None} for name in (GROUP, OTHER_GROUP)]
    return {"group_id": GROUP, "topics": None, "groups": groups}


@sample("offset-delete", ApiKey.OFFSET_DELETE, group(O.DELETE), topic(O.READ))
def _(world: World) -> Fields:
    topics = [{"name": name, "partitions": [{"partition_index": 5}]} for name in TOPICS]
    return {"group_id": GROUP, "topics": topics}


# Transactions


@sample("init-producer-id", ApiKey.INIT_PRODUCER_ID, cluster(O.IDEMPOTENT_WRITE), topic(O.WRITE))
def _(world: World) -> Fields:
    return {"transactional_id": None, "transaction_timeout_ms": 60_000}


@sample("init-transactional-id", ApiKey.INIT_PRODUCER_ID, transactional_id(O.WRITE))
def _(world: World) -> Fields:
    return {"transactional_id": TRANSACTIONAL_ID, "transaction_timeout_ms": -1}


@sample("add-partitions", ApiKey.ADD_PARTITIONS_TO_TXN, transactional_id(O.WRITE), topic(O.WRITE), topic(O.WRITE, OTHER), until=3)
def _(world: World) -> Fields:
    topics = [{"name": MINE, "partitions": [0]}, {"name": OTHER, "partitions": [0]}]
    fields: Fields = {"v3_and_below_transactional_id": TRANSACTIONAL_ID, "v3_and_below_producer_id": 99_999}
    return fields | {"v3_and_below_producer_epoch": 7, "v3_and_below_topics": topics}


@sample("add-partitions-of-brokers", ApiKey.ADD_PARTITIONS_TO_TXN, cluster(O.CLUSTER_ACTION), since=4)
def _(world: World) -> Fields:
    topics = [{"name": MINE, "partitions": [0]}]
    one = {"transactional_id": TRANSACTIONAL_ID, "producer_id": 99_999, "producer_epoch": 7, "verify_only": True, "topics": topics}
    return {"transactions": [one]}


@sample("add-offsets", ApiKey.ADD_OFFSETS_TO_TXN, transactional_id(O.WRITE), group(O.READ))
def _(world: World) -> Fields:
    return {"transactional_id": TRANSACTIONAL_ID, "producer_id": 99_999, "producer_epoch": 7, "group_id": GROUP}


@sample("end-transaction", ApiKey.END_TXN, transactional_id(O.WRITE), until=4)
def _(world: World) -> Fields:
    return {"transactional_id": TRANSACTIONAL_ID, "producer_id": 99_999, "producer_epoch": 7, "committed": True}


@sample("write-markers", ApiKey.WRITE_TXN_MARKERS, cluster(O.ALTER), cluster(O.CLUSTER_ACTION))
def _(world: World) -> Fields:
    topics = [{"name": MISSING, "partition_indexes": [0]}]
    return {"markers": [{"producer_id": 5, "producer_epoch": 1, "transaction_result": True, "topics": topics}]}


@sample(
    "transactional-offsets", ApiKey.TXN_OFFSET_COMMIT, transactional_id(O.WRITE), group(O.READ), topic(O.READ), topic(O.READ, OTHER)
)
def _(world: World) -> Fields:
    partition = {"partition_index": 7, "committed_offset": 1, "committed_metadata": ""}
    fields: Fields = {"transactional_id": TRANSACTIONAL_ID, "group_id": GROUP, "producer_id": 99_999, "producer_epoch": 7}
    return fields | {"topics": [{"name": name, "partitions": [partition]} for name in TOPICS]}


@sample("describe-producers", ApiKey.DESCRIBE_PRODUCERS, topic(O.READ))
def _(world: World) -> Fields:
    return {"topics": [{"name": name, "partition_indexes": [0]} for name in TOPICS]}


@sample("describe-transactions", ApiKey.DESCRIBE_TRANSACTIONS, transactional_id(O.DESCRIBE), topic(O.DESCRIBE))
def _(world: World) -> Fields:
    return {"transactional_ids": [TRANSACTIONAL_ID, OTHER_ID]}


@sample("list-transactions", ApiKey.LIST_TRANSACTIONS, transactional_id(O.DESCRIBE))
def _(world: World) -> Fields:
    return {"state_filters": [], "producer_id_filters": [], "duration_filter": -1}


# Administration


@sample("create-topics", ApiKey.CREATE_TOPICS, cluster(O.CREATE), topic(O.CREATE, "new"), topic(O.DESCRIBE_CONFIGS, "new"), since=1)
def _(world: World) -> Fields:
    topics = [{"name": name, "num_partitions": 2, "replication_factor": 1} for name in ("new", "twice", "twice", OTHER)]
    return {"topics": topics, "timeout_ms": 5000, "validate_only": True}


@sample("create-topics-too-many-replicas", ApiKey.CREATE_TOPICS, cluster(O.CREATE), until=0)
def _(world: World) -> Fields:
    return {"topics": [{"name": "new", "num_partitions": 1, "replication_factor": 9}], "timeout_ms": 5000}


@sample("delete-topics", ApiKey.DELETE_TOPICS, topic(O.DELETE, MISSING))
def _(world: World) -> Fields:
    names = [MISSING, "missing.too"]
    return {"timeout_ms": 5000, "topic_names": names, "topics": [{"name": name, "topic_id": NO_UUID} for name in names]}


@sample("delete-topics-by-id", ApiKey.DELETE_TOPICS, topic(O.DESCRIBE, OTHER), since=6)
def _(world: World) -> Fields:
    if world.fresh.startswith("super"):
        return {"timeout_ms": 5000, "topics": [{"name": None, "topic_id": b"\1" * 16}]}
    return {"timeout_ms": 5000, "topics": [{"name": None, "topic_id": each} for each in (world.ids[OTHER], b"\1" * 16)]}


@sample("create-partitions", ApiKey.CREATE_PARTITIONS, topic(O.ALTER))
def _(world: World) -> Fields:
    topics = [{"name": name, "count": 3, "assignments": None} for name in (*TOPICS, "twice", "twice")]
    return {"timeout_ms": 5000, "validate_only": True, "topics": topics}


CONFIG_RESOURCES = ((2, MINE), (2, OTHER), (2, MISSING), (4, "1"), (8, "1"))


@sample("describe-configs", ApiKey.DESCRIBE_CONFIGS, topic(O.DESCRIBE_CONFIGS), cluster(O.DESCRIBE_CONFIGS))
def _(world: World) -> Fields:
    keys = {2: ["retention.ms"], 4: ["background.threads"], 8: ["kafka.none"]}
    resources = [
        {"resource_type": kind, "resource_name": name, "configuration_keys": keys[kind]} for kind, name in CONFIG_RESOURCES
    ]
    return {"resources": resources}


@sample("alter-configs", ApiKey.ALTER_CONFIGS, topic(O.ALTER_CONFIGS), cluster(O.ALTER_CONFIGS))
def _(world: World) -> Fields:
    resources = [
        {"resource_type": kind, "resource_name": name, "configs": [{"name": "retention.ms", "value": "1000"}] if kind == 2 else []}
        for kind, name in CONFIG_RESOURCES[:4]
    ]
    return {"resources": resources, "validate_only": True}


@sample("incremental-alter-configs", ApiKey.INCREMENTAL_ALTER_CONFIGS, topic(O.ALTER_CONFIGS), cluster(O.ALTER_CONFIGS))
def _(world: World) -> Fields:
    change = {2: {"name": "retention.ms", "config_operation": 0, "value": "1000"}}
    change[4] = {"name": "background.threads", "config_operation": 0, "value": "9"}
    change[8] = {"name": "root", "config_operation": 0, "value": "INFO"}
    resources = [{"resource_type": kind, "resource_name": name, "configs": [change[kind]]} for kind, name in CONFIG_RESOURCES]
    return {"resources": resources, "validate_only": True}


@sample("alter-log-dirs", ApiKey.ALTER_REPLICA_LOG_DIRS, cluster(O.ALTER), since=1)
def _(world: World) -> Fields:
    return {"dirs": [{"path": "/nowhere", "topics": [{"name": MISSING, "partitions": [0]}]}]}


@sample("describe-log-dirs", ApiKey.DESCRIBE_LOG_DIRS, cluster(O.DESCRIBE), since=1)
def _(world: World) -> Fields:
    return {"topics": []}


@sample("elect-leaders", ApiKey.ELECT_LEADERS, cluster(O.ALTER))
def _(world: World) -> Fields:
    return {"election_type": 0, "timeout_ms": 5000, "topic_partitions": [{"topic": MINE, "partitions": [0]}]}


@sample("alter-reassignments", ApiKey.ALTER_PARTITION_REASSIGNMENTS, cluster(O.ALTER))
def _(world: World) -> Fields:
    partitions = [{"partition_index": 0, "replicas": None}]
    return {"timeout_ms": 5000, "topics": [{"name": MISSING, "partitions": partitions}]}


@sample("list-reassignments", ApiKey.LIST_PARTITION_REASSIGNMENTS, cluster(O.DESCRIBE))
def _(world: World) -> Fields:
    return {"timeout_ms": 5000, "topics": None}


@sample("describe-quotas", ApiKey.DESCRIBE_CLIENT_QUOTAS, cluster(O.DESCRIBE_CONFIGS))
def _(world: World) -> Fields:
    return {"components": [{"entity_type": "ip", "match_type": 2, "match": None}], "strict": True}


@sample("alter-quotas", ApiKey.ALTER_CLIENT_QUOTAS, cluster(O.ALTER_CONFIGS))
def _(world: World) -> Fields:
    entity = [{"entity_type": "ip", "entity_name": "127.0.0.1"}]
    operations = [{"key": "connection_creation_rate", "value": 100.0, "remove": False}]
    return {"validate_only": True, "entries": [{"entity": entity, "ops": operations}]}


@sample("update-features", ApiKey.UPDATE_FEATURES, cluster(O.ALTER))
def _(world: World) -> Fields:
    return {"timeout_ms": 5000, "feature_updates": [{"feature": "unheard.of", "max_version_level": 3, "upgrade_type": 1}]}


ACL = {"resource_type": 2, "resource_name": "made", "resource_pattern_type": 3, "principal": "User:zoe", "host": "*"}
ACL |= {"operation": 3, "permission_type": 3}
FILTER: Fields = {"resource_type_filter": 2, "resource_name_filter": "made", "pattern_type_filter": 3, "principal_filter": None}
FILTER |= {"host_filter": None, "operation": 1, "permission_type": 1}


@sample("create-acls", ApiKey.CREATE_ACLS, cluster(O.ALTER))
def _(world: World) -> Fields:
    return {"creations": [ACL, ACL | {"resource_name": ""}, ACL | {"resource_type": 4}]}


@sample("describe-acls", ApiKey.DESCRIBE_ACLS, cluster(O.DESCRIBE))
def _(world: World) -> Fields:
    return FILTER


@sample("delete-acls", ApiKey.DELETE_ACLS, cluster(O.ALTER))
def _(world: World) -> Fields:
    return {"filters": [FILTER, FILTER | {"resource_name_filter": "other"}]}


@sample("describe-scram", ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, cluster(O.DESCRIBE))
def _(world: World) -> Fields:
    return {"users": [{"name": "zoe"}]}


@sample("alter-scram", ApiKey.ALTER_USER_SCRAM_CREDENTIALS, cluster(O.ALTER))
def _(world: World) -> Fields:
    return {"deletions": [{"name": "zoe", "mechanism": 1}]}


# Tokens are disabled: who may not create them for somebody else is told that first.


@sample("create-token", ApiKey.CREATE_DELEGATION_TOKEN)
def _(world: World) -> Fields:
    return {"max_lifetime_ms": -1}


@sample("create-token-for", ApiKey.CREATE_DELEGATION_TOKEN, Need(O.CREATE_TOKENS, ResourceType.USER, "User:zoe"), since=3)
def _(world: World) -> Fields:
    return {"max_lifetime_ms": -1, "owner_principal_type": "User", "owner_principal_name": "zoe"}


@sample("renew-token", ApiKey.RENEW_DELEGATION_TOKEN)
def _(world: World) -> Fields:
    return {"hmac": b"x", "renew_period_ms": -1}


@sample("expire-token", ApiKey.EXPIRE_DELEGATION_TOKEN)
def _(world: World) -> Fields:
    return {"hmac": b"x", "expiry_time_period_ms": -1}


@sample("describe-tokens", ApiKey.DESCRIBE_DELEGATION_TOKEN)
def _(world: World) -> Fields:
    return {"owners": None}


# Between brokers: only what is refused. On clients' listeners this broker refuses them anyhow.

CONTROL: Fields = {"controller_id": 1, "controller_epoch": 0, "broker_epoch": -1}


@sample("leader-and-isr", ApiKey.LEADER_AND_ISR)
def _(world: World) -> Fields:
    return CONTROL


@sample("stop-replica", ApiKey.STOP_REPLICA)
def _(world: World) -> Fields:
    return CONTROL


@sample("update-metadata", ApiKey.UPDATE_METADATA)
def _(world: World) -> Fields:
    return CONTROL


@sample("controlled-shutdown", ApiKey.CONTROLLED_SHUTDOWN)
def _(world: World) -> Fields:
    return {"broker_id": 77, "broker_epoch": -1}


@sample("alter-partition", ApiKey.ALTER_PARTITION, cluster(O.CLUSTER_ACTION))
def _(world: World) -> Fields:
    return {"broker_id": 77, "broker_epoch": -1, "topics": []}


@sample("allocate-producer-ids", ApiKey.ALLOCATE_PRODUCER_IDS, cluster(O.CLUSTER_ACTION))
def _(world: World) -> Fields:
    return {"broker_id": 77, "broker_epoch": -1}


REFUSED_TO_ALL = (ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.CONTROLLED_SHUTDOWN)


# Only with KRaft


@sample("consumer-heartbeat", ApiKey.CONSUMER_GROUP_HEARTBEAT, group(O.READ), into=KRAFT_SAMPLES)
def _(world: World) -> Fields:
    return {"group_id": GROUP, "member_id": "x", "member_epoch": 5, "topic_partitions": []}


@sample("consumer-group-describe", ApiKey.CONSUMER_GROUP_DESCRIBE, group(O.DESCRIBE), group(O.READ), into=KRAFT_SAMPLES)
def _(world: World) -> Fields:
    return {"group_ids": [GROUP], "include_authorized_operations": True}


@sample("describe-topic-partitions", ApiKey.DESCRIBE_TOPIC_PARTITIONS, topic(O.DESCRIBE), topic(O.ALTER), into=KRAFT_SAMPLES)
def _(world: World) -> Fields:
    return {"topics": [{"name": name} for name in TOPICS], "response_partition_limit": 10}


@sample("describe-all-topic-partitions", ApiKey.DESCRIBE_TOPIC_PARTITIONS, topic(O.DESCRIBE), into=KRAFT_SAMPLES)
def _(world: World) -> Fields:
    return {"topics": [], "response_partition_limit": 1}


@sample("list-client-metrics", ApiKey.LIST_CONFIG_RESOURCES, cluster(O.DESCRIBE_CONFIGS), into=KRAFT_SAMPLES)
def _(world: World) -> Fields:
    return {}


@sample("describe-client-metrics", ApiKey.DESCRIBE_CONFIGS, cluster(O.DESCRIBE_CONFIGS), into=KRAFT_SAMPLES)
def _(world: World) -> Fields:
    return {"resources": [{"resource_type": 16, "resource_name": "metrics", "configuration_keys": ["interval.ms"]}]}


@sample("alter-client-metrics", ApiKey.INCREMENTAL_ALTER_CONFIGS, cluster(O.ALTER_CONFIGS), into=KRAFT_SAMPLES)
def _(world: World) -> Fields:
    configs = [{"name": "interval.ms", "config_operation": 0, "value": "60000"}]
    return {"resources": [{"resource_type": 16, "resource_name": "metrics", "configs": configs}], "validate_only": True}
