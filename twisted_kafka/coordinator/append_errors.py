"""The errors that coordinators return when an append to their internal topic fails: clients do not know that topic."""

from collections.abc import Mapping
from typing import Final

from twisted_kafka.protocol.errors import ErrorCode

_Errors = Mapping[ErrorCode, ErrorCode]

_ANY: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}

_GROUP_STORE: Final[_Errors] = _ANY | {
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}

_CONSUMER_GROUP: Final[_Errors] = {**_GROUP_STORE, ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE}

_OFFSET_COMMIT: Final[_Errors] = _ANY | {
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
}

_TRANSACTION_LOG: Final[_Errors] = _ANY | {
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
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


def transaction_log_error(error: ErrorCode) -> ErrorCode:
    """Return the error for a client when a transactional id's state could not be written."""
    return _TRANSACTION_LOG.get(error, error)


def share_state_error(error: ErrorCode) -> ErrorCode:
    """Return the error for a broker when a share partition's state could not be written."""
    return _CONSUMER_GROUP.get(error, error)
