"""The walks in docs/walks.md are those of real requests."""

import sys

import pytest

from tests.broker.walks import as_text, follow_walks, written_walks


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="functions are followed with CPython's profile hook")
def test_the_walks_are_those_of_requests() -> None:
    assert written_walks() == as_text(follow_walks()), "to update them: python -m tests.broker.walks"
