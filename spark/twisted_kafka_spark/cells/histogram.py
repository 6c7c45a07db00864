"""Histograms of times with buckets that grow by 5 %, which are merged by adding their counts.

Bucket `n` contains the values from 1.05 ** n up to 1.05 ** (n + 1); values below 1 are in bucket `ZERO`. A quantile is reported as
the geometric mean of its bucket's bounds. Its relative error is at most `WORST_ERROR`, however many histograms were merged. A
coarse bucket is `width` buckets, from a multiple of that on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

GROWTH = 1.05
ZERO = -1
WORST_ERROR = math.sqrt(GROWTH) - 1
COARSE = 4
"""The width of coarse buckets."""
WORST_COARSE_ERROR = math.sqrt(GROWTH**COARSE) - 1
QUANTILES = (0.5, 0.9, 0.95, 0.99, 0.999)

_LOG_GROWTH = math.log(GROWTH)


def bucket(value: float) -> int:
    """Return the bucket of a value."""
    return math.floor(math.log(value) / _LOG_GROWTH) if value >= 1 else ZERO


def buckets(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the bucket of each value."""
    import numpy as np

    found = np.floor(np.log(np.maximum(values, 1)) / _LOG_GROWTH).astype(np.int64)
    return np.where(values >= 1, found, ZERO)


def middle(number: int, width: int = 1) -> float:
    """Return the value that represents a bucket."""
    return 0.0 if number <= ZERO else GROWTH ** ((number + 0.5) * width)


def quantile(counts: Mapping[int, int], share: float, width: int = 1) -> float | None:
    """Return the value below which `share` of the counted values are, None if no value was counted."""
    whole = sum(counts.values())
    if not whole:
        return None
    rank = max(1, math.ceil(share * whole))
    for number in sorted(counts):
        rank -= counts[number]
        if rank <= 0:
            return middle(number, width)
    raise AssertionError("the rank exceeds the histogram's total count")


def quantile_name(share: float) -> str:
    """Return the name of a quantile in the report: p99.9 for 0.999."""
    return f"p{share * 100:g}"


def quantiles(counts: Mapping[int, int], width: int = 1, shares: Sequence[float] = QUANTILES) -> dict[str, float | None]:
    """Return the quantiles of a histogram that the report shows, by name, rounded to four digits."""
    found = {quantile_name(share): quantile(counts, share, width) for share in shares}
    return {name: None if value is None else float(f"{value:.4g}") for name, value in found.items()}
