"""The largest request of each API costs a broker twice as much processor time as one of half the size, and no more."""

import gc
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest

import twisted_kafka
from tests.support.cases import case
from twisted_kafka.protocol.api import ApiKey, request_class
from twisted_kafka.protocol.compiler.layout import untagged
from twisted_kafka.protocol.compiler.schema import ListOf, StructType
from twisted_kafka.protocol.compiler.types import Wire
from twisted_kafka.protocol.headers import encode_request_header
from twisted_kafka.server.large_requests import MOST_ELEMENTS

MOST_GROWTH = 3.0
"""A cost that grows with the square is four times as high."""

FEW = 20
"""Elements of the first request to an API, which is slower than others."""

NOISE_S = 0.05
TRIES = 3
SPECIAL = {
    "validate_only": True,
    "max_wait_ms": 0,
    "timeout_ms": 1000,
    "session_epoch": -1,
    "replica_id": -1,
    "controller_id": -1,
    "controller_epoch": -1,
}
"""Values with which a request changes nothing and does not wait."""
MOST_BY_CODE = {"b": 1 << 7, "B": 1 << 8, "h": 1 << 15, "H": 1 << 16}


class Shape:
    """Requests whose arrays have one element each, but for those at one depth, which have many: each once, or twice."""

    def __init__(self, version: int, depth: int, count: int, times: int = 1) -> None:
        self._times = times
        self._version = version
        self._depth = depth
        self._count = count

    def struct(self, kind: StructType, depth: int = 0, number: int = 0) -> Any:
        fields = untagged(kind, self._version)
        return kind(**{each.name: self._value(each.type, each.name, depth, number, each) for each in fields})

    def _value(self, kind: Any, name: str, depth: int, number: int, field: Any) -> Any:
        if isinstance(kind, ListOf):
            count = self._count if depth == self._depth else 1
            return [self._value(kind.element, name, depth + 1, each // self._times, None) for each in range(count)]
        if not isinstance(kind, Wire):
            is_null = field is not None and field.nullable_at(self._version)
            return None if is_null else self.struct(kind, depth, number)
        if name in SPECIAL:
            return SPECIAL[name]
        if kind.kind == "string":
            return f"{name[0]}{number}"
        if kind.kind != "fixed":
            return b""
        if kind.code == "16s":
            return number.to_bytes(16, "big")
        return number % MOST_BY_CODE.get(kind.code, 1 << 31) if kind.code != "?" else False


def _depths(kind: StructType, version: int) -> int:
    """Return how deeply a request's arrays are nested."""
    deepest = 0
    for each in untagged(kind, version):
        array = isinstance(each.type, ListOf)
        inner = each.type.element if isinstance(each.type, ListOf) else each.type
        deepest = max(deepest, array + (0 if isinstance(inner, Wire) else _depths(inner, version)))
    return deepest


def _requests(broker: twisted_kafka.Broker, count: int, times: int) -> Iterator[tuple[str, int, int, list[bytes]]]:
    """Return for each array of each API its name, and requests with few elements, with half of them and with all."""
    for key, (_, version) in sorted(broker.supported_apis.items()):
        cls = request_class(key)
        for depth in range(_depths(cls, version)):
            bodies = [Shape(version, depth, each, times).struct(cls).encode(version) for each in (FEW, count // 2, count)]
            yield f"{ApiKey(key).title}, depth {depth}", key, version, bodies


def _processor_s(port: int, key: int, version: int, body: bytes) -> float:
    """Return the processor time of this process, in which the broker runs, until a request is answered."""
    header = encode_request_header(key, version, 1, "c")
    data = struct.pack(">i", len(header) + len(body)) + header + body
    with socket.create_connection(("127.0.0.1", port), 60) as client:
        started = time.process_time()
        client.sendall(data)
        left: int | None = None
        head = b""
        while left is None or left > 0:
            received = client.recv(1 << 20)
            if not received:
                break  # a request that breaks a rule closes its connection
            if left is None:
                head += received
                left = struct.unpack(">i", head[:4])[0] + 4 - len(head) if len(head) >= 4 else None
            else:
                left -= len(received)
        return time.process_time() - started


def _compare(count: int, *, is_denied: bool = False) -> None:
    """Compare requests of so many elements; ``is_denied``: of a client without any right, that names each thing twice."""
    with twisted_kafka.Broker({"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"} if is_denied else {}) as broker:
        port = int(broker.bootstrap_servers.rpartition(":")[2])
        gc.collect()
        gc.disable()
        try:
            for name, key, version, (few, half, whole) in _requests(broker, count, 1 + is_denied):
                with case(name=name):
                    _processor_s(port, key, version, few)
                    shorter = longer = float("inf")
                    for _ in range(TRIES):
                        shorter = min(shorter, _processor_s(port, key, version, half))
                        longer = min(longer, _processor_s(port, key, version, whole))
                        if longer < MOST_GROWTH * shorter + NOISE_S:
                            break
                    assert longer < MOST_GROWTH * shorter + NOISE_S
        finally:
            gc.enable()


@pytest.mark.slow
def test_processor_time_grows_as_a_request() -> None:
    _compare(3_000)


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(900)
@pytest.mark.parametrize("is_denied", [False, True])
def test_processor_time_grows_as_the_largest_request(is_denied: bool) -> None:
    _compare(MOST_ELEMENTS - 100, is_denied=is_denied)
