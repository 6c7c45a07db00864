"""The errors of the protocol: a code and an exception class for each.

The classes have the names of Kafka's exceptions, with Error for Exception; REQUEST_TIMED_OUT is RequestTimedOutError, because
TimeoutError is Python's own.
"""

# ruff: noqa: F403  (each module holds nothing but errors, and all of them are to be had from here)
from twisted_kafka.protocol.errors.base import ErrorCode as ErrorCode
from twisted_kafka.protocol.errors.base import FatalExitError as FatalExitError
from twisted_kafka.protocol.errors.base import InvalidMetadataError as InvalidMetadataError
from twisted_kafka.protocol.errors.base import KafkaError as KafkaError
from twisted_kafka.protocol.errors.base import RetriableError as RetriableError
from twisted_kafka.protocol.errors.cluster import *
from twisted_kafka.protocol.errors.groups import *
from twisted_kafka.protocol.errors.log import *
from twisted_kafka.protocol.errors.requests import *
from twisted_kafka.protocol.errors.security import *
from twisted_kafka.protocol.errors.topics import *
from twisted_kafka.protocol.errors.transactions import *


def error_class(code: int) -> type[KafkaError]:
    """Return the exception class of an error code; raises KeyError for NONE and for codes that do not exist."""
    return KafkaError.by_code[code]


def error_of(error: BaseException) -> ErrorCode:
    """Return the code of a KafkaError, UNKNOWN_SERVER_ERROR for any other exception."""
    return error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
