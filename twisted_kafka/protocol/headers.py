"""The headers of requests and responses. They are decoded and encoded by hand, because they are on the path of every request.

Version 0 of a request header has no client id, version 1 has one, version 2 adds tagged fields after it; version 1 of a response
header adds tagged fields. The header's version follows from the API's first flexible version, with two exceptions:
ControlledShutdown v0 has request header v0, and ApiVersions always answers with response header v0, so that a client can read the
answer to a version that the broker does not support.
"""

from struct import Struct as Packer
from struct import error as struct_error

from typing_extensions import override

from twisted_kafka.protocol.api import ApiKey, request_class
from twisted_kafka.protocol.compiler.codec import MalformedMessageError
from twisted_kafka.protocol.compiler.wire import read_tags, unsigned_varint
from twisted_kafka.protocol.errors import UnsupportedVersionError
from twisted_kafka.protocol.regions import Buffer

MOST_TAGS = 100
"""Most tagged fields of a header, which is read before its client is authenticated. Kafka's clients send none."""

_START = Packer(">hhi")
_START_AND_CLIENT_ID = Packer(">hhih")
_CORRELATION_ID = Packer(">i")

_CONTROLLED_SHUTDOWN = int(ApiKey.CONTROLLED_SHUTDOWN)
_API_VERSIONS = int(ApiKey.API_VERSIONS)

# The first flexible version by API key, filled on first use, because finding it imports the API's messages.
_flexible: dict[int, int] = {}


Header = tuple[int, int, int, str | None, int]
"""API key, API version, correlation id, client id, offset of the body. A tuple: an object takes a third of the time to read one."""


class RequestHeader:
    """The header of a request; ``body_offset`` is where the request's body begins in the frame."""

    __slots__ = ("api_key", "api_version", "body_offset", "client_id", "correlation_id")

    def __init__(self, api_key: int, api_version: int, correlation_id: int, client_id: str | None, body_offset: int) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.body_offset = body_offset

    @override
    def __repr__(self) -> str:
        return (
            f"RequestHeader(api_key={self.api_key}, api_version={self.api_version}, correlation_id={self.correlation_id}, "
            f"client_id={self.client_id!r}, body_offset={self.body_offset})"
        )


def first_flexible_version(api_key: int) -> int:
    """Return the first version of an API with compact lengths; raises UnsupportedVersionError for an unknown key."""
    flexible = _flexible.get(api_key)
    if flexible is None:
        try:
            flexible = _flexible[api_key] = request_class(api_key).FLEXIBLE
        except ValueError:
            raise UnsupportedVersionError(f"unknown API key {api_key}") from None
    return flexible


def request_header_version(api_key: int, api_version: int) -> int:
    """Return the version of a request's header; raises UnsupportedVersionError for an unknown key."""
    if api_version >= first_flexible_version(api_key):
        return 2
    return 0 if api_key == _CONTROLLED_SHUTDOWN and api_version == 0 else 1


def response_header_version(api_key: int, api_version: int) -> int:
    """Return the version of a response's header; raises UnsupportedVersionError for an unknown key."""
    if api_key == _API_VERSIONS:
        return 0
    return 1 if api_version >= first_flexible_version(api_key) else 0


def parse_request_header(frame: Buffer) -> RequestHeader:
    """Parse the header at the start of a frame. Raises the errors of ``read_request_header``."""
    return RequestHeader(*read_request_header(frame))


def read_request_header(frame: Buffer) -> Header:
    """Return the fields of the header at the start of a frame.

    Raises MalformedMessageError when it is truncated or invalid, UnsupportedVersionError for an unknown API key. An unsupported
    version of the API is left to the caller: such a header is parsed with the layout of the newest version.
    """
    try:
        api_key, api_version, correlation_id, size = _START_AND_CLIENT_ID.unpack_from(frame)
    except struct_error:
        return _read_short_header(frame)
    flexible = _flexible.get(api_key)
    if flexible is None:
        flexible = first_flexible_version(api_key)
    if api_key == _CONTROLLED_SHUTDOWN and api_version == 0:
        return api_key, api_version, correlation_id, None, _START.size
    position = _START_AND_CLIENT_ID.size
    client_id = None
    if size >= 0:
        stop = position + size
        if stop > len(frame):
            raise MalformedMessageError(f"the client id has {size} bytes, but only {len(frame) - position} remain")
        try:
            if type(frame) is bytes:  # in two thirds of the time
                client_id = frame[position:stop].decode()
            else:
                client_id = str(frame[position:stop], "utf-8")
        except UnicodeDecodeError as error:
            raise MalformedMessageError(f"the client id is not UTF-8: {error}") from None
        position = stop
    elif size != -1:
        raise MalformedMessageError(f"the client id has the invalid length {size}")
    if api_version >= flexible:
        if position < len(frame) and not frame[position]:
            position += 1
        else:
            position = _skip_tags(frame, position)
    return api_key, api_version, correlation_id, client_id, position


def _read_short_header(frame: Buffer) -> Header:
    """Return the fields of a header without a client id, which only ControlledShutdown v0 has."""
    if len(frame) < _START.size:
        raise MalformedMessageError(f"a frame of {len(frame)} bytes is too short for a request header")
    api_key, api_version, correlation_id = _START.unpack_from(frame)
    if request_header_version(api_key, api_version) != 0:
        raise MalformedMessageError(f"the request header ends after {len(frame)} bytes, before its client id")
    return api_key, api_version, correlation_id, None, _START.size


def _skip_tags(frame: Buffer, position: int) -> int:
    """Return the position after the tagged fields of a header; Kafka defines none."""
    try:
        count, position = unsigned_varint(frame, position)
        if count > MOST_TAGS:
            raise MalformedMessageError(f"the header has {count} tagged fields, more than {MOST_TAGS}")
        return read_tags(frame, position, len(frame), count, None)[1]
    except IndexError:
        raise MalformedMessageError(f"the header ends within its tagged fields, after {len(frame)} bytes") from None


def encode_response_header(api_key: int, api_version: int, correlation_id: int) -> bytes:
    """Return the header of a response; raises UnsupportedVersionError for an unknown key."""
    if response_header_version(api_key, api_version):
        return _CORRELATION_ID.pack(correlation_id) + b"\0"
    return _CORRELATION_ID.pack(correlation_id)


def parse_response_header(api_key: int, api_version: int, frame: Buffer) -> tuple[int, int]:
    """Return the correlation id of a response, and the position in the frame where its body begins.

    Raises MalformedMessageError when the frame is too short, UnsupportedVersionError for an unknown key.
    """
    if len(frame) < _CORRELATION_ID.size:
        raise MalformedMessageError(f"a frame of {len(frame)} bytes is too short for a response header")
    (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
    position = _CORRELATION_ID.size
    if response_header_version(api_key, api_version):
        position = _skip_tags(frame, position)
    return correlation_id, position


def encode_request_header(api_key: int, api_version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Return the header of a request that we send; raises UnsupportedVersionError for an unknown key."""
    version = request_header_version(api_key, api_version)
    if version == 0:
        return _START.pack(api_key, api_version, correlation_id)
    name = None if client_id is None else client_id.encode()
    start = _START_AND_CLIENT_ID.pack(api_key, api_version, correlation_id, -1 if name is None else len(name))
    return start + (name or b"") + (b"\0" if version == 2 else b"")
