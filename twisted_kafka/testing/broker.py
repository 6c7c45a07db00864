"""A broker under test, with its clock, its faults, its requests, and records without a client.

with Broker() as broker:
    broker.create_topic("orders")
    ...  # clients connect to broker.bootstrap_servers
    broker.wait_for_offset("orders", 0, 3)
    assert [record.value for record in broker.records("orders")] == [b"1", b"2", b"3"]
"""

import contextlib
import difflib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from typing_extensions import override

from twisted_kafka.broker.broker import Broker as EmbeddedBroker
from twisted_kafka.broker.personas import persona_of
from twisted_kafka.broker.temporary_directory import make_temporary_directory
from twisted_kafka.client.errors import NotAResponseError
from twisted_kafka.client.one_request import ask
from twisted_kafka.config.endpoints import PLAINTEXT
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.config.prefixes import base_key, similar_key
from twisted_kafka.log.directories.log_directory import CLEAN_SHUTDOWN_FILE
from twisted_kafka.metadata.shared import SharedStore, session_of
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.messages.administration.acls import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from twisted_kafka.protocol.messages.administration.configs import IncrementalAlterConfigsRequest
from twisted_kafka.protocol.messages.administration.partitions import AlterPartitionReassignmentsRequest, ElectLeadersRequest
from twisted_kafka.protocol.messages.administration.scram import AlterUserScramCredentialsRequest
from twisted_kafka.protocol.messages.administration.topics import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest
from twisted_kafka.protocol.messages.coordinators.consumer_groups import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from twisted_kafka.protocol.messages.coordinators.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    ListGroupsRequest,
)
from twisted_kafka.protocol.messages.coordinators.offsets import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from twisted_kafka.protocol.messages.fetch import FetchRequest
from twisted_kafka.protocol.messages.list_offsets import ListOffsetsRequest
from twisted_kafka.protocol.messages.metadata import MetadataRequest
from twisted_kafka.protocol.messages.produce import ProduceRequest
from twisted_kafka.protocol.messages.share.share_groups import ShareGroupDescribeRequest
from twisted_kafka.protocol.messages.share.share_offsets import DescribeShareGroupOffsetsRequest
from twisted_kafka.protocol.messages.streams.streams_groups import StreamsGroupDescribeRequest
from twisted_kafka.recording.replay import Replay, Report
from twisted_kafka.testing.clock import Clock
from twisted_kafka.testing.fault_rules.faults import Faults, Rule
from twisted_kafka.testing.fault_rules.injection import Fault
from twisted_kafka.testing.fault_rules.interception import OWN_CLIENT_ID, Interceptor
from twisted_kafka.testing.fault_rules.rules_file import Rules, checked_faults, read_rules
from twisted_kafka.testing.kafka import REQUEST_TIMEOUT_S, BrokerError, Kafka
from twisted_kafka.testing.recorded.requests import Requests
from twisted_kafka.timing.clock import SystemClock

__all__ = ["Broker", "BrokerError"]
__tracebackhide__ = True

_VERSIONS: Final[dict[type[Message], int]] = {
    ProduceRequest: 7,
    FetchRequest: 11,
    ListOffsetsRequest: 5,
    MetadataRequest: 10,
    CreateTopicsRequest: 4,
    DescribeGroupsRequest: 4,
    OffsetFetchRequest: 5,
    ElectLeadersRequest: 1,
    DeleteTopicsRequest: 4,
    ListGroupsRequest: 4,
    FindCoordinatorRequest: 3,
    ConsumerGroupDescribeRequest: 0,
    ConsumerGroupHeartbeatRequest: 0,
    AlterPartitionReassignmentsRequest: 0,
    AlterUserScramCredentialsRequest: 0,
    CreateAclsRequest: 1,
    CreatePartitionsRequest: 1,
    DeleteAclsRequest: 1,
    DescribeAclsRequest: 1,
    DeleteGroupsRequest: 1,
    IncrementalAlterConfigsRequest: 0,
    OffsetCommitRequest: 7,
    OffsetDeleteRequest: 0,
    ShareGroupDescribeRequest: 1,
    StreamsGroupDescribeRequest: 1,
    DescribeShareGroupOffsetsRequest: 1,
}
"""Versions that every persona from 2.8 on serves; consumer and share groups' are used only where they are served."""


class Broker(Kafka):
    """A broker in its own temporary directory, with its own rules, requests and clock."""

    def __init__(
        self,
        properties: Mapping[str, object] | None = None,
        *,
        data_dir: Path | str | None = None,
        clock: Clock | None = None,
        persona: str | None = None,
        rules: Rules | None = None,
        cluster: Kafka | None = None,
        **settings: object,
    ) -> None:
        """Check ``properties``, by Kafka's names; raise ConfigError for an invalid one and for one that looks misspelt.

        ``settings`` are further ones, with ``_`` for a dot: ``num_partitions=3``. ``rules`` are fault rules that are in force from
        the start, or a file of them. Raises RulesError for invalid ones.
        ``cluster`` is for a Cluster: its rules count after the broker's own, and it gets a copy of the requests.
        """
        properties = {**(properties or {}), **settings_of(settings, "Broker")}
        _check_names(properties)
        self._rules = read_rules(rules)
        self._last_servers = ""  # for while it is stopped
        self.clock = clock if clock is not None else Clock()
        self.made_ns = self.clock.monotonic_ns() if cluster is None else cluster.made_ns
        served = None if persona is None else persona_of(persona).served.get
        self.faults = checked_faults(self._rules, served, lambda: [self.broker_id] if self._last_servers else [])
        self.requests = Requests(None if cluster is None else cluster.requests)
        self._cluster = cluster
        self.network = Faults() if cluster is None else cluster.network
        self._each_faults = (self.network, self.faults) if cluster is None else (self.network, self.faults, cluster.faults)
        self._frozen: list[Fault[Rule]] = []
        self._properties = dict(properties)
        self._data_dir = data_dir
        self._persona = persona
        self._process_id = os.getpid()
        self._was_started = self._is_closed = False
        self._remove: Callable[[], object] = _nothing
        self._is_temporary = data_dir is None and {"log.dir", "log.dirs"}.isdisjoint(self._properties)
        if self._is_temporary:  # its own, so that it outlives the broker in it
            self._data_dir, self._remove = make_temporary_directory(self)
        try:
            self._embed()
        except BaseException:
            self._remove()
            raise

    def _embed(self) -> None:
        self._interceptor = Interceptor(self._each_faults, self.requests, self.clock, lambda: self.broker_id, self.made_ns)
        self._broker = EmbeddedBroker(
            self._properties, data_dir=self._data_dir, clock=self.clock, persona=self._persona, interceptor=self._interceptor
        )

    @override
    def start(self) -> None:
        if self.is_running:
            raise RuntimeError("the broker runs already: a with block and the fixtures start it")
        if self.is_closed:
            raise RuntimeError("the broker is closed, and its data is gone: make another one, or stop() instead of close()")
        if self._was_started:
            self._embed()
        self._was_started = True
        try:
            with self._passing_time():
                self._broker.start()
        except BaseException:
            if not self._last_servers and self._cluster is None:  # else a later start may succeed, with the data
                self.close()
            raise
        self._properties["listeners"] = ",".join(each.text for each in self._broker.listeners)
        self._last_servers = self._broker.bootstrap_servers
        self.requests.open()
        self.settle()

    @override
    def stop(self, *, moves_leaders: bool = True) -> None:
        """Stop as an operator does. The data, the addresses, the rules and the clock stay. Harmless when it does not run.

        In a cluster, the broker first gives up its leaderships, unless ``moves_leaders`` is false.
        """
        if self.is_forked:
            return
        if not moves_leaders:
            config = self._broker.config
            config.adopt(config.updated({"controlled.shutdown.enable": "false"}))
        self.thaw()
        # Held requests first: a delayed answer must not keep a connection's last request open.
        for faults in self._each_faults:
            faults.drop_held(self._interceptor)
        with self._passing_time():
            self._interceptor.stop()
            self._broker.stop()
        self.requests.close()

    def kill(self) -> None:
        """End without notice to others, as after ``kill -9``; a start recovers the logs, with everything that was written."""
        if not self.is_running:
            raise RuntimeError(self._why_not_running())
        self.stop(moves_leaders=False)
        for directory in self._directories():
            (directory / CLEAN_SHUTDOWN_FILE).unlink(missing_ok=True)

    def freeze(self) -> None:
        """Stand still, as after ``kill -STOP``: connections stay open, and requests wait until ``thaw``.

        In a cluster, the others miss the broker at once: its session with the metadata store ends.
        """
        if not self.is_running:
            raise RuntimeError(self._why_not_running())
        if self._frozen:
            return
        self._frozen = [self.network.add(Rule(node=self.broker_id, hold_request=True))]
        self._interceptor.frozen = self._frozen[0]
        if self._cluster is not None:
            self._frozen.append(self.network.add(Rule(sender=self.broker_id, hold_request=True)))
            self.session.expire()

    def thaw(self) -> None:
        """Go on after ``freeze``, with the requests that have waited. Harmless otherwise."""
        frozen, self._frozen = self._frozen, []
        self._interceptor.frozen = None
        for fault in frozen:
            self.network.remove(fault)
        if frozen and self._cluster is not None:
            self.session.renew()

    @property
    @override
    def is_closed(self) -> bool:
        return self._is_closed or (self._cluster is not None and self._cluster.is_closed)

    @property
    def is_frozen(self) -> bool:
        """Whether it was frozen and has not thawed."""
        return bool(self._frozen)

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Be frozen for a ``with`` block."""
        self.freeze()
        try:
            yield
        finally:
            self.thaw()

    @property
    def session(self) -> SharedStore:
        """Its session with the metadata store of its cluster."""
        return session_of(str(self._properties["zookeeper.connect"]))

    @override
    def close(self) -> None:
        if self.is_forked:
            return
        if self._cluster is not None:
            raise ValueError("one broker of a cluster is not closed: stop() or kill() it, or close the cluster")
        self.faults.clear()
        self.stop()
        self.clock.release()
        self._is_closed = True
        self._remove()

    @contextlib.contextmanager
    def _passing_time(self) -> Iterator[None]:
        """Let time pass for a ``with`` block: starting and stopping take some."""
        was_held = self.clock.is_held
        self.clock.release()
        try:
            yield
        finally:
            if was_held:
                self.clock.hold()

    @override
    def _check_own_data(self) -> None:
        if self._cluster is not None:
            raise ValueError("one broker of a cluster is not reset: reset the cluster")
        if not self._is_temporary:
            raise ValueError("a broker with a directory of its own is not reset: it has data that was there before")

    @override
    def _directories(self) -> list[Path]:
        return [Path(each) for each in self._broker.config.log_dirs]

    @override
    def __repr__(self) -> str:
        state = "closed" if self.is_closed else "frozen" if self.is_frozen else "" if self.is_running else "stopped"
        if not self._last_servers:
            return "<Broker not started>"
        return f"<Broker {self.broker_id} {self._last_servers}{f', {state}' if state else ''}>"

    @property
    @override
    def nodes(self) -> Mapping[int, "Broker"]:
        return {self.broker_id: self}

    @property
    @override
    def brokers(self) -> Mapping[int, "Broker"]:
        return {self.broker_id: self} if self.is_running else {}

    @property
    @override
    def is_running(self) -> bool:
        return self._broker.is_running

    @property
    def broker_id(self) -> int:
        """Its id (broker.id)."""
        return self._broker.broker_id

    @property
    @override
    def bootstrap_servers(self) -> str:
        if not (servers := self._broker.bootstrap_servers or self._last_servers):
            raise RuntimeError(self._why_not_running())
        return servers

    @property
    def embedded(self) -> EmbeddedBroker:
        """The broker itself, with its configuration and metrics."""
        return self._broker

    @property
    @override
    def diagnoses(self) -> list[str]:
        return self._broker.diagnoses

    @override
    def leader(self, topic: str, partition: int = 0) -> "Broker":
        """Return this broker."""
        return self

    @override
    def coordinator(self, group: str) -> "Broker":
        """Return this broker."""
        return self

    @override
    def controller(self) -> "Broker":
        """Return this broker."""
        return self

    @override
    def any(self) -> "Broker":
        """Return this broker."""
        return self

    def broker_ids(self) -> list[int]:
        """Return the sorted ids of the brokers that this one reports to clients."""
        return sorted(each.node_id for each in self.ask(MetadataRequest(topics=[])).brokers)

    def controller_id(self) -> int:
        """Return the id of the controller that this broker reports to clients; -1 if it knows no controller."""
        return int(self.ask(MetadataRequest(topics=[])).controller_id)

    @override
    def settle(self) -> None:
        """Wait until the other brokers of the cluster agree, if there are any. Raises TimeoutError."""
        if self._cluster is not None:
            self._cluster.settle()

    @override
    def replay(self, path: Path | str, timeout_s: float = 30.0) -> Report:
        return Replay(*self.address, SystemClock(), timeout_s).run(path)

    def ask(self, request: Message) -> Any:
        """Send a request of the kit over its own connection, as any client would; return the response. Raises BrokerError."""
        version = _VERSIONS[type(request)]
        try:
            return ask(self.address, request, version, OWN_CLIENT_ID, REQUEST_TIMEOUT_S)
        except NotAResponseError:
            what = f"{type(request).__name__} v{version}"
            raise BrokerError(f"the broker closed the connection instead of answering {what}") from None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of a listener in plain text. Raises RuntimeError unless it runs, and BrokerError if it has none."""
        if not self.is_running:
            raise RuntimeError(self._why_not_running())
        for end_point in self._broker.listeners:
            if (
                end_point.security_protocol == PLAINTEXT
                and end_point.listener_name != self._broker.config.control_plane_listener_name
            ):
                host, _, port = self._broker.servers_of(end_point.listener_name).rpartition(":")
                return host.strip("[]"), int(port)
        raise BrokerError("the kit's own requests need a PLAINTEXT listener: add PLAINTEXT://127.0.0.1:0 to listeners")

    def servers_of(self, listener: str) -> str:
        """Return host:port of a listener, by its name as in ``listeners``. Raises ValueError, which names the listeners."""
        return self._broker.servers_of(listener)


def _nothing() -> None: ...


def settings_of(named: Mapping[str, object], what: str) -> dict[str, object]:
    """Return settings by Kafka's names, from arguments with ``_`` for a dot. Raises TypeError, one line, for other arguments."""
    found: dict[str, object] = {}
    for name, value in named.items():
        key = name if "." in name else name.replace("_", ".")
        if base_key(key) is None:
            if name == "port":
                raise TypeError(f"{what} has no 'port': expected listeners='PLAINTEXT://127.0.0.1:{value}'")
            near = difflib.get_close_matches(name, _ARGUMENTS, 1) or [each.replace(".", "_") for each in [similar_key(key)] if each]
            advice = f"did you mean {near[0]!r}?" if near else "expected Kafka's settings, as in num_partitions=3"
            raise TypeError(f"{what} has no {name!r}: {advice}")
        found[key] = value
    return found


_ARGUMENTS: Final = ("properties", "data_dir", "clock", "persona", "rules", "brokers", "port")


def _check_names(properties: Mapping[str, object]) -> None:
    """Raise ConfigError for an unknown setting that looks like one of Kafka's. Other unknown settings may be a plug-in's."""
    for name in properties:
        if base_key(name) is None and (near := similar_key(name)):
            raise ConfigError(f"There is no setting {name!r}: did you mean {near!r}?")
