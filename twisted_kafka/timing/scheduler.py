"""Background tasks, one-time or periodic.

``KafkaScheduler`` runs them on threads of its own (Kafka's class of this name, key ``background.threads``); ``ManualScheduler``
runs them when a test calls ``run_due``.
"""

import heapq
from collections.abc import Callable
from typing import Protocol

from twisted.logger import Logger

from twisted_kafka.system import machine
from twisted_kafka.system.threads import attempt, make_thread, repeat
from twisted_kafka.timing.clock import IClock

Action = Callable[[], None]

MAX_WAIT_NS = 60_000_000_000
"""Most time that a worker waits before it checks the queue again."""

THREAD_NAME_PREFIX = "kafka-scheduler-"

_log = Logger()


class ScheduledTask:
    """A scheduled action. ``cancel`` prevents further runs but does not interrupt one."""

    __slots__ = ("_action", "due_ns", "name", "period_ns")

    def __init__(self, name: str, action: Action, due_ns: int, period_ns: int) -> None:
        self.name = name
        self.due_ns = due_ns
        self.period_ns = period_ns
        self._action: Action | None = action

    @property
    def is_cancelled(self) -> bool:
        """Whether it was cancelled, or was a one-time task and has run."""
        return self._action is None

    def cancel(self) -> None:
        """Prevent further runs. Does nothing if the task has ended already."""
        self._action = None

    def run(self) -> None:
        """Run the action. An exception is logged and not propagated."""
        action = self._action
        if action is None:
            return
        if not self.period_ns:
            self._action = None
        attempt(action, f"scheduled task '{self.name}'")

    def next_due_ns(self, now_ns: int) -> int:
        """Return when a periodic task is due next. Missed runs are skipped, not made up for."""
        missed = max(0, now_ns - self.due_ns) // self.period_ns
        return self.due_ns + (missed + 1) * self.period_ns


class IScheduler(Protocol):
    """Runs tasks later, on another thread than the caller's."""

    def startup(self) -> None:
        """Start running tasks."""

    def shutdown(self, timeout_s: float = 10.0) -> None:
        """Drop tasks that have not started, and wait at most ``timeout_s`` seconds for running ones."""

    def schedule_once(self, name: str, action: Action, delay_ms: float = 0) -> ScheduledTask:
        """Run ``action`` once, after ``delay_ms`` milliseconds."""

    def schedule(self, name: str, action: Action, delay_ms: float, period_ms: float) -> ScheduledTask:
        """Run ``action`` after ``delay_ms`` milliseconds and then every ``period_ms``."""


class _TaskQueue:
    """Tasks ordered by due time. Not thread-safe."""

    __slots__ = ("_heap", "_sequence")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, ScheduledTask]] = []
        self._sequence = 0

    def add(self, task: ScheduledTask) -> bool:
        """Add a task; return whether it is now the first."""
        self._sequence += 1
        entry = (task.due_ns, self._sequence, task)
        heapq.heappush(self._heap, entry)
        return self._heap[0] is entry

    def next_due_ns(self) -> int | None:
        """Return when the first task is due. Drops cancelled tasks."""
        while self._heap and self._heap[0][2].is_cancelled:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ns: int) -> ScheduledTask | None:
        """Remove and return the first task if it is due."""
        due_ns = self.next_due_ns()
        if due_ns is None or due_ns > now_ns:
            return None
        return heapq.heappop(self._heap)[2]

    def clear(self) -> None:
        for _, _, task in self._heap:
            task.cancel()
        self._heap.clear()


def _new_task(clock: IClock, name: str, action: Action, delay_ms: float, period_ms: float) -> ScheduledTask:
    due_ns = clock.monotonic_ns() + int(max(0, delay_ms) * 1_000_000)
    return ScheduledTask(name, action, due_ns, int(period_ms * 1_000_000))


class KafkaScheduler:
    """Runs actions on ``threads`` daemon threads; a periodic action never overlaps with itself."""

    def __init__(self, clock: IClock, threads: int = 10, thread_name_prefix: str = THREAD_NAME_PREFIX) -> None:
        self._clock = clock
        self._max_threads = threads
        self._prefix = thread_name_prefix
        self._condition = machine.Condition()
        self._queue = _TaskQueue()
        self._threads: list[machine.Thread] = []
        self._thread_number = 0
        self._idle = 0
        self._running = False
        self._stopped = False

    def startup(self) -> None:
        """Start running tasks. Raises RuntimeError if it was started before."""
        with self._condition:
            if self._running or self._stopped:
                raise RuntimeError("This scheduler has already been started.")
            self._running = True
            if self._queue.next_due_ns() is not None:
                self._add_thread()

    def shutdown(self, timeout_s: float = 10.0) -> None:
        """Drop tasks that have not started, and wait at most ``timeout_s`` seconds in total for running ones."""
        with self._condition:
            self._running = False
            self._stopped = True
            self._queue.clear()
            self._condition.notify_all()
            threads = list(self._threads)
        deadline_ns = self._clock.steady_ns() + int(timeout_s * 1e9)
        for thread in threads:
            if thread is not machine.current_thread():
                thread.join(max(0.0, (deadline_ns - self._clock.steady_ns()) / 1e9))
            if thread.is_alive() and thread is not machine.current_thread():
                _log.warn("Scheduler thread {name} did not end within {seconds} s", name=thread.name, seconds=timeout_s)

    def resize(self, threads: int) -> None:
        """Set the maximum number of threads. Surplus threads end after their current task (KafkaScheduler.resizeThreadPool)."""
        with self._condition:
            self._max_threads = threads
            self._condition.notify_all()
            if self._running and self._idle == 0 and self._queue.next_due_ns() is not None:
                self._add_thread()

    def schedule_once(self, name: str, action: Action, delay_ms: float = 0) -> ScheduledTask:
        """Run ``action`` once, after ``delay_ms`` milliseconds. After shutdown it is dropped and logged."""
        return self._add(_new_task(self._clock, name, action, delay_ms, 0))

    def schedule(self, name: str, action: Action, delay_ms: float, period_ms: float) -> ScheduledTask:
        """Run ``action`` after ``delay_ms`` milliseconds and then every ``period_ms``; raises ValueError for a period of 0."""
        if period_ms <= 0:
            raise ValueError(f"the period of task '{name}' must be positive, not {period_ms} ms")
        return self._add(_new_task(self._clock, name, action, delay_ms, period_ms))

    def _add(self, task: ScheduledTask) -> ScheduledTask:
        with self._condition:
            if self._stopped:
                _log.info("Dropping task '{name}': the scheduler is shut down", name=task.name)
                task.cancel()
                return task
            is_first = self._queue.add(task)
            if self._running:
                if self._idle == 0:
                    self._add_thread()
                elif is_first:
                    self._condition.notify()
        return task

    def _add_thread(self) -> None:
        # Threads are made on demand: most brokers never need all of background.threads at once.
        if len(self._threads) < self._max_threads:
            thread = make_thread(self._run, f"{self._prefix}{self._thread_number}")
            try:
                thread.start()  # it waits for the lock
            except RuntimeError as error:  # the system has none to give: the others do the work, or the next task asks again
                _log.error("No further scheduler thread for now: {error}", error=error)
                return
            self._thread_number += 1
            self._threads.append(thread)

    def _run(self) -> None:
        repeat(self._work, self._pause, "the scheduler")

    def _pause(self, seconds: float) -> bool:
        with self._condition:
            return self._condition.wait_for(lambda: not self._running, seconds)

    def _work(self) -> bool:
        task = self._next_task()
        if task is None:
            return False
        task.run()
        if task.period_ns and not task.is_cancelled:
            with self._condition:
                if self._running:
                    self._queue.add(task)
        return True

    def _next_task(self) -> ScheduledTask | None:
        with self._condition:
            while self._running:
                if len(self._threads) > self._max_threads:
                    self._threads.remove(machine.current_thread())
                    self._condition.notify()  # another worker has to recompute its wait
                    return None
                now_ns = self._clock.monotonic_ns()
                task = self._queue.pop_due(now_ns)
                if task is not None:
                    if task.period_ns:
                        # From when it begins: it does not see what becomes due while it runs.
                        task.due_ns = task.next_due_ns(now_ns)
                    self._ensure_waiter()
                    return task
                due_ns = self._queue.next_due_ns()
                latest_ns = now_ns + MAX_WAIT_NS
                self._idle += 1
                try:
                    self._clock.wait_until(self._condition, latest_ns if due_ns is None else min(due_ns, latest_ns))
                finally:
                    self._idle -= 1
            return None

    def _ensure_waiter(self) -> None:
        # A worker that takes a task makes sure that another one waits for the next task.
        if self._queue.next_due_ns() is None:
            return
        if self._idle:
            self._condition.notify()
        else:
            self._add_thread()


class ManualScheduler:
    """Runs due tasks on the thread that calls ``run_due``: for tests, with a ``ManualClock``."""

    def __init__(self, clock: IClock) -> None:
        self._clock = clock
        self._queue = _TaskQueue()
        self._stopped = False

    def startup(self) -> None: ...

    def shutdown(self, timeout_s: float = 10.0) -> None:
        """Drop all tasks."""
        self._stopped = True
        self._queue.clear()

    def schedule_once(self, name: str, action: Action, delay_ms: float = 0) -> ScheduledTask:
        """Run ``action`` once, in the first ``run_due`` after ``delay_ms`` milliseconds."""
        return self._add(_new_task(self._clock, name, action, delay_ms, 0))

    def schedule(self, name: str, action: Action, delay_ms: float, period_ms: float) -> ScheduledTask:
        """Run ``action`` after ``delay_ms`` milliseconds and then every ``period_ms``."""
        return self._add(_new_task(self._clock, name, action, delay_ms, period_ms))

    def run_due(self) -> int:
        """Run the tasks that are due, in order; return how many ran."""
        now_ns = self._clock.monotonic_ns()
        count = 0
        while (task := self._queue.pop_due(now_ns)) is not None:
            task.run()
            count += 1
            if task.period_ns and not task.is_cancelled:
                task.due_ns = task.next_due_ns(now_ns)
                self._add(task)
        return count

    def _add(self, task: ScheduledTask) -> ScheduledTask:
        if self._stopped:
            task.cancel()
        else:
            self._queue.add(task)
        return task
