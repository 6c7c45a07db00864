"""Offsets and sizes of partitions, where the user may know them."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from twisted_kafka.console.cluster.offsets import EARLIEST, LATEST, by_topic, offsets_at
from twisted_kafka.console.cluster.problems import CommandError, NotNowError
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.protocol.messages.administration.log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from twisted_kafka.protocol.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class Extent:
    """The offsets of partitions: the first one, and the one after the last record."""

    first: Mapping[TopicPartition, int]
    end: Mapping[TopicPartition, int]

    def records(self, partition: TopicPartition) -> int | None:
        """Return the distance of the two, None if it is not known. Compaction and markers leave fewer records."""
        first, end = self.first.get(partition), self.end.get(partition)
        return None if first is None or end is None else max(0, end - first)


def extent(session: Session, partitions: Sequence[TopicPartition], silent: list[CommandError]) -> Extent:
    """Return the offsets of partitions; without those of topics that the user may not describe or that have no leader.

    ``silent`` gets the errors of leaders that do not answer.
    """
    with suppress(CommandError):
        return Extent(*(offsets_at(session, partitions, each, silent=silent) for each in (EARLIEST, LATEST)))
    first: dict[TopicPartition, int] = {}
    end: dict[TopicPartition, int] = {}
    for name, indexes in by_topic(partitions).items():
        mine = [TopicPartition(name, index) for index in indexes]
        with suppress(CommandError):
            first |= offsets_at(session, mine, EARLIEST, silent=silent)
            end |= offsets_at(session, mine, LATEST, silent=silent)
    return Extent(first, end)


def sizes(session: Session, partitions: Iterable[TopicPartition] | None, silent: list[CommandError]) -> dict[tuple[str, int], int]:
    """Return the bytes of partitions, all of them if None: those of their largest replica.

    Returns nothing if the user may not describe the cluster. ``silent`` gets the errors of brokers that do not answer.
    """
    asked = None
    if partitions is not None:
        asked = [DescribableLogDirTopic(topic=name, partitions=indexes) for name, indexes in by_topic(partitions).items()]
    found: dict[tuple[str, int], int] = {}
    missing: list[CommandError] = []
    with suppress(CommandError):
        for response in session.ask_brokers(DescribeLogDirsRequest(topics=asked), missing).values():
            for directory in response.results:
                for topic in directory.topics:
                    name = topic.name
                    for each in topic.partitions:
                        if not each.is_future_key:
                            key = name, each.partition_index  # equal to a TopicPartition, and made ten times as fast
                            found[key] = max(found.get(key, 0), each.partition_size)
    silent += (error for error in missing if isinstance(error, NotNowError))
    return found
