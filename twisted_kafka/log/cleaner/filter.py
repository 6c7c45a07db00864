"""Filters the batches and records of a block for compaction, and rewrites batches.

Kafka: Cleaner.cleanInto, MemoryRecords.filterTo.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple, cast

from twisted_kafka.log.cleaner.blocks import MAX_DECOMPRESSED_BYTES, Batch, Block, DataBatch, data_of, go_on
from twisted_kafka.log.cleaner.offset_map import OffsetMap, Survivors
from twisted_kafka.log.cleaner.transactions import CleanedTransactions
from twisted_kafka.protocol.errors import CorruptRecordError
from twisted_kafka.protocol.records.builder import assemble_batch, build_message_set, encode_records
from twisted_kafka.protocol.records.compression import compress
from twisted_kafka.protocol.records.layout import PRODUCER_ID_AT
from twisted_kafka.protocol.records.legacy import LegacyBatch
from twisted_kafka.protocol.records.record import (
    COMPRESSION_MASK,
    DELETE_HORIZON_FLAG,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    Record,
    TimestampType,
)
from twisted_kafka.protocol.records.varint import append_varint, read_varint, read_varlong


class Written(NamedTuple):
    """A batch of the cleaned segment, for its indexes."""

    base_offset: int
    last_offset: int
    position: int
    size_bytes: int
    max_timestamp_ms: int


_NO_PRODUCER = b"\xff" * 8
_NO_DATA: tuple[int, Batch | None] = (-1, None)
_written = cast(Callable[[tuple[int, int, int, int, int]], Written], partial(tuple.__new__, Written))


class Output:
    """The retained bytes and batches of a block."""

    __slots__ = ("batches", "parts", "size_bytes")

    def __init__(self) -> None:
        self.parts: list[bytes | bytearray | memoryview] = []
        self.batches: list[Written] = []
        self.size_bytes = 0

    def add(self, data: bytes | bytearray | memoryview, base_offset: int, last_offset: int, max_timestamp_ms: int) -> None:
        """Add a batch."""
        self.parts.append(data)
        self.batches.append(_written((base_offset, last_offset, self.size_bytes, len(data), max_timestamp_ms)))
        self.size_bytes += len(data)


class Rules(NamedTuple):
    """The parameters of one cleaning."""

    now_ms: int
    delete_retention_ms: int
    end_offset: int
    """The end of the cleaned range. The last batch before it is kept, if only its header, so that the log keeps this offset."""
    producers: Mapping[int, tuple[int, int]]
    """The epoch and last offset of each producer, by its id. Their last batches are kept to rebuild the producer state."""


class _Group:
    """Some batches of a block that are filtered together; ``data`` are those with records that were not aborted."""

    __slots__ = ("batches", "data", "discardable_markers", "records", "size_bytes")

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.discardable_markers: set[int] = set()
        self.data: list[Batch] = []
        self.records: list[DataBatch] = []
        self.size_bytes = 0

    def add(self, batch: Batch, records: DataBatch) -> None:
        self.data.append(batch)
        self.records.append(records)
        self.size_bytes += len(records.payload)


class BlockFilter:
    """Filters blocks in the order of the log; ``keeps_old_tombstones`` is for messages of formats 0 and 1."""

    def __init__(
        self, offset_map: OffsetMap, transactions: CleanedTransactions, rules: Rules, check: Callable[[], None] = go_on
    ) -> None:
        """``check`` is called between groups of decompressed batches, and stops the cleaning with its exception."""
        self._check = check
        self._map = offset_map
        self._transactions = transactions
        self._rules = rules
        self.keeps_old_tombstones = True

    def filter(self, block: Block) -> Output:
        """Return the retained part of a block; raises InvalidRecordError or CorruptRecordError for malformed records."""
        if block.messages:
            return self._messages(block.messages)
        return self._plain_batches(block) if block.is_plain else self._batches(block)

    # Format 2.

    def _plain_batches(self, block: Block) -> Output:
        survivors = self._map.plain_survivors(block)
        out = Output()
        view = memoryview(block.data)
        startswith, last = block.data.startswith, len(block.positions) - 1
        remaining = zip(survivors.counts, survivors.has_tombstones, block.positions, strict=True)
        for number, (kept, has_tombstones, position) in enumerate(remaining):
            # Most batches are dropped, after a check of the producer id alone. The last one may end the cleaned range.
            if not kept and number != last and startswith(_NO_PRODUCER, position + PRODUCER_ID_AT):
                continue
            batch = block.batch(number)
            if not kept:
                self._maybe_add_empty(out, batch)
            elif kept == batch.record_count and not has_tombstones:
                out.add(view[position : batch.end], batch.base_offset, batch.last_offset, batch.max_timestamp_ms)
            else:
                self._rewrite(out, block, batch, survivors, number)
        return out

    def _batches(self, block: Block) -> Output:
        out = Output()
        for group in self._groups(block):
            self._write_group(out, block, group)
            self._check()
        return out

    def _write_group(self, out: Output, block: Block, group: "_Group") -> None:
        survivors = self._map.survivors(group.records) if group.records else None
        view = memoryview(block.data)
        now_ms = self._rules.now_ms
        counts, tombstones = (survivors.counts, survivors.has_tombstones) if survivors else ((), ())
        remaining = iter(enumerate(group.data))
        number, next_data = next(remaining, _NO_DATA)
        for batch in group.batches:
            if batch is next_data and survivors:
                kept = counts[number]
                if not kept:
                    self._maybe_add_empty(out, batch)
                elif kept == batch.record_count and (not tombstones[number] or batch.attributes & DELETE_HORIZON_FLAG):
                    out.add(view[batch.position : batch.end], batch.base_offset, batch.last_offset, batch.max_timestamp_ms)
                else:
                    self._rewrite(out, block, batch, survivors, number)
                number, next_data = next(remaining, _NO_DATA)
                continue
            horizon_ms = batch.delete_horizon_ms
            if not batch.is_control or not batch.record_count:
                self._maybe_add_empty(out, batch)
            elif batch.position not in group.discardable_markers or (horizon_ms is not None and horizon_ms > now_ms):
                out.add(view[batch.position : batch.end], batch.base_offset, batch.last_offset, batch.max_timestamp_ms)
            elif horizon_ms is None:
                self._add_rebuilt(
                    out, batch, bytes(block.payload(batch)), batch.record_count, batch.max_timestamp_ms, sets_horizon=True
                )
            else:
                self._maybe_add_empty(out, batch)

    def _groups(self, block: Block) -> Iterator["_Group"]:
        """Yield the batches of a block with their decompressed records, in groups of limited size."""
        transactions, now_ms = self._transactions, self._rules.now_ms
        group = _Group()
        for batch in block.batches:
            group.batches.append(batch)
            if batch.is_control:
                if transactions.is_marker_discardable(batch, block):
                    group.discardable_markers.add(batch.position)
                continue
            if batch.is_transactional and transactions.is_batch_aborted(batch):
                continue
            if batch.record_count > 0:
                keeps_tombstones = not batch.attributes & DELETE_HORIZON_FLAG or now_ms < batch.base_timestamp_ms
                group.add(batch, data_of(block, batch)._replace(keeps_tombstones=keeps_tombstones))
            if group.size_bytes >= MAX_DECOMPRESSED_BYTES:
                yield group
                group = _Group()
        yield group

    def _rewrite(self, out: Output, block: Block, batch: Batch, survivors: Survivors, number: int) -> None:
        """Write a batch with its retained records, and with a delete horizon if it has tombstones."""
        if not block.parsed(batch).is_valid():
            raise CorruptRecordError(f"the batch at offset {batch.base_offset} has a wrong checksum and cannot be rewritten")
        max_timestamp_ms = batch.max_timestamp_ms
        if not batch.is_append_time:
            max_timestamp_ms = batch.base_timestamp_ms + survivors.largest_timestamp_delta(number)
        sets_horizon = survivors.has_tombstones[number] and batch.delete_horizon_ms is None
        self._add_rebuilt(
            out, batch, survivors.payload(number), survivors.counts[number], max_timestamp_ms, sets_horizon=sets_horizon
        )

    def _add_rebuilt(
        self, out: Output, batch: Batch, payload: bytes, count: int, max_timestamp_ms: int, *, sets_horizon: bool
    ) -> None:
        base_timestamp_ms, attributes = batch.base_timestamp_ms, batch.attributes
        if sets_horizon:
            # The delete horizon is stored as the base timestamp.
            horizon_ms = self._rules.now_ms + self._rules.delete_retention_ms
            payload = _with_base_timestamp(payload, count, base_timestamp_ms - horizon_ms)
            base_timestamp_ms, attributes = horizon_ms, attributes | DELETE_HORIZON_FLAG
        codec = batch.codec
        fields = (base_timestamp_ms, max_timestamp_ms, batch.producer_id, batch.producer_epoch, batch.base_sequence, count)
        data = assemble_batch(
            compress(codec, payload) if codec else payload,
            (batch.base_offset, batch.leader_epoch, attributes, batch.last_offset_delta, *fields),
        )
        out.add(data, batch.base_offset, batch.last_offset, max_timestamp_ms)

    def _maybe_add_empty(self, out: Output, batch: Batch) -> None:
        """Keep the header of an empty batch if it is the last batch of its producer or of the cleaned range."""
        if batch.last_offset + 1 != self._rules.end_offset and not self._is_last_of_producer(batch):
            return
        attributes = batch.attributes & ~(DELETE_HORIZON_FLAG | COMPRESSION_MASK)
        fields = (NO_TIMESTAMP, batch.max_timestamp_ms, batch.producer_id, batch.producer_epoch, batch.base_sequence, 0)
        data = assemble_batch(b"", (batch.base_offset, batch.leader_epoch, attributes, batch.last_offset_delta, *fields))
        out.add(data, batch.base_offset, batch.last_offset, batch.max_timestamp_ms)

    def _is_last_of_producer(self, batch: Batch) -> bool:
        if batch.producer_id == NO_PRODUCER_ID:
            return False
        last = self._rules.producers.get(batch.producer_id)
        if last is None:
            return False
        epoch, last_offset = last
        return batch.last_offset == last_offset if last_offset >= 0 else batch.is_control and batch.producer_epoch == epoch

    # Formats 0 and 1.

    def _messages(self, messages: list[LegacyBatch]) -> Output:
        records = [list(message.records()) for message in messages]
        data = [_as_data(found)._replace(keeps_tombstones=self.keeps_old_tombstones) for found in records]
        survivors = self._map.survivors(data)
        out = Output()
        for number, message in enumerate(messages):
            kept = survivors.counts[number]
            if kept == len(records[number]):
                out.add(message.data, data[number].base_offset, message.last_offset, message.max_timestamp_ms)
            elif kept:
                remaining = [records[number][index] for index in survivors.indexes(number)]
                rewritten = _rewritten_message(message, remaining)
                newest_ms = max(record.timestamp_ms for record in remaining)
                out.add(rewritten, remaining[0].offset, remaining[-1].offset, newest_ms)
        return out


def legacy_data(messages: list[LegacyBatch]) -> list[DataBatch]:
    """Return messages of formats 0 and 1 for the offset map; raises InvalidRecordError, CorruptRecordError."""
    return [_as_data(list(message.records())) for message in messages]


def _as_data(records: list[Record]) -> DataBatch:
    first, last = records[0].offset, records[-1].offset
    payload = encode_records(records, 0, [record.offset - first for record in records])
    return DataBatch(first, last, len(records), bytes(payload))


def _rewritten_message(message: LegacyBatch, records: list[Record]) -> bytes:
    base = records[0].offset
    is_append_time = message.timestamp_type == TimestampType.LOG_APPEND_TIME
    return build_message_set(
        records,
        magic=message.magic,
        base_offset=base,
        offset_deltas=[record.offset - base for record in records],
        compression=message.compression,
        timestamp_type=TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME,
        log_append_time_ms=message.max_timestamp_ms,
    )


def _with_base_timestamp(payload: bytes, count: int, shift_ms: int) -> bytes:
    """Return the records with timestamp deltas increased by ``shift_ms``, as the base timestamp is decreased by it."""
    out = bytearray()
    body = bytearray()
    position = 0
    for _ in range(count):
        size, start = read_varint(payload, position)
        position = start + size
        delta, rest = read_varlong(payload, start + 1)
        body.clear()
        body.append(payload[start])
        append_varint(body, delta + shift_ms)
        body += payload[rest:position]
        append_varint(out, len(body))
        out += body
    return bytes(out)
