"""The access log as a topic: what the file has, a client reads from `__access_log`, and nothing about that reading."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support.budget import patient
from twisted_kafka import Broker

pytestmark = [pytest.mark.clients, pytest.mark.slow]
PRODUCED = 50
TIMEOUT_S = patient(30.0)


def read(bootstrap: str, least: int) -> list[dict[Any, Any]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "client.id": "reader"})
    consumer.assign([TopicPartition("__access_log", 0, 0)])
    lines: list[dict[Any, Any]] = []
    while sum(line["api"] == "Produce" for line in lines) < least:
        messages = consumer.consume(1000, TIMEOUT_S)
        assert messages, f"only {len(lines)} lines came"
        lines += [json.loads(message.value()) for message in messages]
    consumer.close()
    return lines


def test_lines_are_published(tmp_path: Path) -> None:
    settings = {"access.log.dir": str(tmp_path / "access"), "access.log.topic.enable": "true", "access.log.write.interval.ms": "20"}
    with Broker(settings) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0, "client.id": "writer"})
        for number in range(PRODUCED):
            producer.produce("orders", str(number))
            producer.flush()
        # Lines from before the topic was there are in the file alone, so some more are sent now that it is.
        first = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "unused"})
        assert "__access_log" in first.list_topics(timeout=TIMEOUT_S).topics
        for number in range(PRODUCED):
            producer.produce("orders", str(number))
            producer.flush()
        lines = read(broker.bootstrap_servers, PRODUCED)
        read(broker.bootstrap_servers, PRODUCED)
        first.close()
    files = [json.loads(line) for path in (tmp_path / "access").rglob("node-*.jsonl") for line in path.open()]
    assert Counter(line["sequence"] for line in files).most_common(1)[0][1] == 1
    by_number = {line["sequence"]: line for line in files}
    assert all(by_number[line["sequence"]] == line for line in lines)
    assert not [line for line in lines if [topic["topic"] for topic in line["topics"]] == ["__access_log"]]
    assert [line for line in files if [topic["topic"] for topic in line["topics"]] == ["__access_log"]]
