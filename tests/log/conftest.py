"""Syncs that cost nothing: these tests cannot lose power, and those that act as if they could watch the calls instead."""

import os

import pytest


@pytest.fixture(autouse=True)
def instant_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``fsync`` and ``fdatasync`` only check the descriptor."""

    def sync(fd: int) -> None:
        os.fstat(fd)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "fdatasync", sync)
