"""How much of what tests enumerate (crash points, seeds, examples) is tried, and how long tests wait, each set by one number."""

import itertools
import os
from collections.abc import Iterable
from typing import Any, TypeVar

import pytest

SHARE = float(os.environ.get("TEST_SHARE", "0.05"))
"""``make test-all`` sets 1."""
STRIDE = max(1, round(1 / SHARE))
"""Tests whose steps are slow stop the machine at every STRIDE-th step."""

PATIENCE = int(os.environ.get("TEST_PATIENCE", "1"))
"""``make test-all`` sets 5: the machine may do other things during its hours, and no test may fail because it had to wait."""

S = TypeVar("S", int, float)


def patient(seconds: S) -> S:
    """Return how long to wait before a wait counts as a hang. For bounds that only a failure meets, not for times that matter."""
    return seconds * PATIENCE


def share_of(count: int) -> int:
    """Return how many of ``count`` seeds or examples to try: at least one."""
    return max(1, round(count * SHARE))


def first_of(values: Iterable[object], count: int = 1) -> list[Any]:
    """Return the values for ``parametrize``; ``make test`` runs the first ``count`` of them. The others are marked slow."""
    return [pytest.param(each, marks=[] if number < count else [pytest.mark.slow]) for number, each in enumerate(values)]


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
