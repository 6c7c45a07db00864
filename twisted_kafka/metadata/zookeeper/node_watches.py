"""Persistent watches, made of ZooKeeper's watches that fire once.

A watched node has a watch on its data and, if anybody wants to hear of them, one on its children. One that fires is set again, and
the answer compared with the last one: what differs is the event. So a change between the two is not lost, nor is one while there is
no connection: then all are set again, and compared.
"""

import threading
from collections.abc import Callable
from typing import Any

from kazoo.exceptions import ConnectionLoss, KazooException, NoNodeError, SessionExpiredError
from kazoo.protocol.states import EventType, WatchedEvent, ZnodeStat
from twisted.logger import Logger

from twisted_kafka.metadata.store import EventKind, IWatch, Stat, WatchEvent
from twisted_kafka.metadata.watches import Watches
from twisted_kafka.metadata.zookeeper.requests import Read, nothing_to_do, read_data, remove_watches
from twisted_kafka.metadata.zookeeper.session import Sent, Session

_log = Logger()


class _Node:
    """A watched node and its last known state."""

    __slots__ = ("_watches", "are_children_known", "children", "has_children", "is_data_known", "is_stale", "names", "path", "stat")

    def __init__(self, watches: "NodeWatches", path: str) -> None:
        self._watches = watches
        self.has_children = False
        """Whether its children are watched too."""
        self.path = path
        self.stat: ZnodeStat | None = None
        self.children: ZnodeStat | None = None
        self.names: frozenset[str] = frozenset()
        self.is_data_known = False
        self.are_children_known = False
        self.is_stale = False
        """Whether the watches were set later than asked for: something may have happened before the first answer."""

    def fired(self, event: WatchedEvent) -> None:
        """Set the watch that has fired again; called on kazoo's thread."""
        if event.type == EventType.NONE:  # the connection was lost: all are set again when there is another
            return
        self._watches.fired(self, is_data=event.type != EventType.CHILD, is_children=event.type != EventType.CHANGED)

    def data_changed(self, stat: ZnodeStat | None) -> list[WatchEvent]:
        """Take the node's new stat, None if it does not exist; return the changes."""
        before, self.stat = self.stat, stat
        was_known, self.is_data_known = self.is_data_known, True
        if not was_known:
            if not self.is_stale:
                return []
            return [WatchEvent(EventKind.DELETED if stat is None else EventKind.CHANGED, self.path)]
        kinds = []
        if before is not None and (stat is None or stat.czxid != before.czxid):
            kinds.append(EventKind.DELETED)
        if stat is not None and (before is None or stat.czxid != before.czxid):
            kinds.append(EventKind.CREATED)
            before = None
        if stat is not None and stat.mzxid != (stat.czxid if before is None else before.mzxid):
            kinds.append(EventKind.CHANGED)
        return [WatchEvent(kind, self.path) for kind in kinds]

    def children_changed(self, names: frozenset[str], stat: ZnodeStat | None) -> list[WatchEvent]:
        """Take the node's new children; return the changes."""
        before, self.children = self.children, stat
        names_before, self.names = self.names, names
        was_known, self.are_children_known = self.are_children_known, True
        if not was_known:
            return [WatchEvent(EventKind.CHILDREN, self.path)] if self.is_stale and stat is not None else []
        if stat is None:
            return []
        if before is not None and before.czxid == stat.czxid:
            count = stat.cversion - before.cversion
            if not count:
                return []
        else:
            count = stat.cversion
            names_before = frozenset()
            if not count:
                return []
        changed = names ^ names_before
        # A child that was created and deleted again, or deleted and created again, is in none of the lists, or in both.
        return [WatchEvent(EventKind.CHILDREN, self.path, changed if len(changed) == count else frozenset())]


class NodeWatches:
    """All watches of a store."""

    def __init__(self, session: Session, watches: Watches) -> None:
        self._session = session
        self._watches = watches
        self._lock = threading.Lock()
        self._nodes: dict[str, _Node] = {}
        self._unanswered = 0
        self._answered = threading.Condition(self._lock)
        watches.on_unwatched = self._forget_if_missing

    def add(self, path: str, callback: Callable[[WatchEvent], None], *, data_only: bool) -> IWatch:
        """Watch a node. The watch reports every change made after your next read."""
        watch = self._watches.add(path, callback, data_only=data_only)
        with self._lock:
            node = self._nodes.get(path)
            is_new = node is None
            if node is None:
                node = self._nodes[path] = _Node(self, path)
            needs_children = not data_only and not node.has_children
            node.has_children |= needs_children
        self._set(node, is_data=is_new, is_children=needs_children)
        return watch

    def prepare(self, path: str, callback: Callable[[WatchEvent], None]) -> IWatch:
        """Register a watch of a node's data, which ``read_data`` sets."""
        watch = self._watches.add(path, callback, data_only=True)
        with self._lock:
            if path not in self._nodes:
                self._nodes[path] = _Node(self, path)
        return watch

    def read_data(self, path: str) -> "Read[tuple[bytes, Stat] | None]":
        """Return the request for a node's data and stat that also sets the watch, if there is such a node."""
        with self._lock:
            node = self._nodes[path]

        def send(client: Any) -> Any:
            result = client.get_async(path, watch=node.fired)
            self._expect(result, lambda got: self._take_read(node, got))
            return result

        return read_data(path)._replace(send=send)

    def set_on_missing(self, path: str) -> None:
        """Set the watch of a node that did not exist when it was read."""
        with self._lock:
            node = self._nodes.get(path)
        if node is not None:
            self._set(node, is_data=True, is_children=False)

    def set_again(self) -> None:
        """Set the watches of all nodes, as there is a new connection; called on the session thread."""
        with self._lock:
            nodes = list(self._nodes.values())
        for node in nodes:
            if self._is_wanted(node) and not self._set(node, is_data=True, is_children=True):
                return

    def fired(self, node: _Node, *, is_data: bool, is_children: bool) -> None:
        """Set watches that have fired again."""
        if self._is_wanted(node):
            self._set(node, is_data=is_data, is_children=is_children)

    def settle(self, timeout_s: float) -> bool:
        """Wait until all watches that are being set are; return whether they are."""
        with self._lock:
            return self._answered.wait_for(lambda: not self._unanswered, timeout_s)

    def _forget_if_missing(self, path: str) -> None:
        """Forget a node that nobody watches any more, and that does not exist: its watch would never fire.

        One that exists is forgotten when its watch fires.
        """
        with self._lock:
            node = self._nodes.get(path)
            if node is None or node.stat is not None or not node.is_data_known or self._watches.has(path):
                return
            del self._nodes[path]

        def send(client: Any) -> Any:
            # Requests are made one by one, and a node that is watched again is known before that is sent.
            return nothing_to_do(client) if path in self._nodes else remove_watches(client, path)

        self._session.send_if_connected(send)

    def _is_wanted(self, node: _Node) -> bool:
        with self._lock:
            if self._nodes.get(node.path) is not node:
                return False
            if not self._watches.has(node.path):
                del self._nodes[node.path]
                return False
            return True

    def _set(self, node: _Node, *, is_data: bool, is_children: bool) -> bool:
        """Send the requests that set watches; return False without a connection."""
        path = node.path
        data = children = None
        if is_data:
            data = self._send(lambda client: client.exists_async(path, watch=node.fired), lambda got: self._take_data(node, got))
        is_children = is_children and node.has_children
        if is_children:
            children = self._send(
                lambda client: client.get_children_async(path, watch=node.fired, include_data=True),
                lambda got: self._take_children(node, got),
            )
        if (is_data and data is None) or (is_children and children is None):
            node.is_stale = True
            return False
        return True

    def _send(self, request: Callable[[Any], Any], take: Callable[[Any], None]) -> Sent | None:
        sent = self._session.send_if_connected(request)
        if sent is not None:
            self._expect(sent.result, take)
        return sent

    def _expect(self, result: Any, take: Callable[[Any], None]) -> None:
        """Call ``take`` with a request's result on kazoo's thread of completed requests, in the order of the answers."""
        with self._lock:
            self._unanswered += 1
        result.rawlink(lambda result: self._answer(result, take))

    def _answer(self, result: Any, take: Callable[[Any], None]) -> None:
        try:
            take(result)
        finally:
            self._done()

    def _done(self) -> None:
        with self._lock:
            self._unanswered -= 1
            if not self._unanswered:
                self._answered.notify_all()

    def _take_data(self, node: _Node, result: Any) -> None:
        try:
            stat = result.get(block=False)
        except KazooException as error:
            self._not_set(node, error)
            return
        self._watches.notify(node.data_changed(stat))
        if stat is None:
            self._forget_if_missing(node.path)

    def _take_read(self, node: _Node, result: Any) -> None:
        try:
            stat = result.get(block=False)[1]
        except NoNodeError:
            stat = None
        except KazooException as error:
            self._not_set(node, error)
            return
        self._watches.notify(node.data_changed(stat))

    def _take_children(self, node: _Node, result: Any) -> None:
        try:
            names, stat = result.get(block=False)
        except NoNodeError:
            names, stat = (), None
        except KazooException as error:
            self._not_set(node, error)
            return
        self._watches.notify(node.children_changed(frozenset(names), stat))

    def _not_set(self, node: _Node, error: KazooException) -> None:
        """Note a watch that is not set. After a lost connection, the next connection sets it again."""
        node.is_stale = True
        if not isinstance(error, ConnectionLoss | SessionExpiredError):
            _log.error("The node {path} cannot be watched: {error}", path=node.path, error=type(error).__name__)
