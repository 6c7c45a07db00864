"""What is special about the embedded store: its file, and that it survives crashes. test_stores.py has what all stores do."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

import twisted_kafka
from twisted_kafka.metadata.embedded import SqliteStore
from twisted_kafka.metadata.store import Delete, StoreUnavailableError
from twisted_kafka.timing.clock import ManualClock

PAGE_BYTES = 4096


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metadata.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(path, threaded=False)
    yield store
    store.close()


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


def test_a_store_in_memory_makes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = SqliteStore(":memory:", threaded=False)
    store.create("/a")
    store.close()
    assert [*tmp_path.iterdir()] == []


@pytest.mark.medium
def test_a_store_in_use_cannot_be_opened(store: SqliteStore, path: Path) -> None:
    with pytest.raises(StoreUnavailableError, match=r"metadata\.sqlite: database is locked"):
        SqliteStore(path)


def test_a_file_that_is_not_a_store_is_refused(path: Path) -> None:
    path.write_bytes(b"not a database, but quite long enough to be looked at" * 100)
    with pytest.raises(StoreUnavailableError, match="not a database"):
        SqliteStore(path)


def test_what_cannot_be_read_is_an_error_of_the_store(path: Path) -> None:
    store = SqliteStore(path, threaded=False)
    for number in range(500):
        store.create(f"/{number}", b"x" * 200)
    store.close()
    damage_pages(path, range(6, path.stat().st_size // PAGE_BYTES))
    store = SqliteStore(path, threaded=False)
    actions: list[Callable[[], object]] = [
        lambda: store.get("/300"),
        lambda: store.exists("/300"),
        lambda: store.children("/"),
        lambda: store.watch_and_get(["/300"], lambda _event: None),
        lambda: store.set("/300", b"y"),
        lambda: store.batch([[Delete("/300")]]),
    ]
    for action in actions:
        with pytest.raises(StoreUnavailableError, match=r"^the metadata store .* failed: database disk image is malformed$"):
            action()
    store.close()


def damage_pages(path: Path, pages: Iterable[int]) -> None:
    """Let pages of a file be no pages of a database."""
    with path.open("r+b") as file:
        for page in pages:
            file.seek(page * PAGE_BYTES)
            file.write(b"\xff" * 16)


KILLED = """
import sys
from twisted_kafka.metadata.embedded import SqliteStore
store = SqliteStore(sys.argv[1])
store.create("/ids/1", ephemeral=True, make_parents=True)
for number in range(1000000):
    store.create("/q/n_" if number else "/q", b"%d" % number, sequence=number > 0)
    print(number, flush=True)
"""


@pytest.mark.medium
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
