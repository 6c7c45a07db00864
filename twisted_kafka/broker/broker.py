"""Broker: a Kafka broker to start and stop in any program.

    with twisted_kafka.Broker() as broker:
        producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap_servers)

For a program that runs a reactor, `twisted_kafka.service.BrokerService` wraps it in a Twisted service.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from twisted.logger import Logger

from twisted_kafka.broker.errors import StartError, StartInterruptedError
from twisted_kafka.broker.kafka_server import KafkaServer
from twisted_kafka.broker.main_reactor import MainReactor
from twisted_kafka.broker.personas import persona_of
from twisted_kafka.broker.request_serving import Guise
from twisted_kafka.broker.temporary_directory import make_temporary_directory
from twisted_kafka.config.broker_config import OWN_EDITION, Edition, KafkaConfig
from twisted_kafka.config.endpoints import EndPoint
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.server.interception import IRequestInterceptor
from twisted_kafka.system import machine
from twisted_kafka.system.forks import process_number
from twisted_kafka.system.threads import has_no_thread, make_thread, why_not_real
from twisted_kafka.timing.clock import IClock, SystemClock

__all__ = ["Broker", "StartError", "StartInterruptedError"]

_log = Logger()

_LOCAL_LISTENER: Final = "PLAINTEXT://127.0.0.1:0"
_LOCAL_CONSOLE: Final = "127.0.0.1:0"
_NO_THREAD: Final = (
    "the system has no thread to give: raise the limit of this user's processes (ulimit -u), or that of the container"
)
STOP_RETRY_S: Final = 1.0
"""How long until a broker that cannot go on tries again to stop."""


class Broker:
    """A Kafka broker with a metadata store of its own.

    `properties` are settings by Kafka's names; None stands for the default. Without `config` their other defaults suit a broker
    inside a program: it listens on a free port of 127.0.0.1, groups form without delay, the internal topics have few partitions,
    and there is an access log only if `access.log.dir` is set. It stores its data in `data_dir`, or in a temporary directory that
    is removed when the broker stops, at the latest when the program ends; after a kill, when another such broker is made. With
    `reactor`, the application's, call `start` and `stop` as BrokerService does.

    Brokers are independent of each other; a process may have several. A broker starts once.
    """

    def __init__(
        self,
        properties: Mapping[str, object] | None = None,
        *,
        data_dir: Path | str | None = None,
        config: KafkaConfig | None = None,
        reactor: Any = None,
        clock: IClock | None = None,
        on_fatal: Callable[[str], object] | None = None,
        persona: str | None = None,
        interceptor: IRequestInterceptor | None = None,
        console: bool = False,
    ) -> None:
        """Check the settings; raise ConfigError for a bad one.

        ``persona`` is the Kafka as which it answers: "0.11", "2.8", "3.9", "4.1", "4.2" or "4.4", with that one's APIs, versions,
        keys and defaults.

        With ``console`` the web console listens on a free port of 127.0.0.1, unless ``console.listener`` is set (`console_url`).

        ``interceptor`` sees requests and responses (``twisted_kafka.testing.Broker`` has one).

        ``on_fatal`` is called with one line when the broker cannot go on (all its directories failed, say), and has to `stop` it.
        Without it the broker stops by itself.
        """
        if config is not None and (properties is not None or data_dir is not None):
            raise TypeError("pass either config, or properties and data_dir")
        played = None if persona is None else persona_of(persona)
        if played is not None and (config is not None or (properties or {}).get("zookeeper.connect")):
            raise ConfigError("A persona is for a broker that runs alone: leave out config and zookeeper.connect")
        self._clock = clock if clock is not None else SystemClock()
        self._reactor = reactor
        self._remove_temporary: Callable[[], object] = _nothing
        if config is None:
            settings = {key: _setting(value) for key, value in (properties or {}).items() if value is not None}
            if data_dir is None and not ("log.dirs" in settings or "log.dir" in settings):
                data_dir, self._remove_temporary = make_temporary_directory(self)
            if data_dir is not None:
                settings["log.dirs"] = str(Path(data_dir).absolute() / "log")
            settings.setdefault("listeners", _LOCAL_LISTENER)
            if console:
                settings.setdefault("console.listener", _LOCAL_CONSOLE)
            config = self._checked(settings, OWN_EDITION if played is None else played.edition)
        on_fatal = on_fatal if on_fatal is not None else self._give_up
        self._server = KafkaServer(config, self._clock, on_fatal, Guise(played, interceptor))
        self._main: MainReactor | None = None
        self._lock = machine.Lock()
        self._is_running = False
        self._process_id = process_number()

    def _checked(self, settings: Mapping[str, str], edition: Edition) -> KafkaConfig:
        try:
            return KafkaConfig.embedded(settings, edition)
        except BaseException:
            self._remove_temporary()
            raise

    def start(self) -> None:
        """Start and serve; raise StartError, one line, after which nothing runs."""
        if (why := why_not_real()) is not None:
            self._remove_temporary()
            raise StartError(why)
        with self._lock:
            if self._main is not None:
                raise RuntimeError("a broker starts only once: make another one")
            self._main = MainReactor(self._reactor, self._clock)
            self._process_id = process_number()  # twistd becomes a daemon, another process, just before
        try:
            self._server.start(self._main)
            self._is_running = True
        except BaseException as error:
            self._main.stop()
            self._remove_temporary()
            if has_no_thread(error):
                raise StartError(_NO_THREAD) from error
            raise

    def interrupt_start(self) -> None:
        """Make a start that is under way, in another thread or below a signal handler, raise StartInterruptedError soon."""
        self._server.interrupt_start()

    def stop(self) -> None:
        """Stop: no new requests, answer those under way, write everything to disk. Harmless when it does not run."""
        if process_number() != self._process_id:
            return
        with self._lock:
            was_running, self._is_running = self._is_running, False
        if not was_running or self._main is None:
            return
        try:
            self._server.stop()
        finally:
            self._main.stop()
            self._remove_temporary()

    def _give_up(self, why: str) -> None:
        _log.critical("{why}", why=why)
        self._stop_on_another_thread()

    def _stop_on_another_thread(self) -> None:
        """Stop, because ``stop`` waits for this thread. Try again later if the system has no thread to give."""
        try:
            make_thread(self.stop, "kafka-fatal-shutdown", is_daemon=False).start()
        except RuntimeError as error:
            _log.error("The broker stops later: {error}", error=error)
            assert self._main is not None
            reactor = self._main.reactor
            reactor.callFromThread(reactor.callLater, STOP_RETRY_S, self._stop_on_another_thread)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.stop()

    @property
    def is_running(self) -> bool:
        """Whether the broker has started and not stopped. False in a forked process, which has no broker."""
        return self._is_running and process_number() == self._process_id

    @property
    def config(self) -> KafkaConfig:
        """Its settings."""
        return self._server.config

    @property
    def broker_id(self) -> int:
        """Its id in the cluster (broker.id)."""
        return self._server.config.broker_id

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""
        return self._server.cluster_id

    @property
    def metrics(self) -> MetricsRegistry:
        """Its metrics."""
        return self._server.metrics

    @property
    def console_url(self) -> str | None:
        """The URL of its web console; None without one, and if it does not run."""
        return self._server.console_url

    @property
    def diagnoses(self) -> list[str]:
        """The recent mistakes of clients, one line each with a remedy; the log has them, too."""
        return self._server.diagnoses.lines

    def apply_config_changes(self, timeout_s: float) -> None:
        """Wait until this broker uses all changes of topics', brokers' and users' configs so far. Raises TimeoutError."""
        if self._server.configs is not None:
            self._server.configs.apply_changes(timeout_s)

    def rebalance(self, group: str) -> ErrorCode:
        """Ask the members of a group of the classic protocol to join again. GROUP_ID_NOT_FOUND for any other group."""
        return self._server.groups.rebalance(group)

    def in_flight(self, group: str) -> list[tuple[str, int, int, int, str, int, str]]:
        """Return a share group's records in flight in partitions that this broker leads.

        Each run of records in one state: topic, partition, first and last offset, state, delivery count, and the member's id.
        """
        return self._server.in_flight(group)

    def partition_of_group(self, group: str) -> int:
        """Return the partition of ``__consumer_offsets`` whose leader coordinates a group."""
        return self._server.groups.partition_for(group)

    @property
    def listeners(self) -> list[EndPoint]:
        """Its listeners, with the ports that are bound."""
        return self._server.listeners

    @property
    def bootstrap_servers(self) -> str:
        """The `bootstrap.servers` of clients: host:port of the first listener, and of others with the same security protocol.

        The control plane's listener is not for clients.
        """
        bound = {end_point.listener_name: end_point for end_point in self.listeners}
        bound.pop(self.config.control_plane_listener_name or "", None)
        ordered = [bound[each.listener_name] for each in self.config.listeners if each.listener_name in bound]
        alike = [each for each in ordered if each.security_protocol == ordered[0].security_protocol]
        return ",".join(f"{_reachable(end_point.host)}:{end_point.port}" for end_point in alike)

    def servers_of(self, listener: str) -> str:
        """Return host:port of a listener, by its name as in `listeners`. Raises ValueError, which names the listeners."""
        for end_point in self.listeners:
            if end_point.listener_name == listener.upper():
                return f"{_reachable(end_point.host)}:{end_point.port}"
        names = ", ".join(each.listener_name for each in self.listeners)
        raise ValueError(f"there is no listener {listener!r}, only {names or 'those of a broker that runs'}")

    @property
    def supported_apis(self) -> dict[int, tuple[int, int]]:
        """First and last version of every API that it serves, by API key."""
        return self._server.supported_apis


def _nothing() -> None: ...


def _setting(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value)


def _reachable(host: str) -> str:
    if host in ("", "0.0.0.0"):
        return "127.0.0.1"
    if host == "::":
        return "[::1]"
    return f"[{host}]" if ":" in host else host
