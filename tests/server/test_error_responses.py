"""Every API's error response, in every version: it can be written, and it says the error as often as something was asked."""

from typing import Any

import pytest

from tests.support.cases import case
from tests.support.error_examples import KEYS, example
from twisted_kafka.protocol.api import ApiKey, request_class, response_class
from twisted_kafka.protocol.errors import ErrorCode, InvalidTopicError
from twisted_kafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from twisted_kafka.protocol.messages.produce import ProduceRequest, ProduceResponse
from twisted_kafka.server.error_counts import error_places, first_error
from twisted_kafka.server.error_responses import error_response, error_text, has_field

CODE = int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

CASES = [
    (key, version)
    for key in KEYS
    for version in range(response_class(key).VERSIONS[0], response_class(key).VERSIONS[1] + 1)
    if key != ApiKey.DESCRIBE_LOG_DIRS or version >= 3  # before, Kafka answers with an empty list
]


def codes(value: Any) -> list[int]:
    """All error codes within a response."""
    found: list[int] = []
    for field in type(value).FIELDS:
        inner = getattr(value, field.name)
        if field.name in ("error_code", "partition_error_code"):
            found.append(inner)
        elif isinstance(inner, list):
            for item in inner:
                if hasattr(type(item), "FIELDS"):
                    found += codes(item)
    return found


@pytest.mark.medium
def test_error_response_of_every_version() -> None:
    for key, version in CASES:
        with case(key=key, version=version):
            answers = response_class(key)
            request = example(request_class(key), version)
            if key == ApiKey.PRODUCE:
                request.acks = 1
            response: Any = error_response(request, answers, version, CODE, "no")
            encoded = response.encode(version)
            back = answers.decode(encoded, version)
            assert CODE in codes(back)
            assert first_error(back, error_places(answers)) == CODE
            if has_field(answers, "error_code", version):
                assert back.error_code == CODE  # type: ignore[attr-defined]


def test_a_topic_that_was_asked_for_by_id_has_an_empty_name() -> None:
    for version in [10, 11, 12]:
        with case(version=version):
            request = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=bytes(range(16)))])
            answer = error_response(request, MetadataResponse, version, CODE, "no")
            assert answer is not None
            response: Any = MetadataResponse.decode(answer.encode(version), version)
            assert [(each.name, each.topic_id, each.error_code) for each in response.topics] == [("", bytes(range(16)), CODE)]


def test_produce_says_it_for_each_partition() -> None:
    request = ProduceRequest.decode(example(ProduceRequest, 9).encode(9), 9)
    request.acks = -1
    request.topic_data[0].name = "orders"
    request.topic_data[0].partition_data[0].index = 4
    response: Any = error_response(request, ProduceResponse, 9, CODE, "no")
    (topic,) = response.responses
    (partition,) = topic.partition_responses
    assert (topic.name, partition.index, partition.error_code, partition.base_offset) == ("orders", 4, CODE, -1)


def test_a_produce_without_acks_has_no_error_response() -> None:
    assert error_response(ProduceRequest(acks=0), ProduceResponse, 9, CODE, "no") is None


def test_messages_of_other_exceptions_stay_here() -> None:
    assert error_text(InvalidTopicError("bad name"), 17) == "bad name"
    assert "secret" not in str(error_text(ValueError("secret"), -1))
