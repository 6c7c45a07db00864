"""A network thread: one processor, its reactor, and the thread that runs it."""

import threading
from collections.abc import Iterable

from twisted.internet.base import ReactorBase
from twisted.logger import Logger

from twisted_kafka.network.processor import Processor
from twisted_kafka.network.reactors import close_reactor
from twisted_kafka.timing.clock import IClock

STOP_S = 5.0
"""A network thread that is stopped has so long to end."""

_POLL_S = 0.005

_log = Logger()


class NetworkThread:
    """Runs one processor."""

    __slots__ = ("_reactor", "processor", "thread")

    def __init__(self, processor: Processor, reactor: ReactorBase, name: str) -> None:
        self.processor = processor
        self._reactor = reactor
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def _run(self) -> None:
        try:
            self._reactor.run(installSignalHandlers=False)
        except Exception:  # noqa: BLE001 it is the thread's end: say so
            _log.failure("Network thread {name} ended with an error", name=self.thread.name)

    @property
    def connection_count(self) -> int:
        """Connections that it has open."""
        return len(self.processor.channels) if self.thread.is_alive() else 0

    def begin_shutdown(self) -> None:
        """Take no more requests; answer those under way."""
        if self.thread.ident is not None:
            self.processor.begin_shutdown()

    def stop(self, timeout_s: float = STOP_S) -> None:
        """Close what is open and end the thread, waiting at most ``timeout_s`` seconds."""
        if self.thread.ident is None:
            close_reactor(self._reactor)
            return
        self.processor.close_all()
        self._reactor.callFromThread(self._reactor.stop)
        self.thread.join(timeout_s)
        if self.thread.is_alive():
            _log.warn("Network thread {name} did not end within {seconds} s", name=self.thread.name, seconds=timeout_s)
        else:
            close_reactor(self._reactor)


def drain_and_stop(threads: Iterable[NetworkThread], clock: IClock, drain_s: float) -> None:
    """Let the requests under way be answered, ``drain_s`` seconds at most, then close all connections and end the threads."""
    ending = list(threads)
    for thread in ending:
        thread.begin_shutdown()
    deadline_ns = clock.monotonic_ns() + int(drain_s * 1e9)
    pause = threading.Event()
    while any(thread.connection_count for thread in ending) and clock.monotonic_ns() < deadline_ns:
        pause.wait(_POLL_S)
    for thread in ending:
        thread.stop()
