"""Worlds find the bugs of typical programs, and nothing in the correct versions."""

from collections.abc import Collection

import pytest

from tests.support.budget import share_of
from tests.world.programs import PROGRAMS, Program
from twisted_kafka.world import World
from twisted_kafka.world.seeds import run_test, shrink

MOST_SEEDS = 1000
MOST_FAULTS = 10


def make_world(program: Program, seed: int, kept: Collection[int] | None = None) -> World:
    return World(seed, properties=program.settings, only_faults=kept)


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_the_wrong_version_is_found_and_the_right_one_raises_no_alarm(program: Program) -> None:
    wrong = program.make(False)
    for seed in range(MOST_SEEDS):
        found = run_test(make_world(program, seed), wrong)
        if found.error is not None:
            break
    assert type(found.error) is AssertionError, "no seed finds the bug, or a broker breaks a promise"
    smallest = shrink(lambda kept: make_world(program, seed, kept), wrong, found)
    assert len(smallest.faults) < MOST_FAULTS
    for seed in range(share_of(40)):
        assert run_test(make_world(program, seed), program.make(True)).error is None, f"seed {seed}"


def test_there_are_twenty_programs() -> None:
    assert len(PROGRAMS) == len({program.name for program in PROGRAMS}) == 20
