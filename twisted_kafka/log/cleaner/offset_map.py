"""The cleaner's table of keys: the latest offset of each, in bounded memory (Kafka: SkimpyOffsetMap).

Keys are kept as hashes of 128 bits, too long for two keys ever to share one. There are two tables of the same behaviour: one of
numpy arrays (the extra ``fast``), which takes 24 bytes an entry as Kafka's does and looks at the records of many batches at once;
and this module's, a dictionary, which needs no more than Python.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple, Protocol

from twisted_kafka.protocol.records.batch import Record, parse_records
from twisted_kafka.protocol.records.builder import encode_records

if TYPE_CHECKING:
    from twisted_kafka.log.cleaner.blocks import Block

ENTRY_BYTES = 24
"""Memory of an entry in the table of arrays."""

PLAIN_ENTRY_BYTES = 224
"""Memory of an entry in the dictionary: its slot, a digest and a number."""

VECTORISED_FROM_BYTES = 1 << 20
"""Less than this is not worth loading numpy for."""

_DIGEST_BYTES = 16


class DataBatch(NamedTuple):
    """A batch of format 2 as far as the table is concerned; ``payload`` is its records, decompressed."""

    base_offset: int
    last_offset: int
    record_count: int
    payload: bytes
    keeps_tombstones: bool = True


class Survivors(Protocol):
    """Which records of some batches remain; ``batch`` counts them from 0."""

    @property
    def counts(self) -> Sequence[int]:
        """How many remain of each."""

    @property
    def has_tombstones(self) -> Sequence[bool]:
        """Whether one of those has no value."""

    def indexes(self, batch: int) -> list[int]:
        """Return the numbers of the records that remain."""

    def payload(self, batch: int) -> bytes:
        """Return the records that remain, as they were."""

    def largest_timestamp_delta(self, batch: int) -> int:
        """Return the latest of their times, less the base timestamp."""


class OffsetMap(Protocol):
    """The latest offset of each key, up to ``latest_offset``."""

    latest_offset: int

    @property
    def max_entries(self) -> int:
        """How many keys it can have."""

    def __len__(self) -> int: ...

    def put(self, batches: Sequence[DataBatch], start_offset: int) -> bool:
        """Note the keys of the records from ``start_offset`` on.

        Returns False when the table is full; ``latest_offset`` is then that of the last record that it has.
        Raises InvalidRecordError for records that don't parse.
        """

    def survivors(self, batches: Sequence[DataBatch]) -> Survivors:
        """Tell which records no later one replaces, and which tombstones are due; raises InvalidRecordError."""

    def put_plain(self, block: "Block", start_offset: int) -> bool:
        """Do what ``put`` does, for all batches of a plain block."""

    def plain_survivors(self, block: "Block") -> Survivors:
        """Do what ``survivors`` does, for all batches of a plain block."""


def make_offset_map(memory_bytes: int, load_factor: float, dirty_bytes: int) -> OffsetMap:
    """Return a table that stays within ``memory_bytes`` and ``load_factor``, suited to as many bytes of records."""
    if dirty_bytes >= VECTORISED_FROM_BYTES:
        try:
            from twisted_kafka.log.cleaner.offset_map_numpy import VectorOffsetMap
        except ImportError:
            pass
        else:
            return VectorOffsetMap(memory_bytes // ENTRY_BYTES, load_factor)
    return PlainOffsetMap(int(memory_bytes // PLAIN_ENTRY_BYTES * load_factor))


class PlainOffsetMap:
    """The table as a dictionary, of ``max_entries``."""

    def __init__(self, max_entries: int) -> None:
        self.max_entries = max(1, max_entries)
        self.latest_offset = -1
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, batches: Sequence[DataBatch], start_offset: int) -> bool:
        """See OffsetMap."""
        offsets = self._offsets
        for batch in batches:
            for record in _records(batch):
                if record.key is None or record.offset < start_offset:
                    continue
                if len(offsets) >= self.max_entries:
                    return False
                offsets[_digest(record.key)] = self.latest_offset = record.offset
            self.latest_offset = max(self.latest_offset, batch.last_offset)
        return True

    def survivors(self, batches: Sequence[DataBatch]) -> Survivors:
        """See OffsetMap."""
        return PlainSurvivors([self._kept(batch) for batch in batches])

    def put_plain(self, block: "Block", start_offset: int) -> bool:
        """See OffsetMap."""
        return self.put(block.plain_data(), start_offset)

    def plain_survivors(self, block: "Block") -> Survivors:
        """See OffsetMap."""
        return self.survivors(block.plain_data())

    def _kept(self, batch: DataBatch) -> list[tuple[int, Record]]:
        return [pair for pair in enumerate(_records(batch)) if self._is_kept(pair[1], batch.keeps_tombstones)]

    def _is_kept(self, record: Record, keeps_tombstones: bool) -> bool:
        if record.offset > self.latest_offset:
            return True
        if record.key is None or record.offset < self._offsets.get(_digest(record.key), -1):
            return False
        return record.value is not None or keeps_tombstones


class PlainSurvivors:
    """See Survivors."""

    def __init__(self, kept: list[list[tuple[int, Record]]]) -> None:
        self._kept = kept
        self.counts = [len(records) for records in kept]
        self.has_tombstones = [any(record.value is None for _, record in records) for records in kept]

    def indexes(self, batch: int) -> list[int]:
        """See Survivors."""
        return [index for index, _ in self._kept[batch]]

    def payload(self, batch: int) -> bytes:
        """See Survivors."""
        records = [record for _, record in self._kept[batch]]
        # Offsets and times were read as differences to the batch's.
        return bytes(encode_records(records, 0, [record.sequence for record in records]))

    def largest_timestamp_delta(self, batch: int) -> int:
        """See Survivors."""
        return max(record.timestamp_ms for _, record in self._kept[batch])


def _records(batch: DataBatch) -> Iterable[Record]:
    """Yield the records with their offsets, with times as differences to the base timestamp, and offset deltas as sequences."""
    for record in parse_records(batch.payload, batch.record_count, batch.base_offset, 0):
        record.sequence = record.offset - batch.base_offset
        yield record


def _digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=_DIGEST_BYTES).digest()
