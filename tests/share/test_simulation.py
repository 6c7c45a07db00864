"""Many worlds, each from its seed: see ``simulation.py``. ``SHARE_SEED=n`` runs a single one."""

import os

import pytest

from tests.share.simulation import World
from tests.support.budget import SHARE, share_of

SEEDS = 10_000 if SHARE >= 1 else share_of(1_000)


@pytest.mark.medium
@pytest.mark.timeout(120 if SHARE < 1 else 4 * 3600)
def test_nothing_is_lost_and_nobody_shares_a_record() -> None:
    only = os.environ.get("SHARE_SEED")
    for seed in range(SEEDS) if only is None else [int(only)]:
        try:
            World(seed).run()
        except BaseException as error:
            raise AssertionError(f"SHARE_SEED={seed}") from error


@pytest.mark.parametrize("seed", [1, 2])
def test_a_seed_makes_the_same_world(seed: int) -> None:
    one, other = World(seed), World(seed)
    one.run()
    other.run()
    assert (one.deliveries, one.confirmed, one.log_end) == (other.deliveries, other.confirmed, other.log_end)
