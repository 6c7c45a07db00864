"""Disks of a world: full, failing, with bad blocks, and with less on them after a power failure."""

import os
from pathlib import Path
from random import Random

import pytest

from tests.support.budget import share_of
from tests.world.shop import Shop
from twisted_kafka.world import World
from twisted_kafka.world.faults import KINDS
from twisted_kafka.world.machine.disk import BLOCK_BYTES, Disk
from twisted_kafka.world.machine.durable import DurableTree
from twisted_kafka.world.machine.scheduler import Scheduler
from twisted_kafka.world.seeds import run_test

DISKS = ("crashes_with_power_loss", "full_disks", "slow_disks", "stalled_disks", "failing_disks", "short_transfers", "bad_blocks")
COUNT = 40


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "disk").mkdir()
    return tmp_path / "disk"


@pytest.fixture
def disk(root: Path) -> Disk:
    return Disk(Scheduler(1), root, Random(1), lambda _: False)


def test_a_power_failure_keeps_what_was_synced(root: Path) -> None:
    tree = DurableTree(root, Random(1))
    for name in ("kept", "nameless", "longer"):
        (root / name).write_text("old")
    tree.synced(str(root / "kept"), (root / "kept").stat())
    tree.synced(str(root / "longer"), (root / "longer").stat())
    tree.synced(str(root), root.stat())
    (root / "longer").write_text("old and new")
    (root / "later").write_text("new")
    tree.lose_power(loses_all=True)
    assert {path.name: path.read_text() for path in root.iterdir()} == {"kept": "old", "nameless": "", "longer": "old"}


def test_names_are_durable_after_half_a_minute_and_files_are_forgotten(root: Path) -> None:
    now = [1]
    tree = DurableTree(root, Random(1), now_ns=lambda: now[0])
    for number in range(5):
        (root / "new").write_text(str(number))
        tree.synced(str(root / "new"), (root / "new").stat())
        directory = tree.notice(str(root))
        os.replace(root / "new", root / "checkpoint")
        tree.renamed(directory, "new", "checkpoint")
        now[0] += 20_000_000_000
    tree.notice(str(root))
    assert len(list(root.with_name("disk.links").iterdir())) <= 3
    tree.lose_power(loses_all=True)
    assert (root / "checkpoint").read_text() == "3"


def test_a_read_stops_at_a_bad_block(root: Path, disk: Disk) -> None:
    path = root / "0.log"
    path.write_bytes(b"a" * 3 * BLOCK_BYTES)
    with path.open("rb") as file:
        disk.begin("short")  # so that calls are looked at
        disk.bad.add((path.stat().st_ino, 1))
        assert 0 < len(disk.read("pread", os.pread, (file.fileno(), 3 * BLOCK_BYTES, 0))) <= BLOCK_BYTES
        with pytest.raises(OSError, match="Input/output error"):
            disk.read("pread", os.pread, (file.fileno(), 10, BLOCK_BYTES))
        assert disk.read("pread", os.pread, (file.fileno(), 1, 2 * BLOCK_BYTES)) == b"a"


def test_a_full_disk_has_room_for_nothing(root: Path, disk: Disk) -> None:
    path = root / "0.log"
    fd = disk.open(os.open, path, os.O_CREAT | os.O_WRONLY, 0o644, {})
    disk.begin("full")
    with pytest.raises(OSError, match="No space left"):
        disk.write(os.pwrite, fd, b"a", 0)
    with pytest.raises(OSError, match="No space left"):
        disk.open(os.open, root / "1.log", os.O_CREAT, 0o644, {})
    disk.end("full")
    assert disk.write(os.pwrite, fd, b"a", 0) == 1
    os.close(fd)


def run(seed: int, brokers: int, **faults: int) -> World:
    shop = Shop()

    async def test(world: World) -> None:
        programs = [
            world.process(shop.order, world.bootstrap_servers, COUNT),
            world.process(shop.book, world.bootstrap_servers, COUNT),
        ]
        world.faults(longest_s=10, **faults)  # type: ignore[arg-type]
        await world.run(minutes=1)
        assert await world.finished(*programs)

    outcome = run_test(World(seed, brokers), test)
    if outcome.error is not None:
        raise outcome.error
    assert sorted(set(shop.booked)) == list(range(COUNT))
    return outcome.world


@pytest.mark.medium
def test_a_broker_with_a_full_disk_stops_and_starts_again() -> None:
    shop = Shop()

    async def test(world: World) -> None:
        program = world.process(shop.order, world.bootstrap_servers, COUNT)
        await world.run(2)
        disk = world.brokers[0].disk
        assert disk is not None
        disk.begin("full")
        await world.run(1)
        disk.end("full")
        assert await world.finished(program)

    outcome = run_test(World(1), test)
    assert outcome.error is None
    assert shop.acknowledged == list(range(COUNT))
    text = outcome.world.trace.text()
    assert "all log dirs have failed" in text
    assert text.count("serves") == 2


def test_all_kinds_of_faults_have_words() -> None:
    assert all("{name}" in text for text in KINDS.values())


@pytest.mark.slow
@pytest.mark.parametrize("kind", DISKS)
def test_three_brokers_lose_nothing_with_bad_disks(kind: str) -> None:
    for seed in range(share_of(20)):
        run(seed, 3, **{kind: 2})
