"""The figures are those of Kafka's Rate with the quotas' eleven samples of a second."""

import math

import pytest

from twisted_kafka.metrics.sampled import RateQuota, SampledAverage, SampledRate


def test_a_rate_counts_missing_windows_as_empty_ones() -> None:
    rate = SampledRate()
    for _ in range(20):
        rate.record(1, 1_000)
    assert rate.measure(1_000) == pytest.approx(2.0)  # over ten windows of a second
    assert rate.measure(6_000) == pytest.approx(2.0)
    assert rate.measure(11_500) == pytest.approx(20 / 10.5)
    assert rate.measure(12_000) == 0


def test_old_windows_fall_out() -> None:
    rate = SampledRate()
    for second in range(60):
        rate.record(3, second * 1_000)
    assert rate.measure(59_999) == pytest.approx(3.0, rel=0.1)


def test_average() -> None:
    average = SampledAverage()
    assert math.isnan(average.measure(0))
    average.record(10, 0)
    average.record(20, 2_000)
    assert average.measure(2_000) == 15
    assert average.measure(11_500) == 20


def test_a_quota_lets_ten_seconds_worth_through_at_once_and_then_delays() -> None:
    quota = RateQuota(5)
    assert [quota.record(0) for _ in range(50)] == [0] * 50
    assert quota.record(0) == 200, "one connection too many at five a second"
    assert quota.record(0) == 400
    for _ in range(20):
        quota.record(0)
    assert quota.record(0) == 1000, "never longer than a window"


def test_what_is_taken_back_does_not_count() -> None:
    quota = RateQuota(1)
    for _ in range(10):
        assert quota.record(0) == 0
    assert quota.record(0) > 0
    quota.unrecord(0)
    assert quota.record(10_500) == 500, "eleven in ten and a half seconds, not twelve"


def test_a_limit_of_nothing_delays_each() -> None:
    assert RateQuota(0).record(0) == 1000
