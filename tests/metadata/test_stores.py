"""What every metadata store does: the embedded one, and one on a real ZooKeeper."""

import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.zookeeper import needs_zookeeper
from twisted_kafka.metadata.embedded import SqliteStore
from twisted_kafka.metadata.shared import SharedStore, new_connect, open_shared, share, unshare
from twisted_kafka.metadata.store import (
    BadVersionError,
    Check,
    Create,
    Delete,
    EventKind,
    InvalidPathError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionState,
    Set,
    StoreClosedError,
    WatchEvent,
)
from twisted_kafka.metadata.zookeeper.settings import ZooKeeperSettings
from twisted_kafka.metadata.zookeeper.store import ZooKeeperStore
from twisted_kafka.timing.clock import SystemClock

EMBEDDED, SHARED, ZOOKEEPER = "embedded", "shared", "zookeeper"
Store = SqliteStore | SharedStore | ZooKeeperStore
_numbers = itertools.count()


class Stores:
    """Opens stores of one kind that have the same nodes, one after the other."""

    def __init__(self, open_store: Callable[..., Store]) -> None:
        self._open = open_store
        self._opened: list[Store] = []

    def open(self, *, threaded: bool = False) -> Store:
        store = self._open(threaded=threaded)
        self._opened.append(store)
        return store

    def close(self) -> None:
        for store in self._opened:
            store.close()


@pytest.fixture(params=[EMBEDDED, SHARED, pytest.param(ZOOKEEPER, marks=pytest.mark.medium)])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stores]:
    if request.param == EMBEDDED:
        stores = Stores(lambda threaded: SqliteStore(tmp_path / "metadata.sqlite", threaded=threaded))
    elif request.param == SHARED:
        connect = new_connect()
        share(connect, SystemClock())
        stores = Stores(lambda threaded: open_shared(connect, threaded=threaded))
    else:
        needs_zookeeper()
        server = request.getfixturevalue("zookeeper")
        settings = ZooKeeperSettings(hosts=server.address, chroot=f"/stores/{next(_numbers)}")
        stores = Stores(lambda threaded: ZooKeeperStore(settings, threaded=threaded))
    yield stores
    stores.close()
    if request.param == SHARED:
        unshare(connect)


def names(store: Store, path: str) -> list[str]:
    """The names of a node's children, without ZooKeeper's own."""
    return [name for name in store.children(path) if name != "zookeeper"]


@pytest.fixture
def store(stores: Stores) -> Store:
    return stores.open()


def test_a_node_has_data_and_versions(store: Store) -> None:
    assert store.create("/a", b"one") == "/a"
    data, stat = store.get("/a")
    assert (data, stat.version, stat.ephemeral_owner) == (b"one", 0, 0)
    changed = store.set("/a", b"two", expected_version=0)
    assert store.get("/a") == (b"two", changed)
    assert changed.version == 1
    assert changed.mzxid > changed.czxid == stat.czxid
    assert store.get("/b") is None
    assert store.get_many(["/b", "/a"]) == [None, (b"two", changed)]
    assert store.exists("/a") == changed
    assert store.exists("/") is not None


def test_refused_operations_change_nothing(store: Store) -> None:
    store.create("/a/b", make_parents=True)
    for error, action in (
        (NodeExistsError, lambda: store.create("/a")),
        (NodeExistsError, lambda: store.create("/")),
        (NoNodeError, lambda: store.create("/x/y")),
        (NoNodeError, lambda: store.set("/x", b"")),
        (NoNodeError, lambda: store.delete("/x")),
        (NoNodeError, lambda: store.children("/x")),
        (BadVersionError, lambda: store.set("/a", b"", 4)),
        (BadVersionError, lambda: store.delete("/a/b", 4)),
        (BadVersionError, lambda: store.delete("/a", 4, recursive=True)),
        (NotEmptyError, lambda: store.delete("/a")),
        (NotEmptyError, lambda: store.delete("/", recursive=True)),
    ):
        with pytest.raises(error):
            action()
    assert names(store, "/") == ["a"]
    assert store.children("/a") == ["b"]
    assert store.exists("/a").version == 0


@pytest.mark.parametrize("bad", ["", "a", "/a/", "//a", "/a//b", "/a/./b", "/..", "/a\0b"])
def test_invalid_paths_are_refused(store: Store, bad: Any) -> None:
    with pytest.raises(InvalidPathError):
        store.create(bad)


def test_sequence_numbers_increase(store: Store) -> None:
    store.create("/q")
    assert store.create("/q/n_", sequence=True) == "/q/n_0000000000"
    assert store.create("/q/n_", sequence=True) == "/q/n_0000000001"
    store.delete("/q/n_0000000001")
    # ZooKeeper counts the children that were created, the embedded store their deletions as well.
    assert store.create("/q/n_", sequence=True) in ("/q/n_0000000002", "/q/n_0000000003")
    assert store.exists("/q").cversion == 4


def test_recursive_deletion_removes_exactly_the_descendants(store: Store) -> None:
    for path in ("/a/b/c/d", "/a/bb", "/a/b-/e", "/a/b0", "/a/b.x/y"):
        store.create(path, make_parents=True)
    store.delete("/a/b", recursive=True)
    assert store.children("/a") == ["b-", "b.x", "b0", "bb"]
    assert store.children("/a/b-") == ["e"]
    assert store.exists("/a/b/c/d") is None


def test_multi_is_atomic(store: Store) -> None:
    store.create("/a")
    zxid = store.exists("/a").czxid
    with pytest.raises(BadVersionError):
        store.multi([Create("/b"), Set("/a", b"x"), Check("/a", 0)])
    assert store.exists("/b") is None
    path, stat, nothing, checked = store.multi([Create("/b"), Set("/a", b"x"), Delete("/b"), Check("/a", 1)])
    assert (path, stat.version, nothing, checked) == ("/b", 1, None, None)
    assert stat.mzxid > zxid
    assert store.multi([Set("/a", b"y"), Create("/b")])[0].mzxid == store.exists("/b").czxid


def test_groups_of_a_batch_fail_independently(store: Store) -> None:
    store.create("/a")
    first, second, third = store.batch([[Create("/b"), Create("/b/c")], [Create("/d"), Create("/a")], [Create("/e")]])
    assert first == ["/b", "/b/c"]
    assert isinstance(second, NodeExistsError)
    assert third == ["/e"]
    assert names(store, "/") == ["a", "b", "e"]


def test_watches_get_the_events_of_the_node_and_its_children_in_order(store: Store) -> None:
    heard: list[Any] = []
    watch = store.watch("/a", heard.append)
    store.create("/a/b", make_parents=True)
    store.set("/a", b"x")
    store.set("/a/b", b"of no interest")
    assert heard == []
    store.pump()
    assert heard[0] == WatchEvent(EventKind.CREATED, "/a")
    assert sorted(heard[1:], key=lambda event: event.kind.value) == [
        WatchEvent(EventKind.CHANGED, "/a"),
        WatchEvent(EventKind.CHILDREN, "/a", frozenset("b")),
    ]
    heard.clear()
    store.delete("/a", recursive=True)
    store.pump()
    assert [event.kind for event in heard][-1] == EventKind.DELETED
    heard.clear()
    store.create("/a")
    store.pump()
    assert heard == [WatchEvent(EventKind.CREATED, "/a")]
    store.delete("/a")
    store.pump()
    watch.cancel()
    watch.cancel()
    store.create("/a")
    assert store.pump() == 0


def test_a_watch_of_the_data_does_not_hear_of_children_whoever_else_does(store: Store) -> None:
    data: list[Any] = []
    both: list[Any] = []
    store.watch("/a", data.append, data_only=True)
    store.create("/a")
    store.create("/a/b")
    store.set("/a", b"x")
    store.pump()
    assert [event.kind for event in data] == [EventKind.CREATED, EventKind.CHANGED]
    store.watch("/a", both.append)
    store.create("/a/c")
    store.pump()
    assert both == [WatchEvent(EventKind.CHILDREN, "/a", frozenset("c"))]
    store.delete("/a", recursive=True)
    store.pump()
    assert [event.kind for event in data] == [EventKind.CREATED, EventKind.CHANGED, EventKind.DELETED]
    assert both[-1] == WatchEvent(EventKind.DELETED, "/a")


def test_nodes_are_watched_as_they_are_read(store: Store) -> None:
    store.create("/a", b"first")
    heard: list[Any] = []
    (watch, found), (_, nothing) = store.watch_and_get(["/a", "/b"], heard.append)
    assert (found, nothing) == (store.get("/a"), None)
    store.create("/a/child")
    store.set("/a", b"second")
    store.create("/b")
    store.pump()
    assert heard == [WatchEvent(EventKind.CHANGED, "/a"), WatchEvent(EventKind.CREATED, "/b")]
    assert [node[0] for _, node in store.watch_and_get(["/a"], heard.append)] == [b"second"]
    watch.cancel()
    store.delete("/a", recursive=True)
    store.pump()
    assert heard[2:] == [WatchEvent(EventKind.DELETED, "/a")]
    assert store.watch_and_get([], heard.append) == []
    with pytest.raises(InvalidPathError):
        store.watch_and_get(["/b", "b"], heard.append)
    store.set("/b", b"x")
    store.pump()
    assert heard[3:] == [WatchEvent(EventKind.CHANGED, "/b")]


def test_a_queued_event_is_not_duplicated_but_one_after_delivery_is_new(store: Store) -> None:
    heard = []
    store.create("/a")

    def hear(event: WatchEvent) -> None:
        heard.append(event.kind)
        if len(heard) == 1:
            store.set("/a", b"again")

    store.watch("/a", hear)
    for value in (b"1", b"2", b"3"):
        store.set("/a", value)
    store.pump()
    assert heard == [EventKind.CHANGED, EventKind.CHANGED]


def test_merged_events_name_all_children(store: Store) -> None:
    heard = []
    store.create("/a")
    store.create("/a/before")
    store.watch("/a", lambda event: heard.append(set(event.names)))
    store.delete("/a/before")
    store.create("/a/b")
    store.create("/a/c")
    number = store.create("/a/number-", sequence=True).rpartition("/")[2]
    store.pump()
    store.create("/a/d")
    store.pump()
    assert heard == [{"before", "b", "c", number}, {"d"}]


def test_failed_changes_cause_no_events(store: Store) -> None:
    heard: list[Any] = []
    store.create("/a")
    store.watch("/b", heard.append)
    with pytest.raises(NodeExistsError):
        store.multi([Create("/b"), Create("/a")])
    store.batch([[Create("/b"), Create("/a")]])
    store.pump()
    assert heard == []


def test_a_watch_that_fails_does_not_stop_the_others(store: Store) -> None:
    heard: list[Any] = []

    def fail(event: WatchEvent) -> None:
        raise ZeroDivisionError

    store.watch("/a", fail)
    store.watch("/a", heard.append)
    store.create("/a")
    store.pump()
    assert [event.kind for event in heard] == [EventKind.CREATED]


def test_watches_are_called_on_a_separate_thread(stores: Stores) -> None:
    store = stores.open(threaded=True)
    called = threading.Event()
    threads: list[str] = []

    def note(event: WatchEvent) -> None:
        threads.append(threading.current_thread().name)
        called.set()

    store.watch("/a", note)
    store.create("/a")
    assert called.wait(30)
    assert threads == ["metadata-watch-thread"]


def test_closing_ends_the_session(stores: Stores) -> None:
    store = stores.open()
    store.create("/ids/1", b"me", ephemeral=True, make_parents=True)
    assert store.exists("/ids/1").ephemeral_owner == store.session_id != 0
    with pytest.raises(NoChildrenForEphemeralsError):
        store.create("/ids/1/x")
    store.pump()
    states: list[Any] = []
    store.add_session_listener(states.append)
    store.close()
    store.close()
    # A store on ZooKeeper may report late that it is connected.
    assert [each for each in states if each != SessionState.CONNECTED] == [SessionState.CLOSED]
    for action in (
        lambda: store.get("/ids"),
        lambda: store.create("/x"),
        lambda: store.batch([[Create("/x")]]),
        lambda: store.watch("/x", print) if isinstance(store, ZooKeeperStore) else store.get("/x"),
    ):
        with pytest.raises(StoreClosedError):
            action()
    again = stores.open()
    assert again.children("/ids") == []
    assert again.exists("/ids").cversion == 2
    assert again.session_id not in (0, store.session_id)


def test_transaction_ids_increase_across_sessions(stores: Stores) -> None:
    store = stores.open()
    store.create("/a")
    first = store.exists("/a").czxid
    store.close()
    store = stores.open()
    store.create("/b")
    assert store.exists("/b").czxid > first


def test_nodes_of_another_session_cannot_be_taken_for_ones_own(stores: Stores) -> None:
    store = stores.open()
    store.create("/a", b"data")
    with pytest.raises(NodeExistsError):
        store.create("/a", b"data")
    with pytest.raises(BadVersionError):
        store.set("/a", b"data", 1)
    assert store.set("/a", b"data", 0).version == 1


@pytest.mark.medium
def test_many_nodes_are_written_and_read_at_once(store: Store) -> None:
    paths = [f"/many/{number}" for number in range(1000)]
    store.create("/many")
    assert store.batch([[Create(path, path.encode()), Set(path, b"again" + path.encode())] for path in paths])
    assert [data for data, _ in store.get_many(paths)] == [b"again" + path.encode() for path in paths]
    store.delete("/many", recursive=True)
    assert store.get_many([*paths, "/many"]) == [None] * 1001
