"""``kafka-streams-groups.sh`` and DumpLogSegments of Apache Kafka 4 on a streams group of this broker; topology descriptions."""

import re
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.support.budget import patient
from tests.support.clients.clients import counting_application, later_java_class_path, later_java_tool
from tests.support.clients.served import ServedBroker
from tests.support.clients.transactional import TIMEOUT_S, make_topic
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.processes import start_tied
from tests.support.share_client import RawClient
from twisted_kafka.protocol.messages.streams.streams_groups import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse

STREAMS = "4.4.0"
GROUP = "counting"
TOOL = "org.apache.kafka.tools.streams.StreamsGroupCommand"
SETTINGS = (
    "offsets.topic.num.partitions=1",
    "transaction.state.log.num.partitions=1",
    "group.coordinator.rebalance.protocols=classic,consumer,streams",
    "group.streams.initial.rebalance.delay.ms=0",
    "group.streams.min.heartbeat.interval.ms=100",
    "group.streams.heartbeat.interval.ms=500",
)
RECORDS = (17, 19, 20, 21, 22, 23)
"""The types of records of streams groups."""

pytestmark = [pytest.mark.slow, pytest.mark.clients, pytest.mark.timeout(600)]


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    found = counting_application(STREAMS, tmp_path)
    if found is None or later_java_class_path() is None:
        pytest.skip("needs Java and Maven")
    return found


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServedBroker]:
    broker = ServedBroker(tmp_path / "data", *SETTINGS)
    broker.start()
    yield broker
    broker.kill()


@contextmanager
def counting(command: list[str], broker: ServedBroker, folder: Path) -> Iterator[None]:
    """Run the application on two topics with some words."""
    for topic in ("words", "counted"):
        make_topic(broker, topic, 2)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(20):
        producer.produce("words", f"word {number % 3}", partition=number % 2)
    producer.flush(TIMEOUT_S)
    arguments = [*command, broker.bootstrap, str(folder / "state"), "streams"]
    with (folder / "application.out").open("ab") as output:
        process = start_tied(arguments, stdin=subprocess.PIPE, stdout=output, stderr=output)
    try:
        yield
    finally:
        process.communicate(timeout=patient(60))


def test_the_tools_of_streams_groups(command: list[str], broker: ServedBroker, tmp_path: Path) -> None:
    def tool(*words: str) -> str:
        return later_java_tool(TOOL, "--bootstrap-server", broker.bootstrap, *words)

    with counting(command, broker, tmp_path):
        eventually(lambda: tool("--list").split() == [GROUP], wait_s=patient(90), pause_s=1)
        eventually(lambda: "Stable" in tool("--describe", "--group", GROUP, "--state"), wait_s=patient(90), pause_s=1)
        members = tool("--describe", "--group", GROUP, "--members")
        assert sorted(re.findall(r"\b[01]:\[[01,]+\]", members)) == ["0:[0]", "0:[1]", "1:[0]", "1:[1]"], members
        eventually(lambda: "words" in tool("--describe", "--group", GROUP), wait_s=patient(60), pause_s=1)
    eventually(lambda: "Empty" in tool("--describe", "--group", GROUP, "--state"), wait_s=patient(60), pause_s=1)
    assert "words" in tool("--reset-offsets", "--group", GROUP, "--to-earliest", "--input-topic", "words", "--execute")
    assert "words" in tool("--delete-offsets", "--group", GROUP, "--input-topic", "words")
    told = tool("--delete", "--group", GROUP)
    assert "successful" in told, told
    assert GROUP not in tool("--list")
    broker.kill()
    (log,) = (broker.log_dir / "__consumer_offsets-0").glob("*.log")
    dumped = later_java_tool("org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", str(log))
    assert [kind for kind in RECORDS if f'key: {{"type":"{kind}"' not in dumped] == [], dumped[:3000]


PLUGIN = """
from twisted_kafka.plugins import TopologyDescriptionPlugin

class InMemory(TopologyDescriptionPlugin):
    def __init__(self):
        self.kept = {}

    def set_topology(self, group_id, topology_epoch, description):
        self.kept[group_id] = description

    def get_topology(self, group_id, topology_epoch):
        return self.kept.get(group_id)

    def delete_topology(self, group_id):
        self.kept.pop(group_id, None)
"""


def test_a_plugin_gets_the_description_of_a_topology(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "described.py").write_text(PLUGIN)
    port = free_port()
    plugin = "group.streams.topology.description.plugin.class=described.InMemory"
    broker = ServedBroker(tmp_path / "data", *SETTINGS, plugin, f"metrics.listener=127.0.0.1:{port}")
    broker.environment["PYTHONPATH"] = str(tmp_path)
    broker.start()
    request = StreamsGroupDescribeRequest(group_ids=[GROUP], include_topology_description=True)

    def described() -> Any:
        with RawClient(broker.bootstrap) as client:
            (group,) = client.call(request, StreamsGroupDescribeResponse, 1).groups
        return group.topology_description

    try:
        with counting(command, broker, tmp_path):
            description = eventually(described, wait_s=patient(90), pause_s=0.5)
        nodes = [node for each in description.subtopologies for node in each.nodes]
        assert ["words"] in [node.source_topics for node in nodes]
        assert ["counts"] in [node.stores for node in nodes]
        page = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=TIMEOUT_S).read().decode()
        counted = re.findall(r"topology_description_(set_success|set_error)_count\S* (\d+)", page)
        assert dict(counted) == {"set_success": "1", "set_error": "0"}, page
    finally:
        broker.kill()
