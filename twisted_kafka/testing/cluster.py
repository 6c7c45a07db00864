"""Several brokers in one process that are a cluster, for tests: each replicates, leads, and can go and come back.

with Cluster(brokers=3) as cluster:
    cluster.create_topic("orders", replication_factor=3)
    ...  # clients connect to cluster.bootstrap_servers
    cluster.kill(cluster.leader_of("orders"))
    cluster.wait_for_leader("orders")
"""

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from twisted_kafka.broker.temporary_directory import make_temporary_directory
from twisted_kafka.log.directories.log_directory import CLEAN_SHUTDOWN_FILE
from twisted_kafka.metadata.shared import share, unshare
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.records.record import Record
from twisted_kafka.testing.broker import Broker, BrokerError
from twisted_kafka.testing.clock import Clock
from twisted_kafka.testing.faults import Faults
from twisted_kafka.testing.groups import lag_of
from twisted_kafka.testing.requests import Requests
from twisted_kafka.testing.rules_file import Rules, read_rules

MAX_BROKERS: Final = 20
_MOST_COPIES: Final = 3
_WAIT_S: Final = 15.0
_OWN_CLIENT: Final = re.compile(r"broker-\d+-")
_LISTENER: Final = "PLAINTEXT://127.0.0.1:{port}"


class Cluster:
    """Brokers 1 to N, with one clock and one metadata store.

    ``faults`` are about requests to each of them; ``cluster[2].faults`` are one broker's, and count first.
    They share a process, so that none can be paused alone or cut off from the network: ``twisted-kafka cluster`` has processes.
    """

    def __init__(
        self,
        brokers: int = 3,
        properties: Mapping[str, object] | None = None,
        *,
        clock: Clock | None = None,
        rules: Rules | None = None,
        port: int = 0,
    ) -> None:
        """Check the settings, which are each broker's; raise ConfigError or ValueError for bad ones.

        ``rules`` are fault rules that are in force from the start, or a file of them. ``port`` is the first broker's, the others
        have the next ones; 0 takes free ones.
        """
        self._rules = read_rules(rules)
        self.faults = Faults(self._rules)
        if not 1 <= brokers <= MAX_BROKERS:
            raise ValueError(f"brokers={brokers}: expected 1 to {MAX_BROKERS}")
        for key in ("broker.id", "listeners", "log.dirs", "zookeeper.connect"):
            if key in (properties or {}):
                raise ValueError(f"{key} is the cluster's to set")
        self.clock = clock if clock is not None else Clock()
        copies = min(_MOST_COPIES, brokers)
        self._properties = {
            "default.replication.factor": copies,
            "min.insync.replicas": min(2, copies),
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": min(2, copies),
            "controlled.shutdown.retry.backoff.ms": 100,
            **(properties or {}),
        }
        self._ports = {broker_id: port and port + broker_id - 1 for broker_id in range(1, brokers + 1)}
        self._connect = ""
        self._brokers: dict[int, Broker] = {}
        self._requests: dict[int, Requests] = {}
        self._directory: Path | None = None
        self._remove: Callable[[], object] = _nothing

    def start(self) -> None:
        """Start all brokers, and wait until each knows of the others. Raises StartError, one line."""
        self._directory, self._remove = make_temporary_directory(self)
        self._connect = share(self.clock)
        try:
            for broker_id in self._ports:
                self.start_broker(broker_id)
            self._wait_for_brokers()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop all, and remove the data. Harmless when it does not run."""
        for broker_id in list(self._brokers):
            self._end(broker_id)  # without moving leaderships, which nobody needs any more
        unshare(self._connect)
        self._connect = ""
        self._remove()

    def reset(self) -> None:
        """Return to the state at the start, at the same addresses, with all brokers. It takes as long as a start."""
        self.faults.clear()
        self.stop()
        self.clock.reset()
        for rule in self._rules:
            self.faults.add(rule)
        self.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for clients: host:port of each running broker."""
        return ",".join(broker.bootstrap_servers for broker in self._brokers.values())

    def __iter__(self) -> Iterator[Broker]:
        return iter(list(self._brokers.values()))

    def __len__(self) -> int:
        return len(self._brokers)

    def __getitem__(self, broker_id: int) -> Broker:
        """Return a running broker, with its requests and faults. Raises KeyError, which lists the running brokers."""
        if broker_id not in self._brokers:
            raise KeyError(f"broker {broker_id} does not run; these do: {sorted(self._brokers)}")
        return self._brokers[broker_id]

    def told(self, count: int = 20) -> str:
        """Return clients' last requests to each broker, including stopped ones, a line each; without requests of brokers."""
        lines = []
        for broker_id, requests in sorted(self._requests.items()):
            gone = "" if broker_id in self._brokers else ", which does not run"
            asked = [each for each in requests.snapshot() if not _OWN_CLIENT.match(each.client_id or "")][-count:]
            lines.append(f"broker {broker_id}{gone}:" + ("" if asked else " no requests"))
            lines += map(str, asked)
            lines += self._brokers[broker_id].diagnoses if broker_id in self._brokers else []
        return "\n".join(lines)

    # Brokers that go and come

    def kill(self, broker_id: int) -> None:
        """End a broker without notice; the others see its session and connections end.

        When it starts again, it recovers its logs as after a crash, and has everything that it had written.
        """
        self[broker_id]
        self._end(broker_id)
        assert self._directory is not None
        (self._home(broker_id) / "log" / CLEAN_SHUTDOWN_FILE).unlink(missing_ok=True)

    def stop_broker(self, broker_id: int) -> None:
        """Stop a broker as an operator does: it first gives up its leaderships (``controlled.shutdown.enable``)."""
        self[broker_id].stop()
        del self._brokers[broker_id]

    def start_broker(self, broker_id: int) -> Broker:
        """Start a stopped broker, with its address and data."""
        if broker_id not in self._ports:
            raise KeyError(f"there is no broker {broker_id}, only {sorted(self._ports)}")
        if broker_id in self._brokers:
            raise RuntimeError(f"broker {broker_id} runs")
        if not self._connect:
            raise RuntimeError("the cluster does not run: use it inside its with block, and a fixture in its own test")
        properties = {
            **self._properties,
            "zookeeper.connect": self._connect,
            "broker.id": broker_id,
            "listeners": _LISTENER.format(port=self._ports[broker_id]),
        }
        broker = Broker(properties, data_dir=self._home(broker_id), clock=self.clock, cluster_faults=self.faults)
        broker.start()
        self._ports[broker_id] = int(broker.bootstrap_servers.rpartition(":")[2])
        self._brokers[broker_id], self._requests[broker_id] = broker, broker.requests
        return broker

    def _home(self, broker_id: int) -> Path:
        assert self._directory is not None, "the cluster has not started"
        return self._directory / f"broker-{broker_id}"

    def _end(self, broker_id: int) -> None:
        broker = self._brokers.pop(broker_id)
        config = broker.embedded.config
        config.adopt(config.updated({"controlled.shutdown.enable": "false"}))
        broker.stop()

    # Partitions

    def create_topic(self, topic: str, partitions: int = 1, replication_factor: int = -1, **config: object) -> str:
        """Create a topic, with Kafka's topic settings, ``_`` for ``.``, and wait until it has leaders; return its name."""
        self._controller().create_topic(topic, partitions, replication_factor=replication_factor, **config)
        for partition in range(partitions):
            self.wait_for_leader(topic, partition)
        return topic

    def leader_of(self, topic: str, partition: int = 0) -> int | None:
        """Return the id of a partition's leader; None if it has no leader. Raises BrokerError for an unknown partition."""
        leader = self._state(topic, partition).leader_id
        return None if leader < 0 else int(leader)

    def isr_of(self, topic: str, partition: int = 0) -> list[int]:
        """Return the ids of the replicas that are in sync, sorted. Raises BrokerError for an unknown partition."""
        return sorted(self._state(topic, partition).isr_nodes)

    def elect(self, topic: str, partition: int = 0) -> None:
        """Make the preferred replica, the first one, the leader again. Raises BrokerError if it cannot lead."""
        self._controller().elect_preferred(topic, partition)

    def produce(self, topic: str, values: Iterable[bytes | str], *, key: bytes | None = None, partition: int = 0) -> int:
        """Append records through the partition's leader, acks=all; return the offset of the first one. Raises BrokerError."""
        return self.leader(topic, partition).produce(topic, values, key=key, partition=partition)

    def records(self, topic: str, partition: int | None = None) -> list[Record]:
        """Return the leader's records up to the high watermark, of all partitions or of one. Raises BrokerError."""
        wanted = self.partitions(topic) if partition is None else [partition]
        return [record for index in wanted for record in self.leader(topic, index).records(topic, index)]

    def wait_for_leader(self, topic: str, partition: int = 0, timeout_s: float = _WAIT_S) -> int:
        """Wait until all brokers report the same running leader of a partition; return its id. Raises TimeoutError."""

        def leaders() -> list[int | None]:
            return [self._leader_seen_by(broker, topic, partition) for broker in self]

        self._wait(
            leaders, lambda seen: len(set(seen)) == 1 and seen[0] in self._brokers, f"a leader of {topic}-{partition}", timeout_s
        )
        found = self.leader_of(topic, partition)
        assert found is not None
        return found

    def wait_for_isr(self, topic: str, partition: int, brokers: Iterable[int], timeout_s: float = _WAIT_S) -> None:
        """Wait until exactly these replicas of a partition are in sync. Raises TimeoutError, which says which were."""
        wanted = sorted(brokers)
        self._wait(
            lambda: self.isr_of(topic, partition),
            lambda seen: seen == wanted,
            f"{topic}-{partition} in sync on {wanted}",
            timeout_s,
        )

    # Groups

    def coordinator(self, group: str) -> Broker:
        """Wait until a broker coordinates the group, and return it. Raises TimeoutError."""
        found = [-1]

        def coordinators() -> int:
            found[0] = self._any().coordinator_id(group)
            return found[0]

        self._wait(coordinators, lambda seen: seen in self._brokers, f"a coordinator of group {group!r}", _WAIT_S)
        return self[found[0]]

    def lag(self, group: str, topic: str | None = None) -> int | None:
        """Return how many records a group still has to read (``Broker.lag``)."""
        return lag_of(self.coordinator(group).committed(group), topic, self)

    # Offsets, as ``lag_of`` asks for them

    def partitions(self, topic: str) -> list[int]:
        """Return the numbers of a topic's partitions, sorted. Raises BrokerError."""
        return self._any().partitions(topic)

    def start_offset(self, topic: str, partition: int = 0) -> int:
        """Return the offset of the first record that is still there. Raises BrokerError."""
        return self.leader(topic, partition).start_offset(topic, partition)

    def end_offset(self, topic: str, partition: int = 0) -> int:
        """Return the offset after the last record. Raises BrokerError."""
        return self.leader(topic, partition).end_offset(topic, partition)

    def _wait_for_brokers(self) -> None:
        everyone = set(self._brokers)
        self._wait(
            lambda: [set(broker.broker_ids()) for broker in self],
            lambda seen: all(each == everyone for each in seen),
            "all brokers known to each",
            _WAIT_S,
        )

    def _wait(self, look: Callable[[], Any], is_there: Callable[[Any], bool], wanted: str, timeout_s: float) -> None:
        self._any().wait_for(look, is_there, wanted, timeout_s)

    def _leader_seen_by(self, broker: Broker, topic: str, partition: int) -> int | None:
        with contextlib.suppress(BrokerError, StopIteration):
            state = broker.partition_state(topic, partition)
            return None if state.error_code == ErrorCode.LEADER_NOT_AVAILABLE else int(state.leader_id)
        return None

    def _state(self, topic: str, partition: int) -> Any:
        return self._any().partition_state(topic, partition)

    def leader(self, topic: str, partition: int = 0) -> Broker:
        """Wait until a partition has a leader, and return that broker. Raises BrokerError and TimeoutError."""
        return self[self.wait_for_leader(topic, partition)]

    def _controller(self) -> Broker:
        """Wait until all brokers report the same controller, and return it."""

        def controllers() -> list[int]:
            return [broker.controller_id() for broker in self]

        self._wait(controllers, lambda seen: len(set(seen)) == 1 and seen[0] in self._brokers, "a controller", _WAIT_S)
        return self[controllers()[0]]

    def _any(self) -> Broker:
        if not self._brokers:
            raise BrokerError("no broker of the cluster runs: use it inside its with block, or start one with start_broker")
        return next(iter(self._brokers.values()))


def _nothing() -> None: ...
