"""The hand-written headers agree with the header messages and with Kafka's table, and refuse malformed headers."""

import pytest

from tests.protocol import vectors
from twisted_kafka.protocol.api import ApiKey, request_class, response_class
from twisted_kafka.protocol.compiler.codec import MalformedMessageError
from twisted_kafka.protocol.errors import UnsupportedVersionError
from twisted_kafka.protocol.headers import (
    encode_request_header,
    encode_response_header,
    parse_request_header,
    request_header_version,
    response_header_version,
)
from twisted_kafka.protocol.messages.headers import RequestHeader, ResponseHeader


@pytest.mark.parametrize(
    ("key", "version", "request_version", "response_version"),
    [
        (ApiKey.PRODUCE, 8, 1, 0),
        (ApiKey.PRODUCE, 9, 2, 1),
        (ApiKey.CONTROLLED_SHUTDOWN, 0, 0, 0),
        (ApiKey.CONTROLLED_SHUTDOWN, 1, 1, 0),
        (ApiKey.CONTROLLED_SHUTDOWN, 3, 2, 1),
        (ApiKey.SASL_HANDSHAKE, 1, 1, 0),
        (ApiKey.API_VERSIONS, 0, 1, 0),
        (ApiKey.API_VERSIONS, 3, 2, 0),
        (ApiKey.API_VERSIONS, 99, 2, 0),
        (ApiKey.OFFSET_DELETE, 0, 1, 0),
        (ApiKey.VOTE, 0, 2, 1),
    ],
)
def test_header_versions(key: int, version: int, request_version: int, response_version: int) -> None:
    assert request_header_version(key, version) == request_version
    assert response_header_version(key, version) == response_version


def test_every_version_of_every_api() -> None:
    for key in ApiKey:
        low, high = request_class(key).VERSIONS
        assert (low, high) == response_class(key).VERSIONS
        for version in range(low, high + 1):
            for client_id in (None, "", "grüße"):
                data = encode_request_header(key, version, 77, client_id)
                header_version = request_header_version(key, version)
                assert data == RequestHeader(
                    request_api_key=key, request_api_version=version, correlation_id=77, client_id=client_id
                ).encode(header_version)
                for frame in (data + b"body", bytearray(data + b"body"), memoryview(data + b"body")):
                    header = parse_request_header(frame)
                    assert (header.api_key, header.api_version, header.correlation_id) == (key, version, 77)
                    assert header.client_id == (client_id if header_version else None)
                    assert header.body_offset == len(data)
            answer = encode_response_header(key, version, 78)
            assert answer == ResponseHeader(correlation_id=78).encode(response_header_version(key, version))


@pytest.mark.medium
def test_header_vectors_with_unknown_tags() -> None:
    for vector in vectors.load():
        if vector["message"] == "RequestHeader" and vector["version"] == 2:
            wire = bytearray.fromhex(vector["hex"])
            wire[0:4] = b"\0\0\0\x0d"  # Produce v13, because the vectors have random keys
            header = parse_request_header(wire)
            assert header.client_id == vector["json"]["clientId"]
            assert header.body_offset == len(wire)


def test_an_unknown_version_of_api_versions_parses() -> None:
    header = parse_request_header(b"\0\x12\x7f\xff\0\0\0\x05\xff\xff\0rest")
    assert (header.api_version, header.client_id, header.body_offset) == (0x7FFF, None, 11)


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0\x12\0\0\0\0\0",
        b"\0\x12\0\0\0\0\0\x01",
        b"\0\x12\0\0\0\0\0\x01\0",
        b"\0\x12\0\0\0\0\0\x01\0\x05abc",
        b"\0\x12\0\0\0\0\0\x01\xff\xfe",
        b"\0\x12\0\0\0\0\0\x01\0\x02\xc3\x28",
        b"\0\x12\0\x03\0\0\0\x01\xff\xff",
        b"\0\x12\0\x03\0\0\0\x01\xff\xff\x01\x05\x09",
        b"\0\x12\0\x03\0\0\0\x01\xff\xff\xff\xff\xff\xff\xff\xff",
    ],
)
def test_malformed_headers_are_refused(frame: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        parse_request_header(frame)


def test_an_unknown_key() -> None:
    for key in (max(ApiKey) + 1, 999, 0x7FFF):
        with pytest.raises(UnsupportedVersionError, match=f"unknown API key {key}"):
            parse_request_header(key.to_bytes(2, "big") + bytes(20))
    with pytest.raises(UnsupportedVersionError):
        parse_request_header(b"\xff\xff" + bytes(20))
