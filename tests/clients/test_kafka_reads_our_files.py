"""Apache Kafka's DumpLogSegments finds nothing to complain of in a log directory of ours, and Apache Kafka itself serves it."""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clients import weblog
from tests.support.clients import clients
from tests.support.clients.dump_tool import DUMP, complaints
from tests.support.clients.served import ServedBroker
from tests.support.oracle.apache_kafka import ApacheKafka

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
OFFSETS_PARTITIONS = "offsets.topic.num.partitions=5"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.clients,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("java"),
]


class Written:
    """A log directory that clients of all kinds have written to, with kills in between, and what should be in it."""

    def __init__(self, log_dir: Path, values: dict[str, list[bytes]], group: str) -> None:
        self.log_dir = log_dir
        self.values = values
        self.group = group

    def files(self, pattern: str, *, internal: bool) -> str:
        found = sorted(path for path in self.log_dir.glob(pattern) if path.parent.name.startswith("__") == internal)
        assert found
        return ",".join(map(str, found))


@pytest.fixture(scope="module")
def written(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    folder = tmp_path_factory.mktemp("written")
    broker = ServedBroker(folder / "data", "log.segment.bytes=1000000", "group.initial.rebalance.delay.ms=0", OFFSETS_PARTITIONS)
    broker.start()
    lines = weblog.lines(4_000_000)
    values: dict[str, list[bytes]] = {}
    group = clients.new_group()
    for number, codec in enumerate(CODECS):
        topic = f"lines.{codec}"
        half = len(lines) // 2
        small = {"batch.num.messages": 50} if number % 2 else {}
        clients.send_confluent(broker.bootstrap, topic, lines[:half], **{"compression.type": codec}, **small)
        if number == 2:
            broker.kill()
            broker.start()
        idempotent = {"compression.type": codec, "enable.idempotence": True}
        clients.send_confluent(broker.bootstrap, topic, lines[half:], **idempotent)
        values[topic] = lines
        clients.ensure_same(clients.read_confluent(broker.bootstrap, topic, len(lines), group), lines, topic)
    stamped = ["--create", "--topic", "stamped", "--config", "message.timestamp.type=LogAppendTime"]
    clients.java_tool(TOPICS, "--bootstrap-server", broker.bootstrap, *stamped)
    values["stamped"] = lines[:20_000]
    clients.send_kafka_python(broker.bootstrap, "stamped", values["stamped"], compression_type="gzip", acks="all")
    assert broker.stop() == 0
    yield Written(broker.log_dir, values, group)
    broker.kill()


def test_every_log_dumps_to_the_records_that_were_sent(written: Written) -> None:
    told = clients.java_tool(DUMP, "--deep-iteration", "--print-data-log", "--files", written.files("*/*.log", internal=False))
    assert complaints(told) == []
    payloads: dict[str, list[bytes]] = {}
    topic = ""
    for line in told.splitlines():
        if line.startswith("Dumping "):
            topic = Path(line.split()[1]).parent.name.rpartition("-")[0]
        elif line.startswith("| offset: "):
            offset = int(line.split()[2])
            records = payloads.setdefault(topic, [])
            assert offset == len(records)
            records.append(line.partition(" payload: ")[2].encode())
    assert payloads == written.values or pytest.fail("the dumped records are not those sent")


def test_indexes_pass_both_checks(written: Written) -> None:
    for internal in (False, True):
        indexes = written.files("*/*index", internal=internal)
        assert complaints(clients.java_tool(DUMP, "--verify-index-only", "--files", indexes)) == []
        told = clients.java_tool(DUMP, "--index-sanity-check", "--files", indexes)
        assert complaints(told) == []
        assert told.count(" passed sanity check.") + told.count(" is empty.") == indexes.count(",") + 1


def test_snapshots_and_indexes_dump(written: Written) -> None:
    told = clients.java_tool(DUMP, "--files", written.files("*/*.snapshot", internal=False))
    assert complaints(told) == []
    assert "producerId: " in told
    told = clients.java_tool(DUMP, "--files", written.files("*/*index", internal=False))
    assert complaints(told) == []


def test_committed_offsets_dump(written: Written) -> None:
    told = clients.java_tool(DUMP, "--offsets-decoder", "--files", written.files("__consumer_offsets-*/*.log", internal=True))
    assert [line for line in complaints(told) if not line.startswith("| offset")] == []
    for topic, values in written.values.items():
        if topic != "stamped":
            key = f'"group":"{written.group}","topic":"{topic}","partition":0'
            assert re.search(rf'{re.escape(key)}.* payload: .*"offset":{len(values)},', told), topic


def test_active_and_killed_logs_dump_and_apache_kafka_recovers_them(
    java: None, start_broker: Callable[..., ServedBroker], tmp_path: Path
) -> None:
    """The index files of an active segment have no entry for its first 4096 bytes, and must be there all the same."""
    broker = start_broker("log.segment.bytes=200000", "log.flush.offset.checkpoint.interval.ms=200", OFFSETS_PARTITIONS)
    values = {"one.line": [b"x"], "lines": weblog.lines(1_000_000)}
    for topic, sent in values.items():
        clients.send_confluent(broker.bootstrap, topic, sent, **{"batch.num.messages": 100})
    log_dir = broker.log_dir
    logs = sorted(log_dir.glob("*/*.log"))
    assert len(logs) > 4
    # Named after the batches, as tools do that look for what lies beside them.
    files = ",".join(str(log.with_suffix(suffix)) for log in logs for suffix in (".log", ".index", ".timeindex"))
    for state in ("active", "killed"):
        assert complaints(clients.java_tool(DUMP, "--files", files)) == [], state
        assert complaints(clients.java_tool(DUMP, "--index-sanity-check", "--files", files)) == [], state
        broker.kill()
    serve_with_apache_kafka(log_dir, tmp_path / "kafka", values)


def serve_with_apache_kafka(log_dir: Path, directory: Path, values: dict[str, list[bytes]]) -> None:
    kafka = ApacheKafka(directory, **{"offsets.topic.num.partitions": 5, "log.segment.bytes": 200_000})  # type: ignore[arg-type]
    for source in log_dir.glob("*-[0-9]*/"):
        shutil.copytree(source, directory / "data" / source.name, ignore=shutil.ignore_patterns("partition.metadata"))
    shutil.copy(log_dir / "recovery-point-offset-checkpoint", directory / "data")
    try:
        kafka.start()
        for topic, sent in values.items():
            clients.java_tool(TOPICS, "--bootstrap-server", kafka.bootstrap, "--create", "--topic", topic, "--partitions", "1")
            clients.ensure_same(clients.read_confluent(kafka.bootstrap, topic, len(sent)), sent, topic)
    finally:
        kafka.stop()
    logged = (directory / "kafka.Kafka.log").read_text()
    assert not re.search(r"corrupt|Could not find|Found invalid|ERROR", logged, re.IGNORECASE), logged[-3000:]


def test_apache_kafka_serves_our_directory(written: Written, tmp_path: Path) -> None:
    kafka = ApacheKafka(tmp_path / "kafka", **{"offsets.topic.num.partitions": 5, "log.segment.bytes": 1_000_000})  # type: ignore[arg-type]
    data = tmp_path / "kafka" / "data"
    for source in written.log_dir.glob("*-[0-9]*/"):
        # Its topics get ids of their own, so the file with ours stays behind.
        shutil.copytree(source, data / source.name, ignore=shutil.ignore_patterns("partition.metadata"))
    try:
        kafka.start()
        for topic, values in written.values.items():
            clients.java_tool(TOPICS, "--bootstrap-server", kafka.bootstrap, "--create", "--topic", topic, "--partitions", "1")
            clients.ensure_same(clients.read_confluent(kafka.bootstrap, topic, len(values)), values, topic)
        clients.send_confluent(kafka.bootstrap, "lines.none", [b"more"])
        assert clients.read_confluent(kafka.bootstrap, "lines.none", 1, written.group) == [b"more"]
        told = clients.java_tool(GROUPS, "--bootstrap-server", kafka.bootstrap, "--describe", "--group", written.group)
        committed = dict(re.findall(rf"^{written.group} +(\S+) +0 +(\d+) ", told, re.MULTILINE))
        assert committed == {
            topic: str(len(values) + (topic == "lines.none")) for topic, values in written.values.items() if topic != "stamped"
        }
    finally:
        kafka.stop()
    logged = (tmp_path / "kafka" / "kafka.Kafka.log").read_text()
    assert not re.search(r"corrupt|Found invalid|ERROR", logged, re.IGNORECASE), logged[-3000:]
