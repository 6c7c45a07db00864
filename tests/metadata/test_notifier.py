"""Notifications of lasting conditions are tried again until they are delivered."""

import pytest

from twisted_kafka.metadata.notifier import FIRST_BACKOFF_MS, MAX_BACKOFF_MS, Notifier
from twisted_kafka.metadata.store import StoreClosedError, StoreDisconnectedError
from twisted_kafka.timing.clock import ManualClock
from twisted_kafka.timing.timer import Timer


class World:
    """A metadata store that is away for a while, and what reaches it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.timer = Timer(self.clock)
        self.notifier = Notifier(self.timer, threaded=False)
        self.failures: list[Exception] = []
        self.attempts = 0
        self.delivered: list[str] = []

    def deliver(self, what: str) -> None:
        self.attempts += 1
        if self.failures:
            raise self.failures.pop(0)
        self.delivered.append(what)

    def later(self, ms: int) -> None:
        self.clock.advance_ms(ms)
        self.timer.expire_due()
        self.notifier.pump()


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize("failure", [StoreDisconnectedError("no answer"), ZeroDivisionError("a mistake")])
def test_it_is_tried_until_it_is_delivered(world: World, failure: Exception) -> None:
    world.failures = [failure] * 10
    world.notifier.notify("disk", lambda: world.deliver("disk"))
    world.notifier.pump()
    backoff_ms = FIRST_BACKOFF_MS
    for attempt in range(1, 11):
        assert (world.attempts, world.delivered) == (attempt, [])
        world.later(backoff_ms - 1)
        assert world.attempts == attempt, "not before its time"
        world.later(1)
        backoff_ms = min(2 * backoff_ms, MAX_BACKOFF_MS)
    assert world.delivered == ["disk"]
    world.later(10 * MAX_BACKOFF_MS)
    assert world.attempts == 11, "once is enough"


def test_the_latest_of_a_kind_is_delivered(world: World) -> None:
    world.failures = [StoreDisconnectedError("no answer")]
    world.notifier.notify("disk", lambda: world.deliver("first"))
    world.notifier.pump()
    world.notifier.notify("disk", lambda: world.deliver("second"))
    world.notifier.notify("topics", lambda: world.deliver("others"))
    world.notifier.pump()
    world.later(MAX_BACKOFF_MS)
    assert world.delivered == ["second", "others"]


@pytest.mark.parametrize("closes", [True, False])
def test_a_broker_that_stops_tells_nothing(world: World, closes: bool) -> None:
    world.failures = [StoreDisconnectedError("no answer") if closes else StoreClosedError("closed")]
    world.notifier.notify("disk", lambda: world.deliver("disk"))
    world.notifier.pump()
    if closes:
        world.notifier.close()
        world.notifier.notify("disk", lambda: world.deliver("disk"))
    world.later(MAX_BACKOFF_MS)
    assert (world.attempts, world.delivered) == (1, [])
