"""kafka-consumer-groups on both brokers: the same words, the same output."""

import re
import subprocess

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.budget import patient
from tests.support.clients.clients import java_command
from tests.support.clients.served import ServedBroker
from tests.support.oracle.apache_kafka import ApacheKafka

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TOPIC = "tooled"
GROUP = "tool-group"
WAIT_S = patient(60)

pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(600)]

STEPS = (
    "--describe --group {group}",
    "--describe --group {group} --members --verbose",
    "--describe --group {group} --state",
    "--reset-offsets --group {group} --topic {topic} --to-earliest --dry-run",
    "--delete --group {group}",
    "--delete-offsets --group {group} --topic {topic}",
)
"""While a member is there."""

LATER = (
    "--describe --group {group}",
    "--describe --group {group} --members",
    "--describe --group {group} --state",
    "--reset-offsets --group {group} --topic {topic} --to-earliest --execute",
    "--reset-offsets --group {group} --topic {topic}:1 --to-offset 7 --execute",
    "--reset-offsets --group {group} --all-topics --shift-by 3 --execute",
    "--reset-offsets --group new-group --topic {topic} --to-latest --execute",
    "--describe --group {group}",
    "--delete-offsets --group {group} --topic {topic}:0",
    "--describe --group {group}",
    "--delete --group {group}",
    "--delete --group {group}",
    "--describe --group {group}",
)
"""When it's gone."""


def plain(text: str) -> str:
    """Without what differs between any two members and brokers, and without the widths of columns."""
    text = re.sub(r"rdkafka-[0-9a-f-]{36}", "<member>", text)
    text = re.sub(r"127\.0\.0\.1:\d+", "<broker>", text)
    return "\n".join(sorted(" ".join(line.split()) for line in text.splitlines() if line.strip()))


def told(bootstrap: str, step: str) -> str:
    words = step.format(group=GROUP, topic=TOPIC).split()
    command = java_command(TOOL, "--bootstrap-server", bootstrap, "--timeout", str(WAIT_S * 1000), *words)
    done = subprocess.run(command, capture_output=True, timeout=WAIT_S, check=False)
    return plain((done.stdout + done.stderr).decode())


@pytest.fixture
def bootstraps(kafka: ApacheKafka, ours: ServedBroker) -> list[str]:
    addresses = [kafka.bootstrap, ours.bootstrap]
    for address in addresses:
        admin = AdminClient({"bootstrap.servers": address})
        for future in admin.create_topics([NewTopic(TOPIC, 3, 1)]).values():
            future.result(WAIT_S)
        producer = Producer({"bootstrap.servers": address})
        for number in range(60):  # to each partition as many, so that offsets and what is told of them are the same
            producer.produce(TOPIC, b"%d" % number, partition=number % 3)
        assert producer.flush(WAIT_S) == 0
    return addresses


def join(bootstrap: str) -> Consumer:
    """Have a member in the group that has committed offsets of all partitions."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": GROUP, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    consumer.subscribe([TOPIC])
    read = 0
    while read < 60:
        read += len(consumer.consume(60, 1.0))
    consumer.commit(asynchronous=False)
    return consumer


def compare(bootstraps: list[str], step: str) -> None:
    expected, found = (told(bootstrap, step) for bootstrap in bootstraps)
    assert found == expected, step


def test_the_tool_says_the_same(bootstraps: list[str]) -> None:
    consumers = [join(bootstrap) for bootstrap in bootstraps]
    for step in STEPS:
        compare(bootstraps, step)
    for consumer in consumers:
        consumer.close()
    for step in LATER:
        compare(bootstraps, step)
