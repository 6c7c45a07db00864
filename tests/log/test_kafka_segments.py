"""Log directories that Apache Kafka wrote: opened, read, and written back byte for byte."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.cases import case
from tests.support.logs import KAFKA_LOGS, data_of
from twisted_kafka.config.topic_config import LogConfig
from twisted_kafka.log.checkpoints import OffsetCheckpoint
from twisted_kafka.log.environment import LogEnvironment
from twisted_kafka.log.files import parse_partition_directory
from twisted_kafka.log.loading.log_loader import LastStop
from twisted_kafka.log.producer_state.producer_snapshot import decode_snapshot, encode_snapshot
from twisted_kafka.log.results import FetchIsolation
from twisted_kafka.log.segment.indexes import OffsetIndex, TimeIndex
from twisted_kafka.log.segment.transaction_index import TransactionIndex
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.timing.clock import ManualClock
from twisted_kafka.timing.scheduler import ManualScheduler


def lines(name: str, file: str) -> list[dict[str, Any]]:
    path = KAFKA_LOGS / name / file
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def partitions(name: str) -> list[str]:
    return sorted(path.name for path in (KAFKA_LOGS / name).iterdir() if path.is_dir())


ALL = [(name, partition) for name in ("clean", "killed", "legacy") for partition in partitions(name)]
INDEXES = [(name, entry) for name in ("clean", "killed") for entry in lines(name, "expected-index.jsonl")]


def open_copy(tmp_path: Path, name: str, partition: str) -> UnifiedLog:
    shutil.copytree(KAFKA_LOGS / name / partition, tmp_path / partition, copy_function=shutil.copyfile)
    clock = ManualClock()
    known = OffsetCheckpoint(KAFKA_LOGS / name / "recovery-point-offset-checkpoint").read()
    topic_partition = parse_partition_directory(partition)
    return UnifiedLog.open(
        tmp_path / partition,
        topic_partition,
        LogConfig(),
        LogEnvironment(clock, ManualScheduler(clock)),
        LastStop(known.get(topic_partition, 0), was_clean=name == "clean"),
    )


@pytest.mark.parametrize(("name", "partition"), ALL)
def test_batches_are_found_where_they_are(tmp_path: Path, name: str, partition: str) -> None:
    log = open_copy(tmp_path, name, partition)
    expected = [batch for batch in lines(name, "expected.jsonl") if batch["file"].startswith(partition + "/")]
    headers = [
        {
            "file": f"{partition}/{segment.path.name}",
            "position": header.position,
            "size": header.size_bytes,
            "lastOffset": header.last_offset,
            "magic": header.magic,
            "producerId": header.producer_id,
            "producerEpoch": header.producer_epoch,
            "baseSequence": header.base_sequence,
            "lastSequence": header.last_sequence,
            "isTransactional": header.is_transactional,
            "isControl": header.is_control,
        }
        for segment in log.segments
        for header in segment.headers()
    ]
    assert headers == [{key: batch[key] for key in headers[0]} for batch in expected]
    assert log.log_end_offset == expected[-1]["lastOffset"] + 1
    for batch in expected:
        for offset, _ in batch["records"]:
            found = log.read(offset, 1, FetchIsolation.LOG_END)
            assert found.fetch_offset.relative_position == batch["position"]
            assert len(data_of(found.records)) == batch["size"]


@pytest.mark.parametrize(("name", "partition"), [pair for pair in ALL if pair[0] != "legacy"])
def test_times_are_found(tmp_path: Path, name: str, partition: str) -> None:
    log = open_copy(tmp_path, name, partition)
    records = [
        (timestamp, offset)
        for batch in lines(name, "expected.jsonl")
        if batch["file"].startswith(partition + "/")
        for offset, timestamp in batch["records"]
    ]
    largest = max(timestamp for timestamp, _ in records)
    for wanted in {timestamp for timestamp, _ in records[:: max(1, len(records) // 50)]}:
        first = next((timestamp, offset) for timestamp, offset in records if timestamp >= wanted)
        assert log.offset_for_timestamp(wanted)[:2] == first
    assert log.max_timestamp_offset().timestamp_ms == largest


@pytest.mark.parametrize("partition", partitions("clean"))
def test_a_clean_log_is_left_as_kafka_wrote_it(tmp_path: Path, partition: str) -> None:
    log = open_copy(tmp_path, "clean", partition)
    log.close()
    for path in (KAFKA_LOGS / "clean" / partition).iterdir():
        if path.name == "leader-epoch-checkpoint" and path.read_text().endswith(f" {log.log_end_offset}\n"):
            continue  # an epoch without records yet, which a start forgets in Kafka too
        assert (tmp_path / partition / path.name).read_bytes() == path.read_bytes(), path.name
    assert sorted(path.name for path in (tmp_path / partition).iterdir()) == sorted(
        path.name for path in (KAFKA_LOGS / "clean" / partition).iterdir()
    )


@pytest.mark.parametrize(
    ("partition", "expected"),
    [
        ("magic0-gzip-0", None),
        ("magic0-none-0", None),
        ("magic1-gzip-0", (1_600_000_004_646, 112)),
        ("magic1-lz4-appendtime-0", (1_700_000_000_005, 114)),
        ("magic1-none-0", (1_600_000_004_971, 110)),
        ("magic1-snappy-0", (1_600_000_004_803, 103)),
    ],
)
def test_the_largest_timestamp_of_an_old_format_is_found_where_kafka_finds_it(
    tmp_path: Path, partition: str, expected: tuple[int, int] | None
) -> None:
    found = open_copy(tmp_path, "legacy", partition).max_timestamp_offset()
    assert found == (expected and (*expected, -1))


def newest_snapshot(partition: str) -> Path:
    return max((KAFKA_LOGS / "clean" / partition).glob("*.snapshot"), key=lambda path: path.name, default=None)


BATCHES_ARE_GONE = ("retained-0", "compacted-0")


@pytest.mark.parametrize(
    "partition", [each for each in partitions("clean") if newest_snapshot(each) and each not in BATCHES_ARE_GONE]
)
def test_recovery_comes_to_the_producer_state_that_kafka_wrote(tmp_path: Path, partition: str) -> None:
    source, newest = KAFKA_LOGS / "clean" / partition, newest_snapshot(partition)
    directory = tmp_path / partition
    directory.mkdir()
    for path in source.glob("*.log"):
        shutil.copyfile(path, directory / path.name)
    clock = ManualClock()
    log = UnifiedLog.open(
        directory, parse_partition_directory(partition), LogConfig(), LogEnvironment(clock, ManualScheduler(clock))
    )
    log.close()

    def rows(data: Any) -> Any:
        return {
            entry.producer_id: (entry.epoch, entry.last_sequence, entry.transaction_first_offset, entry.last_timestamp_ms)
            for entry in decode_snapshot(data)
        }

    ours, theirs = rows((directory / newest.name).read_bytes()), rows(newest.read_bytes())
    assert {producer: ours[producer] for producer in theirs} == theirs
    assert all(ours[producer][3] < 1_795_000_000_000 for producer in ours.keys() - theirs.keys()), "Kafka had forgotten old ones"
    for path in source.glob("*.txnindex"):
        assert (directory / path.name).read_bytes() == path.read_bytes()


def test_indexes_and_snapshots_are_read_as_kafka_reads_them() -> None:
    for name, expected in INDEXES:
        with case(name, expected["file"]):
            check_index(name, expected)


def check_index(name: str, expected: dict[str, Any]) -> None:
    path = KAFKA_LOGS / name / expected["file"]
    base = int(path.name[:20])
    index: Any
    if path.suffix == ".index":
        index = OffsetIndex(path, base, 1 << 20)
        index.load()
        assert [list(index_entry(index, number)) for number in range(index.entries)] == expected["entries"]
    elif path.suffix == ".timeindex":
        index = TimeIndex(path, base, 1 << 20)
        index.load()
        found = [index._at(number) for number in range(index.entries)]
        assert [[timestamp, base + offset] for timestamp, offset in found] == expected["entries"]
    elif path.suffix == ".txnindex":
        names = ("producerId", "firstOffset", "lastOffset", "lastStableOffset")
        assert [list(entry) for entry in TransactionIndex(path).entries] == [
            [entry[name] for name in names] for entry in expected["entries"]
        ]
    else:
        data = path.read_bytes()
        entries = decode_snapshot(data)
        assert encode_snapshot(entries) == data
        assert [(entry.producer_id, entry.epoch, entry.last_sequence) for entry in entries] == [
            (entry["producerId"], entry["producerEpoch"], entry["lastSequence"]) for entry in expected["entries"]
        ]


def index_entry(index: OffsetIndex, number: int) -> tuple[int, int]:
    offset, position = index._at(number)
    return index.base_offset + offset, position
