"""Makes kazoo's clients: one for each session, with this project's TLS contexts and logging."""

import logging
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.retry import KazooRetry
from twisted.logger import Logger

from twisted_kafka.metadata.zookeeper.settings import ZooKeeperSettings

_RETRY_DELAY_S: Final = 0.1
_RETRY_MAX_DELAY_S: Final = 1.0

_log = Logger(namespace="twisted_kafka.metadata.zookeeper")


class _ToTwisted(logging.Handler):
    """Passes kazoo's warnings on to the broker's log. What is less severe contains credentials."""

    def emit(self, record: logging.LogRecord) -> None:
        _log.warn("ZooKeeper: {line}", line=record.getMessage())


def _make_logger() -> logging.Logger:
    logger = logging.Logger("twisted_kafka.metadata.zookeeper", logging.WARNING)
    logger.addHandler(_ToTwisted())
    return logger


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """Kazoo's threads; connects with a TLS context if there is one, and keeps the last error."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        super().__init__()
        self._tls = tls
        self.last_error = ""

    def create_connection(
        self, address: tuple[str, int], hostname: str | None = None, timeout: float | None = None, **_: Any
    ) -> Any:
        """Connect to a server; ``hostname`` is what its certificate has to name."""
        connected = None
        try:
            connected = socket.create_connection(address, timeout)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is None:
                return connected
            return self._tls.wrap_socket(connected, server_hostname=hostname)
        except OSError as error:
            self.last_error = f"{hostname}:{address[1]}: {error}"
            if connected is not None:
                connected.close()
            raise


def make_client(settings: ZooKeeperSettings, listener: Callable[[str], None]) -> KazooClient:
    """Return a client that is not started; ``listener`` hears on its thread of changes of its state."""
    client = KazooClient(
        settings.hosts + settings.chroot,
        timeout=settings.session_timeout_ms / 1000,
        handler=_Handler(settings.tls),
        auth_data=[("digest", settings.digest)] if settings.digest is not None else None,
        connection_retry=KazooRetry(max_tries=-1, delay=_RETRY_DELAY_S, max_delay=_RETRY_MAX_DELAY_S),
        logger=_make_logger(),
    )
    client.add_listener(listener)
    return client


def last_error(client: KazooClient) -> str:
    """Return why the last attempt to connect failed; empty if nothing is known."""
    return str(client.handler.last_error)
