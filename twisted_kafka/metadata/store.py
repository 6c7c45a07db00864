"""The interface of the store that holds the cluster's metadata: a tree of nodes with ZooKeeper's semantics.

A node has a path (``/brokers/ids/1``), data, children and a ``Stat``. The embedded store of a single broker
(``metadata/embedded.py``) implements the interface, and so does the client of a ZooKeeper ensemble (``metadata/zookeeper/``).

Versions: a node's ``version`` starts at 0 and is incremented by each ``set``; its ``cversion`` is incremented when a child is
created or deleted. A change may specify the expected version; ``ANY_VERSION`` matches all. Every change has a transaction id, and
transaction ids only increase.

Durability: when a changing call returns, the change survives a crash of the process or the machine.

Watches are persistent until they are cancelled. An event says which node changed, but not how: several changes in quick succession
may be delivered as one event, so the receiver has to read the node again. A store calls all watches on one thread, in the order of
the changes, which include those made through this store itself. Callbacks must not block for long.

Sessions: ephemeral nodes are deleted with the session of the store that created them. A store that was closed stays closed. A
session that has expired in ZooKeeper is replaced: calls fail with SessionExpiredError until all session listeners have returned
from EXPIRED, so that nothing begun in the old session takes effect in the new one. Then the store opens a session with another
``session_id``, keeps its watches, and the listeners hear CONNECTED (a broker registers again).
"""

import enum
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from twisted_kafka.protocol.errors import RequestTimedOutError

ANY_VERSION: Final = -1
"""The expected version that matches every node."""


class StoreError(Exception):
    """An operation was refused or failed; the message contains the path."""


class NodeExistsError(StoreError):
    """The node already exists."""


class NoNodeError(StoreError):
    """The node, or its parent, does not exist."""


class BadVersionError(StoreError):
    """The node's version is not the expected one."""


class NotEmptyError(StoreError):
    """The node has children and can only be deleted recursively."""


class NoChildrenForEphemeralsError(StoreError):
    """Ephemeral nodes cannot have children."""


class InvalidPathError(StoreError):
    """The path is not absolute, ends with a slash, or has an empty or dotted part."""


class StoreClosedError(StoreError):
    """The store was closed."""


class StoreUnavailableError(StoreError):
    """The store cannot be reached or opened; the message is one line."""


class StoreDisconnectedError(StoreUnavailableError, RequestTimedOutError):
    """The store did not answer in time. A change may have been made nevertheless. Clients get REQUEST_TIMED_OUT, and may retry."""


class SessionExpiredError(StoreDisconnectedError):
    """The session has expired. A change that was under way may have been made nevertheless."""


class AccessDeniedError(StoreError):
    """The ACL of the node does not allow this to the store's user."""


class TooLargeError(StoreError):
    """The data of the change exceeds what the store takes at once."""


class Stat(NamedTuple):
    """The properties of a node apart from its data."""

    version: int
    cversion: int
    czxid: int
    """The id of the transaction that created the node; that of ``/brokers/ids/<id>`` is Kafka's broker epoch."""
    mzxid: int
    """The id of the transaction that last changed the data."""
    ephemeral_owner: int
    """The session that owns the node; 0 when it is not ephemeral."""
    ctime_ms: int = 0
    """When the node was created, in milliseconds since the epoch."""


class Create(NamedTuple):
    """Operation: create a node. The result is its path, with the sequence number if ``sequence``."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequence: bool = False


class Set(NamedTuple):
    """Operation: replace a node's data. The result is the new ``Stat``."""

    path: str
    data: bytes
    expected_version: int = ANY_VERSION


class Delete(NamedTuple):
    """Operation: delete a node without children. The result is None."""

    path: str
    expected_version: int = ANY_VERSION


class Check(NamedTuple):
    """Operation: fail unless the node exists in the expected version. The result is None."""

    path: str
    expected_version: int = ANY_VERSION


Operation = Create | Set | Delete | Check
Result = str | Stat | None


class EventKind(enum.Enum):
    """The kind of a change of a watched node."""

    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"
    CHILDREN = "children"
    """A direct child was created or deleted."""


class WatchEvent(NamedTuple):
    """A change of the node at ``path``."""

    kind: EventKind
    path: str
    names: frozenset[str] = frozenset()
    """With CHILDREN: the children that were created or deleted. Empty if unknown: the receiver has to read all children."""


class SessionState(enum.Enum):
    """The state of a store's session. The embedded store is connected until it is closed."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    EXPIRED = "expired"
    CLOSED = "closed"


class IWatch(Protocol):
    """A registered watch."""

    def cancel(self) -> None:
        """Cancel the watch; an event that is already queued may still be delivered. Cancelling twice is allowed."""


class IMetadataStore(Protocol):
    """A tree of versioned nodes. All methods may be called on any thread, and raise StoreClosedError after ``close``."""

    @property
    def session_id(self) -> int:
        """The id of the session, which owns the ephemeral nodes created through this store."""

    def get(self, path: str) -> tuple[bytes, Stat] | None:
        """Return the node's data and stat; None when it does not exist."""

    def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        """Return the result of ``get`` for each path; they are requested together, but not read in one transaction."""

    def exists(self, path: str) -> Stat | None:
        """Return the node's stat; None when it does not exist."""

    def children(self, path: str) -> list[str]:
        """Return the names of the node's children, sorted; raises NoNodeError."""

    def sync(self, path: str) -> None:
        """Return when reads of the node and below it see all changes that any client made before this call.

        A ZooKeeper server may be behind the server of another broker, which reports a change.
        """

    def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False, make_parents: bool = False
    ) -> str:
        """Create a node and return its path.

        ``sequence`` appends a number of ten digits to the path, which increases for nodes of the same parent; if a connection is
        lost meanwhile, there may be two such nodes. ``make_parents`` creates missing parents, without data. Raises
        NodeExistsError, NoNodeError (no parent) and NoChildrenForEphemeralsError.
        """

    def set(self, path: str, data: bytes, expected_version: int = ANY_VERSION) -> Stat:
        """Replace the node's data; raises NoNodeError and BadVersionError."""

    def delete(self, path: str, expected_version: int = ANY_VERSION, *, recursive: bool = False) -> None:
        """Delete the node, with ``recursive`` also its descendants; raises NoNodeError, BadVersionError and NotEmptyError.

        A recursive deletion need not be one transaction.
        """

    def multi(self, operations: Sequence[Operation]) -> list[Result]:
        """Execute all of the operations, or none if one fails; raises the error of the one that failed."""

    def batch(self, groups: Sequence[Sequence[Operation]]) -> list[list[Result] | StoreError]:
        """Execute each group as ``multi`` does, but wait only once for all groups; the result of a failed group is its error."""

    def watch(self, path: str, callback: Callable[[WatchEvent], None], *, data_only: bool = False) -> IWatch:
        """Call ``callback`` after each change of the node at ``path``, which need not exist, or of its list of children.

        With ``data_only`` its children do not count, and there is one request to the store less.
        """

    def watch_and_get(
        self, paths: Sequence[str], callback: Callable[[WatchEvent], None]
    ) -> list[tuple[IWatch, tuple[bytes, Stat] | None]]:
        """Watch the data of each node, and return the result of ``get`` with the watch: one request for both.

        ``callback`` gets all changes after the returned state. If this raises, nothing is watched.
        """

    def add_session_listener(self, callback: Callable[[SessionState], None]) -> None:
        """Call ``callback`` on the watch thread whenever the session's state changes."""

    def close(self) -> None:
        """End the session, which deletes its ephemeral nodes. Closing twice is allowed."""


def children_of(store: IMetadataStore, path: str) -> list[str]:
    """Return the names of a node's children, none if there is no such node."""
    try:
        return store.children(path)
    except NoNodeError:
        return []


def latest_children_of(store: IMetadataStore, path: str) -> list[str]:
    """Return the names of a node's children, with all changes that notifications may have reported; raises NoNodeError."""
    store.sync(path)
    return store.children(path)


def check_path(path: str) -> None:
    """Raise InvalidPathError unless ``path`` is valid in ZooKeeper."""
    if path == "/":
        return
    if not path.startswith("/") or any(part in ("", ".", "..") for part in path[1:].split("/")) or "\0" in path:
        raise InvalidPathError(f"invalid path of a node: {path!r}")


def split_path(path: str) -> tuple[str, str]:
    """Return the parent's path and the node's name; the root is its own parent, with an empty name."""
    parent, _, name = path.rpartition("/")
    return parent or "/", name
