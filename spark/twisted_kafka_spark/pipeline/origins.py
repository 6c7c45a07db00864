"""Names for the files of a log that last when files are renamed, appended to or compressed: what a rollup knows them by."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from twisted_kafka_spark.cells.seen import Origin, Seen
from twisted_kafka_spark.records.clocks import HOUR_US, first_hour, hour_of_folder, is_possible, latest_us
from twisted_kafka_spark.records.pieces import head, local_path
from twisted_kafka_spark.records.read import Sources, is_remote

if TYPE_CHECKING:
    from twisted_kafka_spark.cells.fold import Folding

_HASH_BYTES = 8
_MOST_LOOKED_AT = 64
"""Files, evenly chosen, that are compared with this machine's clock."""
_HOUR_S = 3600


def identified(sources: Sources, folding: Folding) -> dict[str, tuple[str, int]]:
    """Return for each local file of lines, by path, a hash of its first line and its hour, as a number since 1970."""
    return {path: _identity(path, folding) for path in map(local_path, sources.lines) if not is_remote(path)}


def _identity(path: str, folding: Folding) -> tuple[str, int]:
    start = head(path)
    line = start.partition(b"\n")[0].rstrip(b"\r")
    latest = latest_us(folding.latest_us)
    hour = hour_of_folder(path)
    if not is_possible(hour, latest):
        hour = first_hour(start, latest, folding.utc_offset_s)
    return hashlib.blake2b(line, digest_size=_HASH_BYTES).hexdigest(), _changed(path) if hour is None else hour


def _changed(path: str) -> int:
    try:
        return int(os.path.getmtime(path)) // _HOUR_S
    except OSError:
        return 0


def earliest_hour(sources: Sources, hours: Iterable[int]) -> int | None:
    """Return the first hour that the lines of files can have, as a number since 1970; None if that is not known.

    `hours`: those of the local files of lines.
    """
    others = [hour_of_folder(path) for path in (*sources.parquet, *filter(is_remote, sources.lines))]
    found = [*hours, *(hour for hour in others if hour is not None)]
    return min(found) if found and None not in others else None


def most_are_later(sources: Sources, latest: int, utc_offset_s: int) -> bool:
    """Return whether the hours of most files are later than a time, in microseconds since 1970."""
    paths = [*sources.lines, *sources.parquet]
    some = paths[:: max(1, len(paths) // _MOST_LOOKED_AT)]
    found = [hour_of_folder(path) for path in some]
    for at, path in enumerate(some):
        if found[at] is None and path in sources.lines and not is_remote(path):
            found[at] = first_hour(head(local_path(path)), utc_offset_s=utc_offset_s)
    hours = [hour for hour in found if hour is not None]
    return 2 * sum(hour * HOUR_US > latest for hour in hours) > len(hours)


def origins(known: Mapping[str, tuple[str, int]], seen: Seen) -> dict[str, Origin]:
    """Return the files by path, with what a rollup has of them."""
    return {path: Origin(name, hour, seen.files.get(name, ())) for path, (name, hour) in known.items()}
