"""What holds for the tests of the log."""

import os
from collections.abc import Iterator

import pytest

from tests.log.bad_blocks import transfer_parts
from tests.log.log_managers import end_all_brokers


@pytest.fixture(autouse=True)
def instant_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``fsync`` and ``fdatasync`` only check the descriptor.

    These tests cannot lose power, and those that act as if they could watch the calls instead.
    """

    def sync(fd: int) -> None:
        os.fstat(fd)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "fdatasync", sync, raising=False)  # macOS has none


@pytest.fixture(autouse=True)
def transfers_in_parts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let reads and writes of files transfer a part at times, except in tests that count them (``whole_transfers``)."""
    if "whole_transfers" not in request.keywords:
        transfer_parts(monkeypatch)


@pytest.fixture(autouse=True)
def no_file_stays_open(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let the log managers that a test started release their files, and check that no descriptor of another file is left.

    Files of batches are closed with the last reference to them, and so later on PyPy.
    """
    yield
    end_all_brokers()
    root = str(tmp_path_factory.getbasetemp())
    opened = [path for fd in os.listdir("/proc/self/fd") if (path := _target(fd)).startswith(root)]
    assert not [path for path in opened if not path.endswith((".log", ".swap", ".cleaned", ".deleted", " (deleted)"))]


def _target(fd: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except FileNotFoundError:  # that of the listing
        return ""
