"""How much of what tests enumerate (crash points, seeds, examples) is tried: one number sets the time of ``make test``."""

import itertools
import os
from collections.abc import Iterable
from typing import Any

import pytest

SHARE = float(os.environ.get("TEST_SHARE", "0.15"))
"""``make test-unit`` sets 0.1, ``make test`` leaves it as it is, ``make test-all`` sets 1."""
STRIDE = max(1, round(1 / SHARE))
"""Tests whose steps are slow stop the machine at every STRIDE-th step."""


def share_of(count: int) -> int:
    """Return how many of ``count`` seeds or examples to try: at least one."""
    return max(1, round(count * SHARE))


def covering(*axes: Iterable[object]) -> list[Any]:
    """Return every combination of the axes' values for ``parametrize``; ``make test`` runs the fewest that have each value once.

    The others are marked slow: ``make test-all`` runs them.
    """
    values = [list(axis) for axis in axes]
    few = {tuple(number % len(axis) for axis in values) for number in range(max(map(len, values)))}
    return [
        pytest.param(
            *(axis[at] for axis, at in zip(values, places, strict=True)), marks=[] if places in few else [pytest.mark.slow]
        )
        for places in itertools.product(*(range(len(axis)) for axis in values))
    ]
