"""The seeded world: brokers, network, disks and users' programs in one process, from one number."""

import gc
import heapq
import shutil
import tempfile
from collections.abc import Callable, Collection, Coroutine, Mapping
from functools import partial
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from typing_extensions import Unpack

from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.testing.fault_rules.faults import Faults
from twisted_kafka.testing.fault_rules.interception import Interceptor
from twisted_kafka.testing.recorded.requests import Requests
from twisted_kafka.world.checking.checks import Checks
from twisted_kafka.world.checking.history import History
from twisted_kafka.world.checking.replicas import Replicas
from twisted_kafka.world.checking.watch import Watch
from twisted_kafka.world.faults import Budget, Fault, Injector, Numbers, make_plan
from twisted_kafka.world.machine.loop import put_away
from twisted_kafka.world.machine.network import Host, Network
from twisted_kafka.world.machine.scheduler import FIRST_NS, Scheduler
from twisted_kafka.world.machine.substitution import Substitution
from twisted_kafka.world.processes import PORT, BrokerProcess, Program, Surroundings
from twisted_kafka.world.trace import Trace
from twisted_kafka.world.zookeeper import SESSION_TIMEOUT_MS, ZooKeeper

T = TypeVar("T")

MAX_BROKERS: Final = 20
_SHM: Final = Path("/dev/shm")
_STEP_NS: Final = 1_000_000
"""How often a condition is checked, in virtual time."""
_LATER_STEP_NS: Final = 100_000_000
"""How often ``eventually`` checks after its first second: a check may read all logs."""
_SOON_NS: Final = 1_000_000_000
START_S: Final = 120.0
"""How long the brokers may take to start, in virtual time."""
_MOST_COPIES: Final = 3


class World:
    """From ``open`` to ``close``, everything that the calling thread and the world's processes do is simulated."""

    def __init__(
        self,
        seed: int = 0,
        brokers: int = 1,
        properties: Mapping[str, object] | None = None,
        *,
        pause_share: float = 0.0,
        only_faults: Collection[int] | None = None,
    ) -> None:
        """``properties`` are each broker's. With ``pause_share``, threads also change where they take a lock, so often (0 to 1).

        ``only_faults`` are the numbers of the faults of the plan that happen; all if None.
        """
        if not 1 <= brokers <= MAX_BROKERS:
            raise ValueError(f"brokers={brokers}: expected 1 to {MAX_BROKERS}")
        self.seed = seed
        self.brokers: list[BrokerProcess] = []
        self.programs: list[Program] = []
        self._count = brokers
        self._properties = dict(properties or {})
        self._pause_share = pause_share
        self._is_open = False
        self.plan: list[Fault] = []
        """The faults that the seed has planned so far."""
        self.happened: list[Fault] = []
        """The faults of the plan that have begun."""
        self._kept_faults = only_faults
        self._fault_random = Random(f"faults {seed}")
        self._budget = Budget()
        self._agenda: list[tuple[int, int, Callable[[], object]]] = []
        self._agenda_number = 0
        self._zookeeper: ZooKeeper | None = None

    # Opening and closing

    def open(self) -> None:
        """Start the brokers, and return when they serve."""
        if self._is_open:
            raise RuntimeError("the world is open already")
        self._directory = Path(tempfile.mkdtemp(prefix="kafka-world-", dir=_SHM if _SHM.is_dir() else None))
        self._scheduler = scheduler = Scheduler(self.seed, pause_share=self._pause_share)
        self.trace = trace = Trace(scheduler)
        trace.hide(str(self._directory), "DATA")
        self._network = network = Network(scheduler, self.seed, trace.note)
        scheduler.driver.put_away = put_away
        scheduler.test.host = network.add_host("test", "10.2.0.1")
        self._surroundings = Surroundings(scheduler, network, trace, self._directory, self.seed)
        self._injector = Injector(network, trace, self._peers_of)
        self._substitution = Substitution(scheduler, network, self.seed)
        self._was_collecting = gc.isenabled()
        gc.disable()  # what finalizers do must not depend on when they run
        self._substitution.enter()
        self._is_open = True
        self._history = History(lambda: scheduler.now_ns)
        self.kafka = Checks(self.seed, self._history, self._replicas, self._properties, self._count)
        """Whether the brokers keep Kafka's promises."""
        self._requests = Requests()
        self.rules = Faults(nodes=lambda: [each.number for each in self.brokers])
        """The testing kit's fault rules, for all brokers: ``with world.rules.inject(api="Produce", hold=True) as fault``."""
        try:
            self._start_brokers()
        except BaseException:
            self.close()
            raise

    def _start_brokers(self) -> None:
        self._zookeeper = None if self._count == 1 else ZooKeeper(self._scheduler, self._network, self.trace, self.seed)
        for number in range(1, self._count + 1):
            host = self._network.add_host(f"kafka-{number}", f"10.0.0.{number}")
            self.brokers.append(BrokerProcess(self._surroundings, host, number, self._settings(number), self._watch))
        for each in self.brokers:
            each.start()
        if not self._run_until(lambda: all(each.is_serving for each in self.brokers), START_S):
            raise TimeoutError(f"not all brokers have started: {self.brokers}")

    def _watch(self, broker: BrokerProcess) -> Watch:
        kit = Interceptor([self.rules], self._requests, broker.clock, lambda: broker.number, FIRST_NS)
        return Watch(kit, self._history, lambda: any(True for _ in self.rules))

    def _replicas(self) -> Replicas:
        """Return the present replicas of the brokers that serve."""
        directories = {each.number: each.log_directory for each in self.brokers if each.is_serving}
        return Replicas(directories, self.in_sync)

    def in_sync(self, partition: TopicPartition) -> list[int]:
        """Return the brokers of a partition's in-sync replicas, the leader first; none while it has no leader."""
        if self._zookeeper is not None:
            return self._zookeeper.in_sync(partition)
        return [each.number for each in self.brokers if (each.log_directory / str(partition)).is_dir()]

    def _settings(self, number: int) -> dict[str, object]:
        copies = min(_MOST_COPIES, self._count)
        settings: dict[str, object] = {
            "broker.id": number,
            "listeners": f"PLAINTEXT://kafka-{number}:{PORT}",
            "default.replication.factor": copies,
            "min.insync.replicas": min(2, copies),
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": min(2, copies),
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": min(2, copies),
            "controlled.shutdown.retry.backoff.ms": 100,
        }
        if self._zookeeper is not None:
            settings["zookeeper.connect"] = f"{self._zookeeper.connect}@{number}"
            settings["zookeeper.session.timeout.ms"] = SESSION_TIMEOUT_MS
        return {**settings, **self._properties}

    def close(self) -> None:
        """Kill everything and return to the real world. Harmless if it is closed."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            for each in (*self.programs, *self.brokers):
                each.kill()
            for program in self.programs:
                program.bury()
            if self._zookeeper is not None:
                self._zookeeper.close()
        finally:
            self._substitution.leave()
            if self._was_collecting:
                gc.enable()
            shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    # Copies

    @property
    def directory(self) -> Path:
        """Where all processes of an open world have their files."""
        return self._directory

    def moved(self, inodes: Mapping[int, int]) -> None:
        """Go on in a forked process, whose files are copies with these inodes for the old ones."""
        for each in self.brokers:
            if each.disk is not None:
                each.disk.moved(inodes)
        self._scheduler.set_alarm()

    # Running

    @property
    def bootstrap_servers(self) -> str:
        """The ``bootstrap_servers`` for programs of this world."""
        return ",".join(f"{each.name}:{PORT}" for each in self.brokers)

    @property
    def now_s(self) -> float:
        """Virtual seconds since the world began."""
        return (self._scheduler.now_ns - FIRST_NS) / 1e9

    def process(
        self, function: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any, name: str | None = None, may_fail: bool = False
    ) -> Program:
        """Run a coroutine function as a program with a host and an event loop of its own, from the next ``run`` on.

        If it raises, ``run`` raises ProgramError, unless it ``may_fail``.
        """
        number = len(self.programs) + 1
        host = self._network.add_host(name or f"{getattr(function, '__name__', 'program')}-{number}", f"10.1.0.{number}")
        program = Program(self._surroundings, host, function, arguments)
        program.may_fail = may_fail
        self.programs.append(program)
        program.start()
        return program

    async def run(self, seconds: float = 0.0, *, minutes: float = 0.0, hours: float = 0.0) -> None:
        """Let so much virtual time pass, with the faults of the budget.

        Raises ProgramError, what a thread of a broker has raised, and the AssertionError of a check.
        """
        now_ns = self._scheduler.now_ns
        until_ns = now_ns + int((seconds + 60 * minutes + 3600 * hours) * 1e9)
        self._plan_faults(now_ns, until_ns)
        self._run_to(until_ns)

    def _run_to(self, until_ns: int) -> None:
        """Run, and act as the agenda says."""
        scheduler, agenda = self._scheduler, self._agenda
        while agenda and agenda[0][0] <= until_ns:
            at_ns, _, act = heapq.heappop(agenda)
            scheduler.run(max(at_ns, scheduler.now_ns))
            act()
        scheduler.run(until_ns)

    def at(self, moment_s: float, act: Callable[[], object]) -> None:
        """Call ``act`` at a moment of the runs to come, in virtual seconds since the world began; at once if it has passed."""
        self._at(FIRST_NS + int(moment_s * 1e9), act)

    def _at(self, at_ns: int, act: Callable[[], object]) -> None:
        self._agenda_number += 1
        heapq.heappush(self._agenda, (at_ns, self._agenda_number, act))

    # Faults

    def faults(
        self,
        *,
        lost_answers: float = 0.0,
        programs: Collection[Program] = (),
        longest_s: float = 20.0,
        **numbers: Unpack[Numbers],
    ) -> None:
        """Let at most these numbers of faults happen in the next ``run``; the seed decides when, and to which process.

        They do not overlap, and the last fifth of the run has none. A partition cuts a broker off from the other brokers and from
        ZooKeeper, in one direction or in both; programs still reach it. A broker whose disk fails stops, and is started again.
        ``lost_answers`` is the share of ZooKeeper's answers that are lost from now on (0 to 1). ``programs`` are killed and started
        again, or paused. ``longest_s`` is the longest time that one fault lasts. Raises TypeError for an unknown kind.
        """
        self._budget = Budget.of(numbers, list(programs), longest_s)
        self.kafka.loses_power |= numbers.get("crashes_with_power_loss", 0) > 0
        if self._zookeeper is not None:
            self._zookeeper.lost_answers = lost_answers
        elif lost_answers or numbers.get("partitions"):
            raise ValueError("lost_answers and partitions need several brokers: World(brokers=3)")

    def _plan_faults(self, begin_ns: int, end_ns: int) -> None:
        budget, self._budget = self._budget, Budget()
        for fault in make_plan(budget, self.brokers, (begin_ns, end_ns), self._fault_random, len(self.plan)):
            self.plan.append(fault)
            if self._kept_faults is None or fault.number in self._kept_faults:
                self._at(fault.begins_ns, partial(self._begin, fault))

    def _begin(self, fault: Fault) -> None:
        """Begin a fault and plan its end.

        A broker loses power only while all replicas are in sync. Otherwise its disk may have the only copy of a record, which Kafka
        loses, too.
        """
        if fault.kind == "power loss" and not self._has_all_copies():
            self.trace.note("fault", f"not now, because replicas are not in sync: {fault.text}")
            return
        self.happened.append(fault)
        self._injector.begin(fault)
        self._at(fault.begins_ns + fault.lasts_ns, partial(self._injector.end, fault))

    def _has_all_copies(self) -> bool:
        return all(each.is_serving for each in self.brokers) and self.is_replicated()

    def _peers_of(self, broker: BrokerProcess) -> list[Host]:
        others = [each.host for each in self.brokers if each is not broker]
        return others if self._zookeeper is None else [*others, self._zookeeper.host]

    # Checks

    def always(self, check: Callable[[], object], *, every_s: float = 1.0) -> None:
        """Call ``check`` at this interval of virtual time. If it does not hold, it raises AssertionError or returns False."""
        every_ns = int(every_s * 1e9)

        def look() -> None:
            _assert_holds(check)
            self._at(self._scheduler.now_ns + every_ns, look)

        self._at(self._scheduler.now_ns + every_ns, look)

    async def eventually(self, check: Callable[[], object], *, seconds: float = 60.0) -> None:
        """Run until ``check`` returns something true. Raises AssertionError after ``seconds`` of virtual time.

        It is called each virtual millisecond, and after a second each 100 ms.
        """
        if not self._run_until(check, seconds, later_step_ns=_LATER_STEP_NS):
            raise AssertionError(f"{_name_of(check)} does not hold within {seconds:g} s")

    def is_replicated(self) -> bool:
        """Return whether all replicas of all partitions are in sync."""
        return self._zookeeper is None or not self._zookeeper.unreplicated()

    def stuck_threads(self, *, seconds: float = 60.0) -> list[str]:
        """Return the threads of running processes that have waited for a lock for ``seconds`` of virtual time."""
        return self._scheduler.stuck(int(seconds * 1e9))

    def stacks(self, name: str) -> str:
        """Return the stacks of the threads of a process."""
        return self._scheduler.stacks(name)

    def drive(self, test: Coroutine[Any, Any, T]) -> T:
        """Run a test's coroutine to its end and return its result. It may await only the methods of this world."""
        try:
            test.send(None)
        except StopIteration as ended:
            result: T = ended.value
            return result
        test.close()
        raise RuntimeError("the test of a world awaits only the world's methods: let programs, world.process(...), await the rest")

    async def until(self, condition: Callable[[], object], seconds: float = 3600.0) -> bool:
        """Run until a condition holds, which is checked each virtual millisecond; return False after ``seconds``."""
        return self._run_until(condition, seconds)

    def _run_until(self, condition: Callable[[], object], seconds: float, later_step_ns: int = _STEP_NS) -> bool:
        scheduler = self._scheduler
        soon_ns, end_ns = scheduler.now_ns + _SOON_NS, scheduler.now_ns + int(seconds * 1e9)
        while not condition():
            if scheduler.now_ns >= end_ns:
                return False
            step_ns = _STEP_NS if scheduler.now_ns < soon_ns else later_step_ns
            self._run_to(min(end_ns, scheduler.now_ns + step_ns))
        return True

    async def finished(self, *programs: Program, seconds: float = 3600.0) -> bool:
        """Run until these programs have ended; return False after ``seconds``."""
        return self._run_until(lambda: not any(each.is_running for each in programs), seconds)


def _assert_holds(check: Callable[[], object]) -> None:
    if check() is False:
        raise AssertionError(f"{_name_of(check)} does not hold")


def _name_of(check: Callable[[], object]) -> str:
    return getattr(check, "__name__", repr(check))
