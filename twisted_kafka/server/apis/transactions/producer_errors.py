"""Errors that older producers do not know, in the words that they do."""

from twisted_kafka.protocol.errors import ErrorCode


def fenced_error(error: ErrorCode, version: int, since: int) -> ErrorCode:
    """Return INVALID_PRODUCER_EPOCH in place of PRODUCER_FENCED for requests older than version ``since`` (KIP-588)."""
    return ErrorCode.INVALID_PRODUCER_EPOCH if error is ErrorCode.PRODUCER_FENCED and version < since else error
