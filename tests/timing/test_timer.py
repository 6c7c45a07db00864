from collections.abc import Callable

from twisted_kafka.timing.clock import ManualClock
from twisted_kafka.timing.timer import Timer


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
