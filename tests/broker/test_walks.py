"""How many functions and files a request crosses may not rise."""

import sys

import pytest

from tests.broker.walks import follow_walks, size_of

pytestmark = pytest.mark.medium

LIMITS = {
    "Produce": (68, 34),
    "Fetch": (79, 29),
    "OffsetCommit": (112, 53),
    "JoinGroup": (101, 35),
    "EndTxn": (167, 62),
    "CreateTopics": (347, 99),
}
"""Functions and files by request. They may only fall: lower them with the walk."""


MOST_ATTEMPTS = 3
"""On a busy machine, a walk may be interrupted: another thread takes over the loop, which adds functions."""


def _longer_walks() -> dict[str, tuple[int, int]]:
    sizes = {name: size_of(threads) for name, threads in follow_walks().items()}
    assert sizes.keys() == LIMITS.keys()
    return {name: size for name, size in sizes.items() if size[0] > LIMITS[name][0] or size[1] > LIMITS[name][1]}


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="functions are followed with CPython's profile hook")
def test_no_walk_becomes_longer() -> None:
    longer = set(LIMITS)
    for _ in range(MOST_ATTEMPTS):
        longer &= _longer_walks().keys()
        if not longer:
            return
    pytest.fail(f"{sorted(longer)} became longer: to see the walks, python -m tests.broker.walks")
