"""The metadata store in a ZooKeeper ensemble.

A request whose answer is lost with a connection is sent again in the same session. If it is refused then, the store looks whether
it had been made the first time (``outcomes.py``; Kafka does so in ``CheckedEphemeral`` and ``conditionalUpdatePath``).
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from kazoo.exceptions import ConnectionLoss, KazooException
from kazoo.handlers.threading import KazooTimeoutError
from twisted.logger import Logger

from twisted_kafka.metadata.store import (
    ANY_VERSION,
    BadVersionError,
    Create,
    Delete,
    IWatch,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Operation,
    Result,
    SessionState,
    Set,
    Stat,
    StoreClosedError,
    StoreDisconnectedError,
    StoreError,
    WatchEvent,
    check_path,
    split_path,
)
from twisted_kafka.metadata.watches import Watches
from twisted_kafka.metadata.worker import SerialWorker
from twisted_kafka.metadata.zookeeper.node_watches import NodeWatches
from twisted_kafka.metadata.zookeeper.outcomes import was_made
from twisted_kafka.metadata.zookeeper.requests import Read, Write, read_children, read_data, read_stat, sync_with_leader
from twisted_kafka.metadata.zookeeper.session import Sent, Session
from twisted_kafka.metadata.zookeeper.settings import ZooKeeperSettings
from twisted_kafka.timing.clock import IClock, SystemClock

_log = Logger()

LISTENERS_TIMEOUT_S: Final = 60.0
"""How long a new session waits for the session listeners to return from EXPIRED."""
DELETIONS_PER_TRANSACTION: Final = 500
RECURSIVE_ATTEMPTS: Final = 10
"""How often a recursive deletion starts again because other clients changed the tree."""

_REFUSED: Final = (NodeExistsError, BadVersionError, NoNodeError)
"""How a change that has been made already is refused."""


class ZooKeeperStore:
    """``IMetadataStore`` in ZooKeeper. With ``threaded=False`` watches are delivered only by ``pump()``."""

    def __init__(self, settings: ZooKeeperSettings, clock: IClock | None = None, *, threaded: bool = True) -> None:
        """Connect; raises StoreUnavailableError."""
        self._settings = settings
        self._worker = SerialWorker("metadata-watch-thread", threaded=threaded)
        self._watches = Watches(self._worker)
        self._session = Session(settings, clock or SystemClock(), self._session_changed, self._session_expired)
        self._nodes = NodeWatches(self._session, self._watches)
        self._is_closed = False
        try:
            self._session.start()
        except StoreError:
            self._worker.close()
            raise

    @property
    def session_id(self) -> int:
        """The id of the session; another one after it has expired."""
        return self._session.id

    # Reading

    def get(self, path: str) -> tuple[bytes, Stat] | None:
        """Return the node's data and stat; None when it does not exist."""
        return self.get_many((path,))[0]

    def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        """Return the result of ``get`` for each path."""
        return [_checked(each) for each in self._execute([read_data(path) for path in paths])]

    def exists(self, path: str) -> Stat | None:
        """Return the node's stat; None when it does not exist."""
        found: Stat | None = _checked(self._execute([read_stat(path)])[0])
        return found

    def children(self, path: str) -> list[str]:
        """Return the names of the node's children, sorted; raises NoNodeError."""
        names: list[str] = _checked(self._execute([read_children(path)])[0])
        return names

    def sync(self, path: str) -> None:
        """Return once the server that this store is connected to has all changes that were made before."""
        _checked(self._execute([sync_with_leader(path)])[0])

    # Changing

    def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False, make_parents: bool = False
    ) -> str:
        """Create a node and return its path."""
        if path == "/":
            raise NodeExistsError("the node / already exists")
        operation = Create(path, data, ephemeral, sequence)
        try:
            return str(self.multi((operation,))[0])
        except NoNodeError:
            if not make_parents:
                raise
        self._make_parents(path)
        return str(self.multi((operation,))[0])

    def _make_parents(self, path: str) -> None:
        above = []
        while (path := split_path(path)[0]) != "/":
            above.append(path)
        for result in self.batch([[Create(each)] for each in reversed(above)]):
            if isinstance(result, StoreError) and not isinstance(result, NodeExistsError):
                raise result

    def set(self, path: str, data: bytes, expected_version: int = ANY_VERSION) -> Stat:
        """Replace the node's data."""
        return cast("Stat", self.multi((Set(path, data, expected_version),))[0])

    def delete(self, path: str, expected_version: int = ANY_VERSION, *, recursive: bool = False) -> None:
        """Delete the node, with ``recursive`` also its descendants, in transactions of many nodes each."""
        if not recursive:
            self.multi((Delete(path, expected_version),))
            return
        if path == "/":
            raise NotEmptyError("the root cannot be deleted")
        for attempt in range(RECURSIVE_ATTEMPTS):
            stat = self.exists(path)
            if stat is None and not attempt:
                raise NoNodeError(f"the node {path} does not exist")
            if stat is None:
                return
            if expected_version not in (ANY_VERSION, stat.version):
                raise BadVersionError(f"the node {path} does not have the expected version")
            deletions = [Delete(each) for each in self._descendants(path)] + [Delete(path, expected_version)]
            if self._delete_all(deletions):
                return
        raise NotEmptyError(f"the node {path} gets new children all the time")

    def _descendants(self, path: str) -> list[str]:
        """Return the paths of all descendants, the deepest first."""
        found: list[str] = []
        level = [path]
        while level:
            names = self._execute([read_children(each) for each in level])
            level = [
                f"{parent}/{name}"
                for parent, children in zip(level, names, strict=True)
                for name in (() if isinstance(children, NoNodeError) else _checked(children))
            ]
            found[:0] = level
        return found

    def _delete_all(self, deletions: Sequence[Delete]) -> bool:
        """Delete nodes; return False if others have changed the tree."""
        for start in range(0, len(deletions), DELETIONS_PER_TRANSACTION):
            try:
                self.multi(deletions[start : start + DELETIONS_PER_TRANSACTION])
            except (NoNodeError, NotEmptyError):
                return False
        return True

    def multi(self, operations: Sequence[Operation]) -> list[Result]:
        """Execute all of the operations or none; raises also TooLargeError."""
        if not operations:
            return []
        results: list[Result] = _checked(self._execute([Write(operations, secure=self._settings.secure_acls)])[0])
        return results

    def batch(self, groups: Sequence[Sequence[Operation]]) -> list[list[Result] | StoreError]:
        """Execute each group as ``multi`` does; the groups are sent in order, without waiting for one another's answers."""
        results: list[list[Result] | StoreError] = [[] for _ in groups]
        requests: list[tuple[int, Write]] = []
        for index, group in enumerate(groups):
            try:
                if group:
                    requests.append((index, Write(group, secure=self._settings.secure_acls)))
            except StoreError as error:
                results[index] = error
        for (index, _), result in zip(requests, self._execute([each for _, each in requests]), strict=True):
            results[index] = result
        return results

    # Requests

    def _execute(self, requests: Sequence[Read[Any] | Write]) -> list[Any]:
        """Send requests together; return the result or the error of each. Raises StoreClosedError.

        However many they are, ``zookeeper.connection.timeout.ms`` begins again with each answer.
        """
        deadline_ns = self._session.deadline_ns()
        results: list[Any] = [None] * len(requests)
        unsure: dict[int, Sent] = {}
        left = list(range(len(requests)))
        session: int | None = None
        while left:
            sent, failed = self._send_all(requests, left, deadline_ns, session)
            results_lost = []
            for index, each in sent:
                session = each.session
                try:
                    results[index] = requests[index].value(each.result.get(timeout=self._session.remaining_s(deadline_ns)))
                    deadline_ns = self._session.deadline_ns()
                except ConnectionLoss:
                    unsure.setdefault(index, each)
                    results_lost.append(index)
                except KazooTimeoutError:
                    results[index] = StoreDisconnectedError(
                        f"no answer from ZooKeeper in time to a request for {requests[index].path}"
                    )
                except KazooException as error:
                    results[index] = requests[index].failed(error)
                    deadline_ns = self._session.deadline_ns()
            for index in left[len(sent) :]:
                results[index] = failed
            left = results_lost
        for index, first in unsure.items():
            results[index] = self._settled(requests[index], results[index], first, self._session.deadline_ns())
        return results

    def _send_all(
        self, requests: Sequence[Read[Any] | Write], left: Sequence[int], deadline_ns: int, session: int | None
    ) -> tuple[list[tuple[int, Sent]], StoreError | None]:
        """Send requests; return the sent ones, and the error that kept the rest."""
        sent: list[tuple[int, Sent]] = []
        for index in left:
            try:
                sent.append((index, self._session.send(requests[index].send, deadline_ns, session)))
            except StoreClosedError:
                raise
            except StoreError as error:
                return sent, error
            session = sent[-1][1].session
            deadline_ns = self._session.deadline_ns()  # those before are answered, or there would be no room
        return sent, None

    def _settled(self, request: Read[Any] | Write, result: Any, first: Sent, deadline_ns: int) -> Any:
        """Return the result of a change that was sent again after its first answer was lost."""
        if not isinstance(request, Write) or not isinstance(result, _REFUSED):
            return result
        found = []
        for read in [read_data(operation.path) for operation in request.operations]:
            try:
                answer = self._session.send(read.send, deadline_ns, first.session).result
                found.append(read.value(answer.get(timeout=self._session.remaining_s(deadline_ns))))
            except KazooException as error:
                nothing = read.failed(error)
                if isinstance(nothing, StoreError):
                    return nothing
                found.append(nothing)
            except KazooTimeoutError:
                return StoreDisconnectedError(f"no answer from ZooKeeper in time to a request for {request.path}")
            except StoreDisconnectedError as error:
                return error
        made = was_made(request.operations, found, first.zxid, self.session_id)
        return result if made is None else made

    # Watching

    def watch(self, path: str, callback: Callable[[WatchEvent], None], *, data_only: bool = False) -> IWatch:
        """Call ``callback`` after each change of the node at ``path`` or, unless ``data_only``, of its list of children."""
        check_path(path)
        if self._is_closed:
            raise StoreClosedError("the connection to ZooKeeper is closed")
        return self._nodes.add(path, callback, data_only=data_only)

    def watch_and_get(
        self, paths: Sequence[str], callback: Callable[[WatchEvent], None]
    ) -> list[tuple[IWatch, tuple[bytes, Stat] | None]]:
        """Watch the data of each node, and return the result of ``get`` with the watch."""
        for path in paths:
            check_path(path)
        watches = [self._nodes.prepare(path, callback) for path in paths]
        try:
            found = self._execute([self._nodes.read_data(path) for path in paths])
            for path, each in zip(paths, found, strict=True):
                if _checked(each) is None:  # ZooKeeper's reads watch nothing that does not exist
                    self._nodes.set_on_missing(path)
        except StoreError:
            for watch in watches:
                watch.cancel()
            raise
        return list(zip(watches, found, strict=True))

    def add_session_listener(self, callback: Callable[[SessionState], None]) -> None:
        """Call ``callback`` on the watch thread whenever the session's state changes."""
        self._watches.add_session_listener(callback)

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._nodes.set_again()
        self._watches.session_changed(state)

    def _session_expired(self) -> None:
        """Wait for the session listeners, which must act before there is a new session."""
        acted = threading.Event()
        self._watches.session_changed(SessionState.EXPIRED)
        if self._worker.submit(acted.set) and not acted.wait(LISTENERS_TIMEOUT_S):
            _log.error(
                "Opening a new ZooKeeper session although listeners of the old one did not return within {seconds} s",
                seconds=LISTENERS_TIMEOUT_S,
            )

    def pump(self) -> int:
        """Deliver the events of all changes made so far on this thread; return how many. Only with ``threaded=False``."""
        count = 0
        while True:
            self._session.flush_events(LISTENERS_TIMEOUT_S)
            self._nodes.settle(LISTENERS_TIMEOUT_S)
            now = self._worker.pump()
            count += now
            if not now:
                return count

    def close(self) -> None:
        """End the session, which deletes its ephemeral nodes."""
        if self._is_closed:
            return
        self._is_closed = True
        self._session.close()
        self._watches.session_changed(SessionState.CLOSED)
        self._worker.close()


def _checked(result: Any) -> Any:
    """Return the result, or raise it if it is an error."""
    if isinstance(result, StoreError):
        raise result
    return result
