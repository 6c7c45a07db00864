"""How much of what tests enumerate (crash points, seeds, examples) is tried: one number sets the time of ``make test``."""

import os

SHARE = float(os.environ.get("TEST_SHARE", "0.25"))
"""``make test-unit`` sets 0.1, ``make test`` leaves it as it is, ``make test-all`` sets 1."""
STRIDE = max(1, round(1 / SHARE))
"""Tests whose steps are slow stop the machine at every STRIDE-th step."""


def share_of(count: int) -> int:
    """Return how many of ``count`` seeds or examples to try: at least one."""
    return max(1, round(count * SHARE))
