"""A broker with its defaults, in a process of its own, whose memory a test can measure."""

import random
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.hostile.forms import Versions
from tests.hostile.hose import Poured, Stream, forget_peak_rss, peak_rss_bytes, pour
from tests.hostile.hostile_messages import TOPICS, frame
from tests.support.budget import patient
from tests.support.clients.served import ServedBroker
from tests.support.eventually import eventually
from tests.support.ports import free_port
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.messages.administration.topics import CreatableTopic, CreateTopicsRequest

PRIVILEGED = frozenset({ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.CONTROLLED_SHUTDOWN})
SASL = (
    "listener.security.protocol.map=CLIENTS:SASL_PLAINTEXT,BROKERS:PLAINTEXT",
    "inter.broker.listener.name=BROKERS",
    "sasl.enabled.mechanisms=PLAIN",
    'listener.name.clients.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_a="b";',
)


class BrokerUnderAttack:
    """Serves until ``stop``; with ``sasl`` its clients have to log in, and nobody does."""

    def __init__(self, data: Path, sasl: bool = False, *overrides: str) -> None:
        self.served = ServedBroker(data, *(SASL if sasl else ()), *overrides)
        self._brokers_port = self.served.port
        if sasl:
            self._brokers_port = free_port()
            self.served.listeners = f"CLIENTS://{self.served.bootstrap},BROKERS://127.0.0.1:{self._brokers_port}"
        self.served.start()
        self.apis = self._supported_apis()
        topics = [CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in TOPICS]
        self.ask(frame(ApiKey.CREATE_TOPICS, 4, CreateTopicsRequest(topics=topics, timeout_ms=30_000).encode(4)))

    @property
    def pid(self) -> int:
        assert self.served.process is not None
        return self.served.process.pid

    @property
    def log(self) -> str:
        return self.served.output.read_text(errors="replace")

    def ask(self, request: bytes, port: int | None = None) -> bytes:
        """Return the answer without its length."""
        with socket.create_connection(("127.0.0.1", port or self._brokers_port), timeout=patient(60)) as connection:
            connection.sendall(request)
            return read_answer(connection)

    def is_answering(self) -> bool:
        """Whether an honest client of the attacked listener gets an answer."""
        return len(self.ask(frame(ApiKey.API_VERSIONS, 0, b""), self.served.port)) > 4

    def _supported_apis(self) -> Versions:
        answer = eventually(lambda: self.ask(frame(ApiKey.API_VERSIONS, 0, b"")))
        rows = struct.iter_unpack(">hhh", answer[10:])
        return {key: (low, high) for key, low, high in rows if key not in PRIVILEGED}

    def endure(
        self, form: Callable[[random.Random, Versions], Iterator[Stream]], seed: int, budget_bytes: int
    ) -> tuple[Poured, int]:
        """Take one form of attack; returns what was sent, and by how many bytes the memory grew at most."""
        forget_peak_rss(self.pid)
        before = peak_rss_bytes(self.pid)
        poured = pour(self.served.port, form(random.Random(seed), self.apis), budget_bytes)
        assert self.is_answering()
        return poured, peak_rss_bytes(self.pid) - before

    def stop(self) -> None:
        self.served.stop()


def read_answer(connection: socket.socket) -> bytes:
    """Return the next answer without its length; raises ConnectionError if there is none."""
    (size,) = struct.unpack(">i", _read(connection, 4))
    return _read(connection, size)


def _read(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        more = connection.recv(min(size - len(data), 1 << 20))
        if not more:
            raise ConnectionError("closed")
        data += more
    return bytes(data)
