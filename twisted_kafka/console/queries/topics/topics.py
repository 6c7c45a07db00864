"""The list of topics."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from twisted_kafka.console.cluster.problems import CommandError
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.queries.paging import Asked, Page, paged
from twisted_kafka.console.queries.topics.catalogue import TopicShape, catalogue
from twisted_kafka.console.queries.topics.sizes import extent, sizes
from twisted_kafka.protocol.topic_partition import TopicPartition

MOST_PARTITIONS: Final = 2_000
"""Most partitions of a page whose offsets and sizes are asked for."""

_SIZE: Final = "size_bytes"
_ORDERS: Final[Mapping[str, Callable[[TopicShape], Any]]] = {
    "name": lambda each: each.name,
    "partitions": lambda each: (each.partitions, each.name),
    "replication_factor": lambda each: (each.replication_factor, each.name),
    "problems": lambda each: (each.offline, each.under_replicated, each.name),
}


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic in the list."""

    shape: TopicShape
    records: int | None
    """The sum of the distances between first and end offsets; None if it is not known."""
    size_bytes: int | None
    """Of one replica of each partition; None if the user may not describe the cluster."""

    @property
    def name(self) -> str:
        """The topic's name."""
        return self.shape.name


def topics(session: Session, asked: Asked, *, with_internal: bool = False) -> Page[TopicRow]:
    """Return a page of topics, sorted by ``name``, ``partitions``, ``replication_factor``, ``problems`` or ``size_bytes``.

    Offsets and sizes are those of the page's topics alone. Raises CommandError, and ValueError for another order.
    """
    silent: list[CommandError] = []
    shapes = [each for each in catalogue(session).topics if (with_internal or not each.is_internal) and asked.finds(each.name)]
    all_sizes: dict[str, int] | None = None
    if asked.sort.removeprefix("-") == _SIZE:
        all_sizes = known = _by_topic(sizes(session, None, silent))
        page = paged(shapes, asked, {_SIZE: lambda each: (known.get(each.name, 0), each.name)})
    else:
        page = paged(shapes, asked, _ORDERS)
    rows, stopped = _rows(session, page.items, all_sizes, silent)
    return page.of(rows, f"because {silent[0]}" if silent else stopped)


def _rows(
    session: Session, shapes: Sequence[TopicShape], by_topic: Mapping[str, int] | None, silent: list[CommandError]
) -> tuple[list[TopicRow], str]:
    partitions: list[TopicPartition] = []
    stopped = ""
    for shape in shapes:
        if len(partitions) + shape.partitions > MOST_PARTITIONS:
            stopped = f"offsets and sizes after {MOST_PARTITIONS:,} partitions"
            break
        partitions += [TopicPartition(shape.name, index) for index in range(shape.partitions)]
    found = extent(session, partitions, silent)
    if by_topic is None:
        by_topic = _by_topic(sizes(session, partitions, silent)) if partitions else {}
    records: dict[str, int] = {}
    for each in partitions:
        records[each.topic] = records.get(each.topic, 0) + (found.records(each) or 0)
    known = {each.topic for each in found.end}
    rows = [TopicRow(each, records[each.name] if each.name in known else None, by_topic.get(each.name)) for each in shapes]
    return rows, stopped


def _by_topic(partitions: Mapping[tuple[str, int], int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for (name, _), size_bytes in partitions.items():
        found[name] = found.get(name, 0) + size_bytes
    return found
