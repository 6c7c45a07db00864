"""The cleaner's offset map as a dictionary, without dependencies."""

from collections.abc import Iterable, Sequence
from hashlib import blake2b

from twisted_kafka.log.cleaner.blocks import Block, DataBatch
from twisted_kafka.protocol.records.batch import Record, parse_records
from twisted_kafka.protocol.records.builder import encode_records

_DIGEST_BYTES = 16


class PlainOffsetMap:
    """An OffsetMap in a dictionary of at most ``max_entries``."""

    def __init__(self, max_entries: int) -> None:
        self.max_entries = max(1, max_entries)
        self.latest_offset = -1
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, batches: Sequence[DataBatch], start_offset: int) -> bool:
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

    def survivors(self, batches: Sequence[DataBatch]) -> "PlainSurvivors":
        return PlainSurvivors([self._kept(batch) for batch in batches])

    def put_plain(self, block: Block, start_offset: int) -> bool:
        return self.put(block.plain_data(), start_offset)

    def plain_survivors(self, block: Block) -> "PlainSurvivors":
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
    """The surviving records as a list."""

    def __init__(self, kept: list[list[tuple[int, Record]]]) -> None:
        self._kept = kept
        self.counts = [len(records) for records in kept]
        self.has_tombstones = [any(record.value is None for _, record in records) for records in kept]

    def indexes(self, batch: int) -> list[int]:
        return [index for index, _ in self._kept[batch]]

    def payload(self, batch: int) -> bytes:
        records = [record for _, record in self._kept[batch]]
        # Offsets and timestamps were read as deltas.
        return bytes(encode_records(records, 0, [record.sequence for record in records]))

    def largest_timestamp_delta(self, batch: int) -> int:
        return max(record.timestamp_ms for _, record in self._kept[batch])


def _records(batch: DataBatch) -> Iterable[Record]:
    """Yield the records with their offsets, and with timestamp deltas as timestamps and offset deltas as sequences."""
    for record in parse_records(batch.payload, batch.record_count, batch.base_offset, 0):
        record.sequence = record.offset - batch.base_offset
        yield record


def _digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=_DIGEST_BYTES).digest()
