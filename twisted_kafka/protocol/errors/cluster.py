"""Errors of the controller, brokers, configurations, features and KRaft quorums."""

from twisted_kafka.protocol.errors.base import ErrorCode, KafkaError, RetriableError


class ControllerMovedError(KafkaError, code=ErrorCode.STALE_CONTROLLER_EPOCH):
    """The request comes from an older controller."""


class InvalidConfigurationError(KafkaError, code=ErrorCode.INVALID_CONFIG):
    """A configuration is not allowed."""


class NotControllerError(RetriableError, code=ErrorCode.NOT_CONTROLLER):
    """This broker is not the controller."""


class PolicyViolationError(KafkaError, code=ErrorCode.POLICY_VIOLATION):
    """A policy of the cluster forbids it."""


class OperationNotAttemptedError(KafkaError, code=ErrorCode.OPERATION_NOT_ATTEMPTED):
    """This was not tried, because another part of the same request failed."""


class StaleBrokerEpochError(KafkaError, code=ErrorCode.STALE_BROKER_EPOCH):
    """The broker's epoch is not its present one."""


class ResourceNotFoundError(KafkaError, code=ErrorCode.RESOURCE_NOT_FOUND):
    """There is no such resource."""


class DuplicateResourceError(KafkaError, code=ErrorCode.DUPLICATE_RESOURCE):
    """The resource exists, or is named twice."""


class InconsistentVoterSetError(KafkaError, code=ErrorCode.INCONSISTENT_VOTER_SET):
    """The sender's voters are not those of this node."""


class InvalidUpdateVersionError(KafkaError, code=ErrorCode.INVALID_UPDATE_VERSION):
    """The wanted feature level is not allowed."""


class FeatureUpdateFailedError(KafkaError, code=ErrorCode.FEATURE_UPDATE_FAILED):
    """The feature could not be updated."""


class SnapshotNotFoundError(KafkaError, code=ErrorCode.SNAPSHOT_NOT_FOUND):
    """There is no such snapshot."""


class PositionOutOfRangeError(KafkaError, code=ErrorCode.POSITION_OUT_OF_RANGE):
    """The position is outside of the snapshot."""


class DuplicateBrokerRegistrationError(KafkaError, code=ErrorCode.DUPLICATE_BROKER_REGISTRATION):
    """Another live broker is registered under this id."""


class BrokerIdNotRegisteredError(KafkaError, code=ErrorCode.BROKER_ID_NOT_REGISTERED):
    """No broker is registered under this id."""


class InconsistentClusterIdError(KafkaError, code=ErrorCode.INCONSISTENT_CLUSTER_ID):
    """The request names another cluster."""


class UnknownControllerIdError(KafkaError, code=ErrorCode.UNKNOWN_CONTROLLER_ID):
    """There is no controller of this id."""


class InvalidRegistrationError(KafkaError, code=ErrorCode.INVALID_REGISTRATION):
    """The controller finds the registration of the broker wrong."""


class InvalidVoterKeyError(KafkaError, code=ErrorCode.INVALID_VOTER_KEY):
    """The voter's directory id is not the one that is known."""


class DuplicateVoterError(KafkaError, code=ErrorCode.DUPLICATE_VOTER):
    """The voter is in the set already."""


class VoterNotFoundError(KafkaError, code=ErrorCode.VOTER_NOT_FOUND):
    """The voter is not in the set."""


class ControllerIdNotRegisteredError(KafkaError, code=ErrorCode.CONTROLLER_ID_NOT_REGISTERED):
    """No controller is registered under this id."""
