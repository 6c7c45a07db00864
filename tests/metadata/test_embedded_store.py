import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from zope.interface.verify import verifyObject

import twisted_kafka
from twisted_kafka.metadata.embedded import SqliteStore
from twisted_kafka.metadata.store import (
    BadVersionError,
    Check,
    Create,
    Delete,
    EventKind,
    IMetadataStore,
    InvalidPathError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionState,
    Set,
    StoreClosedError,
    StoreUnavailableError,
    WatchEvent,
)
from twisted_kafka.timing.clock import ManualClock


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metadata.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(path, threaded=False)
    yield store
    store.close()


def test_it_implements_the_interface(store: SqliteStore) -> None:
    assert verifyObject(IMetadataStore, store)


def test_only_its_user_can_read_its_files(path: Path, store: SqliteStore) -> None:
    store.create("/secret", b"s3cret")
    assert {each.name: each.stat().st_mode & 0o777 for each in path.parent.iterdir()} == {
        "metadata.sqlite": 0o600,
        "metadata.sqlite-wal": 0o600,
    }


def test_a_file_that_is_there_keeps_its_mode(path: Path) -> None:
    SqliteStore(path, threaded=False).close()
    path.chmod(0o640)
    store = SqliteStore(path, threaded=False)
    store.close()
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_node_has_data_and_versions(store: SqliteStore) -> None:
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


def test_refused_operations_change_nothing(store: SqliteStore) -> None:
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
    assert store.children("/") == ["a"]
    assert store.children("/a") == ["b"]
    assert store.exists("/a").version == 0


@pytest.mark.parametrize("bad", ["", "a", "/a/", "//a", "/a//b", "/a/./b", "/..", "/a\0b"])
def test_invalid_paths_are_refused(store: SqliteStore, bad: Any) -> None:
    with pytest.raises(InvalidPathError):
        store.create(bad)


def test_sequence_numbers_follow_the_parents_child_version(store: SqliteStore) -> None:
    store.create("/q")
    assert store.create("/q/n_", sequence=True) == "/q/n_0000000000"
    assert store.create("/q/n_", sequence=True) == "/q/n_0000000001"
    store.delete("/q/n_0000000001")
    assert store.create("/q/n_", sequence=True) == "/q/n_0000000003"
    assert store.exists("/q").cversion == 4


def test_recursive_deletion_removes_exactly_the_descendants(store: SqliteStore) -> None:
    for path in ("/a/b/c/d", "/a/bb", "/a/b-/e", "/a/b0", "/a/b.x/y"):
        store.create(path, make_parents=True)
    store.delete("/a/b", recursive=True)
    assert store.children("/a") == ["b-", "b.x", "b0", "bb"]
    assert store.children("/a/b-") == ["e"]
    assert store.exists("/a/b/c/d") is None


def test_multi_is_atomic(store: SqliteStore) -> None:
    store.create("/a")
    zxid = store.exists("/a").czxid
    with pytest.raises(BadVersionError):
        store.multi([Create("/b"), Set("/a", b"x"), Check("/a", 0)])
    assert store.exists("/b") is None
    path, stat, nothing, checked = store.multi([Create("/b"), Set("/a", b"x"), Delete("/b"), Check("/a", 1)])
    assert (path, stat.version, nothing, checked) == ("/b", 1, None, None)
    assert stat.mzxid == zxid + 1


def test_groups_of_a_batch_fail_independently(store: SqliteStore) -> None:
    store.create("/a")
    first, second, third = store.batch([[Create("/b"), Create("/b/c")], [Create("/d"), Create("/a")], [Create("/e")]])
    assert first == ["/b", "/b/c"]
    assert isinstance(second, NodeExistsError)
    assert third == ["/e"]
    assert store.children("/") == ["a", "b", "e"]


def test_watches_get_the_events_of_the_node_and_its_children_in_order(store: SqliteStore) -> None:
    heard: list[Any] = []
    watch = store.watch("/a", heard.append)
    store.create("/a/b", make_parents=True)
    store.set("/a", b"x")
    store.set("/a/b", b"of no interest")
    assert heard == []
    store.pump()
    assert heard == [
        WatchEvent(EventKind.CREATED, "/a"),
        WatchEvent(EventKind.CHILDREN, "/a", frozenset("b")),
        WatchEvent(EventKind.CHANGED, "/a"),
    ]
    heard.clear()
    store.delete("/a", recursive=True)
    store.pump()
    assert [event.kind for event in heard][-1] == EventKind.DELETED
    watch.cancel()
    watch.cancel()
    store.create("/a")
    assert store.pump() == 0


def test_a_queued_event_is_not_duplicated_but_one_after_delivery_is_new(store: SqliteStore) -> None:
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


def test_merged_events_name_all_children(store: SqliteStore) -> None:
    heard = []
    store.create("/a")
    store.create("/a/before")
    store.watch("/a", lambda event: heard.append(set(event.names)))
    store.delete("/a/before")
    store.create("/a/b")
    store.create("/a/c")
    store.create("/a/number-", sequence=True)
    store.pump()
    store.create("/a/d")
    store.pump()
    assert heard == [{"before", "b", "c", "number-0000000004"}, {"d"}]


def test_failed_changes_cause_no_events(store: SqliteStore) -> None:
    heard: list[Any] = []
    store.create("/a")
    store.watch("/b", heard.append)
    with pytest.raises(NodeExistsError):
        store.multi([Create("/b"), Create("/a")])
    store.batch([[Create("/b"), Create("/a")]])
    store.pump()
    assert heard == []


def test_a_watch_that_fails_does_not_stop_the_others(store: SqliteStore, path: Path) -> None:
    heard: list[Any] = []

    def fail(event: WatchEvent) -> None:
        raise ZeroDivisionError

    store.watch("/a", fail)
    store.watch("/a", heard.append)
    store.create("/a")
    store.pump()
    assert [event.kind for event in heard] == [EventKind.CREATED]


def test_watches_are_called_on_a_separate_thread(path: Path) -> None:
    import threading

    store = SqliteStore(path)
    called = threading.Event()
    names: list[str] = []

    def note(event: WatchEvent) -> None:
        names.append(threading.current_thread().name)
        called.set()

    store.watch("/a", note)
    store.create("/a")
    assert called.wait(5)
    store.close()
    assert names == ["metadata-watch-thread"]


def test_closing_ends_the_session(path: Path) -> None:
    states: list[Any] = []
    store = SqliteStore(path, threaded=False)
    store.add_session_listener(states.append)
    store.create("/ids/1", b"me", ephemeral=True, make_parents=True)
    assert store.exists("/ids/1").ephemeral_owner == store.session_id != 0
    with pytest.raises(NoChildrenForEphemeralsError):
        store.create("/ids/1/x")
    store.close()
    store.close()
    assert states == [SessionState.CLOSED]
    with pytest.raises(StoreClosedError):
        store.get("/ids")
    with pytest.raises(StoreClosedError):
        store.create("/x")
    again = SqliteStore(path, threaded=False)
    assert again.children("/ids") == []
    assert again.exists("/ids").cversion == 2
    assert again.session_id > store.session_id
    again.close()


def test_transaction_ids_increase_across_restarts(path: Path) -> None:
    store = SqliteStore(path, threaded=False)
    store.create("/a")
    first = store.exists("/a").czxid
    store.close()
    store = SqliteStore(path, threaded=False)
    store.create("/b")
    assert store.exists("/b").czxid > first
    store.close()


def test_a_store_in_use_cannot_be_opened(store: SqliteStore, path: Path) -> None:
    with pytest.raises(StoreUnavailableError, match=r"metadata\.sqlite: database is locked"):
        SqliteStore(path)


def test_a_file_that_is_not_a_store_is_refused(path: Path) -> None:
    path.write_bytes(b"not a database, but quite long enough to be looked at" * 100)
    with pytest.raises(StoreUnavailableError, match="not a database"):
        SqliteStore(path)


KILLED = """
import sys
from twisted_kafka.metadata.embedded import SqliteStore
store = SqliteStore(sys.argv[1])
store.create("/ids/1", ephemeral=True, make_parents=True)
for number in range(1000000):
    store.create("/q/n_" if number else "/q", b"%d" % number, sequence=number > 0)
    print(number, flush=True)
"""


def test_acknowledged_changes_survive_kill_9(path: Path) -> None:
    root = Path(twisted_kafka.__file__).parent.parent
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, path], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(root)}
    )
    for _ in range(50):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    acknowledged = 49 + len(process.stdout.read().splitlines())
    process.wait()
    process.stdout.close()
    store = SqliteStore(path, threaded=False)
    found = store.children("/q")
    assert acknowledged <= len(found) <= acknowledged + 1
    assert store.get(f"/q/{found[-1]}")[0] == b"%d" % len(found)
    assert store.children("/ids") == []
    store.close()


def test_the_creation_time_of_a_node(path: Path) -> None:
    clock = ManualClock()
    store = SqliteStore(path, clock, threaded=False)
    store.create("/a")
    made_ms = clock.wall_ms()
    clock.advance_ms(5000)
    assert store.set("/a", b"later").ctime_ms == store.exists("/a").ctime_ms == made_ms
    store.create("/b")
    assert store.exists("/b").ctime_ms == made_ms + 5000
    store.close()


def test_a_file_of_format_1_is_migrated(path: Path) -> None:
    store = SqliteStore(path, threaded=False)
    store.create("/a", b"kept")
    store.close()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("ALTER TABLE node DROP COLUMN ctime_ms")
        database.execute("PRAGMA user_version = 1")
    for _ in range(2):
        store = SqliteStore(path, threaded=False)
        data, stat = store.get("/a")
        assert (data, stat.ctime_ms) == (b"kept", 0)
        store.create("/new", ephemeral=True)
        store.close()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA user_version = 3")
    with pytest.raises(StoreUnavailableError, match="the unknown format 3"):
        SqliteStore(path)
