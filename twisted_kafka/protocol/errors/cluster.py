"""Errors of the controller, brokers, configurations, features and the KRaft quorum."""

from twisted_kafka.protocol.errors.base import ErrorCode, KafkaError, RetriableError


class ControllerMovedError(KafkaError, code=ErrorCode.STALE_CONTROLLER_EPOCH):
    """The request comes from an older controller."""


class InvalidConfigurationError(KafkaError, code=ErrorCode.INVALID_CONFIG):
    """The configuration is invalid."""


class NotControllerError(RetriableError, code=ErrorCode.NOT_CONTROLLER):
    """This broker is not the controller of the cluster."""


class PolicyViolationError(KafkaError, code=ErrorCode.POLICY_VIOLATION):
    """The request violates a policy of the cluster."""


class OperationNotAttemptedError(KafkaError, code=ErrorCode.OPERATION_NOT_ATTEMPTED):
    """The operation was not attempted, because another operation in the same request failed."""


class StaleBrokerEpochError(KafkaError, code=ErrorCode.STALE_BROKER_EPOCH):
    """The broker epoch is stale."""


class ResourceNotFoundError(KafkaError, code=ErrorCode.RESOURCE_NOT_FOUND):
    """The resource does not exist: it is illegal to refer to it."""


class DuplicateResourceError(KafkaError, code=ErrorCode.DUPLICATE_RESOURCE):
    """The resource already exists, or the request names it twice, which is illegal."""


class InconsistentVoterSetError(KafkaError, code=ErrorCode.INCONSISTENT_VOTER_SET):
    """The voter set of the sender differs from this node's."""


class InvalidUpdateVersionError(KafkaError, code=ErrorCode.INVALID_UPDATE_VERSION):
    """The version in the update is invalid."""


class FeatureUpdateFailedError(KafkaError, code=ErrorCode.FEATURE_UPDATE_FAILED):
    """The feature could not be updated."""


class SnapshotNotFoundError(KafkaError, code=ErrorCode.SNAPSHOT_NOT_FOUND):
    """The snapshot was not found."""


class PositionOutOfRangeError(KafkaError, code=ErrorCode.POSITION_OUT_OF_RANGE):
    """The position is out of the range of the snapshot."""


class DuplicateBrokerRegistrationError(KafkaError, code=ErrorCode.DUPLICATE_BROKER_REGISTRATION):
    """Another live broker is already registered with this broker id."""


class BrokerIdNotRegisteredError(KafkaError, code=ErrorCode.BROKER_ID_NOT_REGISTERED):
    """The broker id is not registered."""


class InconsistentClusterIdError(KafkaError, code=ErrorCode.INCONSISTENT_CLUSTER_ID):
    """The cluster id in the request is not this cluster's."""


class UnknownControllerIdError(KafkaError, code=ErrorCode.UNKNOWN_CONTROLLER_ID):
    """The controller id is unknown."""


class InvalidRegistrationError(KafkaError, code=ErrorCode.INVALID_REGISTRATION):
    """The controller considers the broker's registration invalid."""


class InvalidVoterKeyError(KafkaError, code=ErrorCode.INVALID_VOTER_KEY):
    """The voter key does not match the known voter's."""


class DuplicateVoterError(KafkaError, code=ErrorCode.DUPLICATE_VOTER):
    """The voter is already in the set of voters."""


class VoterNotFoundError(KafkaError, code=ErrorCode.VOTER_NOT_FOUND):
    """The voter is not in the set of voters."""


class ControllerIdNotRegisteredError(KafkaError, code=ErrorCode.CONTROLLER_ID_NOT_REGISTERED):
    """The controller id is not registered."""
