"""Requests to ZooKeeper as values: how each is sent, and what its answer means."""

from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from kazoo import exceptions as kazoo
from kazoo.client import KazooClient
from kazoo.protocol.serialization import int_struct, write_string
from kazoo.protocol.states import ZnodeStat

from twisted_kafka.metadata import store
from twisted_kafka.metadata.store import (
    Check,
    Create,
    Delete,
    Operation,
    Result,
    Set,
    Stat,
    StoreError,
    TooLargeError,
    check_path,
)
from twisted_kafka.metadata.zookeeper.acls import acls_of

MAX_REQUEST_BYTES: Final = 1024 * 1024 - 1 - 4096
"""ZooKeeper's ``jute.maxbuffer`` on servers, less the bytes around the operations. A longer request breaks the connection."""
_OPERATION_BYTES: Final = 128
"""The bytes of an operation besides its path and data, ACLs included."""

_ERRORS: Final[dict[type[Exception], tuple[type[StoreError], str]]] = {
    kazoo.NodeExistsError: (store.NodeExistsError, "the node {path} already exists"),
    kazoo.NoNodeError: (store.NoNodeError, "the node {path} does not exist"),
    kazoo.BadVersionError: (store.BadVersionError, "the node {path} does not have the expected version"),
    kazoo.NotEmptyError: (store.NotEmptyError, "the node {path} has children"),
    kazoo.NoChildrenForEphemeralsError: (
        store.NoChildrenForEphemeralsError,
        "the parent of {path} is ephemeral and cannot have children",
    ),
    kazoo.NoAuthError: (store.AccessDeniedError, "ZooKeeper's ACLs do not allow this broker access to {path}"),
    kazoo.SessionExpiredError: (store.SessionExpiredError, "the ZooKeeper session expired during a request for {path}"),
    kazoo.ConnectionClosedError: (store.SessionExpiredError, "the ZooKeeper session ended during a request for {path}"),
    kazoo.AuthFailedError: (store.StoreUnavailableError, "ZooKeeper rejects the credentials"),
}
_NOT_EXECUTED: Final = (kazoo.RolledBackError, kazoo.RuntimeInconsistency)
"""In the answer of a failed transaction: the errors of the operations that did not fail themselves."""

_ANY_WATCH: Final = 3

T_co = TypeVar("T_co", covariant=True)


def store_error(error: Exception, path: str) -> StoreError:
    """Return the store's error for one of kazoo's."""
    kind, text = _ERRORS.get(type(error), (StoreError, "ZooKeeper refuses a request for {path}: " + type(error).__name__))
    return kind(text.format(path=path))


def stat_of(found: ZnodeStat) -> Stat:
    """Return a node's properties."""
    return Stat(found.version, found.cversion, found.czxid, found.mzxid, found.ephemeralOwner or 0, found.ctime)


class Read(NamedTuple, Generic[T_co]):
    """A request that changes nothing."""

    path: str
    send: Callable[[KazooClient], Any]
    value: Callable[[Any], T_co]
    """Makes the result of kazoo's."""
    missing: T_co | None = None
    """The result if there is no such node, unless it is an error."""
    is_error: bool = False

    def failed(self, error: Exception) -> "T_co | StoreError | None":
        """Return the result for an error of kazoo's."""
        if isinstance(error, kazoo.NoNodeError) and not self.is_error:
            return self.missing
        return store_error(error, self.path)


def read_data(path: str) -> "Read[tuple[bytes, Stat] | None]":
    """Return the request for a node's data and stat."""
    check_path(path)
    return Read(path, lambda client: client.get_async(path), lambda found: (found[0] or b"", stat_of(found[1])))


def read_stat(path: str) -> "Read[Stat | None]":
    """Return the request for a node's stat."""
    check_path(path)
    return Read(path, lambda client: client.exists_async(path), lambda found: None if found is None else stat_of(found))


def read_children(path: str) -> "Read[list[str]]":
    """Return the request for the names of a node's children."""
    check_path(path)
    return Read(path, lambda client: client.get_children_async(path), sorted, is_error=True)


def sync_with_leader(path: str) -> "Read[None]":
    """Return the request that a server answers once it has all changes of the ensemble's leader."""
    check_path(path)
    return Read(path, lambda client: client.sync_async(path), lambda _: None, is_error=True)


class _RemoveWatches(NamedTuple):
    """ZooKeeper's removeWatches (3.5 or newer), which kazoo does not have."""

    path: str
    type: int = 18

    def serialize(self) -> bytearray:
        """Return the request: the path, and that all kinds of watches are meant."""
        data = bytearray(write_string(self.path))
        data.extend(int_struct.pack(_ANY_WATCH))
        return data

    @classmethod
    def deserialize(cls, data: bytes, offset: int) -> bool:
        """Return the answer, which has nothing but its header."""
        return True


def nothing_to_do(client: KazooClient) -> Any:
    """Return kazoo's result of a request that need not be sent."""
    result = client.handler.async_result()
    result.set(None)
    return result


def remove_watches(client: KazooClient, path: str) -> Any:
    """Send that this session watches a node no more; return kazoo's result."""
    full_path = f"{client.chroot}{path}"
    result = client.handler.async_result()

    def forget() -> None:
        client._data_watchers.pop(full_path, None)
        client._child_watchers.pop(full_path, None)

    result.when_done(forget)
    client._call(_RemoveWatches(full_path), result)
    return result


class Write:
    """Operations that are executed together or not at all."""

    __slots__ = ("operations", "path", "secure")

    def __init__(self, operations: Sequence[Operation], *, secure: bool) -> None:
        """``secure``: new nodes get Kafka's ACLs. Raises InvalidPathError and TooLargeError."""
        self.operations = list(operations)
        self.secure = secure
        for operation in self.operations:
            check_path(operation.path)
        self.path = ", ".join(operation.path for operation in self.operations[:3])
        size = sum(size_of(operation) for operation in self.operations)
        if size > MAX_REQUEST_BYTES:
            raise TooLargeError(f"a change of {size} bytes of {self.path} exceeds ZooKeeper's limit of {MAX_REQUEST_BYTES} bytes")

    def send(self, client: KazooClient) -> Any:
        """Send the operations: a single one as itself, others as a transaction."""
        if len(self.operations) == 1:
            match self.operations[0]:
                case Create(path, data, ephemeral, sequence):
                    acls = acls_of(path, secure=self.secure)
                    return client.create_async(path, data or None, acl=acls, ephemeral=ephemeral, sequence=sequence)
                case Set(path, data, version):
                    return client.set_async(path, data, version)
                case Delete(path, version):
                    return client.delete_async(path, version)
        transaction = client.transaction()
        for operation in self.operations:
            match operation:
                case Create(path, data, ephemeral, sequence):
                    acls = acls_of(path, secure=self.secure)
                    transaction.create(path, data, acl=acls, ephemeral=ephemeral, sequence=sequence)
                    if not data:  # like Kafka's nodes without data, which kazoo does not allow here
                        transaction.operations[-1] = transaction.operations[-1]._replace(data=None)
                case Set(path, data, version):
                    transaction.set_data(path, data, version)
                case Delete(path, version):
                    transaction.delete(path, version)
                case Check(path, version):
                    transaction.check(path, version)
        return transaction.commit_async()

    def value(self, answer: Any) -> list[Result] | StoreError:
        """Return the results of kazoo's answer."""
        if len(self.operations) == 1 and not isinstance(self.operations[0], Check):
            answer = [answer]
        failed = [each for each in zip(self.operations, answer, strict=True) if isinstance(each[1], Exception)]
        for operation, error in failed:
            if not isinstance(error, _NOT_EXECUTED):
                return store_error(error, operation.path)
        if failed:
            return StoreError(f"ZooKeeper refuses a change of {self.path}")
        return [_result(operation, each) for operation, each in zip(self.operations, answer, strict=True)]

    def failed(self, error: Exception) -> StoreError:
        """Return the error for one of kazoo's."""
        return store_error(error, self.path)


def _result(operation: Operation, answer: Any) -> Result:
    match operation:
        case Create():
            return str(answer)
        case Set():
            return stat_of(answer)
    return None


def size_of(operation: Operation) -> int:
    """Return about how many bytes the operation takes in a request."""
    data = operation.data if isinstance(operation, Create | Set) else b""
    return len(operation.path.encode()) + len(data) + _OPERATION_BYTES
