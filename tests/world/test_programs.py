"""Worlds find the bugs of typical programs, and nothing in the correct versions."""

import itertools

import pytest

from tests.support.budget import share_of
from tests.world.programs import PROGRAMS, Program
from twisted_kafka.world import World
from twisted_kafka.world.seeds import run_test

MOST_SEEDS = 30
MOST_FAULTS = 10


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_the_wrong_version_is_found_and_the_right_one_raises_no_alarm(program: Program) -> None:
    outcomes = (run_test(World(seed, brokers=3), program.wrong) for seed in itertools.count())
    found = next((each for each in itertools.islice(outcomes, MOST_SEEDS) if each.error is not None), None)
    assert found is not None, "no seed finds the bug"
    assert isinstance(found.error, AssertionError)
    assert len(found.faults) < MOST_FAULTS
    for seed in range(share_of(20)):
        assert run_test(World(seed, brokers=3), program.right).error is None, f"seed {seed}"
