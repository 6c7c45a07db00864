"""A thousand brokers, one after the other, in one process: none leaves anything behind."""

import gc
import os
import tempfile
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest

from twisted_kafka.broker.temporary_directory import PREFIX
from twisted_kafka.testing import Broker

STARTS = 1_000
WARM = 100
"""Starts after which codecs are compiled, pools are filled, and the allocator has its arenas."""
MOST_GROWTH_KIB = 16 * 1024
"""Of 900 starts: 18 KiB each. A broker that were kept would take far more."""


def resident_kib() -> int:
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])


def holdings() -> tuple[int, int, int]:
    """Return descriptors, threads and directories of brokers."""
    directories = [path for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*") if (path / ".owned").exists()]
    return len(os.listdir("/proc/self/fd")), threading.active_count(), len(directories)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="/proc tells what a process holds")
def test_a_thousand_starts_leave_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = (0, 0, 0)
    before_kib = 0
    for number in range(STARTS):
        if number == WARM:
            gc.collect()
            before, before_kib = holdings(), resident_kib()
        with Broker() as broker:
            broker.create_topic("orders")
            broker.produce("orders", ["1"])
    gc.collect()
    after, after_kib = holdings(), resident_kib()
    print(f"\nafter {WARM} and {STARTS} starts: descriptors, threads, directories {before} and {after}; ", end="")
    print(f"resident {before_kib} and {after_kib} KiB")
    assert after == before
    assert after_kib - before_kib < MOST_GROWTH_KIB


def test_a_closed_broker_is_freed_though_its_program_has_not_begun_to_log() -> None:
    gone: list[weakref.ref[Any]] = []
    for _ in range(2):
        with Broker() as broker:
            broker.create_topic("orders")
            gone += [weakref.ref(broker), weakref.ref(broker.embedded)]
        del broker
    gc.collect()
    assert [each() for each in gone] == [None] * 4
