"""Acknowledgements as clients send them, and which are well formed (Kafka: AcknowledgeType, validateAcknowledgementBatches)."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

GAP: Final = 0
"""There is no record at the offset."""
ACCEPT: Final = 1
RELEASE: Final = 2
REJECT: Final = 3
RENEW: Final = 4
"""The lock lasts for its whole duration again (KIP-1222)."""

TYPE_NAMES: Final = {ACCEPT: "Accept", RELEASE: "Release", REJECT: "Reject", RENEW: "Renew"}
"""Names of the types in metrics; gaps do not count."""


class AcknowledgementBatch(NamedTuple):
    """How offsets are acknowledged: all in the same way, or each with its own type."""

    first_offset: int
    last_offset: int
    types: Sequence[int]

    def ranges(self) -> Iterator[tuple[int, int, int]]:
        """Yield first and last offset and type of the offsets next to each other with the same type."""
        if len(self.types) == 1:
            yield self.first_offset, self.last_offset, self.types[0]
            return
        first = self.first_offset
        for kind, same in groupby(self.types):
            last = first + len(list(same)) - 1
            yield first, last, kind
            first = last + 1


def counts_of(batches: Sequence[AcknowledgementBatch]) -> dict[int, int]:
    """Return the number of records by type."""
    counts: dict[int, int] = {}
    for batch in batches:
        for first, last, kind in batch.ranges():
            counts[kind] = counts.get(kind, 0) + last - first + 1
    return counts


def acknowledgements_of(batches: Sequence[Any], most_type: int) -> list[AcknowledgementBatch] | None:
    """Return the batches of a request for one partition; None if they are malformed.

    ``most_type`` is the greatest type that the request may have: RENEW only if it says that it renews locks.
    """
    result = []
    previous_last = -1
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if first > last or first < previous_last or first < 0 or not types:
            return None
        if len(types) > 1 and len(types) != last - first + 1:
            return None
        if any(not GAP <= each <= most_type for each in types):
            return None
        previous_last = last
        result.append(AcknowledgementBatch(first, last, types))
    return result
