"""Errors of topics, partitions and their leaders."""

from twisted_kafka.protocol.errors.base import ErrorCode, InvalidMetadataError, KafkaError, RetriableError


class UnknownTopicOrPartitionError(InvalidMetadataError, code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
    """This broker has no such topic or partition."""


class LeaderNotAvailableError(InvalidMetadataError, code=ErrorCode.LEADER_NOT_AVAILABLE):
    """The partition has no leader at the moment."""


class NotLeaderOrFollowerError(InvalidMetadataError, code=ErrorCode.NOT_LEADER_OR_FOLLOWER):
    """This broker is not the leader of the partition, or not one of its replicas."""


class ReplicaNotAvailableError(InvalidMetadataError, code=ErrorCode.REPLICA_NOT_AVAILABLE):
    """The replica is not here."""


class InvalidTopicError(KafkaError, code=ErrorCode.INVALID_TOPIC_EXCEPTION):
    """The topic's name is not allowed, or the topic may not be used so."""


class TopicExistsError(KafkaError, code=ErrorCode.TOPIC_ALREADY_EXISTS):
    """A topic of this name exists."""


class InvalidPartitionsError(KafkaError, code=ErrorCode.INVALID_PARTITIONS):
    """The number of partitions is not allowed."""


class InvalidReplicationFactorError(KafkaError, code=ErrorCode.INVALID_REPLICATION_FACTOR):
    """The replication factor is not positive, or larger than the number of brokers."""


class InvalidReplicaAssignmentError(KafkaError, code=ErrorCode.INVALID_REPLICA_ASSIGNMENT):
    """The assignment of replicas is not allowed."""


class ReassignmentInProgressError(KafkaError, code=ErrorCode.REASSIGNMENT_IN_PROGRESS):
    """A reassignment of the partition is running."""


class ListenerNotFoundError(InvalidMetadataError, code=ErrorCode.LISTENER_NOT_FOUND):
    """The leader has no listener of the name that the request came over."""


class TopicDeletionDisabledError(KafkaError, code=ErrorCode.TOPIC_DELETION_DISABLED):
    """Topics may not be deleted on this cluster."""


class FencedLeaderEpochError(InvalidMetadataError, code=ErrorCode.FENCED_LEADER_EPOCH):
    """The leader epoch in the request is older than the broker's."""


class UnknownLeaderEpochError(RetriableError, code=ErrorCode.UNKNOWN_LEADER_EPOCH):
    """The leader epoch in the request is newer than the broker's."""


class PreferredLeaderNotAvailableError(InvalidMetadataError, code=ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE):
    """The preferred leader is not in sync or not alive."""


class EligibleLeadersNotAvailableError(InvalidMetadataError, code=ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE):
    """No replica can be elected leader."""


class ElectionNotNeededError(InvalidMetadataError, code=ErrorCode.ELECTION_NOT_NEEDED):
    """The partition has the wanted leader already."""


class NoReassignmentInProgressError(KafkaError, code=ErrorCode.NO_REASSIGNMENT_IN_PROGRESS):
    """No reassignment of the partition is running."""


class UnknownTopicIdError(InvalidMetadataError, code=ErrorCode.UNKNOWN_TOPIC_ID):
    """This broker knows no topic of this id."""


class InconsistentTopicIdError(InvalidMetadataError, code=ErrorCode.INCONSISTENT_TOPIC_ID):
    """The topic's id is not the one in the log."""


class IneligibleReplicaError(KafkaError, code=ErrorCode.INELIGIBLE_REPLICA):
    """The replica may not join those in sync now."""


class NewLeaderElectedError(KafkaError, code=ErrorCode.NEW_LEADER_ELECTED):
    """The change made another broker the leader."""
