"""What holds in the end, when the load and the faults are over for a while, beside the promises that are always kept."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from twisted.logger import LogLevel, formatEventAsClassicLogText, globalLogPublisher

from tests.world.hours.members import COMPACTED, LEDGER, Source, source_of
from twisted_kafka.log.files import LOG_SUFFIX
from twisted_kafka.protocol.records.batch import ControlRecordType, RecordBatch, batches, control_record_type
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.world import World
from twisted_kafka.world.checking.replicas import Header, Replica, Replicas

_ENDS: Final = (ControlRecordType.COMMIT, ControlRecordType.ABORT)


MOST_S: Final = 60.0
"""How long it may take until all holds: a transaction that its producer has left open ends by its timeout."""
_LOOK_S: Final = 5.0


Place = tuple[int, int]
"""A partition of the ledger, and an offset."""


async def check_ending(world: World, seen: Collection[Place]) -> None:
    """Wait until all holds. ``seen`` are the records of the ledger that were read as committed.

    Raises AssertionError if it does not come to that.
    """
    until_s = world.now_s + MOST_S
    directories = {each.number: each.log_directory for each in world.brokers}
    while wrong := Ending(directories, world.in_sync, seen).wrong():
        assert world.now_s < until_s, "\n".join(wrong[:10])
        await world.run(_LOOK_S)


class Ending:
    """Looks at the logs of a world in which nothing happens any more."""

    def __init__(
        self, directories: Mapping[int, Path], in_sync: Callable[[TopicPartition], list[int]], seen: Collection[Place] = ()
    ) -> None:
        """``directories`` are the brokers' log directories; ``in_sync`` returns the brokers of a partition, its leader first."""
        self._seen = seen
        self._directories = directories
        self._replicas = Replicas(directories, in_sync)

    def wrong(self) -> list[str]:
        """Return which replicas differ, which transactions are open, and which records of the ledger do not count once."""
        return [*self._differences(), *self._open_transactions(), *self._wrong_ledger()]

    def _leading(self) -> Iterator[tuple[TopicPartition, dict[int, Replica]]]:
        for partition in self._replicas.partitions():
            found = self._replicas.of(partition)
            if found:
                yield partition, found

    def _differences(self) -> Iterator[str]:
        for partition, replicas in self._leading():
            if partition.topic == COMPACTED:
                continue  # each broker cleans it in its own time
            (leader, log), *others = replicas.items()
            for broker, other in others:
                first = max(log.start_offset, other.start_offset)
                if _shown(log, first) != _shown(other, first):
                    yield f"{partition} differs between kafka-{leader} and kafka-{broker}"

    def _open_transactions(self) -> Iterator[str]:
        for partition, replicas in self._leading():
            leader = next(iter(replicas))
            for producer in open_producers(self._directories[leader] / str(partition)):
                yield f"{partition} has an open transaction of producer {producer}"

    def _wrong_ledger(self) -> Iterator[str]:
        found = {
            (partition.partition, offset): source
            for partition, replicas in self._leading()
            if partition.topic == LEDGER
            for offset, source in _committed(self._directories[next(iter(replicas))] / str(partition))
        }
        for partition, offset in sorted(set(self._seen) - found.keys()):
            yield f"ledger-{partition} offset {offset} was read as committed"
        yield from wrong_transfers(Counter(found.values()))


def _shown(replica: Replica, first: int) -> list[tuple[int, int, int]]:
    return [_identity(each) for each in replica.batches if each.base_offset >= first]


def _identity(batch: Header) -> tuple[int, int, int]:
    return batch.base_offset, batch.last_offset, batch.crc


def _all_batches(directory: Path) -> Iterator[RecordBatch]:
    for path in sorted(directory.glob(f"*{LOG_SUFFIX}")):
        yield from batches(path.read_bytes())


def _is_committing(batch: RecordBatch) -> bool | None:
    """Return the outcome of a transaction's marker; None for another batch."""
    if not batch.is_control:
        return None
    kind = next((control_record_type(record.key) for record in batch.records()), None)
    return kind is ControlRecordType.COMMIT if kind in _ENDS else None


def open_producers(directory: Path) -> set[int]:
    """Return the producers with records of a transaction that has no marker, in one log."""
    found = set()
    for batch in _all_batches(directory):
        if _is_committing(batch) is not None:
            found.discard(batch.producer_id)
        elif batch.is_transactional and not batch.is_control:
            found.add(batch.producer_id)
    return found


def _committed(directory: Path) -> Iterator[tuple[int, Source]]:
    """Return the offsets and the sources of the committed records of a partition of the ledger."""
    waiting: dict[int, list[tuple[int, Source]]] = defaultdict(list)
    for batch in _all_batches(directory):
        is_committing = _is_committing(batch)
        if is_committing is not None:
            entries = waiting.pop(batch.producer_id, [])
            yield from entries if is_committing else ()
        elif batch.is_transactional and not batch.is_control:
            for record in batch.records():
                waiting[batch.producer_id].append((record.offset, source_of(bytes(record.value or b""))))


def wrong_transfers(counts: "Counter[Source]") -> Iterator[str]:
    """Return what is wrong with the sources of the ledger: from the first to the last of a partition, each counts once."""
    offsets: dict[int, set[int]] = defaultdict(set)
    for (partition, offset), count in sorted(counts.items()):
        offsets[partition].add(offset)
        if count > 1:
            yield f"plain-{partition} offset {offset} is {count} times in the ledger"
    for partition, known in offsets.items():
        missing = set(range(min(known), max(known))) - known
        if missing:
            yield f"plain-{partition} offsets {sorted(missing)[:10]} are not in the ledger, but later ones"


@contextmanager
def failures() -> Iterator[list[str]]:
    """Collect what parts of the brokers log as failures: exceptions that nobody has expected."""
    found: list[str] = []

    def note(event: Any) -> None:
        if event.get("log_level") is LogLevel.critical:
            found.append(formatEventAsClassicLogText(event) or "")

    observer: Any = note
    globalLogPublisher.addObserver(observer)
    try:
        yield found
    finally:
        globalLogPublisher.removeObserver(observer)
