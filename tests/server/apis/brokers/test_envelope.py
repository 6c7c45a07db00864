"""Requests in an Envelope, as another broker passes them on for a user of its console."""

from collections.abc import Iterator
from typing import Any

import pytest

import twisted_kafka
from tests.support.console import make_topic, session_in, write
from twisted_kafka.console.cluster.problems import CommandError
from twisted_kafka.console.cluster.record_forms import Written
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.headers import encode_request_header, parse_response_header
from twisted_kafka.protocol.messages.administration.tokens import CreateDelegationTokenRequest
from twisted_kafka.protocol.messages.controller import EnvelopeRequest
from twisted_kafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from twisted_kafka.protocol.messages.log_data import DefaultPrincipalData
from twisted_kafka.server.apis.brokers.envelope import PASSED_ON

ENDS = ListOffsetsRequest(
    replica_id=-1, topics=[ListOffsetsTopic(name="payments", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])]
)


def envelope(request: Message, version: int, user: str = "alice", **changes: Any) -> EnvelopeRequest:
    fields = {
        "request_data": encode_request_header(request.KEY, version, 7, "a-console") + request.encode(version),
        "request_principal": b"\0\0" + DefaultPrincipalData(type="User", name=user).encode(0),
        "client_host_address": bytes([192, 0, 2, 1]),
    }
    return EnvelopeRequest(**{**fields, **changes})


@pytest.fixture(scope="module")
def guarded() -> Iterator[twisted_kafka.Broker]:
    settings = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:root"}
    with twisted_kafka.Broker(settings) as broker:
        root = session_in(broker, "root")
        make_topic(root, "payments")
        write(root, "payments", [Written(b"k", b"v")])
        yield broker


@pytest.mark.parametrize("version", [1, 7])
def test_the_user_inside_decides(guarded: twisted_kafka.Broker, version: int) -> None:
    found = {}
    for user in ("root", "alice"):
        answer = session_in(guarded, "root").ask(envelope(ENDS, version, user))
        assert answer.error_code == ErrorCode.NONE
        correlation_id, offset = parse_response_header(ApiKey.LIST_OFFSETS, version, answer.response_data)
        assert correlation_id == 7
        ((partition,),) = [each.partitions for each in ListOffsetsResponse.decode(answer.response_data, version, offset).topics]
        found[user] = partition.error_code, partition.offset
    assert found == {"root": (ErrorCode.NONE, 1), "alice": (ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1)}


def test_only_brokers_pass_requests_on(guarded: twisted_kafka.Broker) -> None:
    answer = session_in(guarded, "alice").ask(envelope(ENDS, 7, "root"))
    assert (answer.error_code, answer.response_data) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)


def test_without_an_authorizer_nobody_passes_for_somebody_else() -> None:
    with twisted_kafka.Broker() as broker, pytest.raises(CommandError, match="refused Envelope"):
        session_in(broker).ask(envelope(ENDS, 7))


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"request_data": b""}, ErrorCode.INVALID_REQUEST),
        ({"request_data": b"\xff\xff\0\0\0\0\0\0\0\0"}, ErrorCode.INVALID_REQUEST),
        ({"request_data": envelope(CreateDelegationTokenRequest(), 3).request_data}, ErrorCode.INVALID_REQUEST),
        ({"request_data": envelope(envelope(ENDS, 7), 0).request_data}, ErrorCode.INVALID_REQUEST),
        ({"request_data": encode_request_header(ApiKey.LIST_OFFSETS, 99, 1, "c")}, ErrorCode.INVALID_REQUEST),
        ({"request_data": encode_request_header(ApiKey.LIST_OFFSETS, 7, 1, "c") + b"\xff"}, ErrorCode.INVALID_REQUEST),
        ({"request_principal": None}, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        ({"request_principal": b"\0\x09abc"}, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        ({"request_principal": b"\0\0\xff\xff"}, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        ({"client_host_address": b"abc"}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_passed_on(guarded: twisted_kafka.Broker, changes: dict[str, Any], error: ErrorCode) -> None:
    answer = session_in(guarded, "root").ask(envelope(ENDS, 7, **changes))
    assert (answer.error_code, answer.response_data) == (error, None)


def test_what_gives_an_identity_is_not_passed_on() -> None:
    assert not {each for each in PASSED_ON if "TOKEN" in each.name or "SASL" in each.name or each == ApiKey.ENVELOPE}
