"""Reads the request headers of one connection, which usually differ only in their correlation ids."""

from struct import Struct

from twisted_kafka.network.requests.authenticator import IAuthenticator
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.headers import parse_request_header
from twisted_kafka.protocol.regions import Buffer

KNOWN_MAX = 64
"""Most header variants cached per connection; about as many as there are APIs."""

_KIND_BYTES = 4
_AFTER_CORRELATION_ID = 8
_correlation_id_of = Struct(">4xi").unpack_from

Header = tuple[int, int, int, str | None, int]
"""API key, API version, correlation id, client id, offset of the body."""


TOKEN_VERSION = -1
"""The version of a SASL token without a header, which counts as a SaslAuthenticate request."""

_TOKEN: Header = (int(ApiKey.SASL_AUTHENTICATE), TOKEN_VERSION, 0, None, 0)


class HeaderReader:
    """Caches parsed headers by the bytes before and after the correlation id."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        # By the bytes of API key and version: the bytes after the correlation id, and the parsed fields.
        self._known: dict[bytes, tuple[bytes, int, int, str | None, int]] = {}

    def read(self, frame: Buffer) -> Header:
        """Read the header at the start of a frame; raises the same errors as ``parse_request_header``."""
        if type(frame) is not bytes:
            return self._parse(frame)
        known = self._known.get(frame[:_KIND_BYTES])
        if known is None or not frame.startswith(known[0], _AFTER_CORRELATION_ID):
            return self._parse(frame)
        _, api_key, api_version, client_id, body_offset = known
        return api_key, api_version, _correlation_id_of(frame)[0], client_id, body_offset

    def _parse(self, frame: Buffer) -> Header:
        header = parse_request_header(frame)
        api_key, api_version, client_id, body_offset = header.api_key, header.api_version, header.client_id, header.body_offset
        # A frame that is not bytes is a large one: parsing its header costs nothing in comparison.
        if type(frame) is bytes and body_offset > _AFTER_CORRELATION_ID:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            tail = frame[_AFTER_CORRELATION_ID:body_offset]
            self._known[frame[:_KIND_BYTES]] = tail, api_key, api_version, client_id, body_offset
        return api_key, api_version, header.correlation_id, client_id, body_offset


class AuthenticatingHeaderReader(HeaderReader):
    """Reads the headers of a connection with SASL, on which a frame may be a token without a header (SaslHandshake v0)."""

    __slots__ = ("_authenticator",)

    def __init__(self, authenticator: IAuthenticator) -> None:
        super().__init__()
        self._authenticator = authenticator

    def read(self, frame: Buffer) -> Header:
        """Read the header at the start of a frame; a token has one of ``TOKEN_VERSION``, whatever its bytes are."""
        return _TOKEN if self._authenticator.expects_token else super().read(frame)
