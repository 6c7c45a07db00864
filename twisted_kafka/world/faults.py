"""Faults from a seed: how many of each kind a test allows, when they happen, and to whom."""

from collections.abc import Callable, Collection, Mapping, Sequence
from random import Random
from typing import Final, NamedTuple, TypedDict

from twisted_kafka.world.machine.disk import Disk
from twisted_kafka.world.machine.network import Host, Network
from twisted_kafka.world.machine.scheduler import FIRST_NS
from twisted_kafka.world.processes import BrokerProcess, Process
from twisted_kafka.world.trace import Trace

SHARE_OF_SLOT: Final = 0.6
"""A fault lasts at most this share of its slot, so that faults do not overlap: a cluster of three survives one at a time."""
QUIET_SHARE: Final = 0.2
"""The last part of a run has no faults, so that everything can recover."""
SHORTEST_S: Final = 0.05
MAX_CLOCK_ERROR_MS: Final = 60_000


class Numbers(TypedDict, total=False):
    """How many faults of each kind a run may have."""

    kills: int
    crashes_with_power_loss: int
    pauses: int
    partitions: int
    clock_errors: int
    full_disks: int
    slow_disks: int
    stalled_disks: int
    failing_disks: int
    short_transfers: int
    bad_blocks: int
    program_kills: int
    program_pauses: int


_KIND_OF: Final = {
    "kills": "kill",
    "crashes_with_power_loss": "power loss",
    "pauses": "pause",
    "partitions": "partition",
    "clock_errors": "clock",
    "full_disks": "full",
    "slow_disks": "slow",
    "stalled_disks": "stalled",
    "failing_disks": "failing",
    "short_transfers": "short",
    "bad_blocks": "bad block",
}
_OF_PROGRAMS: Final = {"program_kills": "kill", "program_pauses": "pause"}


class Budget(NamedTuple):
    """Which faults a run may have."""

    kinds: Sequence[str] = ()
    """A kind of ``KINDS`` for each fault of a broker."""
    program_kinds: Sequence[str] = ()
    """The same for programs."""
    programs: Sequence[Process] = ()
    longest_s: float = 20.0
    """How long one fault lasts at most."""

    @classmethod
    def of(cls, numbers: Numbers, programs: Sequence[Process], longest_s: float) -> "Budget":
        """Make one of the arguments of ``World.faults``. Raises TypeError for an unknown kind, ValueError without programs."""
        unknown = numbers.keys() - _KIND_OF.keys() - _OF_PROGRAMS.keys()
        if unknown:
            raise TypeError(f"there are no faults {', '.join(sorted(unknown))}: expected {', '.join([*_KIND_OF, *_OF_PROGRAMS])}")
        wanted: Mapping[str, int] = numbers  # type: ignore[assignment]
        kinds = [kind for name, kind in _KIND_OF.items() for _ in range(wanted.get(name, 0))]
        of_programs = [kind for name, kind in _OF_PROGRAMS.items() for _ in range(wanted.get(name, 0))]
        if of_programs and not programs:
            raise ValueError("program_kills and program_pauses need programs=[...]")
        return cls(kinds, of_programs, programs, longest_s)


class Fault(NamedTuple):
    """One fault of a plan."""

    number: int
    """Its place in the plan: the same in each run of a seed."""
    kind: str
    begins_ns: int
    """Virtual time."""
    lasts_ns: int
    process: Process
    amount: int
    """Of a partition: 0 cuts both directions, 1 sending, 2 receiving. Of a clock: its error in ms."""

    @property
    def at_s(self) -> float:
        """When it begins, in virtual seconds since the world began."""
        return (self.begins_ns - FIRST_NS) / 1e9

    @property
    def text(self) -> str:
        """What happens, in words."""
        name, seconds = self.process.name, self.lasts_ns / 1e9
        return KINDS[self.kind].format(name=name, seconds=seconds, way=_WAYS[self.amount % 3], amount=self.amount)


KINDS: Final = {
    "kill": "kill {name} for {seconds:.3f} s",
    "power loss": "take the power from {name} for {seconds:.3f} s",
    "pause": "pause {name} for {seconds:.3f} s",
    "partition": "cut {name} off for {seconds:.3f} s, {way}",
    "clock": "set the clock of {name} wrong by {amount} ms for {seconds:.3f} s",
    "full": "fill the disk of {name} for {seconds:.3f} s",
    "slow": "slow down the disk of {name} for {seconds:.3f} s",
    "stalled": "stall the disk of {name} for {seconds:.3f} s",
    "failing": "let calls to the disk of {name} fail for {seconds:.3f} s",
    "short": "let the disk of {name} transfer parts for {seconds:.3f} s",
    "bad block": "spoil a block of the disk of {name} for {seconds:.3f} s",
}
"""The kinds of faults, in words."""
_WAYS: Final = ("in both directions", "as far as it sends", "as far as it receives")


def make_plan(
    budget: Budget, brokers: Sequence[BrokerProcess], span_ns: tuple[int, int], random: Random, first_number: int
) -> list[Fault]:
    """Return the faults of a run from one virtual time to another, one after the other."""
    kinds: list[tuple[str, Sequence[Process]]] = [(kind, brokers) for kind in budget.kinds]
    kinds += [(kind, budget.programs) for kind in budget.program_kinds]
    if not kinds:
        return []
    random.shuffle(kinds)
    begin_ns, end_ns = span_ns
    slot_ns = int((end_ns - begin_ns) * (1 - QUIET_SHARE)) // len(kinds)
    plan = []
    for index, (kind, processes) in enumerate(kinds):
        longest_ns = int(min(budget.longest_s * 1e9, slot_ns * SHARE_OF_SLOT))
        lasts_ns = random.randint(min(int(SHORTEST_S * 1e9), longest_ns), longest_ns)
        at_ns = begin_ns + index * slot_ns + random.randint(0, slot_ns - lasts_ns)
        amount = random.randrange(3) if kind == "partition" else random.randint(-MAX_CLOCK_ERROR_MS, MAX_CLOCK_ERROR_MS)
        plan.append(Fault(first_number + index, kind, at_ns, lasts_ns, random.choice(processes), amount))
    return plan


class Injector:
    """Begins and ends faults."""

    def __init__(self, network: Network, trace: Trace, peers: Callable[[BrokerProcess], Collection[Host]]) -> None:
        """``peers`` returns the hosts from which a partition cuts a broker off."""
        self._network = network
        self._trace = trace
        self._peers = peers
        self._disks: dict[int, Disk] = {}
        """The disks of the faults of disks that have begun."""

    def begin(self, fault: Fault) -> None:
        """Let it happen."""
        process = fault.process
        self._trace.note("fault", fault.text)
        if fault.kind == "kill":
            process.kill()
        elif fault.kind == "pause":
            process.pause()
        elif fault.kind == "clock":
            process.clock.error_ns += fault.amount * 1_000_000
        elif fault.kind == "partition":
            self._link(fault, self._network.cut)
        elif fault.kind == "power loss":
            self._broker(fault).lose_power()
        elif (disk := self._broker(fault).disk) is not None:
            self._disks[fault.number] = disk
            where = disk.begin(fault.kind)
            if where:
                self._trace.note(process.name, f"cannot read {where}")

    @staticmethod
    def _broker(fault: Fault) -> BrokerProcess:
        assert isinstance(fault.process, BrokerProcess)
        return fault.process

    def end(self, fault: Fault) -> None:
        """Let it be over."""
        process = fault.process
        self._trace.note("fault", f"over: {fault.text}")
        if fault.kind in ("kill", "power loss"):
            if not process.is_running:
                process.start()
        elif fault.kind == "pause":
            process.resume()
        elif fault.kind == "clock":
            process.clock.error_ns -= fault.amount * 1_000_000
        elif fault.kind == "partition":
            self._link(fault, self._network.mend)
        else:
            self._disks.pop(fault.number).end(fault.kind)

    def _link(self, fault: Fault, act: Callable[[Host, Host], None]) -> None:
        host = fault.process.host
        for peer in self._peers(self._broker(fault)):
            if fault.amount % 3 != 2:
                act(host, peer)
            if fault.amount % 3 != 1:
                act(peer, host)
