"""Faults from a seed: how many of each kind a test allows, when they happen, and to whom."""

from collections.abc import Callable, Collection, Sequence
from random import Random
from typing import Final, NamedTuple

from twisted_kafka.world.machine.network import Host, Network
from twisted_kafka.world.machine.scheduler import FIRST_NS
from twisted_kafka.world.processes import BrokerProcess
from twisted_kafka.world.trace import Trace

SHARE_OF_SLOT: Final = 0.6
"""A fault lasts at most this share of its slot, so that faults do not overlap: a cluster of three survives one at a time."""
QUIET_SHARE: Final = 0.2
"""The last part of a run has no faults, so that everything can recover."""
SHORTEST_S: Final = 0.05
MAX_CLOCK_ERROR_MS: Final = 60_000


class Budget(NamedTuple):
    """How many faults of each kind a run may have."""

    kills: int = 0
    pauses: int = 0
    partitions: int = 0
    clock_errors: int = 0
    longest_s: float = 20.0
    """How long one fault lasts at most."""


class Fault(NamedTuple):
    """One fault of a plan."""

    number: int
    """Its place in the plan: the same in each run of a seed."""
    kind: str
    begins_ns: int
    """Virtual time."""
    lasts_ns: int
    broker: BrokerProcess
    amount: int
    """Of a partition: 0 cuts both directions, 1 sending, 2 receiving. Of a clock: its error in ms."""

    @property
    def at_s(self) -> float:
        """When it begins, in virtual seconds since the world began."""
        return (self.begins_ns - FIRST_NS) / 1e9

    @property
    def text(self) -> str:
        """What happens, in words."""
        name, seconds = self.broker.name, self.lasts_ns / 1e9
        return _TEXTS[self.kind].format(name=name, seconds=seconds, way=_WAYS[self.amount % 3], amount=self.amount)


_TEXTS: Final = {
    "kill": "kill {name} for {seconds:.3f} s",
    "pause": "pause {name} for {seconds:.3f} s",
    "partition": "cut {name} off for {seconds:.3f} s, {way}",
    "clock": "set the clock of {name} wrong by {amount} ms for {seconds:.3f} s",
}
_WAYS: Final = ("in both directions", "as far as it sends", "as far as it receives")


def make_plan(
    budget: Budget, brokers: Sequence[BrokerProcess], span_ns: tuple[int, int], random: Random, first_number: int
) -> list[Fault]:
    """Return the faults of a run from one virtual time to another, one after the other."""
    kinds = [
        *["kill"] * budget.kills,
        *["pause"] * budget.pauses,
        *["partition"] * budget.partitions,
        *["clock"] * budget.clock_errors,
    ]
    if not kinds:
        return []
    random.shuffle(kinds)
    begin_ns, end_ns = span_ns
    slot_ns = int((end_ns - begin_ns) * (1 - QUIET_SHARE)) // len(kinds)
    plan = []
    for index, kind in enumerate(kinds):
        longest_ns = int(min(budget.longest_s * 1e9, slot_ns * SHARE_OF_SLOT))
        lasts_ns = random.randint(min(int(SHORTEST_S * 1e9), longest_ns), longest_ns)
        at_ns = begin_ns + index * slot_ns + random.randint(0, slot_ns - lasts_ns)
        amount = random.randrange(3) if kind == "partition" else random.randint(-MAX_CLOCK_ERROR_MS, MAX_CLOCK_ERROR_MS)
        plan.append(Fault(first_number + index, kind, at_ns, lasts_ns, random.choice(brokers), amount))
    return plan


class Injector:
    """Begins and ends faults."""

    def __init__(self, network: Network, trace: Trace, peers: Callable[[BrokerProcess], Collection[Host]]) -> None:
        """``peers`` returns the hosts from which a partition cuts a broker off."""
        self._network = network
        self._trace = trace
        self._peers = peers

    def begin(self, fault: Fault) -> None:
        """Let it happen."""
        broker = fault.broker
        self._trace.note("fault", fault.text)
        if fault.kind == "kill":
            broker.kill()
        elif fault.kind == "pause":
            broker.pause()
        elif fault.kind == "clock":
            broker.clock.error_ns += fault.amount * 1_000_000
        else:
            self._link(fault, self._network.cut)

    def end(self, fault: Fault) -> None:
        """Let it be over."""
        broker = fault.broker
        self._trace.note("fault", f"over: {fault.text}")
        if fault.kind == "kill":
            if not broker.is_running:
                broker.start()
        elif fault.kind == "pause":
            broker.resume()
        elif fault.kind == "clock":
            broker.clock.error_ns -= fault.amount * 1_000_000
        else:
            self._link(fault, self._network.mend)

    def _link(self, fault: Fault, act: Callable[[Host, Host], None]) -> None:
        host = fault.broker.host
        for peer in self._peers(fault.broker):
            if fault.amount % 3 != 2:
                act(host, peer)
            if fault.amount % 3 != 1:
                act(peer, host)
