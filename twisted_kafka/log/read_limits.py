"""ReadLimits: where a log begins and ends for each kind of reader, at one moment."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, cast

from twisted_kafka.log.results import LogOffsetMetadata
from twisted_kafka.log.segment.log_segments import LogSegments


class ReadLimits(NamedTuple):
    """An immutable value: a log replaces it whole, under its lock, and a reader takes it once and reads by it.

    The first three are where the readers of each ``FetchIsolation`` must stop, in its order.
    """

    log_end: LogOffsetMetadata
    """The offset that the next record gets."""
    high_watermark: LogOffsetMetadata
    """Up to here all in-sync replicas have the log."""
    last_stable: LogOffsetMetadata
    """Up to here every transaction is decided; at most the high watermark."""
    log_start_offset: int
    segments: LogSegments
    first_unstable: LogOffsetMetadata | None
    """Where the first transaction begins that is open, or whose marker is above the high watermark."""


read_limits_of = cast(
    Callable[
        [tuple[LogOffsetMetadata, LogOffsetMetadata, LogOffsetMetadata, int, LogSegments, LogOffsetMetadata | None]], ReadLimits
    ],
    partial(tuple.__new__, ReadLimits),
)
"""Makes one of a plain tuple, in half the time that the class takes: for appends."""


def make_limits(
    log_end: LogOffsetMetadata,
    high_watermark: LogOffsetMetadata,
    log_start_offset: int,
    segments: LogSegments,
    first_unstable: LogOffsetMetadata | None,
) -> ReadLimits:
    """Return the limits with the last stable offset that follows from the others."""
    is_stable = first_unstable is None or first_unstable[0] >= high_watermark[0]
    last_stable = high_watermark if first_unstable is None or is_stable else first_unstable
    return read_limits_of((log_end, high_watermark, last_stable, log_start_offset, segments, first_unstable))
