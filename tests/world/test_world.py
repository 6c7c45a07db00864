"""The same seed gives the same run, byte for byte, and aiokafka works unchanged."""

import _thread
import asyncio
import datetime as datetime_module
import multiprocessing
import os
import random
import secrets
import shutil
import socket
import sqlite3
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from time import time as wall_time
from typing import Any

import pytest

from tests.support.budget import patient, share_of
from tests.world.a_run import run
from tests.world.digests import KINDS, Run, digests_elsewhere, summary
from twisted_kafka.system import machine
from twisted_kafka.world import World
from twisted_kafka.world.machine.loop import EscapeError
from twisted_kafka.world.processes import ProgramError

WAIT_S = 300


@pytest.mark.medium
def test_a_seed_gives_the_same_run_again_and_another_seed_another() -> None:
    first, again, other = (run(seed, 1, has_faults=False) for seed in (1, 1, 2))
    assert first == again != other
    assert "orders" not in first.partition("\n")[0]


@pytest.mark.slow
def test_a_seed_gives_the_same_run_in_any_process() -> None:
    seeds = range(max(share_of(16), len(KINDS)))
    first, second = (digests_elsewhere(list(seeds), hash_seed, patient(WAIT_S)) for hash_seed in (1, 2))
    assert first == second
    assert len(set(first)) == len(seeds)


def test_runs_of_a_seed_are_compared() -> None:
    runs = [Run(7, "A", 0, "x"), Run(7, "A", 1, "x"), Run(8, "A", 0, "y")]
    assert summary(runs) == ("A: 1 seeds run twice\nseeds with different runs: none", True)
    text, are_equal = summary([*runs, Run(8, "B", 0, "an error")])
    assert not are_equal
    assert text.endswith("seed 8: an error\nseeds with different runs: [8]")


@pytest.mark.slow
def test_brokers_survive_faults_and_lose_nothing() -> None:
    for seed in range(share_of(20)):
        run(seed, 3, has_faults=True)


def test_after_a_world_everything_is_real_again() -> None:
    before = (time.time, os.urandom, threading.Thread.start, socket.getaddrinfo, machine.Lock, machine.is_simulated)
    state = random.getstate()
    with World() as world:
        assert time.time() == 1_750_000_000 + world.now_s
        assert machine.is_simulated
        with pytest.raises(RuntimeError, match="one world at a time"):
            World().open()
    assert before == (time.time, os.urandom, threading.Thread.start, socket.getaddrinfo, machine.Lock, machine.is_simulated)
    assert random.getstate() == state


def test_what_leaves_the_world_is_named() -> None:
    async def thread() -> None:
        threading.Thread(target=print).start()

    async def connect() -> None:
        socket.create_connection(("kafka-1", 9092), 1)

    async def program() -> None:
        subprocess.run(["true"], check=True)

    async def process_id() -> None:
        os.fork()

    async def shell() -> None:
        os.system("true")

    async def worker() -> None:
        multiprocessing.get_context("spawn").Process(target=print).start()

    async def bare_thread() -> None:
        _thread.start_new_thread(print, ())

    async def attempt() -> None:
        socket.socket().connect_ex(("127.0.0.1", 9))

    async def datagram() -> None:
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"", ("127.0.0.1", 9))

    threads, sockets, programs = "threads of the system", "sockets", "programs of the system"
    escapes = [(thread, threads), (bare_thread, threads), (connect, sockets), (attempt, sockets), (datagram, sockets)]
    escapes += [(program, programs), (process_id, programs), (shell, programs), (worker, programs)]
    with World() as world:
        for escape, what in escapes:
            world.process(escape)
            with pytest.raises(ProgramError, match=what) as raised:
                world.drive(world.run(1))
            assert isinstance(raised.value.__cause__, EscapeError)


def test_time_chance_and_names_are_the_worlds() -> None:
    def seen(seed: int) -> list[object]:
        found: list[object] = []

        async def look() -> None:
            began = time.monotonic()
            time.sleep(2.5)
            found.extend([time.monotonic() - began, socket.gethostname(), socket.getfqdn(), socket.gethostbyname("kafka-1")])
            found.extend(
                [time.strftime("%d.%m.%Y"), time.ctime()[-4:], time.localtime().tm_year, time.clock_gettime(time.CLOCK_REALTIME)]
            )
            found.extend([os.getpid(), time.process_time()])
            found.extend([uuid.uuid4(), uuid.uuid1(), random.random(), random.Random().random(), secrets.token_hex()])
            random.seed()
            found.extend([random.random(), tempfile.mktemp()])

        with World(seed) as world:
            world.process(look, name="looker")
            world.drive(world.run(3))
        return found

    first = seen(1)
    assert first == seen(1)
    assert first[:4] == [2.5, "looker", "looker", "10.0.0.1"]
    assert first[4:8] == ["15.06.2025", "2025", 2025, 1_750_000_000 + 2.5 + first[7] % 0.5]  # type: ignore[operator]
    assert not set(first[10:]) & set(seen(2))


def test_names_that_a_module_has_bound_are_the_worlds() -> None:
    async def look() -> list[object]:
        return [
            wall_time(),
            datetime.now(UTC),
            datetime_module.datetime.now(UTC),
            isinstance(datetime(2020, 1, 1, tzinfo=UTC), datetime),
        ]

    with World() as world:
        program = world.process(look)
        world.drive(world.run(1))
    now = datetime(2025, 6, 15, 15, 6, 40, 1000, tzinfo=UTC)
    assert program.result == [now.timestamp(), now, now, True]
    assert datetime_module.datetime is datetime
    assert wall_time() > now.timestamp()


def test_a_program_changes_nothing_elsewhere(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "there").touch()

    def through_a_link(own: Path) -> None:
        (own / "outside").symlink_to(elsewhere)
        (own / "outside" / "file").touch()

    async def escape(act: Callable[[Path], object]) -> None:
        own = programs[-1].directory
        (own / "file").touch()
        (own / "folder").mkdir()
        sqlite3.connect(own / "folder" / "database").close()
        shutil.rmtree(own / "folder")
        act(own)

    acts: list[Callable[[Path], object]] = [
        lambda own: (own / "file").rename(elsewhere / "file"),
        lambda own: os.link(own / "file", elsewhere / "file"),
        lambda own: (elsewhere / "link").symlink_to(own),
        lambda own: (elsewhere / "there").chmod(0o600),
        lambda own: shutil.rmtree(elsewhere),
        lambda own: sqlite3.connect(elsewhere / "file"),
        through_a_link,
    ]
    programs = []
    with World() as world:
        for act in acts:
            programs.append(world.process(escape, act))
            with pytest.raises(ProgramError, match=f"{elsewhere}.*: its files are below program.directory"):
                world.drive(world.run(1))
    assert [path.name for path in elsewhere.iterdir()] == ["there"]


def test_a_program_writes_files_in_its_directory_only(tmp_path: Path) -> None:
    async def escape() -> None:
        (tmp_path / "database").write_text("kept")

    async def keep() -> str:
        path = keeper.directory / "database"
        before = path.read_text() if path.exists() else ""
        path.write_text("kept")
        return before

    with World() as world:
        world.process(escape)
        with pytest.raises(ProgramError, match=f"writes {tmp_path}/database: its files are below program.directory"):
            world.drive(world.run(1))
        keeper = world.process(keep)
        world.drive(world.run(1))
        keeper.start()
        world.drive(world.run(1))
        assert keeper.result == "kept"


def test_functions_that_block_run_on_threads_of_the_world() -> None:
    async def work() -> list[float]:
        return await asyncio.gather(*[asyncio.to_thread(lambda: time.sleep(1) or time.monotonic()) for _ in range(3)])

    with World() as world:
        program = world.process(work)
        began_s = time.monotonic()
        world.drive(world.run(2))
    assert [ended_s - began_s for ended_s in program.result] == [pytest.approx(1.0)] * 3


@pytest.mark.medium
def test_programs_with_loops_of_their_own_share_a_thread_of_the_system() -> None:
    async def numbers() -> AsyncIterator[int]:
        for number in range(3):
            time.sleep(0.01)  # lets the other program go on within a task
            yield number

    async def count(name: str) -> None:
        task = asyncio.current_task()
        loop: Any = asyncio.get_running_loop()
        async for number in numbers():
            assert asyncio.current_task() is task
            assert asyncio.get_running_loop() is loop
            seen.append(f"{name}{number}")
        unfinished.append(anext(other := numbers()))
        await unfinished[-1]
        assert len(loop._asyncgens) == 1
        del other

    async def in_a_loop(world: World) -> None:
        world.drive(world.run(1))
        assert asyncio.get_running_loop() is not None

    seen: list[str] = []
    unfinished: list[Any] = []
    with World() as world:
        for name in "ab":
            world.process(count, name)
        asyncio.run(in_a_loop(world))
    assert sorted(seen) == ["a0", "a1", "a2", "b0", "b1", "b2"] != seen


def test_a_program_that_is_killed_can_start_again() -> None:
    lives: list[str] = []

    async def live() -> None:
        lives.append("begins")
        await asyncio.sleep(10)
        lives.append("ends")

    with World() as world:
        program = world.process(live)
        world.drive(world.run(5))
        program.kill()
        world.drive(world.run(20))
        assert lives == ["begins"]
        program.start()
        world.drive(world.run(20))
        assert lives == ["begins", "begins", "ends"]


def test_checks_hold_always_or_eventually() -> None:
    with World() as world:
        limit_s = world.now_s + 10
        world.always(lambda: world.now_s < limit_s)
        world.drive(world.run(5))
        world.drive(world.eventually(lambda: world.now_s > limit_s - 3, seconds=4))
        with pytest.raises(AssertionError, match="does not hold within 1 s"):
            world.drive(world.eventually(lambda: False, seconds=1))
        with pytest.raises(AssertionError, match="does not hold"):
            world.drive(world.run(10))


def test_what_holds_late_is_checked_less_often() -> None:
    checks: list[float] = []

    def check() -> bool:
        checks.append(world.now_s)
        return len(checks) > 1020

    with World() as world:
        began_s = world.now_s
        world.drive(world.eventually(check))
    assert round(checks[999] - began_s, 3) == 0.999
    assert round(checks[1011] - checks[1010], 3) == 0.1


def test_a_test_awaits_only_its_world() -> None:
    async def test() -> None:
        await asyncio.sleep(0)

    with World() as world, pytest.raises(RuntimeError, match="awaits only the world's methods"):
        world.drive(test())


def test_wrong_settings_end_the_start() -> None:
    with pytest.raises(ValueError, match="brokers=0"):
        World(brokers=0)
    with World() as world:
        with pytest.raises(ValueError, match="need several brokers"):
            world.faults(partitions=1)
        with pytest.raises(ValueError, match="need programs"):
            world.faults(program_kills=1)
        with pytest.raises(TypeError, match="no faults earthquakes: expected kills, crashes_with"):
            world.faults(earthquakes=1)  # type: ignore[call-arg]
