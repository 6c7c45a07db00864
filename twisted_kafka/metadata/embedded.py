"""The embedded metadata store of a single broker: an SQLite file in its log directory.

Each change is one SQLite transaction in write-ahead mode with ``synchronous=FULL``: it is on disk when the call returns, and after
a crash the store has all of it or nothing. There is one connection, guarded by a lock. Only one process at a time can open the
file, so ephemeral nodes found when it is opened belong to a process that no longer exists, and are deleted.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from twisted.logger import Logger

from twisted_kafka.metadata.store import (
    ANY_VERSION,
    BadVersionError,
    Check,
    Create,
    Delete,
    EventKind,
    IWatch,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Operation,
    Result,
    SessionState,
    Set,
    Stat,
    StoreClosedError,
    StoreError,
    StoreUnavailableError,
    WatchEvent,
    check_path,
    split_path,
)
from twisted_kafka.metadata.watches import Watches
from twisted_kafka.metadata.worker import SerialWorker
from twisted_kafka.system import machine
from twisted_kafka.system.files.durability import has_to_last
from twisted_kafka.system.files.names import open_descriptor
from twisted_kafka.system.forks import close_in_children, never_finalize
from twisted_kafka.timing.clock import IClock, SystemClock

FORMAT_VERSION: Final = 2
"""Format 1 did not store the creation time of nodes."""
CACHE_KIB: Final = 4096
OWNER_ONLY: Final = 0o600
IN_MEMORY: Final = ":memory:"
"""SQLite's name for a database without a file."""
IN_PROCESS: Final = "in-process/"
"""The prefix of a ``zookeeper.connect`` that names a tree which brokers in one process share (``metadata/shared.py``)."""

_log = Logger()

_SCHEMA: Final = """
CREATE TABLE node (
    parent TEXT NOT NULL,
    name TEXT NOT NULL,
    data BLOB NOT NULL,
    version INTEGER NOT NULL,
    cversion INTEGER NOT NULL,
    czxid INTEGER NOT NULL,
    mzxid INTEGER NOT NULL,
    ephemeral_owner INTEGER NOT NULL,
    ctime_ms INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (parent, name)
) WITHOUT ROWID;
CREATE INDEX node_ephemeral ON node (ephemeral_owner) WHERE ephemeral_owner != 0;
CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO counter VALUES ('zxid', 0);
INSERT INTO counter VALUES ('session', 0);
INSERT INTO node VALUES ('/', '', x'', 0, 0, 0, 0, 0, 0);
"""
_FROM_FORMAT_1: Final = "ALTER TABLE node ADD COLUMN ctime_ms INTEGER NOT NULL DEFAULT 0"
_COLUMNS: Final = "version, cversion, czxid, mzxid, ephemeral_owner, ctime_ms"
_SELECT: Final = f"SELECT data, {_COLUMNS} FROM node WHERE parent = ? AND name = ?"
_STAT: Final = f"SELECT {_COLUMNS} FROM node WHERE parent = ? AND name = ?"


class SqliteStore:
    """``IMetadataStore`` in one file. With ``threaded=False`` watches are delivered only by ``pump()``."""

    def __init__(self, path: str | Path, clock: IClock | None = None, *, threaded: bool = True) -> None:
        """Open the file, and create it if it is missing; ``clock`` gives the creation times of nodes.

        Raises StoreUnavailableError when the file is in use, is damaged or cannot be written.
        """
        self.path = Path(path)
        self._clock = clock or SystemClock()
        self._lock = machine.RLock()
        self._closed = False
        self._zxid = 0
        self._events: list[WatchEvent] = []
        self._database = self._open()
        close_in_children(self, lambda store: never_finalize(store._database))  # SQLite's own end would write the parent's file
        self._worker = SerialWorker("metadata-watch-thread", threaded=threaded)
        self._watches = Watches(self._worker)
        self._followers: tuple[Watches, ...] = (self._watches,)

    def _open(self) -> sqlite3.Connection:
        database = None
        try:
            self._make_file()
            database = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=1.0)
            _first(database.execute("PRAGMA locking_mode = EXCLUSIVE"))
            has_to = has_to_last(self.path)
            _first(database.execute(f"PRAGMA journal_mode = {'WAL' if has_to else 'MEMORY'}"))
            database.execute(f"PRAGMA synchronous = {'FULL' if has_to else 'OFF'}")
            database.execute("PRAGMA fullfsync = ON")  # as system.disk does; without effect but on macOS
            database.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
            found = _first(database.execute("PRAGMA user_version"))[0]
            if not 0 <= found <= FORMAT_VERSION:
                raise StoreUnavailableError(f"{self.path} has the unknown format {found}")
            database.execute("BEGIN IMMEDIATE")
            if not found:
                for statement in _SCHEMA.split(";")[:-1]:
                    database.execute(statement)
            elif found == 1:
                database.execute(_FROM_FORMAT_1)
            if found != FORMAT_VERSION:
                database.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
            self._begin_session(database)
            database.execute("COMMIT")
        except (OSError, sqlite3.Error) as error:
            if database is not None:
                database.close()
            raise StoreUnavailableError(f"cannot open the metadata store {self.path}: {error}") from error
        except StoreUnavailableError:
            if database is not None:
                database.close()
            raise
        return database

    def _make_file(self) -> None:
        if str(self.path) == IN_MEMORY:
            return
        # It has keys that follow from passwords. SQLite's other files get its mode.
        with suppress(FileExistsError):
            os.close(open_descriptor(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, OWNER_ONLY))

    def _begin_session(self, database: sqlite3.Connection) -> None:
        database.execute("UPDATE counter SET value = value + 1 WHERE name = 'session'")
        counters = dict(database.execute("SELECT name, value FROM counter"))
        self.session_id: int = counters["session"]
        self._zxid = counters["zxid"]
        self._delete_ephemerals(database)

    def _delete_ephemerals(self, database: sqlite3.Connection) -> None:
        found = database.execute("SELECT parent, name FROM node WHERE ephemeral_owner != 0").fetchall()
        database.executemany("DELETE FROM node WHERE parent = ? AND name = ?", found)
        parents = [split_path(parent) for parent, _ in found]
        database.executemany("UPDATE node SET cversion = cversion + 1 WHERE parent = ? AND name = ?", parents)

    # Reading

    def get(self, path: str) -> tuple[bytes, Stat] | None:
        """Return the node's data and stat; None when it does not exist."""
        return self.get_many((path,))[0]

    def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        """Return the result of ``get`` for each path."""
        with self._reading() as database:
            rows = [_first(database.execute(_SELECT, split_path(path))) for path in paths]
        return [None if row is None else (row[0], Stat(*row[1:])) for row in rows]

    def exists(self, path: str) -> Stat | None:
        """Return the node's stat; None when it does not exist."""
        with self._reading():
            return self._stat(path)

    def children(self, path: str) -> list[str]:
        """Return the names of the children, sorted; raises NoNodeError."""
        with self._reading() as database:
            self._stat_of(path)
            rows = database.execute("SELECT name FROM node WHERE parent = ? AND name != '' ORDER BY name", (path,)).fetchall()
        return [row[0] for row in rows]

    def sync(self, path: str) -> None:
        """Return at once: there is one tree."""
        with self._reading():
            check_path(path)

    # Changing

    def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False, make_parents: bool = False
    ) -> str:
        """Create a node and return its path."""
        with self._changing():
            if make_parents:
                self._make_parents(path)
            return self._create(Create(path, data, ephemeral, sequence))

    def set(self, path: str, data: bytes, expected_version: int = ANY_VERSION) -> Stat:
        """Replace the node's data."""
        with self._changing():
            return self._set(Set(path, data, expected_version))

    def delete(self, path: str, expected_version: int = ANY_VERSION, *, recursive: bool = False) -> None:
        """Delete the node; with ``recursive`` also its descendants."""
        with self._changing():
            if recursive:
                self._delete_descendants(path, expected_version)
            self._delete(Delete(path, expected_version))

    def multi(self, operations: Sequence[Operation]) -> list[Result]:
        """Execute all of the operations or none."""
        with self._changing():
            return [self._execute(operation) for operation in operations]

    def batch(self, groups: Sequence[Sequence[Operation]]) -> list[list[Result] | StoreError]:
        """Execute each group as ``multi`` does; all groups are written to disk together."""
        results: list[list[Result] | StoreError] = []
        if not groups:
            return results
        with self._changing() as database:
            for group in groups:
                database.execute("SAVEPOINT operations")
                events = len(self._events)
                try:
                    results.append([self._execute(operation) for operation in group])
                except StoreError as error:
                    database.execute("ROLLBACK TO operations")
                    del self._events[events:]
                    results.append(error)
                database.execute("RELEASE operations")
        return results

    # Watching

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
        with self._reading():
            watches = [self.watch(path, callback, data_only=True) for path in paths]
            return list(zip(watches, self.get_many(paths), strict=True))

    def add_session_listener(self, callback: Callable[[SessionState], None]) -> None:
        """Call ``callback`` when the store is closed."""
        self._watches.add_session_listener(callback)

    def pump(self) -> int:
        """Deliver the waiting events on this thread; return how many. Only with ``threaded=False``."""
        return self._worker.pump()

    def close(self) -> None:
        """Delete the session's ephemeral nodes and close the file."""
        with self._lock:
            if self._closed:
                return
            try:
                with self._reading() as database:
                    database.execute("BEGIN IMMEDIATE")
                    self._delete_ephemerals(database)
                    database.execute("COMMIT")
            except StoreUnavailableError as error:
                # The next start deletes them.
                _log.error("Cannot delete the session's ephemeral nodes; the next start deletes them: {error}", error=error)
            finally:
                self._closed = True
                self._database.close()
        self._watches.session_changed(SessionState.CLOSED)
        self._worker.close()

    # Sessions of others in this process (``metadata/shared.py``)

    def begin_session(self, watches: Watches) -> int:
        """Return the id of a further session, whose watches hear of all changes from now on."""
        with self._changing() as database:
            database.execute("UPDATE counter SET value = value + 1 WHERE name = 'session'")
            (session_id,) = _first(database.execute("SELECT value FROM counter WHERE name = 'session'"))
            self._followers = (*self._followers, watches)
        return int(session_id)

    def end_session(self, session_id: int, watches: Watches) -> None:
        """Delete a session's ephemeral nodes, which the others hear of. Does nothing after ``close``."""
        with self._lock:
            self._followers = tuple(each for each in self._followers if each is not watches)
            if self._closed:
                return
            with self._changing() as database:
                found = database.execute("SELECT parent, name FROM node WHERE ephemeral_owner = ?", (session_id,)).fetchall()
                for parent, name in found:
                    self._delete(Delete(f"{parent.rstrip('/')}/{name}"))

    @contextmanager
    def acting_as(self, session_id: int) -> Iterator[None]:
        """Let the ephemeral nodes that this thread creates belong to a session; other threads wait."""
        with self._lock:
            own, self.session_id = self.session_id, session_id
            try:
                yield
            finally:
                self.session_id = own

    # Implementation: these run within a transaction, and collect the events to deliver after it.

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """Hold the connection for a ``with`` block; raises StoreUnavailableError instead of an error of SQLite's."""
        with self._lock:
            if self._closed:
                raise StoreClosedError(f"the metadata store {self.path} is closed")
            try:
                yield self._database
            except sqlite3.Error as error:
                raise StoreUnavailableError(f"the metadata store {self.path} failed: {error}") from error

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        with self._reading() as database:
            before = self._zxid
            self._events = []
            self._zxid += 1
            try:
                database.execute("BEGIN IMMEDIATE")
                yield database
                database.execute("UPDATE counter SET value = ? WHERE name = 'zxid'", (self._zxid,))
                database.execute("COMMIT")
            except BaseException:
                self._zxid = before
                if database.in_transaction:
                    database.execute("ROLLBACK")
                raise
            # The lock is still held, so that events are queued in the order of the changes.
            for watches in self._followers:
                watches.notify(self._events)

    def _execute(self, operation: Operation) -> Result:
        match operation:
            case Create():
                return self._create(operation)
            case Set():
                return self._set(operation)
            case Delete():
                self._delete(operation)
            case Check():
                _expect(self._stat_of(operation.path), operation.path, operation.expected_version)
        return None

    def _stat(self, path: str) -> Stat | None:
        row = _first(self._database.execute(_STAT, split_path(path)))
        return None if row is None else Stat(*row)

    def _stat_of(self, path: str) -> Stat:
        stat = self._stat(path)
        if stat is None:
            raise NoNodeError(f"the node {path} does not exist")
        return stat

    def _create(self, operation: Create) -> str:
        path = operation.path
        check_path(path)
        if path == "/":
            raise NodeExistsError("the node / already exists")
        parent, name = split_path(path)
        above = self._stat_of(parent)
        if above.ephemeral_owner:
            raise NoChildrenForEphemeralsError(f"the node {parent} is ephemeral and cannot have children")
        if operation.sequence:
            name = f"{name}{above.cversion:010d}"
            path = f"{path}{above.cversion:010d}"
        owner = self.session_id if operation.ephemeral else 0
        try:
            self._database.execute(
                "INSERT INTO node VALUES (?, ?, ?, 0, 0, ?, ?, ?, ?)",
                (parent, name, operation.data, self._zxid, self._zxid, owner, self._clock.wall_ms()),
            )
        except sqlite3.IntegrityError:
            raise NodeExistsError(f"the node {path} already exists") from None
        self._children_changed(parent, name)
        self._events.append(WatchEvent(EventKind.CREATED, path))
        return path

    def _make_parents(self, path: str) -> None:
        check_path(path)
        missing = []
        parent, _ = split_path(path)
        while self._stat(parent) is None:
            missing.append(parent)
            parent, _ = split_path(parent)
        for each in reversed(missing):
            self._create(Create(each))

    def _set(self, operation: Set) -> Stat:
        path = operation.path
        stat = self._stat_of(path)
        _expect(stat, path, operation.expected_version)
        self._database.execute(
            "UPDATE node SET data = ?, version = version + 1, mzxid = ? WHERE parent = ? AND name = ?",
            (operation.data, self._zxid, *split_path(path)),
        )
        self._events.append(WatchEvent(EventKind.CHANGED, path))
        return stat._replace(version=stat.version + 1, mzxid=self._zxid)

    def _delete(self, operation: Delete) -> None:
        path = operation.path
        stat = self._stat_of(path)
        _expect(stat, path, operation.expected_version)
        child = _first(self._database.execute("SELECT 1 FROM node WHERE parent = ? LIMIT 1", (path,)))
        if child is not None:
            raise NotEmptyError(f"the node {path} has children")
        parent, name = split_path(path)
        self._database.execute("DELETE FROM node WHERE parent = ? AND name = ?", (parent, name))
        self._events.append(WatchEvent(EventKind.DELETED, path))
        self._children_changed(parent, name)

    def _delete_descendants(self, path: str, expected_version: int) -> None:
        if path == "/":
            raise NotEmptyError("the root cannot be deleted")
        _expect(self._stat_of(path), path, expected_version)
        # "0" is the character after "/": all parents between them are descendants of the path.
        condition = "WHERE parent = ? OR (parent > ? AND parent < ?)"
        bounds = (path, f"{path}/", f"{path}0")
        for parent, name in self._database.execute(f"SELECT parent, name FROM node {condition}", bounds).fetchall():
            self._events.append(WatchEvent(EventKind.DELETED, f"{parent}/{name}"))
        self._database.execute(f"DELETE FROM node {condition}", bounds)

    def _children_changed(self, parent: str, name: str) -> None:
        self._database.execute("UPDATE node SET cversion = cversion + 1 WHERE parent = ? AND name = ?", split_path(parent))
        self._events.append(WatchEvent(EventKind.CHILDREN, parent, frozenset((name,))))


def _first(rows: sqlite3.Cursor) -> Any:
    """Return the only row, or None. All rows are fetched, because a statement that is not finished keeps COMMIT from working."""
    found = rows.fetchall()
    return found[0] if found else None


def _expect(stat: Stat, path: str, expected_version: int) -> None:
    if expected_version not in (ANY_VERSION, stat.version):
        raise BadVersionError(f"the node {path} has version {stat.version}, not the expected version {expected_version}")
