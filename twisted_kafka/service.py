"""A broker as a Twisted service: for twistd, and for an application that has a reactor of its own."""

from collections.abc import Callable
from typing import Any

from twisted.application import service
from twisted.internet import threads
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from twisted_kafka.broker.broker import Broker
from twisted_kafka.config.broker_config import KafkaConfig

_log = Logger()


class BrokerService(service.Service):
    """Starts a broker with the application and stops it with it.

    Starting takes a moment and happens on the calling thread, before the reactor runs or on it; it raises StartError.
    Stopping happens in a thread of the reactor's pool, for requests under way are still answered meanwhile. A service that was
    stopped may be started again: `broker` is another one then, on the same directories.
    """

    name = "kafka"

    def __init__(self, config: KafkaConfig, reactor: Any, on_fatal: Callable[[str], object] | None = None) -> None:
        """``on_fatal`` is `Broker`'s."""
        self._reactor = reactor
        self._config = config
        self._on_fatal = on_fatal
        self._was_started = False
        self.broker = Broker(config=config, reactor=reactor, on_fatal=on_fatal)

    def startService(self) -> None:
        """Start the broker; raise StartError, after which nothing of it is left running."""
        if self._was_started and not self.broker.is_running:
            self.broker = Broker(config=self._config.updated({}), reactor=self._reactor, on_fatal=self._on_fatal)
        self._was_started = True
        self.broker.start()
        super().startService()  # type: ignore[no-untyped-call]

    def stopService(self) -> "Deferred[None]":
        """Stop the broker; the result comes when all is written down."""
        super().stopService()  # type: ignore[no-untyped-call]
        if not self.broker.is_running:
            return succeed(None)
        return threads.deferToThreadPool(self._reactor, self._reactor.getThreadPool(), self.broker.stop)
