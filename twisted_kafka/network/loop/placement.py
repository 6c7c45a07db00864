"""CPU affinity of a plane's threads: one CPU while requests are small, any CPU otherwise. (docs/adr/0017.)

Under the interpreter lock, network threads and handlers take turns however many CPUs there are. Waking a sleeping thread on another
CPU costs more than most requests, and several times as much as switching to a thread on the same CPU. So while many small requests
pass, the threads are pinned to one CPU. They are released when requests are large, because then most of the time is spent without
the lock (copying, checksums, compression), and when other threads want that CPU.

Linux only, and only if the process may use more than one CPU. If the affinity of a thread is changed from outside, placement stops
for good.
"""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, Protocol

from twisted.logger import Logger

from twisted_kafka.interpreter import HAS_AFFINITY, HAS_INTERPRETER_LOCK
from twisted_kafka.timing.clock import IClock

DECISION_INTERVAL_NS: Final = 250_000_000
"""Least time between two decisions."""

BUSY_PER_S: Final = 1_000
"""With fewer requests per second, pinning gains nothing."""

SMALL_BYTES: Final = 32_768
"""Requests count as small if request and response together have at most this many bytes on average."""

CROWDED_RATIO: Final = 0.5
"""If the threads wait for their CPU more than this part of the time, other threads are using it."""

CALM_RATIO: Final = 0.25
"""Up to this part of the time, only these threads use the CPU: waking each other, they wait for 0.02 to 0.15 of it."""

FIRST_PAUSE_NS: Final = 2_000_000_000
MAX_PAUSE_NS: Final = 120_000_000_000
"""How long the threads stay released after their CPU was crowded. The pause doubles each time, up to the maximum."""

_log = Logger()


class ICpus(Protocol):
    """The system's view of threads and CPUs. Every method may raise OSError, for a thread that has ended for instance."""

    def this_thread(self) -> int:
        """Return the calling thread's native id."""

    def threads(self) -> list[int]:
        """Return the native ids of all threads of this process."""

    def allowed(self, thread: int) -> frozenset[int]:
        """Return the CPUs that a thread may run on."""

    def allow(self, thread: int, cpus: frozenset[int]) -> None:
        """Restrict a thread to these CPUs."""

    def cpu_of(self, thread: int) -> int:
        """Return the CPU that a thread last ran on."""

    def delayed_ns(self, thread: int) -> int:
        """Return how long a runnable thread has waited for a CPU."""


class LinuxCpus:
    """Linux: ``/proc/self/task`` and the scheduler's affinity calls."""

    __slots__ = ()

    def this_thread(self) -> int:
        """``ICpus.this_thread``."""
        return threading.get_native_id()

    def threads(self) -> list[int]:
        """``ICpus.threads``."""
        return [int(name) for name in os.listdir("/proc/self/task")]

    def allowed(self, thread: int) -> frozenset[int]:
        """``ICpus.allowed``."""
        return frozenset(os.sched_getaffinity(thread))

    def allow(self, thread: int, cpus: frozenset[int]) -> None:
        """``ICpus.allow``."""
        os.sched_setaffinity(thread, cpus)

    def cpu_of(self, thread: int) -> int:
        """``ICpus.cpu_of``: field 39 of ``stat``. Field 2 is a name in parentheses that may contain spaces."""
        return int(_read(thread, "stat").rpartition(")")[2].split()[36])

    def delayed_ns(self, thread: int) -> int:
        """``ICpus.delayed_ns``: the second field of ``schedstat``."""
        return int(_read(thread, "schedstat").split()[1])


def _read(thread: int, name: str) -> str:
    with open(f"/proc/self/task/{thread}/{name}") as file:
        return file.read()


class ThreadPlacement:
    """Sets the affinity of the threads that have joined. Any of them may call ``update``."""

    __slots__ = (
        "_clock",
        "_cpus",
        "_decided_ns",
        "_delayed_ns",
        "_free",
        "_home",
        "_is_over",
        "_lock",
        "_members",
        "_pause_ns",
        "_paused_until_ns",
        "_totals",
        "_totals_before",
        "is_calm",
    )

    def __init__(self, clock: IClock, cpus: ICpus, free: frozenset[int]) -> None:
        """``free`` are the CPUs that released threads may use."""
        self.is_calm = False
        """Whether many small requests pass and no other thread wanted the CPU lately. Then a thread may busy-poll."""
        self._clock = clock
        self._cpus = cpus
        self._free = free
        self._home: int | None = None
        self._members: set[int] = set()
        self._totals: dict[int, tuple[int, int]] = {}
        self._totals_before = (0, 0)
        self._delayed_ns = 0
        self._decided_ns = clock.monotonic_ns()
        self._pause_ns = FIRST_PAUSE_NS
        self._paused_until_ns = 0
        self._is_over = False
        self._lock = threading.Lock()

    @property
    def home(self) -> int | None:
        """The CPU that the threads are pinned to, or None."""
        return self._home

    @contextmanager
    def joined(self) -> Iterator[None]:
        """Include the calling thread until the end of the context."""
        self._join()
        try:
            yield
        finally:
            self._leave()

    def _join(self) -> None:
        with self._lock:
            thread = self._cpus.this_thread()
            self._members.add(thread)
            if self._home is not None:
                self._set_affinity(thread, frozenset((self._home,)))

    def _leave(self) -> None:
        with self._lock:
            thread = self._cpus.this_thread()
            self._members.discard(thread)
            if self._home is not None and self._cpus.allowed(thread) == {self._home}:
                self._set_affinity(thread, self._free)

    def update(self, processor: int, requests: int, size_bytes: int) -> None:
        """Decide again where the threads run, if the last decision is old enough. Called by busy network threads.

        ``requests`` and ``size_bytes`` are the totals of ``processor`` since its start.
        """
        if not self._lock.acquire(blocking=False):
            return  # another thread is deciding
        try:
            self._totals[processor] = (requests, size_bytes)
            elapsed_ns = self._clock.monotonic_ns() - self._decided_ns
            if elapsed_ns >= DECISION_INTERVAL_NS and not self._is_over:
                self._decide(elapsed_ns)
        except OSError as error:
            self._give_up(f"{error}")
        finally:
            self._lock.release()

    def _decide(self, elapsed_ns: int) -> None:
        now_ns = self._decided_ns = self._decided_ns + elapsed_ns
        requests, size_bytes = (sum(column) for column in zip(*self._totals.values(), strict=True))
        new_requests, new_bytes = requests - self._totals_before[0], size_bytes - self._totals_before[1]
        self._totals_before = (requests, size_bytes)
        delayed_before_ns, self._delayed_ns = self._delayed_ns, self._sum_of_delays()
        delay_ratio = (self._delayed_ns - delayed_before_ns) / elapsed_ns
        self.is_calm = False
        if new_requests * 1_000_000_000 < BUSY_PER_S * elapsed_ns:
            if self._home is not None:
                self._release_others(self._home)
            return  # a change would gain nothing
        if new_bytes > SMALL_BYTES * new_requests:
            self._release()
        elif self._home is None:
            if now_ns >= self._paused_until_ns:
                self._pin()
        elif delay_ratio > CROWDED_RATIO:
            self._release()
            self._paused_until_ns = now_ns + self._pause_ns
            self._pause_ns = min(2 * self._pause_ns, MAX_PAUSE_NS)
        else:
            self.is_calm = delay_ratio <= CALM_RATIO
            self._release_others(self._home)

    def _sum_of_delays(self) -> int:
        total = 0
        for thread in self._members:
            with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
                total += self._cpus.delayed_ns(thread)
        return total

    def _pin(self) -> None:
        cpus = self._cpus
        if any(cpus.allowed(thread) != self._free for thread in self._members):
            self._give_up("the affinity of a thread was changed from outside")
            return
        self._home = cpus.cpu_of(cpus.this_thread())
        for thread in self._members:
            self._set_affinity(thread, frozenset((self._home,)))

    def _release(self) -> None:
        home, self._home = self._home, None
        if home is None:
            return
        if any(self._cpus.allowed(thread) != {home} for thread in self._members):
            self._give_up("the affinity of a thread was changed from outside")
            return
        for thread in self._members:
            self._set_affinity(thread, self._free)
        self._release_others(home)

    def _release_others(self, home: int) -> None:
        """Release threads that a pinned thread has started: they inherited its affinity."""
        for thread in self._cpus.threads():
            if thread not in self._members:
                with suppress(ProcessLookupError):
                    if self._cpus.allowed(thread) == {home}:
                        self._set_affinity(thread, self._free)

    def _set_affinity(self, thread: int, cpus: frozenset[int]) -> None:
        with suppress(ProcessLookupError):  # it has just ended
            self._cpus.allow(thread, cpus)

    def _give_up(self, why: str) -> None:
        self._is_over = True
        self.is_calm = False
        _log.info("The CPU affinity of network threads and request handlers is no longer managed: {why}", why=why)


def make_placement(clock: IClock) -> ThreadPlacement | None:
    """Return a placement for the threads of a plane; None if it would gain nothing or is not possible."""
    if not sys.platform.startswith("linux") or not HAS_AFFINITY or not HAS_INTERPRETER_LOCK:
        return None
    cpus = LinuxCpus()
    try:
        thread = cpus.this_thread()
        free = cpus.allowed(thread)
        cpus.delayed_ns(thread)
        cpus.cpu_of(thread)
    except (OSError, ValueError, IndexError):  # not available on this kernel, or in this sandbox
        return None
    return ThreadPlacement(clock, cpus, free) if len(free) > 1 else None
