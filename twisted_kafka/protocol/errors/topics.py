"""Errors of topics, partitions and their leaders."""

from twisted_kafka.protocol.errors.base import ErrorCode, InvalidMetadataError, KafkaError, RetriableError


class UnknownTopicOrPartitionError(InvalidMetadataError, code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
    """The topic or partition does not exist, or this broker does not host it."""


class NotLeaderOrFollowerError(InvalidMetadataError, code=ErrorCode.NOT_LEADER_OR_FOLLOWER):
    """This broker is not the leader of the partition, or not one of its replicas."""


class ReplicaNotAvailableError(InvalidMetadataError, code=ErrorCode.REPLICA_NOT_AVAILABLE):
    """The replica is not available."""


class InvalidTopicError(KafkaError, code=ErrorCode.INVALID_TOPIC_EXCEPTION):
    """The topic is invalid: its name is illegal, or it does not allow this operation."""


class TopicExistsError(KafkaError, code=ErrorCode.TOPIC_ALREADY_EXISTS):
    """The topic already exists."""


class InvalidPartitionsError(KafkaError, code=ErrorCode.INVALID_PARTITIONS):
    """The number of partitions is invalid."""


class InvalidReplicationFactorError(KafkaError, code=ErrorCode.INVALID_REPLICATION_FACTOR):
    """The replication factor is invalid: less than 1, or larger than the number of available brokers."""


class InvalidReplicaAssignmentError(KafkaError, code=ErrorCode.INVALID_REPLICA_ASSIGNMENT):
    """The replica assignment is invalid."""


class ReassignmentInProgressError(KafkaError, code=ErrorCode.REASSIGNMENT_IN_PROGRESS):
    """A reassignment of the partition is in progress."""


class TopicDeletionDisabledError(KafkaError, code=ErrorCode.TOPIC_DELETION_DISABLED):
    """Topic deletion is disabled."""


class FencedLeaderEpochError(InvalidMetadataError, code=ErrorCode.FENCED_LEADER_EPOCH):
    """The leader epoch in the request is older than the broker's."""


class UnknownLeaderEpochError(RetriableError, code=ErrorCode.UNKNOWN_LEADER_EPOCH):
    """The leader epoch in the request is newer than the broker's."""


class PreferredLeaderNotAvailableError(InvalidMetadataError, code=ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE):
    """The preferred leader is not available."""


class EligibleLeadersNotAvailableError(InvalidMetadataError, code=ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE):
    """Eligible leaders are not available: no replica may become the leader."""


class ElectionNotNeededError(InvalidMetadataError, code=ErrorCode.ELECTION_NOT_NEEDED):
    """No election is needed: the desired leader already leads the partition."""


class NoReassignmentInProgressError(KafkaError, code=ErrorCode.NO_REASSIGNMENT_IN_PROGRESS):
    """No reassignment of the partition is in progress."""


class UnknownTopicIdError(InvalidMetadataError, code=ErrorCode.UNKNOWN_TOPIC_ID):
    """This broker does not host this topic ID: it is unknown."""


class InconsistentTopicIdError(InvalidMetadataError, code=ErrorCode.INCONSISTENT_TOPIC_ID):
    """The topic id does not match the one in the log."""
