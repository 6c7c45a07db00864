"""New records of a topic, as they arrive. A viewer that is too slow skips some, and learns their number."""

from dataclasses import dataclass, replace
from typing import Final

from twisted_kafka.console.cluster.offsets import LATEST, READ_COMMITTED, offsets_at
from twisted_kafka.console.cluster.problems import NotNowError
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.queries.bounds import Bounds
from twisted_kafka.console.queries.records.messages import Message, MessagesAsked, cursor_of, cursor_positions, messages
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.timing.clock import IClock

MOST_EACH_TIME: Final = 200
"""Most new records that one call reads; it skips those before them."""

_BOUNDS: Final = Bounds(MOST_EACH_TIME, 2 * 1024 * 1024, 2.0)


@dataclass(frozen=True, slots=True)
class TailPart:
    """New records, the oldest first."""

    items: tuple[Message, ...]
    cursor: str
    """For the next call."""
    scanned: int
    skipped: int
    """Offsets that were not read, since there were too many new records or too many bytes."""


def tail(session: Session, clock: IClock, asked: MessagesAsked, cursor: str = "") -> TailPart:
    """Return the records since the cursor that ``asked`` wants; without a cursor none, and a cursor at the end.

    Does not wait. Raises like ``messages``.
    """
    (topic,) = session.topics([asked.topic])
    known = sorted(each.partition_index for each in topic.partitions)
    partitions = [TopicPartition(asked.topic, index) for index in asked.partitions or known]
    ends = offsets_at(session, partitions, LATEST, isolation_level=READ_COMMITTED if asked.is_committed else 0)
    if not cursor:
        return TailPart((), cursor_of(ends), 0, 0)
    # A partition that was added since then begins with its first record.
    positions = cursor_positions(cursor, partitions, default=0)
    new = sum(max(0, ends[each] - positions[each]) for each in partitions)
    if not new:
        return TailPart((), cursor_of(ends), 0, 0)
    skipped = 0
    if new > MOST_EACH_TIME:
        share = max(1, MOST_EACH_TIME // len(partitions))
        later = {each: max(positions[each], ends[each] - share) for each in partitions}
        skipped = sum(later.values()) - sum(positions.values())
        positions = later
    wanted = replace(asked, start="earliest", cursor=cursor_of(positions), count=MOST_EACH_TIME)
    page = messages(session, clock, wanted, _BOUNDS)
    if page.missing:  # the next call goes on from the same place
        raise NotNowError(page.missing)
    reached = cursor_positions(page.following, partitions, default=0) if page.following else ends
    skipped += sum(max(0, ends[each] - reached[each]) for each in partitions)
    ends = {each: max(ends[each], reached[each]) for each in partitions}
    return TailPart(page.items, cursor_of(ends), page.scanned, skipped)
