"""The report of the same traffic from Apache Kafka's own request log and from ours tells the same of it."""

import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("confluent_kafka")

import confluent_kafka

from tests.support.budget import patient
from tests.support.clients.clients import PROGRAMS, java_class_path
from tests.support.clients.served import ServedBroker
from tests.support.oracle.apache_kafka import ApacheKafka
from twisted_kafka.protocol.messages.fetch import FetchPartition
from twisted_kafka.tools.compare.data_requests import by_id, data, fetch, list_offsets, produce
from twisted_kafka.tools.compare.scenarios.coordinators.groups import commit
from twisted_kafka.tools.compare.talk import Talk

pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(600)]

TOPICS = ("log.orders", "log.clicks")
SETTINGS = ("offsets.topic.num.partitions=3", "group.initial.rebalance.delay.ms=0")
TIMEOUT_S = patient(60.0)
WRITTEN = 30
MEASURED = {
    (client, api)
    for client, apis in {
        "raw-writer": ("Produce", "ListOffsets", "CreateTopics"),
        "raw-reader": ("Fetch",),
        "raw-committer": ("OffsetCommit",),
        "librdkafka-writer": ("Produce",),
    }.items()
    for api in apis
}
"""What the traffic below sends a fixed number of; how often a client polls or asks for metadata is a matter of time."""


def traffic(port: int) -> None:
    """Send the same requests to any broker: old and new versions, good and bad ones, one topic and several."""
    writer, reader, committer = (Talk(port, "log", client) for client in (b"raw-writer", b"raw-reader", b"raw-committer"))
    orders, clicks = (writer.create(name.removeprefix("log."), 2) for name in TOPICS)
    for version in (3, 7, 9, 11):
        for partition in (0, 1):
            writer.ask(produce(orders, data(version, count=version), partition), version)
    writer.ask(produce(clicks, data(8, count=50)), 8)
    writer.ask(produce(clicks, data(8), partition=7), 8)
    for version in (1, 5, 8):
        writer.ask(list_offsets(orders, -1), version)
        writer.ask(list_offsets(clicks, -2, partition=9), version)
    for version in (4, 11, 12, 13, 16):
        for topic in (orders, clicks):
            for offset in (0, 10_000):
                request = fetch(topic, FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1_000_000))
                reader.ask(by_id(reader, request, version), version)
    deadline = time.monotonic() + TIMEOUT_S
    while confluent_commit_fails(port):
        assert time.monotonic() < deadline
    for version in (2, 5, 8):
        for _ in range(4):
            committer.ask(commit(version, "log.group", orders), version)
    for talk in (writer, reader, committer):
        talk.close()
    producer = confluent_kafka.Producer({"bootstrap.servers": f"127.0.0.1:{port}", "client.id": "librdkafka-writer"})
    for number in range(WRITTEN):
        producer.produce(TOPICS[number % 2], b"value", partition=0)
        assert producer.flush(TIMEOUT_S) == 0


def confluent_commit_fails(port: int) -> bool:
    """Commit once by a real client, which waits for the coordinator."""
    options = {"bootstrap.servers": f"127.0.0.1:{port}", "group.id": "log.group", "client.id": "librdkafka-committer"}
    consumer = confluent_kafka.Consumer(options)
    try:
        consumer.commit(offsets=[confluent_kafka.TopicPartition(TOPICS[0], 0, 1)], asynchronous=False)
    except confluent_kafka.KafkaException:
        return True
    finally:
        consumer.close()
    return False


def document(spark: Any, directory: Path) -> dict[str, Any]:
    from twisted_kafka_spark.pipeline.job import Job, run

    return run(spark, Job(paths=[str(directory)], group_by=["client_id", "api", "error"]))


def requests(told: dict[str, Any]) -> dict[tuple[Any, ...], int]:
    """Return how many requests there were by client, API and error."""
    found: dict[tuple[Any, ...], int] = {}
    for row in told["group_by"]["rows"]:
        if (row["client_id"], row["api"]) in MEASURED:
            found[row["client_id"], row["api"], row["error"]] = row["requests"]
    return found


def versions(told: dict[str, Any]) -> dict[str, dict[int, int]]:
    return {row["api"]: row["versions"] for row in told["versions"] if row["api"] in ("Produce", "Fetch", "ListOffsets")}


def topics(told: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """Return bytes written and read by topic."""
    return {row["topic"]: (row["produced_bytes"], row["fetched_bytes"]) for row in told["topics"] if row["topic"] in TOPICS}


def topic_requests(told: dict[str, Any]) -> dict[tuple[str, str], int]:
    return {
        (row["topic"], row["api"]): row["requests"]
        for row in told["topic_apis"]
        if row["topic"] in TOPICS and row["api"] in ("Produce", "Fetch", "ListOffsets", "OffsetCommit", "CreateTopics")
    }


def test_both_logs_tell_the_same_requests_and_bytes(spark: Any, tmp_path: Path) -> None:
    if java_class_path() is None:
        pytest.skip("Java or Maven is not installed")
    settings = dict(setting.split("=") for setting in SETTINGS)
    kafka = ApacheKafka(tmp_path / "kafka", **settings)  # type: ignore[arg-type]
    kafka.log4j = PROGRAMS / "java" / "log4j-requests.properties"
    try:
        kafka.start()
        traffic(kafka.port)
    finally:
        kafka.stop()
    ours = ServedBroker(tmp_path / "ours", *SETTINGS)
    try:
        ours.start()
        traffic(ours.port)
    finally:
        ours.stop()
    theirs_told, ours_told = document(spark, tmp_path / "kafka" / "requests"), document(spark, ours.access_dir)
    assert {(client, api) for client, api, _ in requests(ours_told)} == MEASURED
    assert requests(ours_told) == requests(theirs_told)
    assert versions(ours_told) == versions(theirs_told)
    assert topic_requests(ours_told) == topic_requests(theirs_told)
    assert topics(ours_told) == topics(theirs_told)
    assert all(written and read for written, read in topics(ours_told).values())
