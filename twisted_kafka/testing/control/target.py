"""The controlled broker or cluster as handlers see it: brokers by id, leaders and coordinators."""

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import Final

from twisted_kafka.testing.broker import Broker
from twisted_kafka.testing.clock import Clock
from twisted_kafka.testing.cluster import Cluster
from twisted_kafka.testing.control.errors import ControlError
from twisted_kafka.testing.faults import Fault, Faults

CHANGE_TIMEOUT_S: Final = 60.0
"""How long a change of the brokers waits for another one."""


class Target:
    """One broker, or the running brokers of a cluster."""

    def __init__(self, served: Broker | Cluster) -> None:
        self._served = served
        self._changing = threading.Lock()
        self.is_closed = False
        """Whether the listener has stopped, so that waits have no reader."""

    @property
    def clock(self) -> Clock:
        """The clock of all brokers."""
        return self._served.clock

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for clients."""
        return self._served.bootstrap_servers

    def brokers(self) -> Mapping[int, Broker]:
        """Return the running brokers by id."""
        brokers = self._served if isinstance(self._served, Cluster) else (self._served,)
        return {broker.embedded.broker_id: broker for broker in brokers if broker.is_running}

    def broker(self, broker_id: int) -> Broker:
        """Return a running broker. Raises ControlError."""
        brokers = self.brokers()
        if broker_id not in brokers:
            raise ControlError(404, f"no broker {broker_id} runs: expected one of {', '.join(map(str, sorted(brokers))) or 'none'}")
        return brokers[broker_id]

    def any(self) -> Broker:
        """Return any running broker. Raises ControlError."""
        for broker in self.brokers().values():
            return broker
        raise ControlError(409, "no broker runs")

    def leader(self, topic: str, partition: int) -> Broker:
        """Return the broker that leads a partition. Raises BrokerError, and TimeoutError if none does soon."""
        return self._served.leader(topic, partition) if isinstance(self._served, Cluster) else self.any()

    def coordinator(self, group: str) -> Broker:
        """Return the broker that coordinates a group. Raises BrokerError, and TimeoutError if none does soon."""
        return self._served.coordinator(group) if isinstance(self._served, Cluster) else self.any()

    def cluster(self) -> Cluster:
        """Return the cluster. Raises ControlError if this is a single broker."""
        if not isinstance(self._served, Cluster):
            raise ControlError(409, "this is one broker, not a cluster: start test-server with --brokers 3")
        return self._served

    def faults(self, broker_id: int | None) -> Faults:
        """Return the faults of one broker, or those for all brokers. Raises ControlError."""
        return self._served.faults if broker_id is None else self.broker(broker_id).faults

    def each_fault(self) -> Iterator[tuple[int | None, Faults, Fault]]:
        """Yield each fault in force with its broker; None stands for all brokers."""
        for fault in self._served.faults:
            yield None, self._served.faults, fault
        if isinstance(self._served, Cluster):
            for broker_id, broker in self.brokers().items():
                for fault in broker.faults:
                    yield broker_id, broker.faults, fault

    def create_topic(self, name: str, partitions: int, replication_factor: int, config: Mapping[str, object]) -> None:
        """Create a topic, with Kafka's settings. Raises BrokerError."""
        self._served.create_topic(name, partitions, replication_factor, **config)

    def lag(self, group: str, topic: str | None) -> int | None:
        """Return how many records a group still has to read; None if it has committed nothing (``Broker.lag``)."""
        return self._served.lag(group, topic)

    @contextlib.contextmanager
    def changed(self) -> Iterator[None]:
        """Hold the right to stop and start brokers for a ``with`` block. Raises ControlError if the wait is too long."""
        if not self._changing.acquire(timeout=CHANGE_TIMEOUT_S):
            raise ControlError(503, f"brokers have been stopping and starting for {CHANGE_TIMEOUT_S:g} s")
        try:
            yield
        finally:
            self._changing.release()

    def reset(self) -> None:
        """Return to the state at the start, at the same addresses."""
        with self.changed():
            self._served.reset()
