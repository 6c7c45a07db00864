"""A broker with several log directories, one of which fails."""

import contextlib
import errno
import os
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import KafkaError

from tests.support.eventually import WAIT_S, eventually
from twisted_kafka.broker.broker import Broker, StartError
from twisted_kafka.client import one_request
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.embedded import SqliteStore
from twisted_kafka.metadata.store import StoreDisconnectedError
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.administration.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from twisted_kafka.protocol.messages.administration.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    DescribeLogDirsRequest,
)
from twisted_kafka.protocol.messages.administration.topics import CreatableTopic, CreateTopicsRequest
from twisted_kafka.system.files import disk

pytestmark = pytest.mark.medium

PARTITIONS = 6


def properties(path: Path, **more: object) -> dict[str, object]:
    names = ",".join(str(path / name) for name in ("a", "b"))
    return {"log.dirs": names, "replica.high.watermark.checkpoint.interval.ms": 50, **more}


def fail(directory: Path) -> None:
    """Leave what is left of a disk that is gone."""
    directory.rename(directory.with_name(f"{directory.name}-gone"))
    directory.write_text("")


def partitions_in(directory: Path) -> set[int]:
    return {int(path.name.rpartition("-")[2]) for path in directory.glob("t-?")}


def send_to_all(broker: Broker, partitions: set[int], value: bytes, timeout_ms: int = 30_000) -> None:
    producer = KafkaProducer(
        bootstrap_servers=broker.bootstrap_servers,
        enable_idempotence=False,
        retries=0,
        max_block_ms=timeout_ms,
        request_timeout_ms=timeout_ms - 100,
        delivery_timeout_ms=timeout_ms,
    )
    try:
        for future in [producer.send("t", value, partition=partition) for partition in partitions]:
            future.get(timeout_ms / 1000)
    finally:
        producer.close(1)


def read(broker: Broker, partition: int, count: int) -> list[bytes]:
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", consumer_timeout_ms=5000)
    try:
        consumer.assign([TopicPartition("t", partition)])
        return [record.value for _, record in zip(range(count), consumer, strict=False)]
    finally:
        consumer.close()


def make_topic(broker: Broker) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    admin.create_topics([NewTopic("t", PARTITIONS, 1)])
    admin.close()


def leaderless(broker: Broker) -> set[int]:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    try:
        (topic,) = admin.describe_topics(["t"])
        return {each["partition_index"] for each in topic["partitions"] if each["leader_id"] < 0}
    finally:
        admin.close()


@pytest.mark.timeout(60)
def test_a_directory_fails_and_the_rest_serves_on(tmp_path: Path) -> None:
    with Broker(properties(tmp_path)) as broker:
        make_topic(broker)
        everything = set(range(PARTITIONS))
        send_to_all(broker, everything, b"before")
        lost = partitions_in(tmp_path / "b")
        assert len(lost) == PARTITIONS // 2
        fail(tmp_path / "b")
        with contextlib.suppress(KafkaError):
            send_to_all(broker, {min(lost)}, b"during", timeout_ms=1000)  # the checkpoint that follows finds the directory gone
        send_to_all(broker, everything - lost, b"after")
        eventually(lambda: leaderless(broker) == lost)
        with pytest.raises(KafkaError):
            send_to_all(broker, {min(lost)}, b"nowhere", timeout_ms=1000)
        kept = min(everything - lost)
        assert read(broker, kept, 2) == [b"before", b"after"]
        assert broker.metrics.value("LogManager", "OfflineLogDirectoryCount") == 1
        assert broker.metrics.value("ReplicaManager", "OfflineReplicaCount") == len(lost)
    # It starts without the directory too, and makes its partitions nowhere else.
    with Broker(properties(tmp_path)) as broker:
        assert leaderless(broker) == lost
        assert read(broker, kept, 2) == [b"before", b"after"]
        assert partitions_in(tmp_path / "a") == everything - lost
    (tmp_path / "b").unlink()
    (tmp_path / "b-gone").rename(tmp_path / "b")
    with Broker(properties(tmp_path)) as broker:
        assert leaderless(broker) == set()
        assert [read(broker, partition, 1) for partition in sorted(lost)] == [[b"before"]] * len(lost)


def test_a_directory_fails_while_the_metadata_store_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = tmp_path / "metadata"
    with Broker(properties(tmp_path, **{"metadata.log.dir": str(metadata)})) as broker:
        make_topic(broker)
        lost = partitions_in(tmp_path / "b")
        real, attempts = SqliteStore.create, []

        def create(store: SqliteStore, path: str, *args: Any, **options: Any) -> str:
            if path.startswith(znodes.LOG_DIR_EVENT_PREFIX):
                attempts.append(path)
                if len(attempts) < 3:
                    raise StoreDisconnectedError("not now")
            return real(store, path, *args, **options)

        monkeypatch.setattr(SqliteStore, "create", create)
        assert broker._server is not None
        logs = broker._server.logs
        assert logs is not None
        logs.storage_failed(tmp_path / "b", OSError(errno.EIO, "Input/output error"))
        eventually(lambda: leaderless(broker) == lost, wait_s=WAIT_S)
        assert len(attempts) == 3


@pytest.mark.timeout(60)
def test_a_directory_fails_while_the_disk_of_another_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that flush wait for the disk that hangs, all of them in the end."""
    hung, mended = threading.Event(), threading.Event()
    real = disk.sync_data

    def sync(descriptor: int) -> None:
        if "/b/t-" in os.readlink(f"/proc/self/fd/{descriptor}"):
            hung.set()
            assert mended.wait(2 * WAIT_S)
        real(descriptor)

    failing = properties(tmp_path, **{"metadata.log.dir": tmp_path / "b", "background.threads": 1, "log.segment.bytes": 1000})
    with Broker(failing) as broker:
        make_topic(broker)
        everything = set(range(PARTITIONS))
        send_to_all(broker, everything, b"x" * 600)
        monkeypatch.setattr(disk, "sync_data", sync)
        try:
            send_to_all(broker, partitions_in(tmp_path / "b"), b"x" * 600)  # a second segment: the first is flushed
            assert hung.wait(WAIT_S)
            lost = partitions_in(tmp_path / "a")
            fail(tmp_path / "a")
            with pytest.raises(KafkaError):
                send_to_all(broker, lost, b"x" * 600)
            eventually(lambda: leaderless(broker) == lost)
        finally:
            mended.set()


def make_unwritable(checkpoint: Path) -> None:
    """Put a directory in the file's place; the broker may write the file anew between the two steps."""
    while not checkpoint.is_dir():
        checkpoint.unlink(missing_ok=True)
        with contextlib.suppress(FileExistsError):
            checkpoint.mkdir()


@pytest.mark.timeout(60)
def test_without_the_directory_with_the_metadata_it_stops(tmp_path: Path) -> None:
    told: list[str] = []
    stopped = threading.Event()

    def give_up(why: str) -> None:
        told.append(why)
        stopped.set()

    with Broker(properties(tmp_path), on_fatal=give_up) as broker:
        make_topic(broker)
        send_to_all(broker, {0, 1}, b"before")
        make_unwritable(tmp_path / "a" / "replication-offset-checkpoint")
        with contextlib.suppress(KafkaError):
            send_to_all(broker, {0, 1}, b"after")
        assert stopped.wait(WAIT_S)
        assert told == [f"Shutdown broker because the log directory with its metadata has failed: {tmp_path / 'a'}"]


def test_where_the_metadata_lie(tmp_path: Path) -> None:
    with Broker(properties(tmp_path)) as broker:
        make_topic(broker)
    turned = {**properties(tmp_path), "log.dirs": f"{tmp_path / 'b'},{tmp_path / 'a'}"}
    with Broker(turned) as broker:
        assert leaderless(broker) == set()
        assert not (tmp_path / "b" / "metadata.sqlite").exists()
    with pytest.raises(StartError, match="move it there"):
        Broker(properties(tmp_path, **{"metadata.log.dir": tmp_path / "b"})).start()
    for path in (tmp_path / "a").glob("metadata.sqlite*"):
        path.rename(tmp_path / "b" / path.name)
    with Broker(properties(tmp_path, **{"metadata.log.dir": tmp_path / "b"})) as broker:
        assert leaderless(broker) == set()
    fail(tmp_path / "b")
    with pytest.raises(StartError, match="the broker's metadata may be in it"):
        Broker(properties(tmp_path)).start()


def test_directories_of_other_brokers_are_refused_in_one_line(tmp_path: Path) -> None:
    with Broker(properties(tmp_path)):
        pass
    path = tmp_path / "b" / "meta.properties"
    text = path.read_text()
    for wrong, why in (("cluster.id=other", "cluster.id=other"), ("broker.id=7", "broker.id=7"), ("version=9", "version '9'")):
        name = wrong.partition("=")[0]
        path.write_text("\n".join(wrong if line.startswith(name) else line for line in text.splitlines()))
        with pytest.raises(StartError, match=why) as caught:
            Broker(properties(tmp_path)).start()
        assert "\n" not in str(caught.value)
    for name in ("a", "b"):
        (tmp_path / name / "meta.properties").write_text(f"{text}directory.id=ABCDEFGHIJKLMNOPQRSTUV\n")
    with pytest.raises(StartError, match=r"same directory\.id"):
        Broker(properties(tmp_path)).start()
    path.write_text(text)
    with Broker(properties(tmp_path)):
        pass
    assert "directory.id=ABCDEFGHIJKLMNOPQRSTUV" in (tmp_path / "a" / "meta.properties").read_text()


def test_metrics_have_kafkas_names(tmp_path: Path) -> None:
    expected = (Path(__file__).parents[1] / "data" / "metrics" / "kafka-3.9.2-log.tsv").read_text().splitlines()
    with Broker(properties(tmp_path)) as broker:
        make_topic(broker)
        found = set()
        for entry in broker.metrics.items():
            text = re.sub(r"topic=t,partition=\d", "topic=<topic>,partition=<partition>", str(entry[0]))
            found.add(re.sub(rf'"{tmp_path}/[ab]"', '"<directory>"', text))
    assert set(expected) <= found
    others = {name for name in found if name.startswith("kafka.log:") and "topic=__" not in name}
    assert others <= set(expected)


def ask(broker: Broker, request: Any, version: int) -> Any:
    host, port = broker.bootstrap_servers.rsplit(":", 1)
    return one_request.ask((host, int(port)), request, version, "cordons", 10)


def cordon(broker: Broker, directories: str, expected: set[Path]) -> None:
    change = IncrementalAlterConfigsRequestAlterableConfig(name="cordoned.log.dirs", value=directories)
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=4, resource_name=str(broker.broker_id), configs=[change]
    )
    (answer,) = ask(broker, IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert answer.error_code == 0
    eventually(lambda: cordoned(broker) == {str(path) for path in expected})


def cordoned(broker: Broker) -> set[str]:
    return {each.log_dir for each in ask(broker, DescribeLogDirsRequest(topics=None), 5).results if each.is_cordoned}


def create(broker: Broker, name: str) -> int:
    topic = CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=1)
    (answer,) = ask(broker, CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7).topics
    return int(answer.error_code)


def test_cordoned_directories_get_no_new_replicas(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    with Broker(properties(tmp_path)) as broker:
        cordon(broker, str(first), {first})
        assert create(broker, "t") == 0
        assert (partitions_in(first), partitions_in(second)) == (set(), set(range(PARTITIONS)))
        moved = AlterReplicaLogDirTopic(name="t", partitions=[0])
        request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=str(first), topics=[moved])])
        assert ask(broker, request, 2).results[0].partitions[0].error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        cordon(broker, "*", {first, second})
        assert create(broker, "u") == ErrorCode.INVALID_REPLICATION_FACTOR
        cordon(broker, "", set())
        assert create(broker, "u") == 0
