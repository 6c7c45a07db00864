"""Broker: a Kafka broker to start and to stop, in a program of any kind.

    with twisted_kafka.Broker() as broker:
        producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap_servers)

In a program with a reactor, `twisted_kafka.service.BrokerService` is the same as a Twisted service.
"""

import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from twisted.logger import Logger

from twisted_kafka.broker.kafka_server import Assembly, StartError, StartInterruptedError
from twisted_kafka.broker.main_reactor import MainReactor
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.endpoints import EndPoint
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.timing.clock import IClock, SystemClock

__all__ = ["Broker", "StartError", "StartInterruptedError"]

_log = Logger()

_LOCAL_LISTENER: Final = "PLAINTEXT://127.0.0.1:0"


class Broker:
    """A Kafka broker with a metadata store of its own.

    `properties` are settings by Kafka's names. Without `config` they are completed for a broker that lives inside a program: it
    listens on a free port of 127.0.0.1, groups form without delay, the internal topics have few partitions, and there is an
    access log only if `access.log.dir` says where. What it stores lies in `data_dir`, or in a temporary directory that goes
    with it, at the end of the program at the latest. A setting that is None has its default. `reactor` is the application's:
    `start` and `stop` are then to be called as BrokerService does.

    Brokers are independent of each other; a process may have several. A broker is started once.
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
    ) -> None:
        """Take the settings; raise ConfigError for a bad one.

        ``on_fatal`` is told in one line why the broker cannot go on (all its directories failed, say), and has to `stop` it;
        without one it stops by itself.
        """
        if config is not None and (properties is not None or data_dir is not None):
            raise TypeError("a broker is given a config, or properties and a data_dir")
        self._clock = clock if clock is not None else SystemClock()
        self._reactor = reactor
        self._remove_temporary: Callable[[], object] = _nothing
        if config is None:
            settings = {key: _setting(value) for key, value in (properties or {}).items() if value is not None}
            if data_dir is None and not ("log.dirs" in settings or "log.dir" in settings):
                data_dir = tempfile.mkdtemp(prefix="twisted-kafka-")
                # Also for a broker that is never started, or not stopped before the program ends.
                self._remove_temporary = weakref.finalize(self, _remove, data_dir, os.getpid())
            if data_dir is not None:
                settings["log.dirs"] = str(Path(data_dir).absolute() / "log")
            settings.setdefault("listeners", _LOCAL_LISTENER)
            config = self._checked(settings)
        self._assembly = Assembly(config, self._clock, on_fatal if on_fatal is not None else self._give_up)
        self._main: MainReactor | None = None
        self._lock = threading.Lock()
        self._is_running = False

    def _checked(self, settings: Mapping[str, str]) -> KafkaConfig:
        try:
            return KafkaConfig.embedded(settings)
        except BaseException:
            self._remove_temporary()
            raise

    def start(self) -> None:
        """Start all parts and serve; raise StartError, one line, after which nothing is left running."""
        with self._lock:
            if self._main is not None:
                raise RuntimeError("a broker is started only once: make another one")
            self._main = MainReactor(self._reactor, self._clock)
        try:
            self._assembly.start(self._main)
            self._is_running = True
        except BaseException:
            self._main.stop()
            self._remove_temporary()
            raise

    def interrupt_start(self) -> None:
        """Have a start that goes on, in another thread or below a signal handler, raise StartInterruptedError soon."""
        self._assembly.interrupt_start()

    def stop(self) -> None:
        """Stop in order: no new requests, answer those under way, write everything down; harmless when it does not run."""
        with self._lock:
            was_running, self._is_running = self._is_running, False
        if not was_running or self._main is None:
            return
        try:
            self._assembly.stop()
        finally:
            self._main.stop()
            self._remove_temporary()

    def _give_up(self, why: str) -> None:
        _log.critical("{why}", why=why)
        # Not on the caller's thread, which is one of those that are stopped.
        threading.Thread(target=self.stop, name="kafka-fatal-shutdown").start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.stop()

    @property
    def is_running(self) -> bool:
        """Whether it is started and not stopped."""
        return self._is_running

    @property
    def config(self) -> KafkaConfig:
        """Its settings."""
        return self._assembly.config

    @property
    def broker_id(self) -> int:
        """Its number in the cluster."""
        return self._assembly.config.broker_id

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""
        return self._assembly.cluster_id

    @property
    def metrics(self) -> MetricsRegistry:
        """Its metrics."""
        return self._assembly.metrics

    @property
    def listeners(self) -> list[EndPoint]:
        """Where it listens, with the ports that it really has."""
        return self._assembly.listeners

    @property
    def bootstrap_servers(self) -> str:
        """Its addresses as clients want them: host:port of the first listener, and of others with the same security protocol.

        The listener of the control plane is no address for clients.
        """
        bound = {end_point.listener_name: end_point for end_point in self.listeners}
        bound.pop(self.config.control_plane_listener_name or "", None)
        ordered = [bound[each.listener_name] for each in self.config.listeners if each.listener_name in bound]
        alike = [each for each in ordered if each.security_protocol == ordered[0].security_protocol]
        return ",".join(f"{_reachable(end_point.host)}:{end_point.port}" for end_point in alike)

    @property
    def supported_apis(self) -> dict[int, tuple[int, int]]:
        """First and last version of every API that it serves, by key."""
        return self._assembly.supported_apis


def _nothing() -> None: ...


def _remove(directory: str, process_id: int) -> None:
    # A process that was forked from this one has the same brokers at its end, and the directory is not its own.
    if os.getpid() == process_id:
        shutil.rmtree(directory, ignore_errors=True)


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
