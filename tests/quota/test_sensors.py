import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twisted_kafka.quota.sensors import QuotaWindows, RateSensor, TokenSensor

MS = 1_000_000
WINDOWS = QuotaWindows(11, 1000)


def test_a_rate_waits_until_it_is_at_its_limit_again() -> None:
    """1,000 bytes are the limit of 100 for 10 windows: 2,000 need as long again, as KIP-13 says."""
    sensor = RateSensor((), WINDOWS, 100, 0)
    assert sensor.record(1000, 5_000) == 0
    assert sensor.rate(5_000) == 100
    assert sensor.record(1000, 5_000) == 10_000
    assert sensor.throttle_ms(5_000) == 10_000
    assert sensor.throttle_ms(16_000) == 0


def test_what_is_not_sent_is_taken_back() -> None:
    sensor = RateSensor((), WINDOWS, 100, 0)
    assert sensor.record(3000, 0) == 20_000
    sensor.take_back(3000, 0)
    assert sensor.rate(0) == 0


def test_the_longest_wait_may_be_bounded() -> None:
    assert RateSensor((), WINDOWS, 1, 0, 1000).record(500, 0) == 1000
    assert RateSensor((), WINDOWS, 1e-300, 0).record(1e300, 0) == 2**31 - 1


def test_a_limit_of_nothing_waits_for_all_windows() -> None:
    assert RateSensor((), WINDOWS, 0, 0).record(1, 0) == 11_000
    tokens = TokenSensor((), WINDOWS, 0, 0)
    assert tokens.take(1, 0) == 11_000


def test_without_a_limit_nobody_waits() -> None:
    sensor = RateSensor((), WINDOWS, math.inf, 0)
    assert sensor.record(1e12, 0) == 0
    assert sensor.throttle_ms(0) == 0
    tokens = TokenSensor((), WINDOWS, math.inf, 0)
    assert (tokens.take(1e12, 0), tokens.take_if_any(1e12, 0), tokens.tokens(0)) == (0, 0, math.inf)


def test_a_new_limit_counts_at_once() -> None:
    sensor = RateSensor((), WINDOWS, 100, 0)
    sensor.record(2000, 0)
    sensor.change_limit(1000)
    assert sensor.throttle_ms(0) == 0
    sensor.change_limit(50)
    assert sensor.throttle_ms(0) == 30_000


@pytest.mark.parametrize("is_strict", [True, False])
def test_tokens_come_back_at_the_rate_up_to_the_burst(is_strict: bool) -> None:
    """KIP-599: a bucket of 11 windows of 2 tokens each; what it lacks comes back at 2 a second."""
    sensor = TokenSensor((), WINDOWS, 2, 0)
    take = sensor.take_if_any if is_strict else sensor.take
    assert take(22, 0) == 0
    assert sensor.tokens(0) == 0
    if is_strict:
        assert take(10, 0) == 0  # the last one may overdraw
        assert take(1, 0) == 5000
        assert sensor.tokens(0) == -10
    else:
        assert take(10, 0) == 5000
        assert take(1, 0) == 5500
    assert sensor.throttle_ms(1000) == (4000 if is_strict else 4500)
    assert sensor.tokens(60_000) == 22
    assert sensor.rate(0) == 3.2 if is_strict else 3.3


def test_throttle_times_are_averaged() -> None:
    sensor = RateSensor((), WINDOWS, 100, 0)
    assert math.isnan(sensor.mean_throttle_ms(0))
    sensor.note_throttle(100, 0)
    sensor.note_throttle(300, 0)
    assert sensor.mean_throttle_ms(0) == 200


_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["use", "use", "use", "use", "take back", "limit"]),
        st.integers(0, 30) | st.integers(0, 2000),
        st.sampled_from([0, 1, 7, 100, 999, 1000, 2500, 12_000]),
    ),
    max_size=120,
)


@pytest.mark.medium
@given(_STEPS, st.sampled_from([1, 2, 11]), st.sampled_from([0.0, 100.0, 1000.0, math.inf]))
def test_a_client_far_below_its_limit_waits_as_the_samples_say(steps: Any, samples: int, limit: float) -> None:
    sensor = RateSensor((), QuotaWindows(samples, 1000), limit, 0)
    now_ms = 5_000
    for what, value, passed_ms in steps:
        now_ms += passed_ms
        if what == "limit":
            sensor.change_limit(value + 1)
            continue
        throttle_ms = sensor.record(value, now_ms)
        assert throttle_ms == sensor.throttle_ms(now_ms)  # which looks at all samples
        if what == "take back":
            sensor.take_back(value, now_ms)
