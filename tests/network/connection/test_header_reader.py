import pytest

from tests.network.network_fakes import frame
from twisted_kafka.network.connection.header_reader import KNOWN_MAX, HeaderReader
from twisted_kafka.protocol.codec import MalformedMessageError
from twisted_kafka.protocol.headers import encode_request_header, parse_request_header


def parsed(data: bytes | bytearray) -> tuple[int, int, int, str | None, int]:
    header = parse_request_header(data)
    return header.api_key, header.api_version, header.correlation_id, header.client_id, header.body_offset


def test_what_is_remembered_is_what_would_be_parsed() -> None:
    reader = HeaderReader()
    kinds = [(18, 3), (18, 0), (0, 7), (0, 9), (7, 0), (7, 1), (1, 99)]
    clients = [None, "", "me", "somebody else", "Zoë"]
    for correlation_id in (1, -1, 2**31 - 1):
        for client_id in clients:
            for key, version in kinds:
                for body in (b"", b"\0\0body", b"me"):
                    data = encode_request_header(key, version, correlation_id, client_id) + body
                    assert reader.read(data) == parsed(data)
                    assert reader.read(bytearray(data)) == parsed(data)


def test_a_header_that_ends_within_what_is_remembered_is_refused_as_ever() -> None:
    reader = HeaderReader()
    data = frame(1)[4:]
    reader.read(data)
    for end in range(len(data)):
        with pytest.raises(MalformedMessageError):
            reader.read(data[:end])


def test_a_client_that_invents_versions_costs_no_memory() -> None:
    reader = HeaderReader()
    for version in range(3 * KNOWN_MAX):
        reader.read(encode_request_header(18, version, 1, "me"))
        assert len(reader._known) <= KNOWN_MAX
