"""The logs of a world's replicas, read from their files: no lock of a broker is taken, and nothing changes."""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from twisted_kafka.log.files import LOG_SUFFIX, offset_of_name
from twisted_kafka.protocol.records.batch import ControlRecordType, batches, control_record_type
from twisted_kafka.protocol.topic_partition import MAX_PARTITION, TopicPartition
from twisted_kafka.system.numbers import decimal

_OUTCOMES: Final = {ControlRecordType.COMMIT: True, ControlRecordType.ABORT: False}


class Header(NamedTuple):
    """One batch of a log."""

    base_offset: int
    last_offset: int
    records: int
    crc: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    outcome: bool | None
    """Of a transaction's marker: whether it was committed; None for other batches."""
    is_control: bool


class Replica:
    """One replica's log at one moment."""

    def __init__(self, directory: Path) -> None:
        """Read it. A log without files is empty."""
        paths = sorted(directory.glob(f"*{LOG_SUFFIX}"))
        self.start_offset = offset_of_name(paths[0].name) if paths else 0
        self.batches: list[Header] = []
        for path in paths:
            for each in batches(path.read_bytes()):
                outcome = None
                if each.is_control:
                    outcome = next((_OUTCOMES.get(control_record_type(record.key)) for record in each.records()), None)
                self.batches.append(
                    Header(
                        each.base_offset,
                        each.last_offset,
                        each.last_offset - each.base_offset + 1,
                        each.crc,
                        each.producer_id,
                        each.producer_epoch,
                        each.base_sequence,
                        outcome,
                        each.is_control,
                    )
                )
        self._offsets = [each.base_offset for each in self.batches]

    def at(self, offset: int) -> Header | None:
        """Return the batch with an offset; None if the log has none."""
        place = bisect_right(self._offsets, offset) - 1
        found = self.batches[place] if place >= 0 else None
        return found if found is not None and found.last_offset >= offset else None

    def outcome_after(self, offset: int, producer_id: int) -> bool | None:
        """Return whether the transaction with an offset was committed; None if it is open."""
        for each in self.batches[bisect_right(self._offsets, offset) :]:
            if each.outcome is not None and each.producer_id == producer_id:
                return each.outcome
        return None


class Replicas:
    """The in-sync replicas of all partitions at one moment."""

    def __init__(self, directories: Mapping[int, Path], in_sync: Callable[[TopicPartition], list[int]]) -> None:
        """``directories`` are the log directories of brokers; ``in_sync`` returns the brokers of a partition, its leader first."""
        self._directories = directories
        self._in_sync = in_sync
        self._read: dict[TopicPartition, dict[int, Replica]] = {}

    def of(self, partition: TopicPartition) -> dict[int, Replica]:
        """Return the in-sync replicas of running brokers, the leader's first; none while the partition has no leader."""
        found = self._read.get(partition)
        if found is None:
            found = self._read[partition] = {
                broker: Replica(self._directories[broker] / str(partition))
                for broker in self._in_sync(partition)
                if broker in self._directories
            }
        return found

    def partitions(self) -> list[TopicPartition]:
        """Return all partitions that a broker has, in order, except deleted and future ones."""
        names = {path.name for directory in self._directories.values() for path in directory.glob("*-*") if path.is_dir()}
        split = [(topic, decimal(index, MAX_PARTITION)) for topic, _, index in (name.rpartition("-") for name in names)]
        return sorted(TopicPartition(topic, index) for topic, index in split if topic and index is not None)
