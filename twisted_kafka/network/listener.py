"""One listener: its acceptor and its network threads, whose number may change while it runs."""

from collections.abc import Callable, Sequence

from twisted.logger import Logger

from twisted_kafka.config.endpoints import EndPoint
from twisted_kafka.network.accepting.acceptor import Acceptor
from twisted_kafka.network.loop.network_thread import NetworkThread

_log = Logger()


class Listener:
    """Modified only on the main reactor's thread.

    A listener that starts with a single network thread accepts on that thread, and continues to if more are added: the first thread
    is the last to be removed.
    """

    def __init__(self, configured: EndPoint, acceptor: Acceptor, make_thread: Callable[[], NetworkThread]) -> None:
        """``configured`` is the configured end point; its port may be 0."""
        self.configured = configured
        self.acceptor = acceptor
        self.threads: list[NetworkThread] = []
        self._make_thread = make_thread

    @property
    def name(self) -> str:
        """The listener name."""
        return self.configured.listener_name

    @property
    def bound(self) -> EndPoint:
        """The end point with the port that is really bound."""
        return self.configured._replace(port=self.acceptor.port)

    def resize(self, count: int, *, start: bool) -> list[NetworkThread]:
        """Set the number of network threads. Return the surplus ones, which get no more connections; the caller ends them.

        With ``start``, the new threads are started. A thread that the system does not give is surplus.
        """
        before = len(self.threads)
        added = [self._make_thread() for _ in range(before, count)]
        ending = self.threads[count:]
        if start:
            given = _started(added)
            ending, added, count = [*ending, *added[given:]], added[:given], count - len(added) + given
        self.threads = [*self.threads[:count], *added]
        self.acceptor.processors = [thread.processor for thread in self.threads]
        if not before and count == 1:
            added[0].run_acceptor(self.acceptor)
        if before and count != before:
            _log.info("Listener {name} has {count} network threads, it had {before}", name=self.name, count=count, before=before)
        return ending

    def start_threads(self) -> None:
        """Start the threads that are not running."""
        for thread in self.threads:
            if not thread.is_started:
                thread.start()


def _started(threads: Sequence[NetworkThread]) -> int:
    """Start threads; return how many of them the system gives."""
    for number, thread in enumerate(threads):
        try:
            thread.start()
        except RuntimeError as error:
            _log.error("No further network thread for now: {error}", error=error)
            return number
    return len(threads)
