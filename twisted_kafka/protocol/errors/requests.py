"""Errors of requests, connections and quotas."""

from twisted_kafka.protocol.errors.base import ErrorCode, InvalidMetadataError, KafkaError, RetriableError


class UnknownServerError(KafkaError, code=ErrorCode.UNKNOWN_SERVER_ERROR):
    """Something failed on the broker that no other code tells."""


class RequestTimedOutError(RetriableError, code=ErrorCode.REQUEST_TIMED_OUT):
    """The request took longer than it allowed."""


class BrokerNotAvailableError(KafkaError, code=ErrorCode.BROKER_NOT_AVAILABLE):
    """The broker cannot be reached."""


class NetworkError(InvalidMetadataError, code=ErrorCode.NETWORK_EXCEPTION):
    """The connection broke before the answer came."""


class InvalidRequiredAcksError(KafkaError, code=ErrorCode.INVALID_REQUIRED_ACKS):
    """Acks must be -1, 0 or 1."""


class UnsupportedVersionError(KafkaError, code=ErrorCode.UNSUPPORTED_VERSION):
    """This version of the API is not supported."""


class InvalidRequestError(KafkaError, code=ErrorCode.INVALID_REQUEST):
    """The request contradicts itself or the protocol."""


class FetchSessionIdNotFoundError(RetriableError, code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND):
    """The broker does not know this fetch session."""


class InvalidFetchSessionEpochError(RetriableError, code=ErrorCode.INVALID_FETCH_SESSION_EPOCH):
    """The epoch of the fetch session is not the next one."""


class ThrottlingQuotaExceededError(RetriableError, code=ErrorCode.THROTTLING_QUOTA_EXCEEDED):
    """A quota is used up."""


class FetchSessionTopicIdError(RetriableError, code=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR):
    """The fetch session names topics by ids and the request by names, or the other way round."""


class MismatchedEndpointTypeError(KafkaError, code=ErrorCode.MISMATCHED_ENDPOINT_TYPE):
    """The request reached another kind of endpoint than it was meant for."""


class UnsupportedEndpointTypeError(KafkaError, code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE):
    """This kind of endpoint is not supported yet."""


class UnknownSubscriptionIdError(KafkaError, code=ErrorCode.UNKNOWN_SUBSCRIPTION_ID):
    """The telemetry subscription is not the present one."""


class TelemetryTooLargeError(KafkaError, code=ErrorCode.TELEMETRY_TOO_LARGE):
    """The pushed telemetry is larger than the broker accepts."""


class RebootstrapRequiredError(KafkaError, code=ErrorCode.REBOOTSTRAP_REQUIRED):
    """The client has to start again from its bootstrap servers."""
