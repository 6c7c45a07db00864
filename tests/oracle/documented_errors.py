"""The errors that Kafka documents for each API of groups, topics, configurations and log directories, and how each is compared.

They are those of its response classes, of the message definitions and of the admin client's methods. PROVOKED: some scenario gets
Apache Kafka to answer it, and this broker's answer was the same; ``test_every_documented_error_was_provoked`` sees to it. Else it
is said why two single brokers cannot be brought to it, and where this broker's part is tested, if it has one.
"""

from twisted_kafka.protocol.errors import ErrorCode as E

PROVOKED = "provoked by a scenario"

NO_AUTHORIZER = "there are no ACLs yet: everybody may do everything"
LOADING = "a partition of a few records is loaded before it can be asked; tests/coordinator/test_runtime.py"
NOT_AVAILABLE = "only between a broker's stop and its end; tests/coordinator/test_runtime.py"
NOT_HERE = "a single broker is the coordinator of every group; tests/coordinator/test_runtime.py"
ALWAYS_LEADER = "a single broker is leader of every partition that it has; tests/replication"
ALWAYS_CONTROLLER = "a single broker is the controller; tests/controller"
NO_FOLLOWERS = "there are no other replicas to wait for; tests/coordinator/test_runtime.py and tests/replication"
NO_PEERS = "takes another broker: one that is away, or has a replica"
POLICY = "policies are Java classes there and Python classes here; tests/admin/test_policies.py"
NO_DELETION = "delete.topic.enable=false would keep the other scenarios from deleting; tests/admin/test_topics.py"
DISK = "takes a disk that fails; tests/clients/test_log_dirs.py"
NO_MAGIC = "all logs have records of format 2"
NO_FEATURES = "Apache Kafka with ZooKeeper has no features to update; here see tests/server/apis/administration/test_features.py"
PLUGIN = "Apache Kafka serves it with a Java plug-in only; tests/telemetry"
QUICK = "an operation with one broker is over before it could be met"
MARKERS = "while markers are written, which takes what it takes; the scenarios ask again; tests/data/coordinator/transactions"
NEVER = "Apache Kafka 3.9 has no way to it"

_COORDINATOR = {
    E.COORDINATOR_LOAD_IN_PROGRESS: LOADING,
    E.COORDINATOR_NOT_AVAILABLE: NOT_AVAILABLE,
    E.NOT_COORDINATOR: NOT_HERE,
    E.GROUP_AUTHORIZATION_FAILED: NO_AUTHORIZER,
}
_TRANSACTIONS = {
    E.COORDINATOR_LOAD_IN_PROGRESS: LOADING,
    E.COORDINATOR_NOT_AVAILABLE: NOT_AVAILABLE,
    E.NOT_COORDINATOR: NOT_HERE,
    E.CONCURRENT_TRANSACTIONS: MARKERS,
    E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: NO_AUTHORIZER,
}
_CONTROLLER = {E.NOT_CONTROLLER: ALWAYS_CONTROLLER, E.CLUSTER_AUTHORIZATION_FAILED: NO_AUTHORIZER}


def _provoked(*errors: E) -> dict[E, str]:
    return dict.fromkeys(errors, PROVOKED)


DOCUMENTED: dict[str, dict[E, str]] = {
    "JoinGroup": _COORDINATOR
    | _provoked(
        E.INVALID_GROUP_ID,
        E.INCONSISTENT_GROUP_PROTOCOL,
        E.UNKNOWN_MEMBER_ID,
        E.INVALID_SESSION_TIMEOUT,
        E.MEMBER_ID_REQUIRED,
        E.FENCED_INSTANCE_ID,
        E.GROUP_MAX_SIZE_REACHED,
    ),
    "SyncGroup": _COORDINATOR
    | _provoked(
        E.INVALID_GROUP_ID,
        E.ILLEGAL_GENERATION,
        E.UNKNOWN_MEMBER_ID,
        E.REBALANCE_IN_PROGRESS,
        E.INCONSISTENT_GROUP_PROTOCOL,
        E.FENCED_INSTANCE_ID,
    ),
    "Heartbeat": _COORDINATOR
    | _provoked(E.INVALID_GROUP_ID, E.ILLEGAL_GENERATION, E.UNKNOWN_MEMBER_ID, E.REBALANCE_IN_PROGRESS, E.FENCED_INSTANCE_ID),
    "LeaveGroup": _COORDINATOR | _provoked(E.INVALID_GROUP_ID, E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID),
    "OffsetCommit": _COORDINATOR
    | _provoked(
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.OFFSET_METADATA_TOO_LARGE,
        E.ILLEGAL_GENERATION,
        E.UNKNOWN_MEMBER_ID,
        E.REBALANCE_IN_PROGRESS,
        E.INVALID_COMMIT_OFFSET_SIZE,
        E.FENCED_INSTANCE_ID,
        E.STALE_MEMBER_EPOCH,
        E.UNSUPPORTED_VERSION,
    )
    | {E.REQUEST_TIMED_OUT: NO_FOLLOWERS, E.TOPIC_AUTHORIZATION_FAILED: NO_AUTHORIZER},
    "OffsetFetch": _COORDINATOR
    | _provoked(E.UNKNOWN_TOPIC_OR_PARTITION, E.UNSTABLE_OFFSET_COMMIT, E.UNKNOWN_MEMBER_ID, E.STALE_MEMBER_EPOCH)
    | {E.TOPIC_AUTHORIZATION_FAILED: NO_AUTHORIZER},
    "OffsetDelete": _COORDINATOR
    | _provoked(
        E.INVALID_GROUP_ID,
        E.GROUP_ID_NOT_FOUND,
        E.NON_EMPTY_GROUP,
        E.GROUP_SUBSCRIBED_TO_TOPIC,
        E.UNKNOWN_TOPIC_OR_PARTITION,
    )
    | {E.TOPIC_AUTHORIZATION_FAILED: NO_AUTHORIZER},
    "TxnOffsetCommit": _COORDINATOR
    | _provoked(
        E.INVALID_GROUP_ID,
        E.INVALID_PRODUCER_EPOCH,
        E.INVALID_PRODUCER_ID_MAPPING,
        E.OFFSET_METADATA_TOO_LARGE,
        E.INVALID_COMMIT_OFFSET_SIZE,
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.UNKNOWN_MEMBER_ID,
        E.FENCED_INSTANCE_ID,
        E.ILLEGAL_GENERATION,
        E.INVALID_TXN_STATE,
        E.TRANSACTION_ABORTABLE,
    )
    | {
        E.REQUEST_TIMED_OUT: NO_FOLLOWERS,
        E.TOPIC_AUTHORIZATION_FAILED: NO_AUTHORIZER,
        E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: NO_AUTHORIZER,
        E.UNSUPPORTED_FOR_MESSAGE_FORMAT: NO_MAGIC,
        E.CONCURRENT_TRANSACTIONS: MARKERS,
    },
    "InitProducerId": _TRANSACTIONS
    | _provoked(E.INVALID_REQUEST, E.INVALID_TRANSACTION_TIMEOUT, E.INVALID_PRODUCER_EPOCH, E.PRODUCER_FENCED)
    | {E.CLUSTER_AUTHORIZATION_FAILED: NO_AUTHORIZER, E.TRANSACTION_ABORTABLE: NEVER},
    "AddPartitionsToTxn": _TRANSACTIONS
    | _provoked(
        E.INVALID_REQUEST,
        E.INVALID_PRODUCER_ID_MAPPING,
        E.INVALID_PRODUCER_EPOCH,
        E.PRODUCER_FENCED,
        E.OPERATION_NOT_ATTEMPTED,
        E.TOPIC_AUTHORIZATION_FAILED,
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.TRANSACTION_ABORTABLE,
    )
    | {E.INVALID_TXN_STATE: NEVER},
    "AddOffsetsToTxn": _TRANSACTIONS
    | _provoked(E.INVALID_REQUEST, E.INVALID_PRODUCER_ID_MAPPING, E.INVALID_PRODUCER_EPOCH, E.PRODUCER_FENCED)
    | {E.INVALID_TXN_STATE: NEVER, E.GROUP_AUTHORIZATION_FAILED: NO_AUTHORIZER, E.TRANSACTION_ABORTABLE: NEVER},
    "EndTxn": _TRANSACTIONS
    | _provoked(E.INVALID_REQUEST, E.INVALID_TXN_STATE, E.INVALID_PRODUCER_ID_MAPPING, E.INVALID_PRODUCER_EPOCH, E.PRODUCER_FENCED)
    | {E.TRANSACTION_ABORTABLE: NEVER},
    "DescribeTransactions": _provoked(E.INVALID_REQUEST, E.TRANSACTIONAL_ID_NOT_FOUND)
    | {
        E.COORDINATOR_LOAD_IN_PROGRESS: LOADING,
        E.COORDINATOR_NOT_AVAILABLE: NOT_AVAILABLE,
        E.NOT_COORDINATOR: NOT_HERE,
        E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: NO_AUTHORIZER,
    },
    "ListTransactions": {E.COORDINATOR_LOAD_IN_PROGRESS: LOADING, E.COORDINATOR_NOT_AVAILABLE: NOT_AVAILABLE},
    "WriteTxnMarkers": _provoked(E.INVALID_PRODUCER_EPOCH, E.TRANSACTION_COORDINATOR_FENCED, E.UNKNOWN_TOPIC_OR_PARTITION)
    | {
        E.NOT_LEADER_OR_FOLLOWER: ALWAYS_LEADER,
        E.NOT_ENOUGH_REPLICAS: NO_FOLLOWERS,
        E.NOT_ENOUGH_REPLICAS_AFTER_APPEND: NO_FOLLOWERS,
        E.REQUEST_TIMED_OUT: NO_FOLLOWERS,
        E.UNSUPPORTED_FOR_MESSAGE_FORMAT: NO_MAGIC,
        E.CLUSTER_AUTHORIZATION_FAILED: NO_AUTHORIZER,
    },
    "DescribeGroups": dict(_COORDINATOR),
    "ListGroups": {
        E.COORDINATOR_LOAD_IN_PROGRESS: LOADING,
        E.COORDINATOR_NOT_AVAILABLE: NOT_AVAILABLE,
        E.CLUSTER_AUTHORIZATION_FAILED: NO_AUTHORIZER,
    },
    "DeleteGroups": _COORDINATOR
    | _provoked(E.NON_EMPTY_GROUP, E.GROUP_ID_NOT_FOUND)
    | {E.INVALID_GROUP_ID: "groups without a name have offsets and can be deleted: only a null is invalid, and cannot be sent"},
    "ConsumerGroupHeartbeat": _COORDINATOR
    | _provoked(
        E.INVALID_REQUEST,
        E.UNKNOWN_MEMBER_ID,
        E.FENCED_MEMBER_EPOCH,
        E.UNSUPPORTED_ASSIGNOR,
        E.UNRELEASED_INSTANCE_ID,
        E.GROUP_MAX_SIZE_REACHED,
        E.FENCED_INSTANCE_ID,
        E.GROUP_ID_NOT_FOUND,
    ),
    "ConsumerGroupDescribe": _COORDINATOR
    | _provoked(E.GROUP_ID_NOT_FOUND)
    | {
        E.INVALID_REQUEST: "the broker has no requests of this kind that it would call invalid",
        E.INVALID_GROUP_ID: "an exception that nobody caught there: `description-without-a-name` in docs/compatibility.md",
    },
    "CreateTopics": _CONTROLLER
    | _provoked(
        E.INVALID_TOPIC_EXCEPTION,
        E.TOPIC_ALREADY_EXISTS,
        E.INVALID_PARTITIONS,
        E.INVALID_REPLICATION_FACTOR,
        E.INVALID_REPLICA_ASSIGNMENT,
        E.INVALID_CONFIG,
        E.INVALID_REQUEST,
        E.REQUEST_TIMED_OUT,
    )
    | {E.POLICY_VIOLATION: POLICY, E.TOPIC_AUTHORIZATION_FAILED: NO_AUTHORIZER, E.THROTTLING_QUOTA_EXCEEDED: PROVOKED},
    "CreatePartitions": _CONTROLLER
    | _provoked(
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.INVALID_PARTITIONS,
        E.INVALID_REPLICA_ASSIGNMENT,
        E.INVALID_REQUEST,
        E.REQUEST_TIMED_OUT,
    )
    | {
        E.REASSIGNMENT_IN_PROGRESS: NO_PEERS,
        E.POLICY_VIOLATION: POLICY,
        E.TOPIC_AUTHORIZATION_FAILED: NO_AUTHORIZER,
        E.THROTTLING_QUOTA_EXCEEDED: PROVOKED,
    },
    "DeleteTopics": _CONTROLLER
    | _provoked(
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.UNKNOWN_TOPIC_ID,
        E.REQUEST_TIMED_OUT,
        E.INVALID_REQUEST,
        E.TOPIC_AUTHORIZATION_FAILED,
    )
    | {
        E.TOPIC_DELETION_DISABLED: NO_DELETION,
        E.THROTTLING_QUOTA_EXCEEDED: PROVOKED,
    },
    "DeleteRecords": _provoked(E.OFFSET_OUT_OF_RANGE, E.UNKNOWN_TOPIC_OR_PARTITION, E.INVALID_TOPIC_EXCEPTION, E.POLICY_VIOLATION)
    | {
        E.NOT_LEADER_OR_FOLLOWER: ALWAYS_LEADER,
        E.REQUEST_TIMED_OUT: NO_FOLLOWERS,
        E.TOPIC_AUTHORIZATION_FAILED: NO_AUTHORIZER,
    },
    "ElectLeaders": _CONTROLLER
    | _provoked(E.UNKNOWN_TOPIC_OR_PARTITION, E.ELECTION_NOT_NEEDED)
    | {
        E.PREFERRED_LEADER_NOT_AVAILABLE: NO_PEERS,
        E.ELIGIBLE_LEADERS_NOT_AVAILABLE: NO_PEERS,
        E.REQUEST_TIMED_OUT: QUICK,
        E.INVALID_REQUEST: "an exception that nobody caught there: `election-type` in docs/compatibility.md",
    },
    "AlterPartitionReassignments": _CONTROLLER
    | _provoked(E.INVALID_REPLICA_ASSIGNMENT, E.NO_REASSIGNMENT_IN_PROGRESS, E.UNKNOWN_TOPIC_OR_PARTITION)
    | {E.REQUEST_TIMED_OUT: QUICK},
    "ListPartitionReassignments": _CONTROLLER | {E.REQUEST_TIMED_OUT: QUICK},
    "DescribeConfigs": _provoked(E.INVALID_REQUEST, E.UNKNOWN_TOPIC_OR_PARTITION, E.INVALID_TOPIC_EXCEPTION)
    | {E.TOPIC_AUTHORIZATION_FAILED: NO_AUTHORIZER, E.CLUSTER_AUTHORIZATION_FAILED: NO_AUTHORIZER},
    "AlterConfigs": _provoked(E.INVALID_CONFIG, E.INVALID_REQUEST, E.UNKNOWN_TOPIC_OR_PARTITION)
    | {
        E.POLICY_VIOLATION: POLICY,
        E.TOPIC_AUTHORIZATION_FAILED: NO_AUTHORIZER,
        E.CLUSTER_AUTHORIZATION_FAILED: NO_AUTHORIZER,
    },
    "IncrementalAlterConfigs": _provoked(E.INVALID_CONFIG, E.INVALID_REQUEST, E.UNKNOWN_TOPIC_OR_PARTITION)
    | {
        E.POLICY_VIOLATION: POLICY,
        E.TOPIC_AUTHORIZATION_FAILED: NO_AUTHORIZER,
        E.CLUSTER_AUTHORIZATION_FAILED: NO_AUTHORIZER,
    },
    "DescribeLogDirs": {E.KAFKA_STORAGE_ERROR: DISK, E.CLUSTER_AUTHORIZATION_FAILED: NO_AUTHORIZER},
    "AlterReplicaLogDirs": _provoked(E.LOG_DIR_NOT_FOUND, E.UNKNOWN_TOPIC_OR_PARTITION)
    | {
        E.REPLICA_NOT_AVAILABLE: NO_PEERS,
        E.KAFKA_STORAGE_ERROR: DISK,
        E.CLUSTER_AUTHORIZATION_FAILED: NO_AUTHORIZER,
    },
    "DescribeProducers": _provoked(E.UNKNOWN_TOPIC_OR_PARTITION, E.INVALID_TOPIC_EXCEPTION)
    | {E.NOT_LEADER_OR_FOLLOWER: ALWAYS_LEADER, E.TOPIC_AUTHORIZATION_FAILED: NO_AUTHORIZER},
    "UpdateFeatures": _CONTROLLER | _provoked(E.INVALID_REQUEST) | {E.FEATURE_UPDATE_FAILED: NO_FEATURES},
    "GetTelemetrySubscriptions": dict.fromkeys((E.INVALID_REQUEST, E.UNSUPPORTED_VERSION, E.THROTTLING_QUOTA_EXCEEDED), PLUGIN),
    "PushTelemetry": dict.fromkeys(
        (
            E.INVALID_REQUEST,
            E.INVALID_RECORD,
            E.TELEMETRY_TOO_LARGE,
            E.UNKNOWN_SUBSCRIPTION_ID,
            E.UNSUPPORTED_COMPRESSION_TYPE,
            E.THROTTLING_QUOTA_EXCEEDED,
        ),
        PLUGIN,
    ),
}
