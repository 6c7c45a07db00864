"""Where the threads of a plane run: on one CPU while requests are small, anywhere otherwise. (docs/adr/0017.)

Under the interpreter lock network threads and handlers take turns, whatever the number of CPUs. To wake a thread on another CPU
that sleeps costs more than most requests do, several times as much as to switch to one on the same CPU. So while many small
requests pass, the threads are allowed on one CPU only; when requests are large, so that most of the time is spent without the lock
(copying, checksums, compression), and when others want that CPU, they are let go.

Linux only, and only where the process may use more than one CPU. Whoever changes the threads' affinity from outside has the last
word: nothing is placed any more then.
"""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, Protocol

from twisted.logger import Logger

from twisted_kafka.config.interpreter import HAS_INTERPRETER_LOCK
from twisted_kafka.timing.clock import IClock

LOOK_NS: Final = 250_000_000
"""So much time lies between two decisions at least."""

BUSY_PER_S: Final = 1_000
"""With fewer requests a second there is nothing to be won."""

SMALL_BYTES: Final = 32_768
"""Requests and their responses are small when they have at most so many bytes on average."""

CROWDED_RATIO: Final = 0.5
"""Threads that wait for their CPU for more than this part of the time have it taken from them by somebody else."""

CALM_RATIO: Final = 0.25
"""Up to this part of it, nobody but these threads wants their CPU: they themselves, waking each other, wait for 0.02 to 0.15."""

FIRST_PAUSE_NS: Final = 2_000_000_000
MAX_PAUSE_NS: Final = 120_000_000_000
"""After a CPU was found crowded the threads are left alone, each time twice as long, at most so long."""

_log = Logger()


class ICpus(Protocol):
    """What the system says and does of threads and CPUs. Every method may raise OSError: for a thread that has ended, say."""

    def this_thread(self) -> int:
        """Return the system's number of the calling thread."""

    def threads(self) -> list[int]:
        """Return the numbers of all threads of this process."""

    def allowed(self, thread: int) -> frozenset[int]:
        """Return the CPUs on which a thread may run."""

    def allow(self, thread: int, cpus: frozenset[int]) -> None:
        """Let a thread run on these only."""

    def cpu_of(self, thread: int) -> int:
        """Return the CPU on which a thread ran last."""

    def delayed_ns(self, thread: int) -> int:
        """Return how long a thread has waited for a CPU although it could have run."""


class LinuxCpus:
    """As Linux tells it under ``/proc``."""

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
        """``ICpus.cpu_of``: field 39 of ``stat``, of which the second is a name in parentheses."""
        return int(_read(thread, "stat").rpartition(")")[2].split()[36])

    def delayed_ns(self, thread: int) -> int:
        """``ICpus.delayed_ns``: the second field of ``schedstat``."""
        return int(_read(thread, "schedstat").split()[1])


def _read(thread: int, name: str) -> str:
    with open(f"/proc/self/task/{thread}/{name}") as file:
        return file.read()


class ThreadPlacement:
    """Places the threads that have joined. ``look`` decides, on whichever of them calls it."""

    __slots__ = (
        "_clock",
        "_cpus",
        "_delayed_ns",
        "_free",
        "_home",
        "_is_over",
        "_lock",
        "_looked_ns",
        "_members",
        "_pause_ns",
        "_paused_until_ns",
        "_seen",
        "_totals",
        "is_calm",
    )

    def __init__(self, clock: IClock, cpus: ICpus, free: frozenset[int]) -> None:
        """``free`` are the CPUs that the threads may use when they are let go."""
        self.is_calm = False
        """Whether many small requests pass and nobody else wanted the threads' CPU lately: then it may be kept while there is
        nothing to do for a moment."""
        self._clock = clock
        self._cpus = cpus
        self._free = free
        self._home: int | None = None
        self._members: set[int] = set()
        self._totals: dict[int, tuple[int, int]] = {}
        self._seen = (0, 0)
        self._delayed_ns = 0
        self._looked_ns = clock.monotonic_ns()
        self._pause_ns = FIRST_PAUSE_NS
        self._paused_until_ns = 0
        self._is_over = False
        self._lock = threading.Lock()

    @property
    def home(self) -> int | None:
        """The CPU on which the threads are now; None while they are free."""
        return self._home

    @contextmanager
    def joined(self) -> Iterator[None]:
        """Count the calling thread in, and out at the end."""
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
                self._place(thread, frozenset((self._home,)))

    def _leave(self) -> None:
        with self._lock:
            thread = self._cpus.this_thread()
            self._members.discard(thread)
            if self._home is not None and self._cpus.allowed(thread) == {self._home}:
                self._place(thread, self._free)

    def look(self, processor: int, requests: int, size_bytes: int) -> None:
        """Decide anew where the threads run, unless that was done a moment ago; to be called by network threads that are busy.

        ``requests`` and their ``size_bytes`` are the totals of ``processor`` since its start.
        """
        if not self._lock.acquire(blocking=False):
            return  # another one is looking
        try:
            self._totals[processor] = (requests, size_bytes)
            elapsed_ns = self._clock.monotonic_ns() - self._looked_ns
            if elapsed_ns >= LOOK_NS and not self._is_over:
                self._decide(elapsed_ns)
        except OSError as error:
            self._give_up(f"{error}")
        finally:
            self._lock.release()

    def _decide(self, elapsed_ns: int) -> None:
        now_ns = self._looked_ns = self._looked_ns + elapsed_ns
        requests, size_bytes = (sum(column) for column in zip(*self._totals.values(), strict=True))
        new_requests, new_bytes = requests - self._seen[0], size_bytes - self._seen[1]
        self._seen = (requests, size_bytes)
        delayed_before_ns, self._delayed_ns = self._delayed_ns, self._sum_of_delays()
        delay_ratio = (self._delayed_ns - delayed_before_ns) / elapsed_ns
        self.is_calm = False
        if new_requests * 1_000_000_000 < BUSY_PER_S * elapsed_ns:
            if self._home is not None:
                self._free_others(self._home)
            return  # what is to be won is not worth a change
        if new_bytes > SMALL_BYTES * new_requests:
            self._let_go()
        elif self._home is None:
            if now_ns >= self._paused_until_ns:
                self._gather()
        elif delay_ratio > CROWDED_RATIO:
            self._let_go()
            self._paused_until_ns = now_ns + self._pause_ns
            self._pause_ns = min(2 * self._pause_ns, MAX_PAUSE_NS)
        else:
            self.is_calm = delay_ratio <= CALM_RATIO
            self._free_others(self._home)

    def _sum_of_delays(self) -> int:
        total = 0
        for thread in self._members:
            with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
                total += self._cpus.delayed_ns(thread)
        return total

    def _gather(self) -> None:
        cpus = self._cpus
        if any(cpus.allowed(thread) != self._free for thread in self._members):
            self._give_up("their affinity was changed from outside")
            return
        self._home = cpus.cpu_of(cpus.this_thread())
        for thread in self._members:
            self._place(thread, frozenset((self._home,)))

    def _let_go(self) -> None:
        home, self._home = self._home, None
        if home is None:
            return
        if any(self._cpus.allowed(thread) != {home} for thread in self._members):
            self._give_up("their affinity was changed from outside")
            return
        for thread in self._members:
            self._place(thread, self._free)
        self._free_others(home)

    def _free_others(self, home: int) -> None:
        """Free the threads that a placed one has started: they were given its CPU."""
        for thread in self._cpus.threads():
            if thread not in self._members:
                with suppress(ProcessLookupError):
                    if self._cpus.allowed(thread) == {home}:
                        self._place(thread, self._free)

    def _place(self, thread: int, cpus: frozenset[int]) -> None:
        with suppress(ProcessLookupError):  # it has just ended
            self._cpus.allow(thread, cpus)

    def _give_up(self, why: str) -> None:
        self._is_over = True
        self.is_calm = False
        _log.info("Network threads and request handlers are left on the CPUs where they are: {why}", why=why)


def make_placement(clock: IClock) -> ThreadPlacement | None:
    """Return a placement for the threads of a plane; None where there is nothing to be won, or no way to do it."""
    if not sys.platform.startswith("linux") or not HAS_INTERPRETER_LOCK:
        return None
    cpus = LinuxCpus()
    try:
        thread = cpus.this_thread()
        free = cpus.allowed(thread)
        cpus.delayed_ns(thread)
        cpus.cpu_of(thread)
    except (OSError, ValueError, IndexError):  # a kernel, or a sandbox, that does not tell
        return None
    return ThreadPlacement(clock, cpus, free) if len(free) > 1 else None
