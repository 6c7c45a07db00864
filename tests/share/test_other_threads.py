from collections.abc import Callable

import pytest

from twisted_kafka.share.other_threads import OneByOne


def test_what_is_asked_for_during_a_call_comes_once_after_it() -> None:
    later: list[Callable[[], None]] = []
    called: list[str] = []

    def act(key: str) -> None:
        called.append(key)
        if len(called) == 1:
            calls.ask("a")
            calls.ask("a")
            assert later == []

    calls = OneByOne(act, later.append)
    calls.ask("a")
    calls.ask("a")
    assert len(later) == 1
    later.pop()()
    assert (called, len(later)) == (["a"], 1)
    calls.ask("b")
    later.pop(0)()
    later.pop(0)()
    assert (called, later) == (["a", "a", "b"], [])
    calls.ask("a")
    assert len(later) == 1


def test_a_call_that_fails_does_not_end_the_later_ones() -> None:
    later: list[Callable[[], None]] = []

    def act(key: str) -> None:
        calls.ask(key)
        raise ValueError(key)

    calls = OneByOne(act, later.append)
    calls.ask("a")
    for _ in range(2):
        with pytest.raises(ValueError, match="a"):
            later.pop()()
        assert len(later) == 1
