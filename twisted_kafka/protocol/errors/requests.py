"""Errors of requests, connections and quotas."""

from twisted_kafka.protocol.errors.base import ErrorCode, KafkaError, RetriableError


class UnknownServerError(KafkaError, code=ErrorCode.UNKNOWN_SERVER_ERROR):
    """The broker failed unexpectedly while processing the request."""


class RequestTimedOutError(RetriableError, code=ErrorCode.REQUEST_TIMED_OUT):
    """The request timed out."""


class BrokerNotAvailableError(KafkaError, code=ErrorCode.BROKER_NOT_AVAILABLE):
    """The broker is not available."""


class UnsupportedVersionError(KafkaError, code=ErrorCode.UNSUPPORTED_VERSION):
    """This version of the API is not supported."""


class InvalidRequestError(KafkaError, code=ErrorCode.INVALID_REQUEST):
    """The request is invalid."""


class ThrottlingQuotaExceededError(RetriableError, code=ErrorCode.THROTTLING_QUOTA_EXCEEDED):
    """A quota was exceeded."""


class UnknownSubscriptionIdError(KafkaError, code=ErrorCode.UNKNOWN_SUBSCRIPTION_ID):
    """The telemetry subscription id is invalid: it is unknown or outdated."""


class TelemetryTooLargeError(KafkaError, code=ErrorCode.TELEMETRY_TOO_LARGE):
    """The pushed telemetry is larger than the broker accepts."""
