"""A proxy that does to one request of one API what a rule of the kit says, in front of any broker.

It closes, loses, halves, corrupts, delays, and answers an error. The broker has to advertise the proxy's port, so that clients stay
behind it.
"""

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from tests.support.eventually import WAIT_S
from twisted_kafka.protocol.api import ApiKey, request_class, response_class
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.headers import RequestHeader, encode_response_header, parse_request_header, parse_response_header
from twisted_kafka.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse

STALLED_S = 0.3
"""How long a disk is stalled."""
_SIZE_BYTES = 4


class _Asked(NamedTuple):
    """A request of the API, and what is to be done to its answer."""

    version: int
    rule: Mapping[str, Any]


class FaultingProxy:
    """Listens on ``port``, in front of ``broker_port`` of this machine."""

    def __init__(self, port: int, broker_port: int) -> None:
        self.port = port
        self._broker_port = broker_port
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._rule: Mapping[str, Any] = {}
        self._api = -1
        self._left = 0
        self._unheld = threading.Event()
        self._unheld.set()
        self.asked = 0
        """Requests of the API since the last ``spoil``."""
        self.faults = 0
        """How many of them were spoilt here, or answered an error or to wait by the broker."""
        self._server = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, daemon=True).start()

    def spoil(self, api: str, rule: Mapping[str, Any]) -> None:
        """Do to one request of an API what a rule of the kit says; nothing for an empty one, but count."""
        with self._lock:
            self._api = next(key for key in ApiKey if key.title == api)
            self._rule, self._left, self.asked, self.faults = rule, 1 if rule else 0, 0, 0

    def hold_fetches(self) -> None:
        """Have each Fetch wait for ``release_fetches``."""
        self._unheld.clear()

    def release_fetches(self) -> None:
        """Pass on what waits, and what comes."""
        self._unheld.set()

    def close(self) -> None:
        """Stop, and close all connections."""
        self.release_fetches()
        for each in (self._server, *self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection(("127.0.0.1", self._broker_port), WAIT_S)
            except OSError:  # it has not started yet
                client.close()
                continue
            broker.settimeout(None)
            self._sockets += [client, broker]
            pending: dict[int, _Asked] = {}
            for run in (self._requests, self._responses):
                threading.Thread(target=run, args=(client, broker, pending), daemon=True).start()

    def _requests(self, client: socket.socket, broker: socket.socket, pending: dict[int, _Asked]) -> None:
        with suppress(OSError), client.makefile("rb") as stream:
            while frame := _frame_of(stream):
                header = parse_request_header(frame)
                rule = self._choose(header)
                if rule.get("close") == "before":
                    break
                if rule.get("disk") == "stalled":
                    threading.Event().wait(STALLED_S)
                if header.api_key == ApiKey.PRODUCE and "error" in rule:
                    client.sendall(_sized(_refusal(header, frame, ErrorCode[rule["error"]])))
                    continue
                if header.api_key == ApiKey.FETCH:
                    self._unheld.wait()
                if header.api_key == self._api:
                    pending[header.correlation_id] = _Asked(header.api_version, rule)
                broker.sendall(_sized(frame))
        _end(client, broker)

    def _responses(self, client: socket.socket, broker: socket.socket, pending: dict[int, _Asked]) -> None:
        with suppress(OSError), broker.makefile("rb") as stream:
            while frame := _frame_of(stream):
                asked = pending.pop(int.from_bytes(frame[:4], "big"), None)
                rule = {} if asked is None else asked.rule
                data = _sized(frame if asked is None else self._read(frame, asked))
                if rule.get("half_response"):
                    client.sendall(data[: len(data) // 2])
                if rule.get("close") == "after" or rule.get("half_response"):
                    break
                if rule.get("lose_response"):
                    continue
                if rule.get("corrupt_response"):
                    data = data[:8] + b"\xff" * (len(data) - 8)
                if "delay_ms" in rule:
                    threading.Event().wait(rule["delay_ms"] / 1000)
                client.sendall(data)
        _end(client, broker)

    def _choose(self, header: RequestHeader) -> Mapping[str, Any]:
        with self._lock:
            if header.api_key != self._api:
                return {}
            self.asked += 1
            return self._spend() if "error" not in self._rule or header.api_key == ApiKey.PRODUCE else self._rule

    def _spend(self) -> Mapping[str, Any]:
        if not self._left:
            return {}
        self._left -= 1
        self.faults += 1
        return self._rule

    def _read(self, frame: bytes, asked: _Asked) -> bytes:
        """Look at an answer; return it, with an error for the records in it if it is the one to be spoilt."""
        _, at = parse_response_header(self._api, asked.version, frame)
        response: Any = response_class(self._api).decode(frame, asked.version, at)
        key = "partition_responses" if self._api == ApiKey.PRODUCE else "partitions"
        partitions = [each for topic in response.responses for each in getattr(topic, key)]
        filled = [each for each in partitions if getattr(each, "records", None)]
        with self._lock:
            self.faults += response.throttle_time_ms > 0 or any(each.error_code for each in partitions)
            if not ("error" in asked.rule and filled and self._spend()):
                return frame
        for partition in filled:
            partition.error_code, partition.high_watermark, partition.records = ErrorCode[asked.rule["error"]], -1, b""
        return frame[:at] + response.encode(asked.version)


def _refusal(header: RequestHeader, frame: bytes, error: ErrorCode) -> bytes:
    """Return the answer to a Produce that nothing is stored of."""
    request: Any = request_class(header.api_key).decode(frame, header.api_version, header.body_offset)
    topics = [
        TopicProduceResponse(
            name=topic.name,
            partition_responses=[
                PartitionProduceResponse(index=each.index, error_code=error, base_offset=-1) for each in topic.partition_data
            ],
        )
        for topic in request.topic_data
    ]
    head = encode_response_header(header.api_key, header.api_version, header.correlation_id)
    return head + ProduceResponse(responses=topics).encode(header.api_version)


def _frame_of(stream: Any) -> bytes:
    head = stream.read(_SIZE_BYTES)
    return bytes(stream.read(int.from_bytes(head, "big"))) if len(head) == _SIZE_BYTES else b""


def _sized(frame: bytes) -> bytes:
    return len(frame).to_bytes(_SIZE_BYTES, "big") + frame


def _end(*sockets: socket.socket) -> None:
    for each in sockets:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
