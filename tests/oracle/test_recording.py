"""What a client does with Apache Kafka, recorded in front of it, is answered alike here."""

from pathlib import Path

import pytest

from tests.support.oracle.apache_kafka import ApacheKafka
from tests.support.shop import run_the_shop
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.recording.recording import read_recording
from twisted_kafka.testing import Broker, RecordingProxy

pytestmark = [pytest.mark.oracle, pytest.mark.slow]


def test_kafka_python_with_apache_kafka_is_answered_alike_here(kafka: ApacheKafka, tmp_path: Path) -> None:
    path = tmp_path / "kafka.jsonl"
    with RecordingProxy(kafka.bootstrap, path) as proxy:
        run_the_shop(proxy.bootstrap_servers)
    asked = {line.key for line in read_recording(path)}
    assert asked > {ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.OFFSET_COMMIT}
    with Broker(persona="3.9") as broker:
        report = broker.replay(path)
        assert [record.value for record in broker.records("orders")] == [b"1", b"two", b"\xff3"]
    assert not report.differences
    assert not report.left_out
