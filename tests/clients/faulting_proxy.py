"""A proxy that spoils the answers of any broker: closes, loses, halves, corrupts or delays one of one API.

The broker has to advertise the proxy's port, so that clients stay behind it.
"""

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from twisted_kafka.protocol.api import ApiKey

_SIZE_BYTES = 4
_CORRELATION_ID = slice(4, 8)


class FaultingProxy:
    """Listens on ``port``, in front of ``broker_port`` of this machine."""

    def __init__(self, port: int, broker_port: int) -> None:
        self._broker_port = broker_port
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._rule: Mapping[str, Any] = {}
        self._api = -1
        self._left = 0
        self.asked = 0
        """Requests of the API since the last ``spoil``."""
        self._server = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, daemon=True).start()

    def spoil(self, api: str, rule: Mapping[str, Any]) -> None:
        """Do to one request of an API what a rule of the kit says; nothing for an empty one, but count."""
        with self._lock:
            self._api = next(key for key in ApiKey if key.title == api)
            self._rule, self._left, self.asked = rule, 1 if rule else 0, 0

    def close(self) -> None:
        """Stop, and close all connections."""
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
                broker = socket.create_connection(("127.0.0.1", self._broker_port), 10)
            except OSError:  # it has not started yet
                client.close()
                continue
            broker.settimeout(None)
            self._sockets += [client, broker]
            spoilt: dict[bytes, Mapping[str, Any]] = {}
            for run in (self._requests, self._responses):
                threading.Thread(target=run, args=(client, broker, spoilt), daemon=True).start()

    def _requests(self, client: socket.socket, broker: socket.socket, spoilt: dict[bytes, Mapping[str, Any]]) -> None:
        with suppress(OSError), client.makefile("rb") as stream:
            while frame := _frame_of(stream):
                rule = self._choose(frame)
                if rule.get("close") == "before":
                    break
                if rule:
                    spoilt[frame[_CORRELATION_ID]] = rule
                broker.sendall(len(frame).to_bytes(_SIZE_BYTES, "big") + frame)
        _end(client, broker)

    def _responses(self, client: socket.socket, broker: socket.socket, spoilt: dict[bytes, Mapping[str, Any]]) -> None:
        with suppress(OSError), broker.makefile("rb") as stream:
            while frame := _frame_of(stream):
                rule = spoilt.pop(frame[:4], {})
                data = len(frame).to_bytes(_SIZE_BYTES, "big") + frame
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

    def _choose(self, frame: bytes) -> Mapping[str, Any]:
        with self._lock:
            if int.from_bytes(frame[:2], "big") != self._api:
                return {}
            self.asked += 1
            if not self._left:
                return {}
            self._left -= 1
            return self._rule


def _frame_of(stream: Any) -> bytes:
    head = stream.read(_SIZE_BYTES)
    return bytes(stream.read(int.from_bytes(head, "big"))) if len(head) == _SIZE_BYTES else b""


def _end(*sockets: socket.socket) -> None:
    for each in sockets:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
