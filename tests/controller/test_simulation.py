"""Several controllers and brokers with faults, by seeds."""

import pytest

from tests.controller.simulation import World
from tests.support.budget import share_of

pytestmark = pytest.mark.medium

STEPS = 400
SEEDS_PER_TEST = share_of(20)


def run(seed: int) -> None:
    world = World(seed)
    try:
        for _ in range(STEPS):
            world.tree.pump()
            world.step()
        world.heal()
        world.check_rest()
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise
    finally:
        world.close()


@pytest.mark.parametrize("first", [0, SEEDS_PER_TEST])
def test_whatever_happens_there_is_one_leader_and_all_know_it(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        run(seed)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(1_000, 11_000, 500))
def test_ten_thousand_seeds(first: int) -> None:
    for seed in range(first, first + 500):
        run(seed)
