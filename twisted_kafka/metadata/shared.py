"""One metadata tree for several brokers in a process: each has a session of its own, as with ZooKeeper.

    zookeeper.connect=in-process/NAME@BROKER

A name stands for a tree from ``share`` to ``unshare``, the whole text for a broker's session, which a test can let expire.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from twisted_kafka.metadata.embedded import IN_MEMORY, IN_PROCESS, SqliteStore
from twisted_kafka.metadata.store import (
    ANY_VERSION,
    IWatch,
    Operation,
    Result,
    SessionExpiredError,
    SessionState,
    Stat,
    StoreClosedError,
    StoreError,
    StoreUnavailableError,
    WatchEvent,
    check_path,
)
from twisted_kafka.metadata.watches import Watches
from twisted_kafka.metadata.worker import SerialWorker
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock

_trees: Final[dict[str, tuple[SqliteStore, "MakeSession"]]] = {}
_sessions: Final[dict[str, "SharedStore"]] = {}
_lock: Final = machine.Lock()
LISTENERS_TIMEOUT_S: Final = 30.0
"""How long a new session waits for the session listeners to return from EXPIRED."""
_numbers: Final = itertools.count(1)


def new_connect() -> str:
    """Return a ``zookeeper.connect`` for a tree that will be shared."""
    return f"{IN_PROCESS}{next(_numbers)}"


def share(connect: str, clock: IClock, path: Path | str = IN_MEMORY, make_session: "MakeSession | None" = None) -> None:
    """Share the tree in a file, or a new one in memory, until ``unshare``. Raises StoreUnavailableError for a file in use.

    ``make_session`` makes each broker's session from the tree, the broker's whole text, and whether watches have a thread.
    """
    with _lock:
        _trees[connect] = SqliteStore(path, clock, threaded=False), make_session or _make_session


def unshare(connect: str) -> None:
    """Forget a tree. Harmless if it does not exist."""
    with _lock:
        shared = _trees.pop(connect, None)
        for name in [name for name in _sessions if name.partition("@")[0] == connect]:
            del _sessions[name]
    if shared is not None:
        shared[0].close()


def open_shared(connect: str, *, threaded: bool = True) -> "SharedStore":
    """Begin a session; raises StoreUnavailableError if there is no such tree."""
    with _lock:
        shared = _trees.get(connect.partition("@")[0])
    if shared is None:
        raise StoreUnavailableError(f"zookeeper.connect={connect}: this process shares no metadata of this name")
    tree, make_session = shared
    opened = make_session(tree, connect, threaded)
    with _lock:
        _sessions[connect] = opened
    return opened


def session_of(connect: str) -> "SharedStore":
    """Return the session that a broker began with this ``zookeeper.connect``. Raises KeyError if none did."""
    with _lock:
        return _sessions[connect]


class SharedStore:
    """A session of a tree. With ``threaded=False`` watches are delivered only by ``pump()``."""

    def __init__(self, tree: SqliteStore, *, threaded: bool = True) -> None:
        self._tree = tree
        self._is_closed = self._is_expired = False
        self._worker = SerialWorker("metadata-watch-thread", threaded=threaded)
        self._watches = Watches(self._worker)
        self.session_id: int = tree.begin_session(self._watches)

    @property
    def is_closed(self) -> bool:
        """Whether the broker has ended the session."""
        return self._is_closed

    def get(self, path: str) -> tuple[bytes, Stat] | None:
        """Return the node's data and stat; None when it does not exist."""
        with self._acting() as tree:
            return tree.get(path)

    def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        """Return the result of ``get`` for each path."""
        with self._acting() as tree:
            return tree.get_many(paths)

    def exists(self, path: str) -> Stat | None:
        """Return the node's stat; None when it does not exist."""
        with self._acting() as tree:
            return tree.exists(path)

    def children(self, path: str) -> list[str]:
        """Return the names of the children, sorted; raises NoNodeError."""
        with self._acting() as tree:
            return tree.children(path)

    def sync(self, path: str) -> None:
        """Return at once: all sessions read the same tree."""
        with self._acting() as tree:
            tree.sync(path)

    def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False, make_parents: bool = False
    ) -> str:
        """Create a node and return its path."""
        with self._acting() as tree:
            return tree.create(path, data, ephemeral=ephemeral, sequence=sequence, make_parents=make_parents)

    def set(self, path: str, data: bytes, expected_version: int = ANY_VERSION) -> Stat:
        """Replace the node's data."""
        with self._acting() as tree:
            return tree.set(path, data, expected_version)

    def delete(self, path: str, expected_version: int = ANY_VERSION, *, recursive: bool = False) -> None:
        """Delete the node; with ``recursive`` also its descendants."""
        with self._acting() as tree:
            tree.delete(path, expected_version, recursive=recursive)

    def multi(self, operations: Sequence[Operation]) -> list[Result]:
        """Execute all of the operations or none."""
        with self._acting() as tree:
            return tree.multi(operations)

    def batch(self, groups: Sequence[Sequence[Operation]]) -> list[list[Result] | StoreError]:
        """Execute each group as ``multi`` does."""
        with self._acting() as tree:
            return tree.batch(groups)

    def watch(self, path: str, callback: Callable[[WatchEvent], None], *, data_only: bool = False) -> IWatch:
        """Call ``callback`` after each change of the node at ``path`` or, unless ``data_only``, of its list of children."""
        check_path(path)
        return self._watches.add(path, callback, data_only=data_only)

    def watch_and_get(
        self, paths: Sequence[str], callback: Callable[[WatchEvent], None]
    ) -> list[tuple[IWatch, tuple[bytes, Stat] | None]]:
        """Watch the data of each node, and return the result of ``get`` with the watch."""
        for path in paths:
            check_path(path)
        with self._acting() as tree:
            watches = [self.watch(path, callback, data_only=True) for path in paths]
            return list(zip(watches, tree.get_many(paths), strict=True))

    def add_session_listener(self, callback: Callable[[SessionState], None]) -> None:
        """Call ``callback`` when the session is closed."""
        self._watches.add_session_listener(callback)

    def expire(self) -> None:
        """Let the session expire, as if the store had heard nothing of the broker for too long. Calls fail until ``renew``."""
        self._is_expired = True
        self._tree.end_session(self.session_id, self._watches)

    def renew(self) -> None:
        """Report the end of the session to its listeners, and begin another one with the same watches."""
        acted = machine.Event()
        self._watches.session_changed(SessionState.EXPIRED)
        if self._worker.submit(acted.set):
            acted.wait(LISTENERS_TIMEOUT_S)
        self.session_id = self._tree.begin_session(self._watches)
        self._is_expired = False
        self._watches.notify_all()  # of the changes meanwhile
        self._watches.session_changed(SessionState.CONNECTED)

    def pump(self) -> int:
        """Deliver the waiting events on this thread; return how many. Only with ``threaded=False``."""
        return self._worker.pump()

    def close(self) -> None:
        """End the session, which deletes its ephemeral nodes."""
        if self._is_closed:
            return
        self._is_closed = True
        self._tree.end_session(self.session_id, self._watches)
        self._watches.session_changed(SessionState.CLOSED)
        self._worker.close()

    @contextmanager
    def _acting(self) -> Iterator[SqliteStore]:
        if self._is_closed:
            raise StoreClosedError("the session of the shared metadata store is closed")
        if self._is_expired:
            raise SessionExpiredError("the session of the shared metadata store has expired")
        with self._tree.acting_as(self.session_id):
            yield self._tree


MakeSession = Callable[[SqliteStore, str, bool], SharedStore]


def _make_session(tree: SqliteStore, connect: str, threaded: bool) -> SharedStore:
    return SharedStore(tree, threaded=threaded)
