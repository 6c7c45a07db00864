"""Handles the failure of a log directory on a separate thread (Kafka: LogDirFailureHandler)."""

from collections.abc import Callable
from typing import Final

from twisted.logger import Logger

from twisted_kafka.log.directories.log_directory import LogDirectory
from twisted_kafka.system import machine
from twisted_kafka.system.threads import make_thread, repeat
from twisted_kafka.timing.scheduler import IScheduler

RETRY_MS: Final = 1_000

_log = Logger()


class LogDirFailureHandler:
    """Calls ``handle`` with each log directory that fails, on a new thread.

    The thread with the I/O error holds locks, and the scheduler's threads flush logs: a disk that hangs may block all of them. For
    the same reason each directory has its own thread. A directory fails only once, so there are at most as many threads as
    ``log.dirs`` has entries.
    """

    def __init__(self, handle: Callable[[LogDirectory], None], scheduler: IScheduler) -> None:
        """The scheduler tries again if the system has no thread to give: a directory fails only once."""
        self._handle = handle
        self._scheduler = scheduler
        self._lock = machine.Lock()
        self._threads: list[machine.Thread] = []
        self._stopping = machine.Event()

    def directory_failed(self, directory: LogDirectory) -> None:
        """Start a thread that handles the failure, again and again if that fails. Does nothing after ``shutdown``."""
        name = f"LogDirFailureHandler-{directory.path}"

        def step() -> bool:
            self._handle(directory)
            return False

        thread = make_thread(lambda: repeat(step, self._stopping.wait, f"thread {name}"), name)
        with self._lock:
            if self._stopping.is_set():
                return
            try:
                thread.start()
                self._threads.append(thread)
            except RuntimeError as error:
                _log.error("The failure of {path} is handled later: {error}", path=directory.path, error=error)
                self._scheduler.schedule_once("log-dir-failure", lambda: self.directory_failed(directory), RETRY_MS)

    def shutdown(self, timeout_s: float = 10.0) -> None:
        """Ignore further failures, and wait up to ``timeout_s`` seconds for each thread."""
        with self._lock:
            self._stopping.set()
        for thread in self._threads:
            if thread is not machine.current_thread():
                thread.join(timeout_s)
                if thread.is_alive():
                    _log.warn("{thread} did not stop within {seconds} s", thread=thread.name, seconds=timeout_s)
