"""The table of errors."""

import pytest

from twisted_kafka.protocol import errors
from twisted_kafka.protocol.errors import ErrorCode, KafkaError, error_class, error_of


def test_every_code_has_a_class_and_every_class_a_message() -> None:
    for code in ErrorCode:
        if code is ErrorCode.NONE:
            with pytest.raises(KeyError):
                error_class(code)
            continue
        cls = error_class(code)
        assert cls.code is code
        assert issubclass(cls, KafkaError)
        assert str(cls()).endswith(".")
        assert str(cls("because")) == "because"


def test_codes_and_retriability_of_some_errors() -> None:
    assert int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) == 3
    assert error_class(6) is errors.NotLeaderOrFollowerError
    assert errors.NotLeaderOrFollowerError.retriable
    assert issubclass(errors.NotLeaderOrFollowerError, errors.InvalidMetadataError)
    assert errors.CorruptRecordError.code is ErrorCode.CORRUPT_MESSAGE
    assert not errors.RecordTooLargeError.retriable
    assert errors.RequestTimedOutError.code is ErrorCode.REQUEST_TIMED_OUT


def test_codes_of_exceptions() -> None:
    assert error_of(errors.InvalidTopicError("x")) is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert error_of(ValueError()) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert error_of(KafkaError("x")) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_message_is_cut_that_quotes_a_long_request() -> None:
    assert str(KafkaError("x" * 1000)) == "x" * 1000
    assert str(errors.InvalidReplicaAssignmentError(f"unknown brokers {list(range(40_000))}")) == (
        f"unknown brokers {list(range(40_000))}"[:1000] + "..."
    )
