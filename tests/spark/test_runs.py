"""Parts of series: what the fast ways find is what the definition says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("numpy")

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from twisted_kafka_spark.cells.grids import Axis
from twisted_kafka_spark.findings.general import breaks as searched
from twisted_kafka_spark.findings.general.series import Measure, Series, Subject, measures_of
from twisted_kafka_spark.findings.runs import median, most_apart

if TYPE_CHECKING:
    from twisted_kafka_spark.findings.runs import Values

NUMBERS = st.lists(st.integers(0, 50), max_size=24).map(lambda each: np.array(each, np.float64))
MEANS = [each for api in ("Produce", "Fetch", "EndTxn") for each in measures_of(api) if each.is_mean]


def score(values: Values, first: int, stop: int, only_more: bool) -> float:
    """Return how far a part is from the rest, in deviations that the mean of as many random values has."""
    inside, outside = values[first:stop], np.concatenate((values[:first], values[stop:]))
    apart = inside.mean() - outside.mean()
    return float((apart if only_more else abs(apart)) * np.sqrt(len(inside) * len(outside) / len(values)))


@given(NUMBERS)
def test_the_median_is_that_of_numpy(values: Values) -> None:
    assert median(values) == (np.median(values) if len(values) else 0.0)


@given(NUMBERS, st.integers(1, 3), st.integers(1, 5), st.integers(0, 3), st.booleans())
def test_no_other_part_is_further_apart(values: Values, least: int, rest: int, begin: int, only_more: bool) -> None:
    count = len(values)
    parts = [(first, stop) for first in range(begin, count) for stop in range(first + least, count + 1)]
    scores = [score(values, *part, only_more) for part in parts if count - part[1] + part[0] >= rest]
    found = most_apart(values, least, rest, begin, only_more)
    if found is None:
        assert max(scores, default=0.0) <= 1e-9
        return
    assert found[0] >= begin
    assert least <= found[1] + 1 - found[0] <= count - rest
    assert score(values, found[0], found[1] + 1, only_more) == pytest.approx(max(scores))


@given(
    st.sampled_from(MEANS),
    st.lists(st.integers(0, 4), min_size=36, max_size=36),
    st.integers(0, 30),
    st.integers(1, 12),
    st.integers(0, 1_000_000),
)
def test_no_series_that_is_not_searched_has_a_break(
    measure: Measure, requests: list[int], first: int, length: int, value: int
) -> None:
    counts = np.array(requests, np.float64)
    sums = np.minimum(counts, 1) if measure.is_share else counts * 1000
    inside = slice(first, first + length)
    sums[inside] = counts[inside] if measure.is_share else counts[inside] * value
    axis = Axis(0, 300, len(counts))
    series = Series(Subject("a", "A", ("a",)), "Produce", measure, axis, sums, counts, counts > 0)
    found = searched._found_in(searched._Blocks(series, searched.SLOTS))
    assert searched.breaks(series) == found
