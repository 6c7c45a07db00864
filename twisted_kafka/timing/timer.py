"""A timer for very many short timeouts, nearly all of which are cancelled.

It is a timing wheel whose ticks are in a dictionary: adding and cancelling take one dictionary operation each. Ticks whose entries
were all cancelled are dropped when there are as many of them as of others. (Kafka: ``SystemTimer`` with a hierarchical
``TimingWheel``.)
"""

import heapq
from collections.abc import Callable

from twisted_kafka.system import machine
from twisted_kafka.system.threads import attempt, make_thread, repeat
from twisted_kafka.timing.clock import IClock

TICK_MS = 1
"""The length of a tick in milliseconds. Entries expire at the end of their tick, never early."""

MIN_TICKS = 4096
"""Empty ticks are left alone up to this number; so far, they cost less than looking for them."""

MAX_WAIT_NS = 60_000_000_000
"""Most time that the reaper sleeps before it checks again."""

Expire = Callable[[], object]


class TimerEntry:
    """One timeout, which ``cancel`` removes."""

    __slots__ = ("_expire", "_tick", "_timer")

    def __init__(self, timer: "Timer", tick: int, expire: Expire) -> None:
        self._timer = timer
        self._tick = tick
        self._expire = expire

    def cancel(self) -> None:
        """Remove the timeout. Does nothing if it has expired already."""
        self._timer.discard(self._tick, self)

    def expire(self) -> None:
        """Call the callback. An exception is logged."""
        attempt(self._expire, "an operation that expired")


class Timer:
    """Calls back after a delay, on its reaper thread (``start``) or on the thread that calls ``expire_due``.

    Every timeout depends on that thread. So in a broker other threads run the due calls (``hand_to``); this thread only wakes them.
    """

    def __init__(self, clock: IClock, name: str = "purgatory", tick_ms: int = TICK_MS) -> None:
        self._clock = clock
        self._name = name
        self._tick_ns = tick_ms * 1_000_000
        self._condition = machine.Condition(machine.Lock())
        self._ticks: dict[int, dict[TimerEntry, None]] = {}
        self._order: list[int] = []
        self._most_ticks = MIN_TICKS
        """With more ticks, the empty ticks are dropped."""
        self._thread: machine.Thread | None = None
        self._stopped = False
        self._waiting_for: int | None = None
        self._pass_on: Callable[[Expire], object] = _call

    def __len__(self) -> int:
        """How many timeouts are pending."""
        with self._condition:
            return sum(map(len, self._ticks.values()))

    @property
    def ticks(self) -> int:
        """How many ticks take memory, with timeouts or without."""
        return len(self._order)

    def start(self) -> None:
        """Start the reaper thread, Kafka's ``ExpirationReaper``."""
        if self._thread is None:
            thread = make_thread(self._run, f"ExpirationReaper-{self._name}")
            thread.start()
            self._thread = thread

    def hand_to(self, run: Callable[[Expire], object]) -> None:
        """Pass due calls from now on to ``run``, which returns at once and runs them on another thread."""
        self._pass_on = run

    def keep(self) -> None:
        """Run due calls on the timer's own thread again: the other threads are about to end."""
        self._pass_on = _call

    def add(self, delay_ms: float, expire: Expire) -> TimerEntry:
        """Call ``expire`` after ``delay_ms`` milliseconds."""
        tick_ns = self._tick_ns
        tick = -((-self._clock.monotonic_ns() - int(max(0, delay_ms) * 1_000_000)) // tick_ns)
        entry = TimerEntry(self, tick, expire)
        with self._condition:
            entries = self._ticks.get(tick)
            if entries is None:
                self._ticks[tick] = {entry: None}
                heapq.heappush(self._order, tick)
                if len(self._order) > self._most_ticks:
                    self._forget_empty()
                if self._waiting_for is not None and tick < self._waiting_for:
                    self._condition.notify()
            else:
                entries[entry] = None
        return entry

    def _forget_empty(self) -> None:
        """Drop the ticks whose entries were all cancelled: a client may name a timeout of weeks in each of its requests."""
        self._ticks = {tick: entries for tick, entries in self._ticks.items() if entries}
        self._order = sorted(self._ticks)  # a sorted list is a heap
        self._most_ticks = 2 * len(self._order) + MIN_TICKS

    def discard(self, tick: int, entry: TimerEntry) -> None:
        """Remove an entry of this tick if it is still pending."""
        with self._condition:
            entries = self._ticks.get(tick)
            if entries is not None:
                entries.pop(entry, None)

    def expire_due(self) -> int:
        """Call the callbacks that are due; return how many."""
        now = self._clock.monotonic_ns() // self._tick_ns
        count = 0
        while True:
            with self._condition:
                tick = self._first_tick()
                if tick is None or tick > now:
                    return count
                heapq.heappop(self._order)
                entries = self._ticks.pop(tick)
            for entry in entries:
                self._pass_on(entry.expire)
            count += len(entries)

    def shutdown(self, timeout_s: float = 5.0) -> None:
        """Remove all timeouts and end the reaper, waiting for it at most ``timeout_s`` seconds."""
        with self._condition:
            self._stopped = True
            self._ticks.clear()
            self._order.clear()
            self._condition.notify_all()
        if self._thread is not None and self._thread is not machine.current_thread():
            self._thread.join(timeout_s)

    def _first_tick(self) -> int | None:
        while self._order:
            tick = self._order[0]
            if self._ticks[tick]:
                return tick
            heapq.heappop(self._order)
            del self._ticks[tick]
        return None

    def _run(self) -> None:
        repeat(self._reap, self._pause, "ExpirationReaper")

    def _pause(self, seconds: float) -> bool:
        with self._condition:
            return self._condition.wait_for(lambda: self._stopped, seconds)

    def _reap(self) -> bool:
        self.expire_due()
        with self._condition:
            if self._stopped:
                return False
            tick = self._first_tick()
            now_ns = self._clock.monotonic_ns()
            due_ns = now_ns + MAX_WAIT_NS
            if tick is not None:
                due_ns = min(due_ns, tick * self._tick_ns)
            if due_ns > now_ns:
                self._waiting_for = tick if tick is not None else 1 << 62
                self._clock.wait_until(self._condition, due_ns)
                self._waiting_for = None
        return True


def _call(expire: Expire) -> None:
    expire()
