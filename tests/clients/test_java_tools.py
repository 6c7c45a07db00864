"""Apache Kafka's own command-line tools do their work on this broker."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clients.clients import java_tool, read_confluent, send_confluent
from tests.support.clients.served import ServedBroker
from twisted_kafka.protocol.api import ApiKey

TOPICS = "org.apache.kafka.tools.TopicCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.clients,
    pytest.mark.usefixtures("java"),
]


class Tools:
    """Runs tools against a broker."""

    def __init__(self, broker: ServedBroker) -> None:
        self.broker = broker

    def __call__(self, name: str, *words: str, stdin: bytes | None = None) -> str:
        return java_tool(name, "--bootstrap-server", self.broker.bootstrap, *words, stdin=stdin)


@pytest.fixture
def tools(served: ServedBroker) -> Iterator[Tools]:
    return Tools(served)  # type: ignore[return-value]


def test_topics(tools: Tools) -> None:
    tools(TOPICS, "--create", "--topic", "made", "--partitions", "3", "--config", "retention.ms=86400000")
    assert "made" in tools(TOPICS, "--list").split()
    told = tools(TOPICS, "--describe", "--topic", "made")
    assert "PartitionCount: 3" in told
    assert "Configs: retention.ms=86400000" in told
    assert len(re.findall(r"Partition: \d\tLeader: (\d+)\tReplicas: \1\tIsr: \1", told)) == 3
    tools(TOPICS, "--alter", "--topic", "made", "--partitions", "5")
    assert "PartitionCount: 5" in tools(TOPICS, "--describe", "--topic", "made")
    told = tools("kafka.admin.ConfigCommand", "--describe", "--entity-type", "topics", "--entity-name", "made")
    assert "retention.ms=86400000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=86400000}" in told
    told = tools("kafka.admin.ConfigCommand", "--describe", "--entity-type", "topics", "--entity-name", "made", "--all")
    assert "segment.bytes=1073741824" in told
    tools(TOPICS, "--delete", "--topic", "made")
    assert "made" not in tools(TOPICS, "--list").split()


def test_console_producer_consumer_and_offsets(tools: Tools) -> None:
    lines = "".join(f"key{number}:value {number}\n" for number in range(1000))
    properties = ["--property", "parse.key=true", "--property", "key.separator=:"]
    tools("kafka.tools.ConsoleProducer", "--topic", "console", *properties, stdin=lines.encode())
    words = ["--topic", "console", "--from-beginning", "--max-messages", "1000", "--group", "console-group"]
    shown = ["--property", "print.key=true", "--property", "key.separator=:"]
    assert tools("org.apache.kafka.tools.consumer.ConsoleConsumer", *words, *shown) == lines
    assert tools(OFFSETS, "--topic", "console").strip() == "console:0:1000"
    assert tools(OFFSETS, "--topic", "console", "--time", "earliest").strip() == "console:0:0"
    assert re.fullmatch(r"console:0:\d+", tools(OFFSETS, "--topic", "console", "--time", "max-timestamp").strip())
    assert tools(OFFSETS, "--topic", "console", "--time", "earliest-local").strip() == "console:0:0"


def test_deleting_records(tools: Tools, tmp_path: Path) -> None:
    send_confluent(tools.broker.bootstrap, "shortened", [b"%d" % number for number in range(100)])
    orders = tmp_path / "orders.json"
    orders.write_text(json.dumps({"version": 1, "partitions": [{"topic": "shortened", "partition": 0, "offset": 30}]}))
    assert "low_watermark: 30" in tools("org.apache.kafka.tools.DeleteRecordsCommand", "--offset-json-file", str(orders))
    assert tools(OFFSETS, "--topic", "shortened", "--time", "earliest").strip() == "shortened:0:30"
    assert read_confluent(tools.broker.bootstrap, "shortened", 70) == [b"%d" % number for number in range(30, 100)]


def group_offsets(tools: Tools, group: str) -> dict[str, str]:
    """The committed offset of each of a group's topics, which have one partition."""
    told = tools(GROUPS, "--describe", "--group", group)
    return dict(re.findall(rf"^{group} +(\S+) +0 +(\S+) ", told, re.MULTILINE))


def test_groups(tools: Tools) -> None:
    send_confluent(tools.broker.bootstrap, "grouped", [b"%d" % number for number in range(100)])
    assert len(read_confluent(tools.broker.bootstrap, "grouped", 100, "readers")) == 100
    assert "readers" in tools(GROUPS, "--list").split()
    assert re.search(r"^readers +Classic +Empty", tools(GROUPS, "--list", "--state", "--type"), re.MULTILINE)
    assert group_offsets(tools, "readers") == {"grouped": "100"}
    assert re.search(r"^readers .* Empty +0", tools(GROUPS, "--describe", "--group", "readers", "--state"), re.MULTILINE)
    reset = ["--group", "readers", "--reset-offsets", "--topic", "grouped", "--execute"]
    tools(GROUPS, *reset, "--to-earliest")
    assert group_offsets(tools, "readers") == {"grouped": "0"}
    tools(GROUPS, *reset, "--shift-by", "40")
    assert group_offsets(tools, "readers") == {"grouped": "40"}
    assert len(read_confluent(tools.broker.bootstrap, "grouped", 60, "readers")) == 60
    assert "was successful" in tools(GROUPS, "--group", "readers", "--delete")
    assert "readers" not in tools(GROUPS, "--list").split()


def test_versions_are_those_that_clients_know(tools: Tools) -> None:
    told = tools("kafka.admin.BrokerApiVersionsCommand")
    usable = {int(key) for key in re.findall(r"\((\d+)\): [\d to]+ \[usable: \d+\]", told)}
    assert usable >= {ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA, ApiKey.JOIN_GROUP, ApiKey.DESCRIBE_TOPIC_PARTITIONS}
    assert "Cluster ID: " in java_tool(
        "org.apache.kafka.tools.ClusterTool", "cluster-id", "--bootstrap-server", tools.broker.bootstrap
    )


def test_performance_tools(tools: Tools) -> None:
    words = ["--topic", "perf", "--num-records", "100000", "--record-size", "100", "--throughput", "-1", "--producer-props"]
    told = java_tool(
        "org.apache.kafka.tools.ProducerPerformance", *words, f"bootstrap.servers={tools.broker.bootstrap}", "acks=all"
    )
    assert "100000 records sent" in told
    told = tools("org.apache.kafka.tools.ConsumerPerformance", "--topic", "perf", "--messages", "100000")
    assert ", 100000, " in told
    print(told)
    told = java_tool("org.apache.kafka.tools.EndToEndLatency", tools.broker.bootstrap, "end-to-end", "200", "all", "100")
    assert "Avg latency" in told
    print(told)


def test_verifiable_clients(tools: Tools) -> None:
    told = tools("org.apache.kafka.tools.VerifiableProducer", "--topic", "verified", "--max-messages", "2000", "--acks", "-1")
    (summary,) = [json.loads(line) for line in told.splitlines() if '"tool_data"' in line]
    assert (summary["sent"], summary["acked"]) == (2000, 2000)
    for words in (["--group-id", "verifying"], ["--group-id", "static", "--group-instance-id", "first"]):
        told = tools("org.apache.kafka.tools.VerifiableConsumer", "--topic", "verified", "--max-messages", "2000", *words)
        events = [json.loads(line) for line in told.splitlines()]
        assert sum(event["count"] for event in events if event["name"] == "records_consumed") == 2000
        assert all(event["success"] for event in events if event["name"] == "offsets_committed")
