"""What a broker stores: what could not be used is tried again, after ever longer pauses."""

from twisted_kafka.broker.storage import FIRST_RETRY_MS, MAX_RETRY_MS, StarvedLogs
from twisted_kafka.timing.clock import ManualClock
from twisted_kafka.timing.scheduler import ManualScheduler


def test_starved_logs_are_tried_again_with_longer_pauses() -> None:
    clock = ManualClock()
    scheduler = ManualScheduler(clock)
    asked: list[int] = []

    def fail_again() -> None:
        """As the controller's next order does."""
        asked.append(clock.wall_ms())
        if len(asked) < 10:
            logs.later()
            logs.later()

    logs = StarvedLogs(lambda: True, fail_again, scheduler)
    began_ms = clock.wall_ms()
    logs.later()
    for _ in range(4 * MAX_RETRY_MS // 1000):
        clock.advance_ms(1_000)
        scheduler.run_due()
    pauses_ms = [later - earlier for earlier, later in zip([began_ms, *asked], asked, strict=False)]
    assert pauses_ms == [min(FIRST_RETRY_MS << number, MAX_RETRY_MS) for number in range(len(asked))]
    assert len(asked) > 6


def test_pauses_are_short_again_when_all_is_well() -> None:
    clock = ManualClock()
    scheduler = ManualScheduler(clock)
    asked: list[int] = []
    logs = StarvedLogs(lambda: True, lambda: asked.append(clock.wall_ms()), scheduler)
    for _ in range(3):
        logs.later()
        clock.advance_ms(FIRST_RETRY_MS)
        scheduler.run_due()
        clock.advance_ms(2 * FIRST_RETRY_MS)
        scheduler.run_due()
    assert len(asked) == 3
