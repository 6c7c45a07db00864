"""Many interleavings of threads that hand over loops, line by line (``handover.py``), each from a seed that a failure tells."""

import pytest

from tests.network.loop.handover import explore
from tests.support.budget import share_of
from twisted_kafka.system.interpreter import IS_PYPY

pytestmark = pytest.mark.medium

QUICK = 40 if IS_PYPY else 4 * share_of(40)  # which traces lines slowly
SLOW = 2_000 if IS_PYPY else 10_000


@pytest.mark.parametrize("block", range(4))
def test_no_role_is_lost_and_nobody_waits_while_a_handler_sleeps(block: int) -> None:
    for seed in range(block * QUICK // 4, (block + 1) * QUICK // 4):
        explore(seed)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("block", range(8))
def test_many_more_handovers(block: int) -> None:
    for seed in range(QUICK + block * SLOW // 8, QUICK + (block + 1) * SLOW // 8):
        explore(seed)
