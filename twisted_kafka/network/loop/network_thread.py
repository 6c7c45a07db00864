"""A network thread: one processor, its reactor, and the role of the thread that runs them."""

from collections.abc import Callable, Iterable

from twisted.internet.base import ReactorBase
from twisted.logger import Logger

from twisted_kafka.network.accepting.acceptor import Acceptor
from twisted_kafka.network.loop.processor import Processor
from twisted_kafka.network.loop.reactors import close_reactor
from twisted_kafka.network.requests.parker import Parker
from twisted_kafka.system import machine
from twisted_kafka.system.threads import UNCAUGHT_ERRORS
from twisted_kafka.timing.clock import IClock

STOP_S = 5.0
"""How long a stopped network thread may take to end."""

RESTART_PAUSE_S = 0.1
"""How long a network thread waits before it restarts its failed loop, so that one that keeps failing does not use up a CPU."""

_POLL_S = 0.005

_log = Logger()


class NetworkThread:
    """Runs one processor, on one thread at a time (``IRole``).

    If its loop keeps failing, the thread closes its connections, whose state cannot be trusted any more, and restarts with a new
    reactor, so that the listener keeps its number of processors. (In Kafka such a thread ends, and its acceptor keeps assigning
    connections to it.)
    """

    __slots__ = (
        "_acceptor",
        "_ended",
        "_is_reactor_started",
        "_lock",
        "_make_reactor",
        "_reactor",
        "_stopping",
        "is_started",
        "name",
        "processor",
    )

    def __init__(
        self,
        processor: Processor,
        reactor: ReactorBase,
        name: str,
        make_reactor: Callable[[], ReactorBase] | None = None,
    ) -> None:
        """``make_reactor`` makes the reactor for a restart; without it, the thread ends when its loop fails."""
        self.processor = processor
        self.name = name
        self.is_started = False
        self._reactor = reactor
        self._is_reactor_started = False
        self._make_reactor = make_reactor
        self._acceptor: Acceptor | None = None
        self._lock = machine.Lock()
        self._stopping = machine.Event()
        self._ended = machine.Event()

    def start(self) -> None:
        """Start a thread that runs the processor. Raises RuntimeError if the system has no thread to give."""
        self.is_started = True
        try:
            Parker().start(self)
        except RuntimeError:
            self.is_started = False
            raise

    def run_acceptor(self, acceptor: Acceptor) -> None:
        """Run an acceptor, which has not started yet, on this thread."""
        self._acceptor = acceptor
        acceptor.attach(self._reactor)

    def run(self, parker: Parker) -> None:
        """Run the loop until it ends or another thread runs it (``IRole.run``)."""
        self.processor.leader = parker
        while True:
            try:
                if not self._is_reactor_started:
                    self._is_reactor_started = True
                    self._reactor.startRunning(installSignalHandlers=False)
                self._reactor.mainLoop()
                if parker.next_role is not None:
                    return  # nothing of this is the thread's any more
                break
            except BaseException:  # noqa: BLE001 the loop has ended: log it
                UNCAUGHT_ERRORS.note(f"{self.name}, which closes its {self.processor.connection_count} connections")
            self.processor.abandon_connections()
            if self._make_reactor is None or not self._restart(self._make_reactor):
                break
            _log.warn("Network thread {name} continues with a new reactor", name=self.name)
        self.processor.leave_queue()
        self._ended.set()

    def _restart(self, make_reactor: Callable[[], ReactorBase]) -> bool:
        """Switch to a new reactor as soon as one can be made; return False if the thread should end instead."""
        is_logged = False
        while not self._stopping.wait(RESTART_PAUSE_S):
            try:
                reactor = make_reactor()
            except Exception as error:  # noqa: BLE001 no file descriptors, say: that must not end the thread
                if not is_logged:
                    is_logged = True
                    _log.error("Network thread {name} cannot restart for now: {error}", name=self.name, error=error)
            else:
                return self._replace_reactor(reactor)
        return False

    def _replace_reactor(self, reactor: ReactorBase) -> bool:
        with self._lock:
            if self._stopping.is_set():
                close_reactor(reactor)
                return False
            failed, self._reactor = self._reactor, reactor
            self._is_reactor_started = False
            self.processor.attach(reactor)
        if self._acceptor is not None:
            self._acceptor.attach(reactor)
        close_reactor(failed)
        return True

    @property
    def connection_count(self) -> int:
        """How many connections are open."""
        return self.processor.connection_count if self.is_started and not self._ended.is_set() else 0

    def begin_shutdown(self) -> None:
        """Accept no more requests; answer those in flight."""
        if self.is_started:
            self.processor.begin_shutdown()

    def stop(self, timeout_s: float = STOP_S) -> None:
        """Close all connections and end the thread, waiting at most ``timeout_s`` seconds."""
        if not self.is_started:
            close_reactor(self._reactor)
            return
        with self._lock:
            self._stopping.set()
            self.processor.close_all()
            self._reactor.callFromThread(self._reactor.stop)
        if not self._ended.wait(timeout_s):
            _log.warn("Network thread {name} did not end within {seconds} s", name=self.name, seconds=timeout_s)
        else:
            close_reactor(self._reactor)
            self.processor.end()


def drain_and_stop(threads: Iterable[NetworkThread], clock: IClock, drain_s: float) -> None:
    """Wait at most ``drain_s`` seconds for requests in flight to be answered, then close all connections and end the threads."""
    ending = list(threads)
    for thread in ending:
        thread.begin_shutdown()
    deadline_ns = clock.steady_ns() + int(drain_s * 1e9)
    pause = machine.Event()
    while any(thread.connection_count for thread in ending) and clock.steady_ns() < deadline_ns:
        pause.wait(_POLL_S)
    for thread in ending:
        thread.stop()
