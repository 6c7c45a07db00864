"""The metadata store as a controller writes to it: nothing that a deposed controller writes takes effect.

Each write goes with a check of the version of ``/controller_epoch`` in one multi. The epoch is incremented with each election, in
the same multi that creates ``/controller``. (Kafka: ``expectedControllerEpochZkVersion`` in ``KafkaZkClient``.)
"""

from collections.abc import Callable, Sequence

from twisted_kafka.controller.context.context import ControllerContext
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.store import (
    ANY_VERSION,
    BadVersionError,
    Check,
    Delete,
    IMetadataStore,
    IWatch,
    NoNodeError,
    Operation,
    Result,
    Set,
    Stat,
    StoreDisconnectedError,
    StoreError,
    WatchEvent,
    children_of,
)


class ControllerMovedError(Exception):
    """Another controller was elected since: this one has to resign. (Kafka: ControllerMovedException.)"""


class FencedStore:
    """Reads as the store does; writes raise ControllerMovedError once another controller was elected."""

    def __init__(self, store: IMetadataStore, context: ControllerContext) -> None:
        self._store = store
        self._context = context

    def get(self, path: str) -> tuple[bytes, Stat] | None:
        """Return the node's data and stat; None when it does not exist."""
        return self._store.get(path)

    def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        """Return the result of ``get`` for each path, in one operation."""
        return self._store.get_many(paths)

    def exists(self, path: str) -> Stat | None:
        """Return the node's stat; None when it does not exist."""
        return self._store.exists(path)

    def children(self, path: str) -> list[str]:
        """Return the names of the node's children; none if there is no such node."""
        return children_of(self._store, path)

    def children_version(self, path: str) -> int:
        """Return what changes whenever a child of the node is created or deleted; -1 if there is no such node."""
        found = self._store.exists(path)
        return -1 if found is None else found.cversion

    def watch_and_get(
        self, paths: Sequence[str], callback: Callable[[WatchEvent], None]
    ) -> list[tuple[IWatch, tuple[bytes, Stat] | None]]:
        """Call ``callback`` after each change of these nodes, not of their lists of children; return the nodes' present data."""
        return self._store.watch_and_get(paths, callback)

    def set(self, path: str, data: bytes, expected_version: int = ANY_VERSION) -> None:
        """Replace the node's data; raises NoNodeError and BadVersionError."""
        self.multi([Set(path, data, expected_version)])

    def delete(self, path: str) -> None:
        """Delete a node without children, if it exists."""
        self.delete_all([path])

    def delete_all(self, paths: Sequence[str]) -> None:
        """Delete nodes without children; a node may be missing."""
        for result in self.batch([[Delete(path)] for path in paths]):
            if isinstance(result, StoreError) and not isinstance(result, NoNodeError):
                raise result

    def delete_tree(self, path: str) -> None:
        """Delete the node and its descendants, if it exists. A node that is created meanwhile raises NotEmptyError."""
        self.delete_all(self._with_descendants(path))

    def _with_descendants(self, path: str) -> list[str]:
        """Return the paths of the node's descendants and its own, children before parents."""
        found, waiting = [], [path]
        while waiting:
            each = waiting.pop()
            found.append(each)
            waiting += [f"{each}/{name}" for name in self.children(each)]
        return found[::-1]

    def multi(self, operations: Sequence[Operation]) -> list[Result]:
        """Execute all of the operations, or none if one fails; raises the error of the one that failed."""
        try:
            return self._store.multi([self._check(), *operations])[1:]
        except BadVersionError:
            self._ensure_in_office()
            raise

    def batch(self, groups: Sequence[Sequence[Operation]]) -> list[list[Result] | StoreError]:
        """Execute each group as ``multi`` does, but wait only once; the result of a failed group is its error.

        Raises StoreDisconnectedError if the outcome of a group is unknown.
        """
        check = self._check()
        results = self._store.batch([[check, *operations] for operations in groups])
        for result in results:
            if isinstance(result, StoreDisconnectedError):
                raise result
        if any(isinstance(result, BadVersionError) for result in results):
            self._ensure_in_office()
        return [result if isinstance(result, StoreError) else result[1:] for result in results]

    def _check(self) -> Check:
        return Check(znodes.CONTROLLER_EPOCH, self._context.epoch_version)

    def _ensure_in_office(self) -> None:
        found = self._store.exists(znodes.CONTROLLER_EPOCH)
        if found is None or found.version != self._context.epoch_version:
            raise ControllerMovedError(f"Another controller was elected after the one of epoch {self._context.epoch}")
