"""Runs of offsets with one delivery state, and how new ones are laid over old ones (Kafka: PersisterStateBatchCombiner)."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class StateBatch(NamedTuple):
    """The delivery state and count of the records from ``first_offset`` to ``last_offset``."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


def combine(old: Sequence[StateBatch], new: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """Return the batches of ``old`` with those of ``new`` laid over them, from ``start_offset`` on.

    ``old`` is sorted and has no overlaps, and so is the result. Where two overlap, the one with the greater delivery count
    counts, or else the one with the greater state. Neighbours that say the same become one. A negative ``start_offset`` removes
    nothing.
    """
    combined = list(old)
    for batch in new:
        _lay_over(combined, batch)
    if start_offset < 0:
        return tuple(combined)
    kept = combined[bisect_left(combined, start_offset, key=_last_offset) :]
    if kept and kept[0].first_offset < start_offset:
        kept[0] = kept[0]._replace(first_offset=start_offset)
    return tuple(kept)


def _last_offset(batch: StateBatch) -> int:
    return batch.last_offset


def _first_offset(batch: StateBatch) -> int:
    return batch.first_offset


def _lay_over(batches: list[StateBatch], new: StateBatch) -> None:
    """Lay one batch over sorted ones, which change in place."""
    begin = bisect_left(batches, new.first_offset, key=_last_offset)
    end = bisect_right(batches, new.last_offset, key=_first_offset)
    pieces: list[StateBatch] = batches[begin - 1 : begin] if begin else []
    position = new.first_offset
    for old in batches[begin:end]:
        if old.first_offset < position:
            _add(pieces, old._replace(last_offset=position - 1))
        elif old.first_offset > position:
            _add(pieces, new._replace(first_offset=position, last_offset=old.first_offset - 1))
            position = old.first_offset
        last = min(old.last_offset, new.last_offset)
        winner = new if (new.delivery_count, new.delivery_state) >= (old.delivery_count, old.delivery_state) else old
        _add(pieces, winner._replace(first_offset=position, last_offset=last))
        position = last + 1
        if old.last_offset > new.last_offset:
            _add(pieces, old._replace(first_offset=position))
    if position <= new.last_offset:
        _add(pieces, new._replace(first_offset=position))
    if end < len(batches):
        _add(pieces, batches[end])
    batches[max(begin - 1, 0) : end + 1] = pieces


def _add(pieces: list[StateBatch], batch: StateBatch) -> None:
    """Append a batch, or extend the last one if it says the same of the offsets just before."""
    if pieces:
        last = pieces[-1]
        if last.last_offset + 1 == batch.first_offset and last[2:] == batch[2:]:
            pieces[-1] = last._replace(last_offset=batch.last_offset)
            return
    pieces.append(batch)
