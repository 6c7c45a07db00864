"""A broker as a Twisted service, for twistd and for applications with a reactor of their own."""

from collections.abc import Callable
from typing import Any

from twisted.application import service
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure
from typing_extensions import override

from twisted_kafka.broker.broker import Broker
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.system.threads import make_thread

__all__ = ["BrokerService", "KafkaConfig"]

_log = Logger()


class BrokerService(service.Service):
    """Starts a broker with the application and stops it with it.

    It starts on the calling thread, before the reactor runs or on its thread, and raises StartError. It stops on a thread of its
    own, because requests in flight are still answered during the stop. A stopped service may be started again: ``broker`` is then
    a new instance on the same directories.
    """

    name = "kafka"

    def __init__(self, config: KafkaConfig, reactor: Any, on_fatal: Callable[[str], object] | None = None) -> None:
        """``on_fatal`` is passed to ``Broker``."""
        self._reactor = reactor
        self._config = config
        self._on_fatal = on_fatal
        self._was_started = False
        self.broker = Broker(config=config, reactor=reactor, on_fatal=on_fatal)

    @override
    def startService(self) -> None:
        """Start the broker. If it raises StartError, nothing is left running."""
        if self._was_started and not self.broker.is_running:
            self.broker = Broker(config=self._config.updated({}), reactor=self._reactor, on_fatal=self._on_fatal)
        self._was_started = True
        self.broker.start()
        super().startService()  # type: ignore[no-untyped-call]

    @override
    def stopService(self) -> "Deferred[None]":
        """Stop the broker; the Deferred fires when everything is on disk."""
        super().stopService()  # type: ignore[no-untyped-call]
        if not self.broker.is_running:
            return succeed(None)
        stopped: Deferred[None] = Deferred()

        def stop() -> None:
            try:
                self.broker.stop()
            except Exception:  # noqa: BLE001 the Deferred carries it
                self._reactor.callFromThread(stopped.errback, Failure())  # type: ignore[no-untyped-call]
            else:
                self._reactor.callFromThread(stopped.callback, None)

        try:
            make_thread(stop, "kafka-shutdown", is_daemon=False).start()
        except RuntimeError as error:
            _log.warn("The broker stops on the reactor's thread: {error}", error=error)
            stop()
        return stopped
