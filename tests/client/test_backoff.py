"""Delays that grow."""

import pytest

from twisted_kafka.client.node_client import ExponentialBackoff


@pytest.mark.parametrize(
    ("first", "last", "delays"),
    [(50, 1000, [50, 100, 200, 400, 800, 1000, 1000]), (100, 50, [100, 100]), (100, 100, [100, 100]), (0, 10, [0, 0])],
)
def test_a_delay_doubles_with_each_failure_up_to_the_last(first: int, last: int, delays: list[int]) -> None:
    backoff = ExponentialBackoff(first, last, lambda: 0.5)
    assert [backoff.delay(failures) for failures in range(len(delays))] == delays


def test_the_jitter_is_a_fifth() -> None:
    assert ExponentialBackoff(100, 1000, lambda: 0.0).delay(1) == pytest.approx(160)
    assert ExponentialBackoff(100, 1000, lambda: 1.0).delay(1) == pytest.approx(240)
    assert ExponentialBackoff(100, 1000, lambda: 1.0).delay(9) == pytest.approx(1200)


def test_no_number_of_failures_is_too_large() -> None:
    backoff = ExponentialBackoff(1, 2.0**40, lambda: 0.5)
    assert backoff.delay(30) == backoff.delay(31) == backoff.delay(10**6) == 2**30
    assert backoff.delay(29) == 2**29
