import contextlib
import socket
from collections.abc import Iterator

import pytest

from tests.support.fake import Fake
from twisted_kafka.client.connections.socket_connection import LEAST_BYTES_PER_S, SocketConnection
from twisted_kafka.protocol.messages.api_versions import ApiVersionsRequest
from twisted_kafka.timing.clock import ManualClock

TIMEOUT_S = 5.0


class Dripping(Fake):
    """A stream with a response that comes in parts of one size, each after the same time."""

    def __init__(self, clock: ManualClock, size_bytes: int, part_bytes: int, part_ms: int) -> None:
        self.clock = clock
        self.left = (size_bytes).to_bytes(4) + (1).to_bytes(4) + bytes(size_bytes - 4)
        self.part_bytes = part_bytes
        self.part_ms = part_ms

    def settimeout(self, timeout_s: float) -> None:
        assert 0 < timeout_s <= TIMEOUT_S

    def sendall(self, _: bytes) -> None: ...

    def recv(self, most_bytes: int) -> bytes:
        self.clock.advance_ms(self.part_ms)
        size_bytes = min(most_bytes, self.part_bytes)
        part, self.left = self.left[:size_bytes], self.left[size_bytes:]
        return part

    def close(self) -> None: ...


@pytest.fixture
def address() -> Iterator[tuple[str, int]]:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield server.getsockname()[:2]


def answered_ms(address: tuple[str, int], size_bytes: int, part_bytes: int, part_ms: int) -> int:
    """Return how long a response of this size took."""
    clock = ManualClock()

    def stream(connected: socket.socket, host: str, timeout_s: float) -> Dripping:
        connected.close()
        return Dripping(clock, size_bytes, part_bytes, part_ms)

    began_ns = clock.monotonic_ns()
    connection = SocketConnection(address, "client", TIMEOUT_S, secure=stream, now_ns=clock.monotonic_ns)
    with contextlib.suppress(ValueError):  # the content is no response
        connection.ask(ApiVersionsRequest(), 0, TIMEOUT_S)
    return (clock.monotonic_ns() - began_ns) // 1_000_000


def test_a_response_that_comes_byte_by_byte_is_too_late(address: tuple[str, int]) -> None:
    with pytest.raises(TimeoutError):
        answered_ms(address, 100, 1, 1_000)
    assert answered_ms(address, 20, 1, 100) == 24 * 100


def test_a_large_response_has_more_time(address: tuple[str, int]) -> None:
    size_bytes, part_bytes = 20 * LEAST_BYTES_PER_S, LEAST_BYTES_PER_S
    assert answered_ms(address, size_bytes, part_bytes, 1_000) == 21_000
    with pytest.raises(TimeoutError):
        answered_ms(address, size_bytes, part_bytes, 2_000)
