"""The brokers of a cluster for development, and their ZooKeeper, as one Twisted service of processes."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from twisted.application import service
from twisted.internet.defer import CancelledError, Deferred, DeferredList
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure
from typing_extensions import override

from twisted_kafka.config.errors import ConfigError
from twisted_kafka.system.interpreter import MEMORY_SETTINGS
from twisted_kafka.tools.cluster.child import Child
from twisted_kafka.tools.cluster.plan import HOST, BrokerPlan, ClusterError, choose_ports, plan_brokers
from twisted_kafka.tools.cluster.readiness import known_brokers, zookeeper_serves
from twisted_kafka.tools.cluster.zookeeper_server import ZooKeeperNotFoundError, find_java, find_zookeeper

_log = Logger()

LOOK_S: Final = 0.1
START_TIMEOUT_S: Final = 120.0
STOP_TIMEOUT_S: Final = 30.0
"""After that, processes are killed."""
_ZOOKEEPER_TICK_MS: Final = 1000


@dataclass(frozen=True)
class ClusterSettings:
    """The operator's choices."""

    brokers: int
    directory: Path
    first_port: int = 9092
    """The first of the brokers' consecutive ports; 0: any free ports."""
    zookeeper: str | None = None
    """The ``zookeeper.connect`` of a running ZooKeeper; None to start one."""
    zookeeper_port: int = 2181
    """The port of the ZooKeeper to start; 0: any free port."""
    zookeeper_home: Path | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    """Settings of all brokers, with Kafka's names."""


class ClusterService(service.Service):
    """Starts the processes with the application, says when they are ready, and stops them with it.

    ``on_failed`` is called with one line when the start fails: then the caller stops the reactor.
    """

    name = "kafka-cluster"

    def __init__(self, settings: ClusterSettings, reactor: Any, on_failed: Callable[[str], object]) -> None:
        self._settings = settings
        self._reactor = reactor
        self._on_failed = on_failed
        self._zookeeper: Child | None = None
        self._brokers: list[Child] = []
        self._starting: Deferred[None] | None = None
        self._is_stopping = False

    @override
    def startService(self) -> None:
        """Start as soon as the reactor runs."""
        super().startService()  # type: ignore[no-untyped-call]
        self._reactor.callWhenRunning(self._begin)

    @override
    def stopService(self) -> "Deferred[None]":
        """Stop the brokers together, then ZooKeeper; kill each process that does not end in time."""
        super().stopService()  # type: ignore[no-untyped-call]
        self._is_stopping = True
        if self._starting is not None:
            self._starting.cancel()
        return Deferred.fromCoroutine(self._stop())

    def _begin(self) -> None:
        self._starting = Deferred.fromCoroutine(self._start())
        self._starting.addErrback(self._failed)

    def _failed(self, failure: Failure) -> None:
        self._starting = None
        if isinstance(failure.value, CancelledError) and self._is_stopping:
            return
        if not isinstance(failure.value, ClusterError | ZooKeeperNotFoundError | ConfigError | OSError):
            _log.failure("The cluster did not start", failure)
        self._on_failed(str(failure.value))

    async def _start(self) -> None:
        settings = self._settings
        address = settings.zookeeper
        if address is None:
            address = await self._start_zookeeper()
        ports = choose_ports(settings.first_port, settings.brokers)
        plans = plan_brokers(ports, settings.directory, address, settings.properties)
        for plan in plans:
            self._start_broker(plan)
        for plan, child in zip(plans, self._brokers, strict=True):
            await self._wait_for_broker(plan, child, len(plans))
        self._starting = None
        _log.info("Ready: bootstrap.servers={servers}", servers=",".join(plan.address for plan in plans))

    async def _start_zookeeper(self) -> str:
        settings = self._settings
        server = find_zookeeper(settings.zookeeper_home)
        (port,) = choose_ports(settings.zookeeper_port, 1)
        home = settings.directory / "zookeeper"
        home.mkdir(parents=True, exist_ok=True)
        properties = home / "zookeeper.properties"
        properties.write_text(
            f"dataDir={home / 'data'}\nclientPort={port}\nclientPortAddress={HOST}\ntickTime={_ZOOKEEPER_TICK_MS}\n"
            "maxClientCnxns=0\n4lw.commands.whitelist=srvr\nautopurge.purgeInterval=1\n",
            encoding="utf-8",
        )
        child = self._zookeeper = Child("ZooKeeper", server.command(find_java(), properties), home / "output.log")
        self._run(child)
        _log.info(
            "ZooKeeper of {origin} on {host}:{port}, pid {pid}, in {home}",
            origin=server.origin,
            host=HOST,
            port=port,
            pid=child.pid,
            home=home,
        )
        await self._until(child, lambda: zookeeper_serves(self._reactor, HOST, port))
        return f"{HOST}:{port}"

    def _start_broker(self, plan: BrokerPlan) -> None:
        plan.write_settings()
        child = Child(f"Broker {plan.id}", serve_command(plan.settings_file), plan.directory / "output.log")
        self._brokers.append(child)
        self._run(child)
        _log.info(
            "Broker {id} on {address}, pid {pid}, in {home}", id=plan.id, address=plan.address, pid=child.pid, home=plan.directory
        )

    async def _wait_for_broker(self, plan: BrokerPlan, child: Child, count: int) -> None:
        # A cluster on a ZooKeeper that is named may have more brokers.
        await self._until(child, lambda: known_brokers(self._reactor, HOST, plan.port).addCallback(lambda known: known >= count))

    async def _until(self, child: Child, is_ready: Callable[[], "Deferred[bool]"]) -> None:
        """Wait until a child is ready; raise ClusterError if it ends, or after START_TIMEOUT_S."""
        deadline = self._reactor.seconds() + START_TIMEOUT_S
        while not await is_ready():
            if child.has_ended:
                raise ClusterError(f"{child.name} ended with {child.status}: {child.last_line()} (all of it: {child.output})")
            if self._reactor.seconds() > deadline:
                raise ClusterError(f"{child.name} was not ready in {START_TIMEOUT_S:g} s: see {child.output}")
            await deferLater(self._reactor, LOOK_S)

    def _run(self, child: Child) -> None:
        child.start(self._reactor, MEMORY_SETTINGS)
        child.ended().addCallback(self._tell_of_end, child)

    def _tell_of_end(self, _: None, child: Child) -> None:
        if not self._is_stopping:
            _log.warn("{name} ended with {status}: see {output}", name=child.name, status=child.status, output=child.output)

    async def _stop(self) -> None:
        await self._end(self._brokers)
        if self._zookeeper is not None:
            await self._end([self._zookeeper])

    async def _end(self, children: list[Child]) -> None:
        for child in children:
            child.signal("TERM")
        all_ended = DeferredList([child.ended() for child in children])
        late = self._reactor.callLater(STOP_TIMEOUT_S, self._kill, children)
        await all_ended
        if late.active():
            late.cancel()

    def _kill(self, children: list[Child]) -> None:
        for child in children:
            if not child.has_ended:
                _log.warn("{name} did not stop in {seconds} s: it is killed", name=child.name, seconds=STOP_TIMEOUT_S)
                child.signal("KILL")


def serve_command(settings_file: Path) -> list[str]:
    """Return the command of a broker with these settings."""
    return [sys.executable, "-m", "twisted_kafka.tools.main", "serve", "--config", str(settings_file)]
