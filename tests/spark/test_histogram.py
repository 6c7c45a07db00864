import random

import pytest

pytest.importorskip("pyarrow")

import numpy as np

from twisted_kafka_spark.cells.histogram import WORST_ERROR, ZERO, bucket, buckets, quantile


def counts(values: list[int]) -> dict[int, int]:
    numbers, how_many = np.unique(buckets(np.array(values)), return_counts=True)
    return dict(zip(numbers.tolist(), how_many.tolist(), strict=True))


def test_both_bucket_functions_agree() -> None:
    values = [0, 1, 2, 3, 20, 21, 1000, 10**6, 10**12]
    assert buckets(np.array(values)).tolist() == [bucket(value) for value in values]
    assert bucket(0) == ZERO


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99, 0.999])
def test_a_quantile_is_within_the_stated_error_even_after_a_merge(share: float) -> None:
    chosen = random.Random(1)
    values = [int(chosen.lognormvariate(8, 2)) + 1 for _ in range(20_000)]
    merged = counts(values[:7000])
    for number, count in counts(values[7000:]).items():
        merged[number] = merged.get(number, 0) + count
    exact = sorted(values)[max(0, -int(-share * len(values) // 1) - 1)]
    found = quantile(merged, share)
    assert found is not None
    assert abs(found - exact) <= WORST_ERROR * exact * 1.0001


def test_an_empty_histogram_has_no_quantile() -> None:
    assert quantile({}, 0.5) is None
    assert quantile({ZERO: 3}, 0.99) == 0.0
