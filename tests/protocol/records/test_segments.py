"""Every batch of the reference segments, written by Apache Kafka 3.9.2 and 4.4.0, is parsed to what Kafka's own classes parse.

``reference.tar.xz`` holds, for each data directory, its .log files and ``expected.jsonl``: one line per batch in file order.
"""

import base64
import functools
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from twisted_kafka.protocol.records.batch import ControlRecordType, RecordBatch, TimestampType, batches, control_record_type
from twisted_kafka.protocol.records.builder import build_batch, end_transaction_coordinator_epoch
from twisted_kafka.protocol.records.record import Record

pytestmark = pytest.mark.medium

ARCHIVE = Path(__file__).parents[2] / "data" / "segments" / "reference.tar.xz"
DIRECTORIES = {
    "3.9.2-kraft": 1385,
    "3.9.2-zookeeper-broker-1": 2167,
    "3.9.2-zookeeper-broker-2": 1574,
    "3.9.2-zookeeper-broker-3": 1033,
    "3.9.2-zookeeper-killed-broker-3": 742,
    "4.4.0-kraft": 1471,
    "legacy-magic0-1": 110,
}
TIMESTAMP_TYPES = {
    TimestampType.NO_TIMESTAMP_TYPE: "NoTimestampType",
    TimestampType.CREATE_TIME: "CreateTime",
    TimestampType.LOG_APPEND_TIME: "LogAppendTime",
}


@functools.cache
def files() -> dict[str, bytes]:
    with tarfile.open(ARCHIVE) as archive:
        return {
            member.name: opened.read()
            for member in archive
            if member.isfile() and (opened := archive.extractfile(member)) is not None
        }


def text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def record_as_expected(batch: RecordBatch, record: Record) -> dict[str, Any]:
    found: dict[str, Any] = {
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "key": text(record.key),
        "value": text(record.value),
    }
    if batch.magic == 2:
        found["sequence"] = record.sequence
        found["headers"] = [[key, text(value)] for key, value in record.headers]
    if batch.is_control:
        kind = control_record_type(record.key)
        found["controlType"] = kind.name
        if kind in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
            found["coordinatorEpoch"] = end_transaction_coordinator_epoch(record.value)
    return found


def batch_as_expected(file: str, batch: RecordBatch) -> dict[str, Any]:
    found: dict[str, Any] = {
        "file": file,
        "position": batch.position,
        "size": batch.size_bytes,
        "baseOffset": batch.base_offset,
        "lastOffset": batch.last_offset,
        "magic": batch.magic,
        "valid": batch.is_valid(),
        "crc": batch.crc,
        "compression": batch.compression.text,
        "timestampType": TIMESTAMP_TYPES[batch.timestamp_type],
        "maxTimestamp": batch.max_timestamp_ms,
        "partitionLeaderEpoch": batch.partition_leader_epoch,
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "baseSequence": batch.base_sequence,
        "lastSequence": batch.last_sequence,
        "isTransactional": batch.is_transactional,
        "isControl": batch.is_control,
        "count": batch.count,
        "records": [record_as_expected(batch, record) for record in batch.records()],
    }
    if batch.magic == 2:
        found["baseTimestamp"] = batch.base_timestamp_ms
        found["deleteHorizonMs"] = batch.delete_horizon_ms
    return found


def expected_batches(directory: str) -> list[dict[str, Any]]:
    expected = [json.loads(line) for line in files()[f"{directory}/expected.jsonl"].splitlines()]
    for batch in expected:
        for record in batch["records"]:
            if "headers" in record:
                record["headers"] = [list(h.values()) if isinstance(h, dict) else h for h in record["headers"]]
    return expected


@pytest.mark.parametrize("directory", DIRECTORIES)
def test_every_batch_is_read_as_kafka_reads_it(directory: str) -> None:
    expected = expected_batches(directory)
    assert len(expected) == DIRECTORIES[directory]
    names = sorted(name for name in files() if name.startswith(f"{directory}/") and name.endswith(".log"))
    found = {name: [batch_as_expected(name[len(directory) + 1 :], batch) for batch in batches(files()[name])] for name in names}
    for name in names:
        short = name[len(directory) + 1 :]
        assert found[name] == [batch for batch in expected if batch["file"] == short]
    assert sum(map(len, found.values())) == len(expected)


@pytest.mark.parametrize("directory", DIRECTORIES)
def test_uncompressed_batches_are_written_to_the_same_bytes(directory: str) -> None:
    rewritten = 0
    for name, data in files().items():
        if not name.startswith(f"{directory}/") or not name.endswith(".log"):
            continue
        for batch in batches(data):
            records = list(batch.records())
            if batch.compression or not records or batch.timestamp_type == TimestampType.LOG_APPEND_TIME:
                continue
            if batch.magic == 2 and batch.base_timestamp_ms not in (records[0].timestamp_ms, batch.delete_horizon_ms):
                continue
            built = build_batch(
                records,
                magic=batch.magic,
                base_offset=batch.base_offset,
                partition_leader_epoch=batch.partition_leader_epoch,
                producer_id=batch.producer_id,
                producer_epoch=batch.producer_epoch,
                base_sequence=batch.base_sequence,
                is_transactional=batch.is_transactional,
                is_control=batch.is_control,
                delete_horizon_ms=batch.delete_horizon_ms,
                offset_deltas=[record.offset - batch.base_offset for record in records],
                last_offset_delta=batch.last_offset - batch.base_offset,
            )
            assert built == batch.data
            rewritten += 1
    assert rewritten
