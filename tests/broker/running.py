"""A broker in this process whose settings a test writes."""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.support.eventually import WAIT_S
from twisted_kafka.broker.broker import Broker


class Running:
    """A broker whose settings are written and awaited."""

    def __init__(self, broker: Broker, others: set[threading.Thread] | None = None) -> None:
        self.broker = broker
        self._others = others or set()
        configs = broker._server.configs
        assert configs is not None
        self.configs = configs
        store = broker._server._running.store
        assert store is not None
        self.store = store

    def write(self, settings: dict[str, str], name: str | None = None) -> None:
        self.configs.write(f"brokers/{self.broker.broker_id if name is None else name}", settings)

    def threads(self, prefix: str) -> int:
        """How many threads with such a name were started since the broker was."""
        return len([each for each in threading.enumerate() if each not in self._others and each.name.startswith(prefix)])

    def port(self, listener: str) -> int:
        return next(each.port for each in self.broker.listeners if each.listener_name == listener)

    def ask(self, port: int) -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as client:
            client.sendall(struct.pack(">ihhih", 10, 18, 0, 7, -1))
            return client.recv(8)[4:8]


@contextlib.contextmanager
def run(settings: Mapping[str, str], data_dir: Path) -> Iterator[Running]:
    others = set(threading.enumerate())
    with Broker(settings, data_dir=data_dir) as broker:
        yield Running(broker, others)
