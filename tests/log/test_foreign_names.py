"""Directories and files that an operator left between the logs: they are reported, kept, and harm no log."""

import shutil
from pathlib import Path

import pytest
from twisted.logger import capturedLogs, formatEvent

from tests.log.log_managers import ONE, Broker
from tests.support.logs import Bench, append, contents

DIRECTORIES = ["one-00", "copy of one-0", "one-\N{ARABIC-INDIC DIGIT ZERO}", "one-99999999999", "one-0.x-y\n-1", "a+b-0"]
FILES = [
    "5.log",
    "notes.log",
    "00000000000000000001.old.log",
    "5.index",
    "notes.timeindex",
    "notes.snapshot",
    "notes.log.swap",
    "notes.cleaned",
    f"{10**19}.log",
]


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


def test_a_copy_of_a_log_beside_it_replaces_nothing(broker: Broker) -> None:
    manager = broker.start()
    log = manager.get_or_create_log(ONE)
    append(log, b"a")
    append(log, b"b")
    log.update_high_watermark(2)
    log.increment_log_start_offset(1)
    manager.shutdown()
    for name in DIRECTORIES:
        shutil.copytree(broker.path / "a" / "one-0", broker.path / "a" / name)
    for _ in range(2):  # the second start reads what the first one wrote
        with capturedLogs() as events:
            manager = broker.start()
        said = "".join(map(formatEvent, events))
        assert "malformed" not in said
        assert all(repr(name) in said for name in DIRECTORIES)
        assert [log.dir.name for log in manager.all_logs()] == ["one-0"]
        assert contents(manager.get_log(ONE)) == [(1, b"b")]
        manager.shutdown()
    assert {*DIRECTORIES, "one-0"} <= set(broker.names())


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "one-0")


@pytest.mark.parametrize("was_clean", [False, True])
def test_files_that_are_not_of_the_log_are_left_alone(bench: Bench, *, was_clean: bool) -> None:
    log = bench.open()
    append(log, b"x")
    directory = log.dir
    log.flush_and_close()
    for name in FILES:
        (directory / name).write_bytes(b"of somebody else")
    (directory / "folder.deleted").mkdir()
    with capturedLogs() as events:
        log = bench.open(was_clean=was_clean)
    said = "".join(map(formatEvent, events))
    assert contents(log) == [(0, b"x")]
    assert all(name in said for name in FILES)
    assert {*FILES, "folder.deleted"} <= {path.name for path in directory.iterdir()}
