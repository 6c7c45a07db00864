"""The watches of a store: their registration by path, and the ordered delivery of events."""

from collections.abc import Callable, Iterable

from twisted_kafka.metadata.store import EventKind, SessionState, WatchEvent
from twisted_kafka.metadata.worker import SerialWorker
from twisted_kafka.system import machine


class Watch:
    """A registered callback for the events of one path.

    Queued events of the same kind are merged into one, which bounds the queue. The merged event names the changed children of all
    of them, or no children if one event does not name them.
    """

    __slots__ = ("_callback", "_data_only", "_pending", "_watches", "path")

    def __init__(self, watches: "Watches", path: str, callback: Callable[[WatchEvent], None], *, data_only: bool) -> None:
        self._watches = watches
        self.path = path
        self._callback: Callable[[WatchEvent], None] | None = callback
        self._data_only = data_only
        self._pending: dict[EventKind, set[str]] = {}

    def cancel(self) -> None:
        """Cancel the watch."""
        self._callback = None
        self._watches.remove(self)

    def notify(self, event: WatchEvent, worker: SerialWorker) -> None:
        """Queue the event, or merge it into a queued one of the same kind; called with the lock of the watches held."""
        if self._data_only and event.kind is EventKind.CHILDREN:
            return
        names = self._pending.get(event.kind)
        if names is None:
            self._pending[event.kind] = set(event.names)
            worker.submit(lambda: self._deliver(event.kind))
        elif names and event.names:
            names |= event.names
        else:
            names.clear()

    def _deliver(self, kind: EventKind) -> None:
        # Removed before the callback: a change during the callback needs another event.
        with self._watches.lock:
            names = frozenset(self._pending.pop(kind))
        if self._callback is not None:
            self._callback(WatchEvent(kind, self.path, names))


class Watches:
    """All watches of a store, by path."""

    def __init__(self, worker: SerialWorker) -> None:
        self._worker = worker
        self._by_path: dict[str, list[Watch]] = {}
        self._listeners: list[Callable[[SessionState], None]] = []
        self.on_unwatched: Callable[[str], object] | None = None
        """Is called, without the lock, with a path when its last watch is cancelled."""
        self.lock = machine.Lock()
        """Held while watches are added or removed, and while events are queued."""

    def add(self, path: str, callback: Callable[[WatchEvent], None], *, data_only: bool) -> Watch:
        """Register a watch; with ``data_only`` it gets no events about children."""
        watch = Watch(self, path, callback, data_only=data_only)
        with self.lock:
            self._by_path.setdefault(path, []).append(watch)
        return watch

    def remove(self, watch: Watch) -> None:
        """Remove a watch, if it is registered."""
        with self.lock:
            watches = self._by_path.get(watch.path, [])
            if watch in watches:
                watches.remove(watch)
            is_unwatched = not watches and self._by_path.pop(watch.path, None) is not None
        if is_unwatched and self.on_unwatched is not None:
            self.on_unwatched(watch.path)

    def has(self, path: str) -> bool:
        """Return whether there is a watch of this path."""
        with self.lock:
            return path in self._by_path

    def add_session_listener(self, callback: Callable[[SessionState], None]) -> None:
        """Register a listener of the session's state."""
        with self.lock:
            self._listeners.append(callback)

    def notify(self, events: Iterable[WatchEvent]) -> None:
        """Queue the events for the watches of their paths."""
        with self.lock:
            for event in events:
                for watch in self._by_path.get(event.path, ()):
                    watch.notify(event, self._worker)

    def notify_all(self) -> None:
        """Queue events for all watches, after which their receivers read everything again."""
        with self.lock:
            for path, watches in self._by_path.items():
                for watch in watches:
                    for kind in (EventKind.CHANGED, EventKind.CHILDREN):
                        watch.notify(WatchEvent(kind, path, frozenset()), self._worker)

    def session_changed(self, state: SessionState) -> None:
        """Notify the session listeners."""
        with self.lock:
            for listener in self._listeners:
                self._worker.submit(lambda listener=listener: listener(state))  # type: ignore[misc]
