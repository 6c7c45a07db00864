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


class StaleBrokerEpochError(KafkaError, code=ErrorCode.STALE_BROKER_EPOCH):
    """The broker epoch is stale."""


class ResourceNotFoundError(KafkaError, code=ErrorCode.RESOURCE_NOT_FOUND):
    """The resource does not exist: it is illegal to refer to it."""


class DuplicateResourceError(KafkaError, code=ErrorCode.DUPLICATE_RESOURCE):
    """The resource already exists, or the request names it twice, which is illegal."""


class InvalidUpdateVersionError(KafkaError, code=ErrorCode.INVALID_UPDATE_VERSION):
    """The version in the update is invalid."""


class FeatureUpdateFailedError(KafkaError, code=ErrorCode.FEATURE_UPDATE_FAILED):
    """The feature could not be updated."""
