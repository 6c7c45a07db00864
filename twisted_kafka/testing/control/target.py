"""The controlled broker or cluster as handlers see it: brokers by id, leaders and coordinators."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from twisted_kafka.system import machine
from twisted_kafka.testing.broker import Broker
from twisted_kafka.testing.clock import Clock
from twisted_kafka.testing.cluster import Cluster
from twisted_kafka.testing.control.errors import ControlError
from twisted_kafka.testing.fault_rules.faults import Faults, Rule
from twisted_kafka.testing.fault_rules.injection import Fault

if TYPE_CHECKING:
    from twisted_kafka.testing.registry.schema_registry import SchemaRegistry

CHANGE_TIMEOUT_S: Final = 60.0
"""How long a change of the brokers waits for another one."""


class Target:
    """One broker, or the running brokers of a cluster."""

    def __init__(self, served: Broker | Cluster, registry: "SchemaRegistry | None" = None) -> None:
        self._served = served
        self._registry = registry
        self._changing = machine.Lock()
        self.is_closed = False
        """Whether the listener has stopped, so that waits have no reader."""

    @property
    def kafka(self) -> Broker | Cluster:
        """The broker or cluster that is controlled."""
        return self._served

    @property
    def registry(self) -> "SchemaRegistry":
        """The schema registry. Raises ControlError if the target has no registry."""
        if self._registry is None:
            raise ControlError(409, "no schema registry runs: start test-server with --schema-registry")
        return self._registry

    @property
    def registry_url(self) -> str | None:
        """The address of the schema registry; None without one."""
        return None if self._registry is None else self._registry.url

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
        return self._served.brokers

    def broker(self, broker_id: int) -> Broker:
        """Return a running broker. Raises ControlError."""
        brokers = self.brokers()
        if broker_id not in brokers:
            raise ControlError(404, f"no broker {broker_id} runs: expected one of {', '.join(map(str, sorted(brokers))) or 'none'}")
        return brokers[broker_id]

    def node(self, broker_id: int) -> Broker:
        """Return a broker, whether it runs or not. Raises ControlError."""
        nodes = self._served.nodes
        if broker_id not in nodes:
            raise ControlError(404, f"there is no broker {broker_id}: expected one of {', '.join(map(str, sorted(nodes)))}")
        return nodes[broker_id]

    def faults(self, broker_id: int | None) -> Faults:
        """Return the faults of one broker, or those for all brokers. Raises ControlError."""
        return self._served.faults if broker_id is None else self.broker(broker_id).faults

    def each_fault(self) -> Iterator[tuple[int | None, Faults, Fault[Rule]]]:
        """Yield each fault in force with its broker; None stands for all brokers."""
        for fault in self._served.faults:
            yield None, self._served.faults, fault
        if isinstance(self._served, Cluster):
            for broker_id, broker in self.brokers().items():
                for fault in broker.faults:
                    yield broker_id, broker.faults, fault

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
            if self._registry is not None:
                self._registry.clear_state()
