"""Thousands of interleavings of processor, handlers and clients (``schedule.py``), each from a seed that a failure tells."""

import pytest

from tests.network.loop.schedule import explore
from tests.support.budget import share_of

QUICK = share_of(2_000)
SLOW = 40_000


@pytest.mark.parametrize("block", range(10))
def test_every_request_is_answered_once_and_in_order(block: int) -> None:
    for seed in range(block * QUICK // 10, (block + 1) * QUICK // 10):
        explore(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_many_more_interleavings(block: int) -> None:
    for seed in range(QUICK + block * SLOW // 10, QUICK + (block + 1) * SLOW // 10):
        explore(seed, steps=250)
