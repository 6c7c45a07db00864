"""Translates an append's error into one that transactional producers expect: they know no ``__transaction_state``."""

from typing import Final

from twisted_kafka.coordinator.append_errors import COORDINATOR_ERRORS
from twisted_kafka.protocol.errors import ErrorCode

_ERRORS: Final = COORDINATOR_ERRORS | {
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def transaction_log_error(error: ErrorCode) -> ErrorCode:
    """Return the error for a client when a transactional id's state could not be written."""
    return _ERRORS.get(error, error)
