"""Reads the files of a log directory as sequences of items: dictionaries of JSON types.

Every item has a ``kind``. Unreadable data becomes an item of kind ``error`` with a ``problem``, which is the last one of its file.
"""

import base64
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

from twisted_kafka.log.checkpoints import MalformedCheckpointError, OffsetCheckpoint, read_entries
from twisted_kafka.log.directories.meta_properties import META_PROPERTIES, MetaPropertiesError, read_meta_properties
from twisted_kafka.log.files import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    UNFINISHED_SUFFIXES,
    offset_of_name,
)
from twisted_kafka.log.leader_epoch import LEADER_EPOCH_CHECKPOINT, parse_epoch_entry
from twisted_kafka.log.partition_metadata import PARTITION_METADATA, read_topic_id
from twisted_kafka.log.producer_state.producer_snapshot import CorruptSnapshotError, decode_snapshot
from twisted_kafka.log.segment.indexes import OffsetIndex, TimeIndex
from twisted_kafka.log.segment.transaction_index import TransactionIndex
from twisted_kafka.protocol.compiler.types import uuid_text
from twisted_kafka.protocol.errors import KafkaError
from twisted_kafka.protocol.records.batch import DefaultBatch, RecordBatch, batch_size
from twisted_kafka.protocol.records.layout import LATEST_MAGIC, MAGIC_AT
from twisted_kafka.protocol.records.legacy import LegacyBatch
from twisted_kafka.protocol.records.record import Record

Item = dict[str, Any]
DescribeRecord = Callable[[Record], Item]
"""Decodes the key and value of a record; returns an empty dictionary for an unknown format."""

MARKERS: Final = {0: "ABORT", 1: "COMMIT"}


def items(path: Path, *, with_records: bool = False, describe: DescribeRecord | None = None) -> Iterator[Item]:
    """Yield the items of a file; raises OSError, and ValueError for a file that does not belong in a log directory."""
    name = path.name
    for suffix in UNFINISHED_SUFFIXES:
        name = name.removesuffix(suffix)
    if name.endswith(LOG_SUFFIX):
        yield from _batches(path, with_records, describe)
    elif name.endswith(INDEX_SUFFIX):
        entries = offset_index(path, _base_offset(path, name))
        yield from _whole(path, entries, "offset", "position", OffsetIndex.entry.size)
    elif name.endswith(TIME_INDEX_SUFFIX):
        entries = time_index(path, _base_offset(path, name))
        yield from _whole(path, entries, "timestamp_ms", "offset", TimeIndex.entry.size)
    elif name.endswith(TRANSACTION_INDEX_SUFFIX):
        yield from transaction_index(path)
    elif name.endswith(SNAPSHOT_SUFFIX):
        yield from producer_snapshot(path)
    elif name == LEADER_EPOCH_CHECKPOINT:
        yield from leader_epochs(path)
    elif name.endswith("-checkpoint"):
        yield from offset_checkpoint(path)
    elif name == PARTITION_METADATA:
        yield from _partition_metadata(path)
    elif name == META_PROPERTIES:
        yield from _meta_properties(path)
    else:
        raise ValueError(f"{path} is not a known file of a log directory")


def _base_offset(path: Path, name: str) -> int:
    try:
        return offset_of_name(name)
    except ValueError:
        raise ValueError(f"{path} is not named after the base offset of its segment") from None


def _error(problem: object) -> Item:
    return {"kind": "error", "problem": str(problem)}


# Segments


def segment_batches(file: BinaryIO) -> Iterator[RecordBatch]:
    """Yield the batches of a segment's file; raises CorruptRecordError at the first one that cannot be read.

    The file is read and not mapped into memory: a running broker may cut it, which would kill a process that maps it.
    """
    position = 0
    while True:
        head = file.read(MAGIC_AT + 1)
        size = batch_size(head)
        if size is None or size > size_of(file) - position:
            return
        whole = memoryview(head + file.read(size - len(head)))
        if len(whole) < size:
            return
        yield DefaultBatch(whole, position) if whole[MAGIC_AT] == LATEST_MAGIC else LegacyBatch(whole, position)
        position += size


def size_of(file: BinaryIO) -> int:
    """Return the size of an open file in bytes."""
    return os.fstat(file.fileno()).st_size


def _batches(path: Path, with_records: bool, describe: DescribeRecord | None) -> Iterator[Item]:
    end = 0
    with path.open("rb") as file:
        try:
            for batch in segment_batches(file):
                yield batch_item(batch)
                end = batch.position + batch.size_bytes
                if with_records:
                    yield from _records(batch, describe)
        except KafkaError as error:
            yield _error(error)
            return
        left = size_of(file) - end
    if left > 0:
        yield _error(f"{left} bytes after position {end} are not a complete batch")


def batch_item(batch: RecordBatch) -> Item:
    """Describe a batch by its header."""
    item: Item = {
        "kind": "batch",
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "count": batch.count,
        "position": batch.position,
        "size_bytes": batch.size_bytes,
        "magic": batch.magic,
        "compression": batch.compression.text,
        "timestamp_type": batch.timestamp_type.name,
        "max_timestamp_ms": batch.max_timestamp_ms,
        "crc": batch.crc,
        "is_valid": batch.is_valid(),
    }
    if batch.magic >= 2:
        item |= {
            "partition_leader_epoch": batch.partition_leader_epoch,
            "producer_id": batch.producer_id,
            "producer_epoch": batch.producer_epoch,
            "base_sequence": batch.base_sequence,
            "last_sequence": batch.last_sequence,
            "is_transactional": batch.is_transactional,
            "is_control": batch.is_control,
            "delete_horizon_ms": batch.delete_horizon_ms,
        }
    return item


def _records(batch: RecordBatch, describe: DescribeRecord | None) -> Iterator[Item]:
    for record in batch.records():
        item: Item = {
            "kind": "record",
            "offset": record.offset,
            "timestamp_ms": record.timestamp_ms,
            "key": text_of(record.key),
            "value": text_of(record.value),
            "headers": [[key, text_of(value)] for key, value in record.headers],
        }
        if batch.is_control and record.key is not None and len(record.key) >= 4:
            item |= {"marker": MARKERS.get(int.from_bytes(record.key[2:4], "big"), "unknown")}
        elif describe is not None:
            item |= describe(record)
        yield item


def text_of(data: bytes | None) -> str | dict[str, str] | None:
    """Return bytes as text, or as ``{"base64": ...}`` if they are not UTF-8."""
    if data is None:
        return None
    try:
        return bytes(data).decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


# Indexes


def _whole(path: Path, entries: Iterator[Item], first: str, second: str, size: int) -> Iterator[Item]:
    """Yield the entries of an index up to the first error: an entry out of order, or an incomplete one."""
    last: tuple[int, int] | None = None
    for item in entries:
        entry = (item[first], item[second])
        if last is not None and (entry[0] <= last[0] or entry[1] < last[1]):
            yield _error(f"{first} {entry[0]}, {second} {entry[1]} after {last[0]}, {last[1]}: the entries must be in order")
            return
        last = entry
        yield item
    if rest := path.stat().st_size % size:
        yield _error(f"{rest} bytes at the end are not a complete entry")


def offset_index(path: Path, base_offset: int) -> Iterator[Item]:
    """Yield the entries of an ``.index``, without the unused zeros at the end of a preallocated file."""
    entries = _entries(path, OffsetIndex.entry)
    last = -1
    for relative, position in entries:
        if (relative, position) == (0, 0) and last >= 0:
            return
        last = relative
        yield {"kind": "index entry", "offset": base_offset + relative, "position": position}


def time_index(path: Path, base_offset: int) -> Iterator[Item]:
    """Yield the entries of a ``.timeindex``."""
    for number, (timestamp_ms, relative) in enumerate(_entries(path, TimeIndex.entry)):
        if (timestamp_ms, relative) == (0, 0) and number:
            return
        yield {"kind": "time index entry", "timestamp_ms": timestamp_ms, "offset": base_offset + relative}


def _entries(path: Path, entry: struct.Struct) -> Iterator[tuple[int, ...]]:
    data = path.read_bytes()
    yield from entry.iter_unpack(data[: len(data) // entry.size * entry.size])


def transaction_index(path: Path) -> Iterator[Item]:
    """Yield the aborted transactions of a ``.txnindex``."""
    try:
        for aborted in TransactionIndex(path).entries:
            yield {"kind": "aborted transaction", **aborted._asdict()}
    except ValueError as error:
        yield _error(error)


# Other files


def producer_snapshot(path: Path) -> Iterator[Item]:
    """Yield the producers of a ``.snapshot``."""
    try:
        entries = decode_snapshot(path.read_bytes())
    except CorruptSnapshotError as error:
        yield _error(error)
        return
    for entry in entries:
        last = entry.batches[-1] if entry.batches else None
        yield {
            "kind": "producer",
            "producer_id": entry.producer_id,
            "producer_epoch": entry.epoch,
            "last_sequence": entry.last_sequence,
            "last_offset": -1 if last is None else last.last_offset,
            "last_timestamp_ms": entry.last_timestamp_ms,
            "coordinator_epoch": entry.coordinator_epoch,
            "current_txn_first_offset": entry.transaction_first_offset,
        }


def leader_epochs(path: Path) -> Iterator[Item]:
    """Yield the epochs of a ``leader-epoch-checkpoint`` with their first offsets."""
    try:
        for epoch, start_offset in read_entries(path, parse_epoch_entry):
            yield {"kind": "leader epoch", "epoch": epoch, "start_offset": start_offset}
    except MalformedCheckpointError as error:
        yield _error(error)


def offset_checkpoint(path: Path) -> Iterator[Item]:
    """Yield the partitions and offsets of a checkpoint."""
    try:
        for partition, offset in OffsetCheckpoint(path).read().items():
            yield {"kind": "checkpoint", "topic": partition.topic, "partition": partition.partition, "offset": offset}
    except MalformedCheckpointError as error:
        yield _error(error)


def _partition_metadata(path: Path) -> Iterator[Item]:
    try:
        topic_id = read_topic_id(path.parent)
    except ValueError as error:
        yield _error(error)
        return
    yield {"kind": "partition metadata", "topic_id": None if topic_id is None else uuid_text(topic_id)}


def _meta_properties(path: Path) -> Iterator[Item]:
    try:
        properties = read_meta_properties(path.parent)
    except MetaPropertiesError as error:
        yield _error(error)
        return
    if properties is not None:
        yield {"kind": "meta properties", **properties._asdict()}
