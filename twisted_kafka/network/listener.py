"""One listener: its acceptor and its network threads, which may become more or fewer while it runs."""

from collections.abc import Callable

from twisted.logger import Logger

from twisted_kafka.config.endpoints import EndPoint
from twisted_kafka.network.accepting.acceptor import Acceptor
from twisted_kafka.network.loop.network_thread import NetworkThread

_log = Logger()


class Listener:
    """Changed on the main reactor's thread only.

    One that begins with a single network thread accepts on it, also when it gets further ones: the first is the last to end.
    """

    def __init__(self, configured: EndPoint, acceptor: Acceptor, make_thread: Callable[[], NetworkThread]) -> None:
        """``configured`` is the end point as the settings have it: its port may be 0."""
        self.configured = configured
        self.acceptor = acceptor
        self.threads: list[NetworkThread] = []
        self._make_thread = make_thread

    @property
    def name(self) -> str:
        """Its name."""
        return self.configured.listener_name

    @property
    def bound(self) -> EndPoint:
        """Where it listens, with the port that it really has."""
        return self.configured._replace(port=self.acceptor.port)

    def resize(self, count: int, *, start: bool) -> list[NetworkThread]:
        """Have ``count`` network threads; return those that are to end, which get no connections any more.

        New ones are started with ``start``.
        """
        before = len(self.threads)
        added = [self._make_thread() for _ in range(before, count)]
        ending = self.threads[count:]
        self.threads = [*self.threads[:count], *added]
        self.acceptor.processors = [thread.processor for thread in self.threads]
        if not before and count == 1:
            added[0].accept_for(self.acceptor)
        if start:
            for thread in added:
                thread.thread.start()
        if before and count != before:
            _log.info("Listener {name} has {count} network threads, it had {before}", name=self.name, count=count, before=before)
        return ending

    def start_threads(self) -> None:
        """Start those that do not run."""
        for thread in self.threads:
            if thread.thread.ident is None:
                thread.thread.start()
