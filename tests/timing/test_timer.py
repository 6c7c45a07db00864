from collections.abc import Callable

import pytest

from twisted_kafka.timing.clock import ManualClock
from twisted_kafka.timing.timer import Timer

pytestmark = pytest.mark.medium


def test_what_is_due_is_done_by_others_until_they_end() -> None:
    clock = ManualClock()
    timer = Timer(clock)
    done: list[str] = []
    handed: list[Callable[[], object]] = []
    timer.hand_to(handed.append)
    timer.add(1, lambda: done.append("by another"))
    cancelled = timer.add(1, lambda: done.append("cancelled"))
    cancelled.cancel()
    clock.advance_ms(2)
    assert timer.expire_due() == 1
    assert done == []
    handed.pop()()
    timer.keep()
    timer.add(1, lambda: done.append("by itself"))
    clock.advance_ms(2)
    assert timer.expire_due() == 1
    assert done == ["by another", "by itself"]
    assert handed == []


def test_cancelled_timeouts_of_weeks_leave_nothing() -> None:
    clock = ManualClock()
    timer = Timer(clock)
    done: list[str] = []
    timer.add(40_000, lambda: done.append("a"))
    for _ in range(30_000):
        clock.advance_ms(1)
        timer.add(2**31 - 1, lambda: done.append("cancelled")).cancel()
    timer.add(5_000, lambda: done.append("b"))
    assert len(timer) == 2
    assert timer.ticks < 10_000
    clock.advance_ms(10_000)
    assert timer.expire_due() == 2
    assert done == ["b", "a"]
