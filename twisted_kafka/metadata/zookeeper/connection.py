"""Makes kazoo's clients: one for each session, with this project's TLS contexts and logging."""

import logging
from collections.abc import Callable
from typing import Final

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, ConnectionDropped, KazooException
from kazoo.retry import KazooRetry
from twisted.logger import Logger
from typing_extensions import override

from twisted_kafka.metadata.zookeeper.kazoo_handler import Handler
from twisted_kafka.metadata.zookeeper.settings import ZooKeeperSettings

_RETRY_DELAY_S: Final = 0.1
_RETRY_MAX_DELAY_S: Final = 1.0

_log = Logger(namespace="twisted_kafka.metadata.zookeeper")


class _ToTwisted(logging.Handler):
    """Passes kazoo's warnings on to the broker's log, but no lower levels: those lines contain credentials."""

    @override
    def emit(self, record: logging.LogRecord) -> None:
        _log.warn("ZooKeeper: {line}", line=record.getMessage())


def _make_logger() -> logging.Logger:
    logger = logging.Logger("twisted_kafka.metadata.zookeeper", logging.WARNING)
    logger.addHandler(_ToTwisted())
    return logger


def make_client(settings: ZooKeeperSettings, listener: Callable[[str], None], now_ns: Callable[[], int]) -> KazooClient:
    """Return a client that is not started; ``listener`` hears on its thread of changes of its state.

    ``now_ns`` is a clock that nobody sets.
    """
    sasl = settings.sasl
    handler = Handler(settings.tls, now_ns)
    client = KazooClient(
        settings.hosts + settings.chroot,
        timeout=settings.session_timeout_ms / 1000,
        handler=handler,
        auth_data=[("digest", settings.digest)] if settings.digest is not None else None,
        sasl_options=None if sasl is None else {"mechanism": "DIGEST-MD5", **sasl._asdict()},
        connection_retry=KazooRetry(max_tries=-1, delay=_RETRY_DELAY_S, max_delay=_RETRY_MAX_DELAY_S),
        logger=_make_logger(),
    )
    client.add_listener(listener)
    _notice_silence(client, handler)
    if sasl is not None:
        _survive_refusals(client)
    return client


def _notice_silence(client: KazooClient, handler: Handler) -> None:
    """Pass the longest silence of a connection to the handler: ZooKeeper decides it when the connection is opened."""
    connection = client._connection
    connect = connection._connect

    def connect_and_note(*address: object) -> tuple[float, float]:
        handler.read_timeout_s = None
        read_timeout_ms, connect_timeout_ms = connect(*address)
        handler.read_timeout_s = read_timeout_ms / 1000
        return read_timeout_ms, connect_timeout_ms

    connection._connect = connect_and_note


def _survive_refusals(client: KazooClient) -> None:
    """Turn each refusal of SASL into a failed authentication: some would end kazoo's connection thread with a traceback."""
    connection = client._connection
    authenticate = connection._authenticate_with_sasl

    def authenticate_or_fail(host: str, timeout_s: float) -> None:
        try:
            authenticate(host, timeout_s)
        except (AuthFailedError, ConnectionDropped):
            raise
        except (KazooException, RuntimeError) as error:
            raise AuthFailedError(type(error).__name__) from error

    connection._authenticate_with_sasl = authenticate_or_fail


def last_error(client: KazooClient) -> str:
    """Return why the last attempt to connect failed; empty if nothing is known."""
    return str(client.handler.last_error)
