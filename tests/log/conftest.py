"""What holds for the tests of the log."""

import os
from collections.abc import Iterator

import pytest

from tests.log.log_managers import end_all_brokers


@pytest.fixture(autouse=True)
def instant_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``fsync`` and ``fdatasync`` only check the descriptor.

    These tests cannot lose power, and those that act as if they could watch the calls instead.
    """

    def sync(fd: int) -> None:
        os.fstat(fd)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "fdatasync", sync)


@pytest.fixture(autouse=True)
def no_file_stays_open() -> Iterator[None]:
    """Let the log managers that a test started release their files."""
    yield
    end_all_brokers()
