"""Apache Kafka's cleaner and ours make the same of the same log, and Kafka's tools read what ours makes."""

import shutil
import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.budget import patient
from tests.support.clients import clients
from tests.support.clients.dump_tool import DUMP, complaints
from tests.support.compaction import Writer, clean, last_values
from tests.support.eventually import eventually
from tests.support.oracle.apache_kafka import ApacheKafka
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.protocol.records.batch import batches

pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(600)]

SEEDS = (1, 2, 3, 4, 5, 6)
SEGMENT_BYTES = 4000
WAIT_S = patient(120)


def written(directory: Path, seed: int) -> Writer:
    """Return a log of all kinds of batches, closed."""
    writer = Writer(directory, seed, SEGMENT_BYTES)
    for _ in range(150):
        writer.write()
    writer.log.roll()
    writer.write()
    writer.log.flush()
    writer.log.close()
    return writer


def in_files(directory: Path) -> list[tuple[object, ...]]:
    """Return what every batch of a log says, but for the time at which its tombstones or marker may go."""
    found = []
    for path in sorted(directory.glob("*.log")):
        for each in batches(path.read_bytes()):
            assert each.is_valid()
            records = [(record.offset, record.timestamp_ms, record.key, record.value) for record in each.records()]
            producer = (each.producer_id, each.producer_epoch, each.base_sequence, each.last_sequence)
            flags = (each.compression, each.is_control, each.is_transactional, each.delete_horizon_ms is not None)
            found.append((each.base_offset, each.last_offset, each.max_timestamp_ms, producer, flags, records))
    return found  # type: ignore[return-value]


def make_topics(bootstrap: str, topics: list[str]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    deadline = time.monotonic() + WAIT_S
    left = list(topics)
    while left:
        for topic, made in admin.create_topics([NewTopic(topic, 1, 1) for topic in left]).items():
            try:
                made.result()
                left.remove(topic)
            except KafkaException:
                assert time.monotonic() < deadline
                time.sleep(0.5)


def cleaned_by_kafka(folder: Path, sources: dict[str, Path], offsets: dict[str, int]) -> Path:
    """Return the directory in which Apache Kafka compacted copies of the logs."""
    kafka = ApacheKafka(folder, **{"log.cleaner.enable": "false", "log.cleanup.policy": "compact"})  # type: ignore[arg-type]
    data = folder / "data"
    try:
        kafka.start()
        make_topics(kafka.bootstrap, list(sources))
        kafka.stop()
        for topic, source in sources.items():
            target = data / f"{topic}-0"
            for path in target.glob("0*"):
                path.unlink()
            for path in source.glob("0*"):
                shutil.copy2(path, target / path.name)
        kafka.change(
            **{"log.cleaner.enable": "true", "log.cleaner.backoff.ms": 200, "log.segment.bytes": SEGMENT_BYTES},
            **{"log.cleaner.min.cleanable.ratio": 0},
        )
        kafka.start()
        checkpoint = data / "cleaner-offset-checkpoint"
        wanted = {f"{topic} 0 {offset}" for topic, offset in offsets.items()}
        eventually(
            lambda: checkpoint.exists() and wanted <= set(checkpoint.read_text().splitlines()),
            lambda: (wanted, checkpoint.exists() and checkpoint.read_text()),
            WAIT_S,
        )
        kafka.stop()
    finally:
        kafka.kill()
    return data


@pytest.mark.skipif(clients.java_class_path() is None, reason="Java or Maven is not installed")
def test_both_cleaners_make_the_same(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    writers = {f"log{seed}": written(tmp_path / "source" / f"log{seed}-0", seed) for seed in SEEDS}
    ours: dict[str, UnifiedLog] = {}
    ends: dict[str, int] = {}
    for topic, writer in writers.items():
        source = writer.bench.directory
        writer.bench.directory = tmp_path / "ours" / f"{topic}-0"
        shutil.copytree(source, writer.bench.directory)
        ours[topic] = log = writer.bench.open(was_clean=True)
        log.update_high_watermark(log.log_end_offset)
        before = last_values(log)
        ends[topic] = clean(log, writer.bench)
        assert last_values(log) == before
        log.flush()
        log.close()
    sources = {topic: tmp_path / "source" / f"{topic}-0" for topic in writers}
    theirs = cleaned_by_kafka(tmp_path / "kafka", sources, ends)
    for topic, log in ours.items():
        assert in_files(log.dir) == in_files(theirs / f"{topic}-0"), topic
        assert len(in_files(log.dir)) < len(in_files(sources[topic])) / 2
    logs = ",".join(str(path) for log in ours.values() for path in sorted(log.dir.glob("*.log")))
    assert complaints(clients.java_tool(DUMP, "--deep-iteration", "--files", logs)) == []
    indexes = ",".join(str(path) for log in ours.values() for path in sorted(log.dir.glob("*index")))
    assert complaints(clients.java_tool(DUMP, "--files", indexes)) == []
    assert complaints(clients.java_tool(DUMP, "--index-sanity-check", "--files", indexes)) == []
    snapshots = ",".join(str(path) for log in ours.values() for path in sorted(log.dir.glob("*.snapshot")))
    assert complaints(clients.java_tool(DUMP, "--files", snapshots)) == []
