from typing import Any, cast

import pytest

from tests.support.network_fakes import Layer, frame
from tests.support.traced_memory import traced_peak_bytes
from twisted_kafka.network.connection.header_reader import TOKEN_VERSION, authenticating_header_reader
from twisted_kafka.network.requests.authenticator import IAuthenticator
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.compiler.codec import MalformedMessageError
from twisted_kafka.protocol.headers import encode_request_header


class _Authenticator:
    expects_token = False


def test_a_frame_is_a_token_only_while_one_is_expected() -> None:
    authenticator = _Authenticator()
    read = authenticating_header_reader(cast(IAuthenticator, authenticator))
    data = encode_request_header(ApiKey.METADATA, 1, 7, "me")
    assert read(data) == (ApiKey.METADATA, 1, 7, "me", len(data))
    with pytest.raises(MalformedMessageError):
        read(b"token")
    authenticator.expects_token = True
    assert read(b"token") == (ApiKey.SASL_AUTHENTICATE, TOKEN_VERSION, 0, None, 0)
    assert read(data)[1] == TOKEN_VERSION


def test_headers_of_requests_that_are_answered_take_no_memory() -> None:
    layer = Layer()
    channel, _ = layer.connect()
    tag = 40_000

    def ask() -> None:
        for version in range(64):
            header = encode_request_header(ApiKey.METADATA, 100 + version, 1, "me")[:-1] + b"\x01\x00" + _uvarint(tag) + bytes(tag)
            channel.dataReceived(len(header).to_bytes(4, "big") + header)
            request = layer.take()
            assert request is not None
            layer.answer(request)
            request.frame = b""
        layer.observer.completed.clear()

    channel.dataReceived(frame(1))
    first: Any = layer.take()
    layer.answer(first)
    assert traced_peak_bytes(ask) < 10 * tag


def _uvarint(value: int) -> bytes:
    data = b""
    while value > 127:
        data += bytes((value & 127 | 128,))
        value >>= 7
    return data + bytes((value,))
