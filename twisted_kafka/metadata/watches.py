"""The watches of the embedded store: who wants to know of which path, and telling them in order."""

import threading
from collections.abc import Callable, Iterable

from zope.interface import implementer

from twisted_kafka.metadata.store import EventKind, IWatch, SessionState, WatchEvent
from twisted_kafka.metadata.worker import SerialWorker


@implementer(IWatch)
class Watch:
    """One receiver of one path's events. An event that is still queued is not queued again, which bounds the queue."""

    __slots__ = ("_callback", "_pending", "_watches", "path")

    def __init__(self, watches: "Watches", path: str, callback: Callable[[WatchEvent], None]) -> None:
        self._watches = watches
        self.path = path
        self._callback: Callable[[WatchEvent], None] | None = callback
        self._pending: set[EventKind] = set()

    def cancel(self) -> None:
        """Stop it."""
        self._callback = None
        self._watches.remove(self)

    def notify(self, kind: EventKind, worker: SerialWorker) -> None:
        """Queue the event unless the same one waits."""
        if kind not in self._pending:
            self._pending.add(kind)
            worker.submit(lambda: self._deliver(kind))

    def _deliver(self, kind: EventKind) -> None:
        # Forgotten first: a change during the callback is news.
        self._pending.discard(kind)
        if self._callback is not None:
            self._callback(WatchEvent(kind, self.path))


class Watches:
    """All watches of a store, by path."""

    def __init__(self, worker: SerialWorker) -> None:
        self._worker = worker
        self._by_path: dict[str, list[Watch]] = {}
        self._listeners: list[Callable[[SessionState], None]] = []
        self._lock = threading.Lock()

    def add(self, path: str, callback: Callable[[WatchEvent], None]) -> Watch:
        """Register a watch."""
        watch = Watch(self, path, callback)
        with self._lock:
            self._by_path.setdefault(path, []).append(watch)
        return watch

    def remove(self, watch: Watch) -> None:
        """Forget a watch, if it is registered."""
        with self._lock:
            watches = self._by_path.get(watch.path, [])
            if watch in watches:
                watches.remove(watch)
            if not watches:
                self._by_path.pop(watch.path, None)

    def add_session_listener(self, callback: Callable[[SessionState], None]) -> None:
        """Register a listener of the session's state."""
        with self._lock:
            self._listeners.append(callback)

    def notify(self, events: Iterable[WatchEvent]) -> None:
        """Queue the events for those who watch their paths."""
        with self._lock:
            for kind, path in events:
                for watch in self._by_path.get(path, ()):
                    watch.notify(kind, self._worker)

    def session_changed(self, state: SessionState) -> None:
        """Tell the session listeners."""
        with self._lock:
            for listener in self._listeners:
                self._worker.submit(lambda listener=listener: listener(state))  # type: ignore[misc]
