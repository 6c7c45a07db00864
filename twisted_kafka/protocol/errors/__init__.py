"""The errors of the protocol: a code and an exception class for each.

An error that the code names has a class of its own; ``unnamed`` has the others. The classes are named after Kafka's exceptions,
with Error for Exception; REQUEST_TIMED_OUT is RequestTimedOutError, because TimeoutError is a built-in of Python.
"""

# ruff: noqa: F403  (the modules contain only errors, and this package exports all of them)
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
from twisted_kafka.protocol.errors.unnamed import *


def error_class(code: int) -> type[KafkaError]:
    """Return the exception class of an error code; raises KeyError for NONE and for unknown codes."""
    return KafkaError.by_code[code]


def error_of(error: BaseException) -> ErrorCode:
    """Return the code of a KafkaError, UNKNOWN_SERVER_ERROR for any other exception."""
    return error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR


def error_code_of(code: int) -> ErrorCode:
    """Return the ErrorCode of a code in another broker's response, UNKNOWN_SERVER_ERROR for one that this broker does not know."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
