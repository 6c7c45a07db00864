"""Reads the request headers of one connection."""

from collections.abc import Callable

from twisted_kafka.network.requests.authenticator import IAuthenticator
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.headers import Header, read_request_header
from twisted_kafka.protocol.regions import Buffer

TOKEN_VERSION = -1
"""The version of a SASL token without a header, which counts as a SaslAuthenticate request."""

_TOKEN: Header = (int(ApiKey.SASL_AUTHENTICATE), TOKEN_VERSION, 0, None, 0)

HeaderReader = Callable[[Buffer], Header]
"""Returns the header at the start of a frame; raises the errors of ``read_request_header``."""


def authenticating_header_reader(authenticator: IAuthenticator) -> HeaderReader:
    """Return the reader for a connection with SASL, on which a frame may be a token without a header (SaslHandshake v0)."""

    def read(frame: Buffer) -> Header:
        return _TOKEN if authenticator.expects_token else read_request_header(frame)

    return read
