"""A visit to a moment finds the world as it was then, and can change it."""

import asyncio
import json
import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.world.shop import Shop
from twisted_kafka.world import World
from twisted_kafka.world.moments.copies import GO_ON, Moments
from twisted_kafka.world.seeds import run_test

pytestmark = pytest.mark.medium

COUNT = 20


async def write(world: World) -> None:
    """Run a program for a second that keeps a number in a file, which stays open."""

    async def count(path: Path) -> None:
        with path.open("w") as file:
            for number in range(100):
                file.seek(0)
                print(number, random.random(), file=file, flush=True)
                await asyncio.sleep(0.1)

    world.process(count, world.directory / "count-1" / "number", name="count-1")
    await world.run(1)


class Visits:
    """Writes a line for each visit, from its process to this one."""

    def __init__(self, path: Path, *moments: float | None, act: Callable[[World], object] = lambda _: None) -> None:
        self._path = path
        self._moments = moments
        self._act = act

    def talk(self, world: World, reason: str) -> float | None:
        found = self.found()
        self._act(world)
        text = (world.directory / "count-1" / "number").read_text()
        reason = reason.splitlines()[-1] if reason else ""
        line = json.dumps([round(world.now_s, 3), reason, text, world.trace.digest, world.brokers[0].is_serving])
        with self._path.open("a") as file:
            file.write(f"{line}\n")
        return self._moments[len(found)]

    def found(self) -> list[list[Any]]:
        return [json.loads(line) for line in self._path.read_text().splitlines()] if self._path.exists() else []


def digest_at(moment_s: float) -> str:
    """Return the digest of the same run, which stops then."""
    found: list[str] = []

    async def test(world: World) -> None:
        world.at(moment_s, lambda: found.append(world.trace.digest))
        await write(world)

    assert run_test(World(1), test).error is None
    return found[0]


def test_a_visitor_finds_the_moment_and_others_after_it(tmp_path: Path) -> None:
    visits = Visits(tmp_path / "visits", 0.5, 0.85, None)
    moments = Moments(visits.talk, most=4, apart_ns=10_000_000)
    outcome = run_test(World(1), write, moments)
    try:
        before = signal.getsignal(signal.SIGINT)
        moments.visit(0.85)
        assert signal.getsignal(signal.SIGINT) == before
    finally:
        moments.close()
    late, early, again = visits.found()
    assert [late[0], early[0]] == [0.85, 0.5]
    assert late == again
    assert late[2].startswith("8 ")
    assert early[2].startswith("4 ")
    assert late[3] == digest_at(0.85)
    assert late[4] is early[4] is True
    assert outcome.error is None
    assert not list(outcome.world.directory.parent.glob(f"{outcome.world.directory.name}*"))


@pytest.mark.slow
def test_a_visitor_gives_another_fault_and_goes_on(tmp_path: Path) -> None:
    shop = Shop()

    async def test(world: World) -> None:
        world.process(write_number, world.directory / "count-1" / "number", name="count-1")
        world.process(shop.order, world.bootstrap_servers, COUNT)
        await world.run(20)
        if "is killed" in world.trace.text():
            raise AssertionError("a kill")

    async def write_number(path: Path) -> None:
        path.write_text("1")

    def act(world: World) -> None:
        assert not world.brokers[0].is_paused
        if world.now_s < 2:
            world.brokers[0].kill()
            world.brokers[0].start()

    visits = Visits(tmp_path / "visits", GO_ON, 1.1, GO_ON, 19, None, act=act)
    moments = Moments(visits.talk)
    assert run_test(World(1), test, moments).error is None
    try:
        moments.visit(1.0)
    finally:
        moments.close()
    assert [found[:2] for found in visits.found()] == [
        [1.0, ""],
        [20.001, "AssertionError: a kill"],
        [1.1, ""],
        [20.001, "AssertionError: a kill"],
        [19, ""],
    ]


def test_a_visitor_that_dies_is_an_error(tmp_path: Path) -> None:
    moments = Moments(lambda *_: os._exit(3))
    assert run_test(World(1), write, moments).error is None
    try:
        with pytest.raises(RuntimeError, match=r"the copy of the world at [\d.]+ s has failed"):
            moments.visit(0.5)
    finally:
        moments.close()


@pytest.mark.skipif(sys.platform != "linux", reason="the system lists no children")
def test_a_copy_that_was_killed_is_an_error() -> None:
    moments = Moments(lambda *_: None)
    before, copies = children(), set[int]()

    async def test(world: World) -> None:
        copies.update(children() - before)
        await write(world)

    assert run_test(World(1), test, moments).error is None
    for each in copies:
        os.kill(each, signal.SIGKILL)
    try:
        with pytest.raises(RuntimeError, match="has failed"):
            moments.visit(0.0)
    finally:
        moments.close()


def children() -> set[int]:
    """Return the processes that this one has started, and that have not ended."""
    return set(map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()))


def test_a_world_that_never_opened_has_no_moments() -> None:
    with pytest.raises(RuntimeError, match="has not opened"):
        Moments(lambda *_: None).visit(1)
