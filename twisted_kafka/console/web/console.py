"""WebConsole: the console of one broker, with its threads and its listener."""

from functools import partial
from itertools import chain
from typing import Any

from twisted.logger import Logger

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.console.cluster.in_process import LocalBroker
from twisted_kafka.console.live.live import Live
from twisted_kafka.console.web import rendering
from twisted_kafka.console.web.application import THREADS, Application
from twisted_kafka.console.web.context import ConsoleContext, ConsoleSettings
from twisted_kafka.console.web.guard import Guard
from twisted_kafka.console.web.listener import ConsoleListener, ConsoleSite
from twisted_kafka.console.web.users.passwords import Passwords
from twisted_kafka.console.web.warm_up import WarmUp, compiled_messages
from twisted_kafka.metadata.config_repository import ConfigRepository
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.security.scram.credential_cache import CredentialCache
from twisted_kafka.system.threads import make_pool, submit

_log = Logger()


class WebConsole:
    """Listens from ``start`` to ``stop``, which are called on the reactor's thread."""

    def __init__(
        self,
        config: KafkaConfig,
        metrics: MetricsRegistry,
        reactor: Any,
        broker: LocalBroker,
        configs: ConfigRepository,
        live: Live,
    ) -> None:
        """``broker`` answers in the names of users; ``configs`` has the users' credentials.

        ``live`` is what only this broker knows. Raises ConfigError for a key store that cannot be used.
        """
        settings = ConsoleSettings.of(config)
        self._live = live
        self._tls: Any = None
        if settings.address.is_tls:
            from twisted_kafka.console.web.tls import ConsoleTls  # imports OpenSSL

            self._tls = ConsoleTls(config, metrics)
        self._context = ConsoleContext(settings, metrics.clock, lambda: Passwords(CredentialCache(configs)), live)
        self._pool = make_pool(THREADS, "kafka-console")
        on_pool = partial(submit, self._pool)
        self._application = Application(self._context, broker.session, reactor, on_pool)
        self._warm_up = WarmUp(reactor, on_pool, chain(rendering.compiled(), compiled_messages(broker.served())))
        guard = Guard(settings.hosts, is_tls=settings.address.is_tls)
        site = ConsoleSite(self._application.render, guard, reactor, is_tls=settings.address.is_tls)
        self._listener = ConsoleListener(reactor, settings.address, site, None if self._tls is None else self._tls.context)

    def start(self) -> None:
        """Listen; raises ListenError."""
        self._listener.start()
        self._context.port = self._listener.port
        self._warm_up.start()
        _log.info("The console is at {url}", url=self.url)
        if warning := self._context.settings.warning:
            _log.warn("{warning}", warning=warning)

    @property
    def url(self) -> str:
        """The URL of its first page, for a browser on this machine."""
        return self._listener.url

    def refresh(self) -> None:
        """Use changed certificates for new connections."""
        if self._tls is not None:
            self._tls.refresh()

    def stop(self) -> None:
        """End all streams and connections. Queries that are under way end by themselves, without a browser."""
        self._warm_up.stop()
        self._application.hub.close()
        self._live.stop()
        self._context.reports.close()
        if self._tls is not None:
            self._tls.close()
        self._listener.stop()
        self._pool.shutdown(wait=False, cancel_futures=True)
