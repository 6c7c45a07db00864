"""The API keys, and the module that declares each message, so that only the messages in use are imported."""

from enum import IntEnum
from functools import cache
from importlib import import_module

from twisted_kafka.protocol.compiler.codec import Message


class ApiKey(IntEnum):
    """The keys of the APIs."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE = 93
    UNREGISTER_CONTROLLER = 94

    @property
    def title(self) -> str:
        """Kafka's name of the API: ``InitProducerId`` for INIT_PRODUCER_ID."""
        return "".join(word.capitalize() for word in self.name.split("_"))


LAST_DEPRECATED_VERSIONS = {
    ApiKey.PRODUCE: 2,
    ApiKey.FETCH: 3,
    ApiKey.LIST_OFFSETS: 0,
    ApiKey.OFFSET_COMMIT: 1,
    ApiKey.OFFSET_FETCH: 0,
    ApiKey.CREATE_TOPICS: 1,
    ApiKey.DELETE_TOPICS: 0,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 1,
    ApiKey.DESCRIBE_ACLS: 0,
    ApiKey.CREATE_ACLS: 0,
    ApiKey.DELETE_ACLS: 0,
    ApiKey.DESCRIBE_CONFIGS: 0,
    ApiKey.ALTER_REPLICA_LOG_DIRS: 0,
    ApiKey.DESCRIBE_LOG_DIRS: 0,
    ApiKey.CREATE_DELEGATION_TOKEN: 0,
    ApiKey.RENEW_DELEGATION_TOKEN: 0,
    ApiKey.EXPIRE_DELEGATION_TOKEN: 0,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: 0,
}
"""The last version of an API that Kafka 3.9 deprecates and 4.0 removes (KIP-896); APIs that are not listed have none."""


# The modules in protocol.messages, and the APIs whose requests and responses each declares.
_APIS = {
    "produce": "Produce",
    "fetch": "Fetch",
    "list_offsets": "ListOffsets DeleteRecords OffsetForLeaderEpoch",
    "metadata": "Metadata DescribeTopicPartitions",
    "inter_broker": "LeaderAndIsr StopReplica UpdateMetadata ControlledShutdown",
    "coordinators.offsets": "OffsetCommit OffsetFetch OffsetDelete",
    "coordinators.groups": "FindCoordinator JoinGroup Heartbeat LeaveGroup SyncGroup DescribeGroups ListGroups DeleteGroups",
    "sasl": "SaslHandshake SaslAuthenticate",
    "api_versions": "ApiVersions",
    "administration.topics": "CreateTopics DeleteTopics CreatePartitions",
    "coordinators.transactions": "InitProducerId AddPartitionsToTxn AddOffsetsToTxn EndTxn WriteTxnMarkers TxnOffsetCommit",
    "administration.acls": "DescribeAcls CreateAcls DeleteAcls",
    "administration.configs": "DescribeConfigs AlterConfigs IncrementalAlterConfigs ListConfigResources",
    "administration.log_dirs": "AlterReplicaLogDirs DescribeLogDirs AssignReplicasToDirs",
    "administration.tokens": "CreateDelegationToken RenewDelegationToken ExpireDelegationToken DescribeDelegationToken",
    "administration.partitions": "ElectLeaders AlterPartitionReassignments ListPartitionReassignments",
    "administration.quotas": "DescribeClientQuotas AlterClientQuotas",
    "administration.scram": "DescribeUserScramCredentials AlterUserScramCredentials",
    "kraft.raft": "Vote BeginQuorumEpoch EndQuorumEpoch DescribeQuorum FetchSnapshot",
    "controller": "AlterPartition Envelope AllocateProducerIds",
    "cluster": "UpdateFeatures DescribeCluster BrokerRegistration BrokerHeartbeat UnregisterBroker "
    "ControllerRegistration UnregisterController",
    "coordinators.transaction_admin": "DescribeProducers DescribeTransactions ListTransactions",
    "coordinators.consumer_groups": "ConsumerGroupHeartbeat ConsumerGroupDescribe",
    "telemetry": "GetTelemetrySubscriptions PushTelemetry",
    "share.share_groups": "ShareGroupHeartbeat ShareGroupDescribe",
    "share.share_fetch": "ShareFetch ShareAcknowledge",
    "kraft.raft_voters": "AddRaftVoter RemoveRaftVoter UpdateRaftVoter",
    "share.share_state": "InitializeShareGroupState ReadShareGroupState WriteShareGroupState DeleteShareGroupState "
    "ReadShareGroupStateSummary",
    "streams.streams_groups": "StreamsGroupHeartbeat StreamsGroupDescribe",
    "share.share_offsets": "DescribeShareGroupOffsets AlterShareGroupOffsets DeleteShareGroupOffsets",
    "streams.streams_topology": "StreamsGroupTopologyDescriptionUpdate",
}

# The same for messages that do not belong to an API.
_OTHERS = {
    "headers": "RequestHeader ResponseHeader",
    "coordinators.consumer_protocol": "ConsumerProtocolSubscription ConsumerProtocolAssignment",
    "log_data": "DefaultPrincipalData ProducerSnapshot AbortedTxn QuorumStateData",
    "coordinators.coordinator_records": "GroupMetadataKey GroupMetadataValue LegacyOffsetCommitKey LegacyOffsetCommitValue "
    "OffsetCommitKey OffsetCommitValue TransactionLogKey TransactionLogValue",
    "coordinators.consumer_group_records": "ConsumerGroupCurrentMemberAssignmentKey ConsumerGroupCurrentMemberAssignmentValue "
    "ConsumerGroupMemberMetadataKey ConsumerGroupMemberMetadataValue ConsumerGroupMetadataKey "
    "ConsumerGroupMetadataValue ConsumerGroupPartitionMetadataKey "
    "ConsumerGroupPartitionMetadataValue ConsumerGroupRegularExpressionKey "
    "ConsumerGroupRegularExpressionValue ConsumerGroupTargetAssignmentMemberKey "
    "ConsumerGroupTargetAssignmentMemberValue ConsumerGroupTargetAssignmentMetadataKey "
    "ConsumerGroupTargetAssignmentMetadataValue",
    "share.share_group_records": "ShareGroupCurrentMemberAssignmentKey ShareGroupCurrentMemberAssignmentValue "
    "ShareGroupMemberMetadataKey ShareGroupMemberMetadataValue ShareGroupMetadataKey "
    "ShareGroupMetadataValue ShareGroupPartitionMetadataKey ShareGroupPartitionMetadataValue "
    "ShareGroupStatePartitionMetadataKey ShareGroupStatePartitionMetadataValue "
    "ShareGroupTargetAssignmentMemberKey ShareGroupTargetAssignmentMemberValue "
    "ShareGroupTargetAssignmentMetadataKey ShareGroupTargetAssignmentMetadataValue",
    "share.share_state_records": "ShareSnapshotKey ShareSnapshotValue ShareUpdateKey ShareUpdateValue",
    "streams.streams_group_records": "StreamsGroupCurrentMemberAssignmentKey StreamsGroupCurrentMemberAssignmentValue "
    "StreamsGroupMemberMetadataKey StreamsGroupMemberMetadataValue StreamsGroupMetadataKey "
    "StreamsGroupMetadataValue StreamsGroupTargetAssignmentMemberKey "
    "StreamsGroupTargetAssignmentMemberValue StreamsGroupTargetAssignmentMetadataKey "
    "StreamsGroupTargetAssignmentMetadataValue StreamsGroupTopologyKey "
    "StreamsGroupTopologyValue",
    "kraft.control_records": "ControlRecordTypeSchema EndTxnMarker KRaftVersionRecord LeaderChangeMessage "
    "SnapshotHeaderRecord SnapshotFooterRecord VotersRecord",
    "kraft.metadata_cluster_records": "RegisterBrokerRecord UnregisterBrokerRecord FenceBrokerRecord UnfenceBrokerRecord "
    "FeatureLevelRecord BrokerRegistrationChangeRecord ZkMigrationStateRecord "
    "RegisterControllerRecord UnregisterControllerRecord",
    "kraft.metadata_records": "TopicRecord PartitionRecord ConfigRecord PartitionChangeRecord RemoveTopicRecord "
    "ClientQuotaRecord ProducerIdsRecord NoOpRecord BeginTransactionRecord EndTransactionRecord "
    "AbortTransactionRecord ClearElrRecord",
    "kraft.metadata_security_records": "DelegationTokenRecord UserScramCredentialRecord AccessControlEntryRecord "
    "RemoveAccessControlEntryRecord RemoveUserScramCredentialRecord RemoveDelegationTokenRecord",
}

_MODULES = {name + kind: module for module, names in _APIS.items() for name in names.split() for kind in ("Request", "Response")}
_MODULES |= {name: module for module, names in _OTHERS.items() for name in names.split()}


def message_names() -> list[str]:
    """Return the names of all messages."""
    return list(_MODULES)


@cache
def find_message(name: str) -> type[Message]:
    """Return the message class with this name; raises KeyError for an unknown one."""
    module = import_module(f"twisted_kafka.protocol.messages.{_MODULES[name]}")
    found: type[Message] = getattr(module, name)
    return found


@cache
def request_class(key: int) -> type[Message]:
    """Return the class of an API's requests; raises ValueError for an unknown key."""
    return find_message(ApiKey(key).title + "Request")


@cache
def response_class(key: int) -> type[Message]:
    """Return the class of an API's responses; raises ValueError for an unknown key."""
    return find_message(ApiKey(key).title + "Response")
