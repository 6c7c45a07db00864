"""The main reactor of a broker: the application's, or one of its own on a thread of its own."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from twisted.logger import Logger

from twisted_kafka.network.loop.reactors import close_reactor, make_reactor
from twisted_kafka.system import machine
from twisted_kafka.system.threads import make_thread
from twisted_kafka.timing.clock import IClock

_log = Logger()

STOP_TIMEOUT_S: Final = 5.0
CALL_TIMEOUT_S: Final = 60.0

T = TypeVar("T")


class MainReactor:
    """Runs calls on the main reactor's thread.

    A reactor that is passed in is the application's: it is neither started nor stopped here. Then `start` is called on its thread,
    or before it runs, on the thread that will run it.
    """

    def __init__(self, reactor: Any, clock: IClock, name: str = "kafka-main-reactor") -> None:
        """``name`` is its thread's, if it is not passed in."""
        self.is_own = reactor is None
        self.reactor: Any = make_reactor(clock) if reactor is None else reactor
        self._own_thread = make_thread(self._run, name)
        self._thread_id: int | None = None

    def start(self) -> None:
        """Run the reactor if it is the broker's own."""
        if self.is_own:
            self._own_thread.start()
            self._thread_id = self._own_thread.ident
        else:
            self._thread_id = machine.get_ident()

    def call(self, action: Callable[[], T]) -> T:
        """Call `action` on the reactor's thread; return its result or raise its error, TimeoutError after 60 s."""
        if self._thread_id in (None, machine.get_ident()) or not self.reactor.running:
            return action()
        done: Future[T] = Future()

        def call() -> None:
            try:
                done.set_result(action())
            except BaseException as error:  # noqa: BLE001 the future carries it to the calling thread
                done.set_exception(error)

        self.reactor.callFromThread(call)
        return machine.result_of(done, CALL_TIMEOUT_S)

    def stop(self) -> None:
        """Stop the broker's own reactor and its thread."""
        if not self.is_own:
            return
        if self._own_thread.is_alive():
            self.reactor.callFromThread(self.reactor.stop)
            self._own_thread.join(STOP_TIMEOUT_S)
        if self._own_thread.is_alive():
            _log.warn("{name} did not end in {seconds} s", name=self._own_thread.name, seconds=STOP_TIMEOUT_S)
        else:
            close_reactor(self.reactor)

    def _run(self) -> None:
        self.reactor.run(installSignalHandlers=False)
