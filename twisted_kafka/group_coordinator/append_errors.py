"""Translates an append's error into one that clients of the group coordinator expect: they know no ``__consumer_offsets``."""

from twisted_kafka.coordinator.append_errors import COORDINATOR_ERRORS
from twisted_kafka.protocol.errors import ErrorCode

_GROUP_STORE = COORDINATOR_ERRORS | {
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
_CONSUMER_GROUP = _GROUP_STORE | {ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE}
_OFFSET_COMMIT = COORDINATOR_ERRORS | {
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
}


def group_store_error(error: ErrorCode) -> ErrorCode:
    """Return the error for a client when a classic group's metadata could not be written."""
    return _GROUP_STORE.get(error, error)


def consumer_group_error(error: ErrorCode) -> ErrorCode:
    """Return the error for a client when a consumer group's change could not be written; it has no REBALANCE_IN_PROGRESS."""
    return _CONSUMER_GROUP.get(error, error)


def offset_commit_error(error: ErrorCode) -> ErrorCode:
    """Return the error for a client when offsets could not be written."""
    return _OFFSET_COMMIT.get(error, error)
