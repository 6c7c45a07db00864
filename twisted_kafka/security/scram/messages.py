"""The messages of SCRAM, parsed and built without I/O. (Kafka: ScramMessages.)

Kafka's clients send the extension ``tokenauth=true`` with the first message to log in with a delegation token.
"""

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Final, NamedTuple

_NAME: Final = r"(?:[^\0=,]|=2C|=3D)+"
_PRINTABLE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_EXTENSION: Final = r",[A-Za-z]+=[^\0,]+"
_CLIENT_FIRST: Final = re.compile(
    rf"(?P<header>n,(?:a=(?P<authzid>{_NAME}))?,)(?P<bare>(?:m=[^\0,]+,)?n=(?P<name>{_NAME}),r=(?P<nonce>{_PRINTABLE})"
    rf"(?P<extensions>(?:{_EXTENSION})*))",
    re.DOTALL,
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<without_proof>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>{_PRINTABLE})(?:{_EXTENSION})*?),p=(?P<proof>[A-Za-z0-9+/=]+)",
    re.DOTALL,
)
_NO_BINDING: Final = b"n,,"


class InvalidMessageError(Exception):
    """A message that is not one of SCRAM."""


class ClientFirst(NamedTuple):
    """The client's first message."""

    header: str
    """The GS2 header: no channel binding, and the authorization id if there is one."""
    bare: str
    username: str
    authorization_id: str
    """Empty for none."""
    nonce: str
    extensions: Mapping[str, str]


class ClientFinal(NamedTuple):
    """The client's last message."""

    without_proof: str
    nonce: str
    proof: bytes


def parse_client_first(token: bytes) -> ClientFirst:
    """Parse the client's first message; raise InvalidMessageError."""
    match = _CLIENT_FIRST.fullmatch(_text(token))
    if match is None:
        raise InvalidMessageError("Invalid SCRAM client first message format")
    extensions = dict(part.partition("=")[::2] for part in match["extensions"].split(",")[1:])
    return ClientFirst(
        match["header"], match["bare"], _name(match["name"]), _name(match["authzid"] or ""), match["nonce"], extensions
    )


def parse_client_final(token: bytes, header: str) -> ClientFinal:
    """Parse the client's last message; raise InvalidMessageError, also if it binds another GS2 header than the first one had.

    Kafka's clients always bind ``n,,``.
    """
    match = _CLIENT_FINAL.fullmatch(_text(token))
    if match is None:
        raise InvalidMessageError("Invalid SCRAM client final message format")
    if _base64(match["binding"]) not in (header.encode(), _NO_BINDING):
        raise InvalidMessageError("Invalid channel binding in the final message")
    return ClientFinal(match["without_proof"], match["nonce"], _base64(match["proof"]))


def server_first(nonce: str, salt: bytes, iterations: int) -> str:
    """Return the server's first message; ``nonce`` is the client's followed by the server's."""
    return f"r={nonce},s={b64encode(salt).decode()},i={iterations}"


def server_final(signature: bytes) -> str:
    """Return the server's last message."""
    return f"v={b64encode(signature).decode()}"


def sasl_name(username: str) -> str:
    """Return a user name as it is written in messages."""
    return username.replace("=", "=3D").replace(",", "=2C")


def _name(written: str) -> str:
    return written.replace("=2C", ",").replace("=3D", "=")


def _text(token: bytes) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise InvalidMessageError("a SCRAM message must be UTF-8") from None


def _base64(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except binascii.Error:
        raise InvalidMessageError("invalid base64 in a SCRAM message") from None
