"""Failed logins in the log: one line a second for each address."""

from typing import Any

from twisted.logger import capturedLogs, formatEvent

from twisted_kafka.security.sasl.failed_attempts import MAX_ADDRESSES, FailedAttempts
from twisted_kafka.timing.clock import ManualClock


class Attempts:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.scheduled: list[Any] = []
        self.attempts = FailedAttempts(self.clock, lambda log, delay_ms: self.scheduled.append(log))

    def lines(self, *addresses: str) -> list[str]:
        with capturedLogs() as logged:
            for address in addresses:
                self.attempts.record(address, "c", "SASL", "why")
        return [formatEvent(event) or "" for event in logged]

    def later(self) -> list[str]:
        self.clock.advance_ms(1000)
        scheduled, self.scheduled = self.scheduled, []
        with capturedLogs() as logged:
            for log in scheduled:
                log()
        return [formatEvent(event) or "" for event in logged]


LINE = "Failed authentication with c of SASL (why)"


def test_each_address_has_a_line_a_second() -> None:
    attempts = Attempts()
    assert attempts.lines("a", "a", "b", "a") == [LINE, LINE]
    attempts.clock.advance_ms(999)
    assert attempts.lines("a") == []
    attempts.clock.advance_ms(1)
    assert attempts.lines("a", "b") == [f"{LINE}; 3 more from this address before", LINE]


def test_what_was_left_out_is_told_when_nothing_follows() -> None:
    attempts = Attempts()
    attempts.lines("a", "a", "a", "b")
    assert attempts.later() == ["2 more failed authentications from a"]
    assert attempts.later() == []
    assert not attempts.scheduled


def test_a_flood_of_addresses_is_bounded_and_still_counted() -> None:
    attempts = Attempts()
    lines = attempts.lines(*(f"address-{number}" for number in range(MAX_ADDRESSES + 10)))
    assert len(lines) == MAX_ADDRESSES + 1
    assert "9 more failed authentications from other addresses" in attempts.later()
