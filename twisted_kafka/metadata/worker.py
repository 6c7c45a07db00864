"""A worker thread that runs callables in order; in tests it has no thread and is pumped by hand."""

from collections import deque
from collections.abc import Callable
from typing import Final

from twisted_kafka.system import machine
from twisted_kafka.system.threads import attempt, make_thread, repeat

MAX_QUEUED: Final = 100_000
"""The maximum number of waiting callables; when it is reached, the worker must be stuck."""


class WorkerFullError(RuntimeError):
    """The worker's queue is full, so it must be stuck."""


class SerialWorker:
    """Runs callables in order on a daemon thread of its own. Exceptions of a callable are logged."""

    def __init__(self, name: str, *, threaded: bool = True) -> None:
        self.name = name
        self._queue: deque[Callable[[], None]] = deque()
        self._condition = machine.Condition()
        self._closed = False
        self._thread: machine.Thread | None = None
        if threaded:
            self._thread = make_thread(self._run, name)
            self._thread.start()

    def submit(self, action: Callable[[], None]) -> bool:
        """Queue ``action``; return False when the worker is closed. Raises WorkerFullError."""
        with self._condition:
            if self._closed:
                return False
            if len(self._queue) >= MAX_QUEUED:
                raise WorkerFullError(f"{self.name}: the queue is full, {MAX_QUEUED} callables are waiting")
            self._queue.append(action)
            self._condition.notify()
        return True

    @property
    def waiting(self) -> int:
        """The number of waiting callables."""
        return len(self._queue)

    def pump(self) -> int:
        """Run all waiting callables on this thread; return how many ran. Only for a worker without a thread."""
        if self._thread is not None:
            raise RuntimeError(f"{self.name} runs on its own thread and cannot be pumped")
        count = 0
        while self._queue:
            self._call(self._queue.popleft())
            count += 1
        return count

    def pause(self, seconds: float) -> None:
        """Wait for this long, or until the worker is closed; for a callable. A worker without a thread does not wait."""
        if self._thread is not None:
            with self._condition:
                self._condition.wait_for(lambda: self._closed, seconds)

    def close(self, timeout_s: float = 10.0) -> bool:
        """Refuse further callables and wait for queued ones; return whether they finished within ``timeout_s``."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
        if self._thread is None:
            self.pump()
        elif self._thread is not machine.current_thread():
            self._thread.join(timeout_s)
            return not self._thread.is_alive()
        return True

    def _run(self) -> None:
        repeat(self._step, self._pause, self.name)

    def _step(self) -> bool:
        with self._condition:
            while not self._queue:
                if self._closed:
                    return False
                self._condition.wait()
            action = self._queue.popleft()
        self._call(action)
        return True

    def _pause(self, seconds: float) -> None:
        self.pause(seconds)  # queued callables run after ``close``, too

    def _call(self, action: Callable[[], None]) -> None:
        attempt(action, f"an action of {self.name}")
