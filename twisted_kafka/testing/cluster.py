"""Several brokers in one process that are a cluster, for tests: each replicates, leads, and can go and come back.

with Cluster(brokers=3) as cluster:
    cluster.create_topic("orders", replication_factor=3)
    ...  # clients connect to cluster.bootstrap_servers
    cluster.kill(cluster.leader_of("orders"))
    cluster.wait_for_leader("orders")
"""

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from typing_extensions import override

from twisted_kafka.broker.temporary_directory import make_temporary_directory
from twisted_kafka.metadata.shared import new_connect, share, unshare
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.administration.partitions import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ElectLeadersRequestTopicPartitions,
    ReassignablePartition,
    ReassignableTopic,
)
from twisted_kafka.protocol.messages.coordinators.groups import FindCoordinatorRequest
from twisted_kafka.protocol.messages.metadata import MetadataRequest
from twisted_kafka.protocol.topic_partition import GROUP_METADATA_TOPIC
from twisted_kafka.recording.replay import Replay, Report
from twisted_kafka.testing.arguments import check_text, check_whole
from twisted_kafka.testing.broker import Broker, settings_of
from twisted_kafka.testing.clock import Clock
from twisted_kafka.testing.fault_rules.faults import Faults, Rule
from twisted_kafka.testing.fault_rules.rules_file import Rules, checked_faults, read_rules
from twisted_kafka.testing.kafka import REQUEST_TIMEOUT_S, BrokerError, Kafka, check
from twisted_kafka.testing.recorded.requests import Requests
from twisted_kafka.testing.recorded.subjects import groups_of, partitions_of
from twisted_kafka.testing.waiting import WAIT_S, check_may_block
from twisted_kafka.timing.clock import SystemClock

__tracebackhide__ = True

MAX_BROKERS: Final = 20
_MOST_COPIES: Final = 3
_LISTENER: Final = "PLAINTEXT://127.0.0.1:{port}"
_METADATA: Final = "metadata"
_TRANSACTION: Final = 1
"""The key type of FindCoordinator for transactional ids."""
_FOR_CONTROLLER: Final = (
    *(ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.ELECT_LEADERS),
    *(ApiKey.ALTER_PARTITION_REASSIGNMENTS, ApiKey.LIST_PARTITION_REASSIGNMENTS, ApiKey.UPDATE_FEATURES),
)
_FOR_TRANSACTIONS: Final = (ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN)
_NO_BROKER: Final = "no broker of the cluster runs: use it inside its with block, or start one with start_broker"


class Cluster(Kafka):
    """Brokers 1 to N, with one clock and one metadata store.

    ``cluster[2]`` is one broker, whether it runs or not: its ``faults`` count before the cluster's, and it can ``stop``, ``start``,
    be ``killed`` and be ``down`` alone. Iteration and ``len`` are about the running brokers.
    """

    def __init__(
        self,
        brokers: int = 3,
        properties: Mapping[str, object] | None = None,
        *,
        clock: Clock | None = None,
        rules: Rules | None = None,
        port: int = 0,
        **settings: object,
    ) -> None:
        """Check the settings, which are each broker's; raise ConfigError or ValueError for bad ones.

        ``settings`` are further ones, with ``_`` for a dot: ``num_partitions=3``. ``rules`` are fault rules that are in force from
        the start, or a file of them. ``port`` is the first broker's, the others
        have the next ones; 0 takes free ones.
        """
        self._rules = read_rules(rules)
        check_whole("number of brokers", brokers)
        if not 1 <= brokers <= MAX_BROKERS:
            raise ValueError(f"brokers={brokers}: expected 1 to {MAX_BROKERS}")
        self.faults = checked_faults(self._rules, nodes=lambda: range(1, brokers + 1))
        properties = {**(properties or {}), **settings_of(settings, "Cluster")}
        for key in ("broker.id", "listeners", "log.dirs", "zookeeper.connect"):
            if key in properties:
                raise ValueError(f"{key} is the cluster's to set")
        self.clock = clock if clock is not None else Clock()
        self.made_ns = self.clock.monotonic_ns()
        self.network = Faults()
        self.requests = Requests()
        copies = min(_MOST_COPIES, brokers)
        self._connect = new_connect()
        self._process_id = os.getpid()
        self._is_sharing = self._is_starting = self._is_closed = False
        self._directory, self._remove = make_temporary_directory(self)
        shared = {
            "default.replication.factor": copies,
            "min.insync.replicas": min(2, copies),
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": min(2, copies),
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": min(2, copies),
            "controlled.shutdown.retry.backoff.ms": 100,
            **properties,
        }
        self._each: dict[int, Broker] = {}
        self._cut_off: list[int] = []
        try:
            for broker_id in range(1, brokers + 1):
                listener = _LISTENER.format(port=port and port + broker_id - 1)
                connect = f"{self._connect}@{broker_id}"
                own = {**shared, "broker.id": broker_id, "listeners": listener, "zookeeper.connect": connect}
                self._each[broker_id] = Broker(own, data_dir=self._home(broker_id), clock=self.clock, cluster=self)
        except BaseException:
            self._remove()
            raise

    def _home(self, broker_id: int) -> Path:
        return self._directory / f"broker-{broker_id}"

    @override
    def start(self) -> None:
        self._start_again(self._each)

    @override
    def _start_again(self, broker_ids: Collection[int]) -> None:
        if self._is_closed:
            raise RuntimeError("the cluster is closed, and its data is gone: make another one, or stop() instead of close()")
        if not self._is_sharing:
            (self._directory / _METADATA).mkdir(exist_ok=True)
            share(self._connect, self.clock, self._directory / _METADATA / "tree.db")
            self._is_sharing = True
        self.requests.open()
        self._is_starting = True
        try:
            for broker_id in broker_ids:
                if not self._each[broker_id].is_running:
                    self._each[broker_id].start()
            self._is_starting = False
            self.settle()
            self._wait(self._out_of_sync, lambda seen: not seen, "all replicas in sync", WAIT_S)
        except BaseException:
            self.stop()
            raise

    @override
    def stop(self) -> None:
        if self.is_forked:
            return
        for broker in self._each.values():
            if broker.is_running:
                broker.stop(moves_leaders=False)  # which nobody needs any more
        if self._is_sharing:
            unshare(self._connect)
            self._is_sharing = False
        self.requests.close()

    @override
    def close(self) -> None:
        if self.is_forked:
            return
        self.faults.clear()
        self.stop()
        for broker in self._each.values():
            broker.faults.clear()
        self._is_closed = True
        self._remove()

    @property
    @override
    def is_closed(self) -> bool:
        return self._is_closed

    @override
    def __repr__(self) -> str:
        state = "closed" if self._is_closed else f"{len(self)} of {len(self._each)} brokers run"
        where = ",".join(broker.bootstrap_servers for broker in self) if len(self) else ""
        return f"<Cluster {f'{where}, ' if where else ''}{state}>"

    @override
    def clear_state(self) -> None:
        super().clear_state()
        for broker in self._each.values():
            broker.clear_state()

    @override
    def _check_own_data(self) -> None:
        """The directories are the cluster's own."""

    @override
    def _directories(self) -> list[Path]:
        return [self._directory / _METADATA, *(self._home(broker_id) / "log" for broker_id in self._each)]

    def __iter__(self) -> Iterator[Broker]:
        return iter(list(self.brokers.values()))

    def __len__(self) -> int:
        return len(self.brokers)

    def __getitem__(self, broker_id: int) -> Broker:
        """Return a broker, with its requests and faults. Raises KeyError, which lists the brokers."""
        if broker_id not in self._each:
            raise KeyError(f"there is no broker {broker_id!r}, only {sorted(self._each)}")
        return self._each[broker_id]

    @property
    @override
    def nodes(self) -> Mapping[int, Broker]:
        return self._each

    @property
    @override
    def brokers(self) -> Mapping[int, Broker]:
        return {broker_id: broker for broker_id, broker in self._each.items() if broker.is_running}

    @property
    @override
    def bootstrap_servers(self) -> str:
        """The addresses for clients: host:port of each running broker, or of all of them if none runs."""
        return ",".join(broker.bootstrap_servers for broker in (self.brokers or self._each).values())

    @property
    @override
    def diagnoses(self) -> list[str]:
        return [line for broker in self._each.values() for line in broker.diagnoses]

    @override
    def told(self, count: int = 20) -> str:
        """Return clients' last requests to each broker, also to stopped ones, a line each."""
        lines = []
        for broker_id, broker in self._each.items():
            gone = "" if broker.is_running else ", which does not run"
            asked = [each for each in self.requests.snapshot() if each.node == broker_id][-count:]
            lines.append(f"broker {broker_id}{gone}:" + ("" if asked else " no requests"))
            lines += map(str, asked)
        return "\n".join(lines)

    # Brokers that go and come

    def kill(self, broker_id: int) -> None:
        """End a broker without notice (``Broker.kill``); the others see its session and connections end."""
        self._running(broker_id).kill()

    def stop_broker(self, broker_id: int) -> None:
        """Stop a broker as an operator does: it first gives up its leaderships (``controlled.shutdown.enable``)."""
        self._running(broker_id).stop()

    def start_broker(self, broker_id: int) -> Broker:
        """Start a stopped broker, with its address and data."""
        broker = self[broker_id]
        if broker.is_running:
            raise RuntimeError(f"broker {broker_id} runs")
        if not self._is_sharing:
            raise RuntimeError(
                "the cluster does not run: start() it, or use it inside its with block, and a fixture in its own test"
            )
        broker.start()
        return broker

    @contextlib.contextmanager
    def cut_off(self, broker_id: int, *, incoming: bool = True, outgoing: bool = True, metadata: bool = False) -> Iterator[None]:
        """Cut a broker off from the other brokers for a ``with`` block; clients still reach all of them.

        Requests of the others to it wait (``incoming``), and its requests to them (``outgoing``), until the block ends. With
        ``metadata``, its session with the metadata store ends, too: the controller takes it for dead until the block ends.
        """
        broker = self._running(broker_id)
        rules = [Rule(sender=broker_id, hold_request=True)] if outgoing else []
        if incoming:
            rules += [Rule(node=broker_id, sender=other, hold_request=True) for other in self._each if other != broker_id]
        faults = [self.network.add(rule) for rule in rules]
        self._cut_off.append(broker_id)
        if metadata:
            broker.session.expire()
        try:
            yield
        finally:
            for fault in faults:
                self.network.remove(fault)
            self._cut_off.remove(broker_id)
            if metadata and broker.is_running:
                broker.session.renew()

    def _running(self, broker_id: int) -> Broker:
        if broker_id not in self.brokers:
            raise KeyError(f"broker {broker_id!r} does not run; these do: {sorted(self.brokers)}")
        return self._each[broker_id]

    @override
    def any(self) -> Broker:
        for broker in self._connected:
            return broker
        raise BrokerError(self._why_not_running() if self.is_forked else _NO_BROKER)

    @override
    def leader(self, topic: str, partition: int = 0) -> Broker:
        self._check_known(topic, partition)
        return self[self._led_by(topic, partition, WAIT_S)]

    @override
    def coordinator(self, group: str) -> Broker:
        found = [-1]

        def coordinators() -> int:
            found[0] = self.coordinator_id(group)
            return found[0]

        self._wait(coordinators, lambda seen: seen in self.brokers, f"a coordinator of group {group!r}", WAIT_S)
        return self[found[0]]

    @override
    def controller(self) -> Broker:
        """Wait until all brokers report the same controller, and return it. Raises TimeoutError."""
        self.any()
        found: list[int] = []

        def controllers() -> list[int]:
            found[:] = [broker.controller_id() for broker in self._connected]
            return found

        self._wait(controllers, lambda seen: len(set(seen)) == 1 and self._acts(seen[0]), "a controller", WAIT_S)
        return self[found[0]]

    @override
    def replay(self, path: Path | str, timeout_s: float = 30.0) -> Report:
        return Replay(*self.any().address, SystemClock(), timeout_s, _Router(self).address_for).run(path)

    # Partitions

    def leader_of(self, topic: str, partition: int = 0) -> int | None:
        """Return the id of a partition's leader; None if it has no leader. Raises BrokerError for an unknown partition."""
        leader = self.partition_state(topic, partition).leader_id
        return None if leader < 0 else int(leader)

    def isr_of(self, topic: str, partition: int = 0) -> list[int]:
        """Return the ids of the replicas that are in sync, sorted. Raises BrokerError for an unknown partition."""
        return sorted(self.partition_state(topic, partition).isr_nodes)

    def elect(self, topic: str, partition: int = 0) -> None:
        """Make the preferred replica, the first one, the leader again. Raises BrokerError if it cannot lead."""
        wanted = ElectLeadersRequestTopicPartitions(topic=topic, partitions=[partition])
        answer = self.controller().ask(ElectLeadersRequest(topic_partitions=[wanted], timeout_ms=int(REQUEST_TIMEOUT_S * 1000)))
        for found in answer.replica_election_results[0].partition_result if answer.replica_election_results else ():
            if found.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                check(found.error_code, f"no election for {topic}-{partition}", found.error_message)

    def move_leader(self, topic: str, partition: int = 0, to: int | None = None) -> int:
        """Make another running broker the leader of a partition, which becomes the preferred replica; return its id.

        By default, the next replica that is in sync. A broker without a replica gets one, in the place of the last one; that waits
        until it is in sync. Raises BrokerError and TimeoutError.
        """
        self._check_known(topic, partition)
        old, state = self._led_by(topic, partition, WAIT_S), self.partition_state(topic, partition)
        replicas = list(state.replica_nodes)
        others = [each for each in replicas if each != old and each in state.isr_nodes and each in self.brokers]
        if to is None and not others:
            raise BrokerError(f"{topic}-{partition} cannot move: no other replica is in sync, only {sorted(state.isr_nodes)}")
        new = others[0] if to is None else self._running(to).broker_id
        kept = [each for each in replicas if each != new]
        wanted = [new, *(kept if new in replicas else kept[:-1] if len(kept) > 1 else [])]
        self._reassign(topic, partition, wanted)
        self._wait(
            lambda: (list(self.partition_state(topic, partition).replica_nodes), self.isr_of(topic, partition)),
            lambda seen: seen[0] == wanted and new in seen[1],
            f"{topic}-{partition} on {wanted}",
            WAIT_S,
        )
        self.elect(topic, partition)
        self._wait(lambda: self._led_by(topic, partition, WAIT_S), lambda seen: seen == new, f"{new} as its leader", WAIT_S)
        return new

    def move_coordinator(self, group: str, to: int | None = None) -> int:
        """Make another running broker the coordinator of a group, as ``move_leader`` does; return its id."""
        partition = self.coordinator(group).embedded.partition_of_group(group)
        new = self.move_leader(GROUP_METADATA_TOPIC, partition, to)
        self._wait(lambda: self.coordinator_id(group), lambda seen: seen == new, f"{new} as coordinator of {group!r}", WAIT_S)
        return new

    def _reassign(self, topic: str, partition: int, replicas: list[int]) -> None:
        wanted = ReassignableTopic(name=topic, partitions=[ReassignablePartition(partition_index=partition, replicas=replicas)])
        request = AlterPartitionReassignmentsRequest(topics=[wanted], timeout_ms=int(REQUEST_TIMEOUT_S * 1000))
        answer = self.controller().ask(request)
        check(answer.error_code, f"{topic}-{partition} cannot move", answer.error_message)
        for found in answer.responses[0].partitions if answer.responses else ():
            check(found.error_code, f"{topic}-{partition} cannot move to {replicas}", found.error_message)

    def wait_for_leader(self, topic: str, partition: int = 0, timeout_s: float = WAIT_S) -> int:
        """Wait until all brokers report the same running leader of a partition; return its id. Raises TimeoutError."""
        check_may_block("kafka.wait_for_leader")
        return self._led_by(topic, partition, timeout_s)

    def _check_known(self, topic: str, partition: int) -> None:
        """Raise BrokerError if no broker knows a partition: nobody is about to lead it."""
        check_text("topic", topic)
        check_whole("partition", partition)
        self.any()
        states = []
        for broker in self._connected:
            try:
                broker.partition_state(topic, partition)
            except BrokerError as error:
                states.append(error)
            else:
                return
        raise states[0]

    def _led_by(self, topic: str, partition: int, timeout_s: float) -> int:
        self.any()
        found: list[int | None] = []

        def leaders() -> list[int | None]:
            found[:] = [_leader_seen_by(broker, topic, partition) for broker in self._connected]
            return found

        def is_one(seen: list[int | None]) -> bool:
            return len(set(seen)) == 1 and self._acts(seen[0])

        self._wait(leaders, is_one, f"a leader of {topic}-{partition}", timeout_s)
        assert found[0] is not None
        return found[0]

    def wait_for_isr(self, topic: str, partition: int, brokers: Iterable[int], timeout_s: float = WAIT_S) -> None:
        """Wait until exactly these replicas of a partition are in sync. Raises TimeoutError, which says which were."""
        check_may_block("kafka.wait_for_isr")
        wanted = sorted(brokers)
        self._wait(
            lambda: self.isr_of(topic, partition),
            lambda seen: seen == wanted,
            f"{topic}-{partition} in sync on {wanted}",
            timeout_s,
        )

    @override
    def settle(self) -> None:
        """Wait until all brokers that are connected report the same brokers, topics and leaders. Raises TimeoutError."""
        if self._is_starting:
            return
        connected = {broker.broker_id for broker in self._connected}

        def agree(seen: list[_Seen]) -> bool:
            return all(each == seen[0] and connected <= set(each.brokers) <= set(self.brokers) for each in seen)

        self._wait(lambda: [_seen_by(broker) for broker in self._connected], agree, "brokers that report the same", WAIT_S)

    @property
    def _connected(self) -> list[Broker]:
        """The running brokers that are neither frozen nor cut off; all running ones if no such broker exists."""
        running = list(self)
        return [each for each in running if not each.is_frozen and each.broker_id not in self._cut_off] or running

    def _acts(self, broker_id: int | None) -> bool:
        """Whether a broker runs and is not frozen."""
        return broker_id is not None and broker_id in self.brokers and not self._each[broker_id].is_frozen

    def _out_of_sync(self) -> list[str]:
        """Return the partitions of which a replica on a running broker is not in sync."""
        running = set(self.brokers)
        return [
            f"{topic.name}-{each.partition_index}"
            for topic in self.any().ask(MetadataRequest(topics=None)).topics
            for each in topic.partitions
            if not running.intersection(each.replica_nodes) <= set(each.isr_nodes)
        ]


class _Seen(NamedTuple):
    """The brokers and leaders that a broker reports to clients."""

    brokers: list[int]
    leaders: list[tuple[str, int, int]]


def _seen_by(broker: Broker) -> _Seen:
    answer = broker.ask(MetadataRequest(topics=None))
    leaders = [(topic.name, each.partition_index, each.leader_id) for topic in answer.topics for each in topic.partitions]
    return _Seen(sorted(each.node_id for each in answer.brokers), sorted(leaders))


def _leader_seen_by(broker: Broker, topic: str, partition: int) -> int | None:
    with contextlib.suppress(BrokerError):
        state = broker.partition_state(topic, partition)
        return None if state.error_code == ErrorCode.LEADER_NOT_AVAILABLE else int(state.leader_id)
    return None


class _Router:
    """Finds the broker that has to answer a replayed request: the first partition's leader, the coordinator, or the controller."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._fetched_from: dict[int, Broker] = {}

    def address_for(self, connection: int, request: Message) -> tuple[str, int]:
        """Return the address for a request of a recorded connection."""
        if request.KEY == ApiKey.FETCH:
            # A session belongs to one broker, and its further requests name only what changes.
            if getattr(request, "session_epoch", 0) <= 0 or connection not in self._fetched_from:
                self._fetched_from[connection] = self._broker_for(request)
            return self._fetched_from[connection].address
        return self._broker_for(request).address

    def _broker_for(self, request: Message) -> Broker:
        cluster = self._cluster
        if request.KEY in _FOR_CONTROLLER:
            return cluster.controller()
        if request.KEY in _FOR_TRANSACTIONS:
            named = [getattr(request, name, None) for name in ("transactional_id", "v3_and_below_transactional_id")]
            for transactional_id in filter(None, named):
                return self._coordinator_of(transactional_id)
        for group in groups_of(request):
            return cluster.coordinator(group)
        topics = {topic.topic_id: topic for topic in cluster.any().ask(MetadataRequest(topics=None)).topics}
        counts = {topic.name: len(topic.partitions) for topic in topics.values()}
        for name, partition in partitions_of(request, lambda topic_id: topics[topic_id].name if topic_id in topics else None):
            if partition is not None and partition < counts.get(name, 0):
                return cluster.leader(name, partition)
        return cluster.any()

    def _coordinator_of(self, transactional_id: str) -> Broker:
        request = FindCoordinatorRequest(key=transactional_id, key_type=_TRANSACTION)
        found = [-1]

        def look() -> int:
            found[0] = int(self._cluster.any().ask(request).node_id)
            return found[0]

        self._cluster.wait_for(look, lambda seen: seen in self._cluster.brokers, f"a coordinator of {transactional_id!r}", WAIT_S)
        return self._cluster[found[0]]
