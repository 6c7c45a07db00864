"""The tree that holds the cluster's metadata: what every store of it offers, with ZooKeeper's semantics.

A node has a path (``/brokers/ids/1``), bytes, children and a ``Stat``. Two stores implement the interface: the embedded one of a
broker that is alone (``metadata/embedded.py``), and a real ZooKeeper ensemble.

Versions: a node's ``version`` starts at 0 and grows by one with each ``set``; its ``cversion`` with each child made or deleted.
A change may name the version that it expects; ``ANY_VERSION`` expects none. Every change has a transaction id, which only grows.

Durability: when a call that changes something returns, the change survives a crash of the process or the machine.

Watches are persistent: a watch stays until cancelled. It says where something changed, not how: several changes in quick succession
may arrive as one event, so its receiver reads the node anew. All watches of a store are called on one thread, in the order of the
changes, the store's own ones included; a callback must not block for long.

Sessions: ephemeral nodes vanish with the session of the store that made them. ``closed``, or lost in ZooKeeper's case, it never
comes back; a listener learns of it and decides (a broker registers again).
"""

# ruff: noqa: N805 - the methods of a zope interface have no self

import enum
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from zope.interface import Attribute, Interface

ANY_VERSION: Final = -1
"""An expected version that every node has."""


class StoreError(Exception):
    """A store refused an operation, or could not do it; the text names the path."""


class NodeExistsError(StoreError):
    """There is such a node already."""


class NoNodeError(StoreError):
    """There is no such node, or no parent for it."""


class BadVersionError(StoreError):
    """The node has another version than the expected one."""


class NotEmptyError(StoreError):
    """A node with children cannot be deleted alone."""


class NoChildrenForEphemeralsError(StoreError):
    """Ephemeral nodes have no children."""


class InvalidPathError(StoreError):
    """The path is not absolute, ends in a slash or has an empty or dotted part."""


class StoreClosedError(StoreError):
    """The store was closed."""


class StoreUnavailableError(StoreError):
    """The store cannot be reached or opened; one line says why."""


class Stat(NamedTuple):
    """What the store knows of a node besides its bytes."""

    version: int
    cversion: int
    czxid: int
    """Id of the transaction that made it (Kafka's broker epoch is that of ``/brokers/ids/<id>``)."""
    mzxid: int
    """Id of the transaction that changed its bytes last."""
    ephemeral_owner: int
    """The session that it belongs to; 0 when it is not ephemeral."""
    ctime_ms: int = 0
    """When it was made, in milliseconds since the epoch."""


class Create(NamedTuple):
    """Operation: make a node. Its result is the path, with the number when ``sequence``."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequence: bool = False


class Set(NamedTuple):
    """Operation: replace a node's bytes. Its result is the new ``Stat``."""

    path: str
    data: bytes
    expected_version: int = ANY_VERSION


class Delete(NamedTuple):
    """Operation: delete a node without children. Its result is None."""

    path: str
    expected_version: int = ANY_VERSION


class Check(NamedTuple):
    """Operation: fail unless the node exists and has that version. Its result is None."""

    path: str
    expected_version: int = ANY_VERSION


Operation = Create | Set | Delete | Check
Result = str | Stat | None


class EventKind(enum.Enum):
    """What may happen to a watched path."""

    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"
    CHILDREN = "children"
    """A direct child was made or deleted."""


class WatchEvent(NamedTuple):
    """Something happened to the node at ``path``."""

    kind: EventKind
    path: str
    names: frozenset[str] = frozenset()
    """With CHILDREN: the children that were made or deleted. Empty when the store cannot tell: read them all then."""


class SessionState(enum.Enum):
    """A store's connection, as its session listeners learn of it. The embedded store is always connected until closed."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    EXPIRED = "expired"
    CLOSED = "closed"


class IWatch(Interface):
    """A registered watch."""

    def cancel() -> None:
        """Stop it; an event that is on its way may still arrive. Cancelling twice is fine."""


class IMetadataStore(Interface):
    """A tree of versioned nodes. All methods may be called on any thread; all raise StoreClosedError once closed."""

    session_id: int = Attribute("The id that this store's ephemeral nodes have as their owner.")

    def get(path: str) -> tuple[bytes, Stat] | None:
        """Return the node's bytes and stat; None when there is none."""

    def get_many(paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        """Do as ``get`` for each path, in one go."""

    def exists(path: str) -> Stat | None:
        """Return the node's stat; None when there is none."""

    def children(path: str) -> list[str]:
        """Return the names of the node's children, sorted; raises NoNodeError."""

    def create(path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False, make_parents: bool = False) -> str:
        """Make a node and return its path.

        With ``sequence`` ten digits, growing under the same parent, are appended to the path. With ``make_parents`` missing parents
        are made, empty. Raises NodeExistsError, NoNodeError (no parent) and NoChildrenForEphemeralsError.
        """

    def set(path: str, data: bytes, expected_version: int = ANY_VERSION) -> Stat:
        """Replace the node's bytes; raises NoNodeError and BadVersionError."""

    def delete(path: str, expected_version: int = ANY_VERSION, *, recursive: bool = False) -> None:
        """Delete the node, and with ``recursive`` all below it; raises NoNodeError, BadVersionError and NotEmptyError."""

    def multi(operations: Sequence[Operation]) -> list[Result]:
        """Do all of the operations or, when one fails, none; raises that one's error."""

    def batch(groups: Sequence[Sequence[Operation]]) -> list[list[Result] | StoreError]:
        """Do each group as ``multi`` does, but wait only once for all of them; a group that failed has its error as the result."""

    def watch(path: str, callback: Callable[[WatchEvent], None]) -> IWatch:
        """Call ``callback`` after each change of the node at ``path``, which need not exist, and of its list of children."""

    def add_session_listener(callback: Callable[[SessionState], None]) -> None:
        """Call ``callback`` on the watch thread whenever the session's state changes."""

    def close() -> None:
        """End the session, which deletes its ephemeral nodes. Closing twice is fine."""


def check_path(path: str) -> None:
    """Raise InvalidPathError unless ``path`` is one that ZooKeeper takes."""
    if path == "/":
        return
    if not path.startswith("/") or any(part in ("", ".", "..") for part in path[1:].split("/")) or "\0" in path:
        raise InvalidPathError(f"{path!r} is not the path of a node")


def split_path(path: str) -> tuple[str, str]:
    """Return the parent's path and the node's name."""
    parent, _, name = path.rpartition("/")
    return parent or "/", name
