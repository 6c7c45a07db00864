"""Finds out which versions and cipher suites a TLS listener accepts, by asking for each: no library has the weak ones any more.

A ClientHello offers suites; the answer names one, which is left out of the next, until all are refused.
"""

import socket
import struct
from collections.abc import Collection, Iterator
from typing import Final

SSL_3_0, TLS_1_0, TLS_1_1, TLS_1_2 = 0x0300, 0x0301, 0x0302, 0x0303

_ALERT, _HANDSHAKE = 21, 22
_CLIENT_HELLO, _SERVER_HELLO = 1, 2
_RECORD_BYTES: Final = 16384
_AT_ONCE: Final = 0x2000
"""Java takes no handshake message of 32 KiB."""
_SIGNALS: Final = (0x00FF, 0x5600)
"""Numbers that are no suites: a client's words on renegotiation and on a fallback."""

_GROUPS: Final = struct.pack(">6H", 10, 29, 23, 24, 25, 256)
_SIGNATURES: Final = struct.pack(
    ">13H", 24, 0x0403, 0x0503, 0x0603, 0x0804, 0x0805, 0x0806, 0x0401, 0x0501, 0x0601, 0x0203, 0x0201, 0x0101
)


def accepted_suites(port: int, version: int) -> set[int]:
    """Return all suites, of the 65,534 possible, that a listener takes with a version."""
    found: set[int] = set()
    for first in range(0, 0x10000, _AT_ONCE):
        offered = set(range(first, first + _AT_ONCE)).difference(_SIGNALS)
        while (chosen := chosen_suite(port, version, offered)) is not None:
            assert chosen in offered
            offered.remove(chosen)
            found.add(chosen)
    return found


def chosen_suite(port: int, version: int, offered: Collection[int]) -> int | None:
    """Return the suite that a listener chooses; None if it refuses them all with an alert."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        for record in _records(_client_hello(version, sorted(offered))):
            client.sendall(record)
        kind, _, size = struct.unpack(">BHH", _exactly(client, 5))
        body = _exactly(client, size)
    if kind == _ALERT:
        return None
    assert (kind, body[0]) == (_HANDSHAKE, _SERVER_HELLO), body[:20]
    (agreed,) = struct.unpack_from(">H", body, 4)
    assert agreed == version, f"{agreed:#x} instead of {version:#x}"
    (suite,) = struct.unpack_from(">H", body, 39 + body[38])
    return int(suite)


def _client_hello(version: int, suites: Collection[int]) -> bytes:
    extensions = b""
    for number, data in ((10, _GROUPS), (11, b"\x01\x00"), (13, _SIGNATURES)):
        extensions += struct.pack(">HH", number, len(data)) + data
    if version == SSL_3_0:
        extensions = b""
    body = struct.pack(">H", version) + bytes(range(32)) + b"\0"
    body += struct.pack(f">H{len(suites)}H", 2 * len(suites), *suites) + b"\x01\x00"
    if extensions:
        body += struct.pack(">H", len(extensions)) + extensions
    return bytes([_CLIENT_HELLO]) + len(body).to_bytes(3, "big") + body


def _records(message: bytes) -> Iterator[bytes]:
    for start in range(0, len(message), _RECORD_BYTES):
        part = message[start : start + _RECORD_BYTES]
        yield struct.pack(">BHH", _HANDSHAKE, TLS_1_0, len(part)) + part


def _exactly(client: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        more = client.recv(count - len(found))
        if not more:
            raise EOFError(f"closed after {found!r}")
        found += more
    return found
