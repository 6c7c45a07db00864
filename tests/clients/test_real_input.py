"""Fifty megabytes of log lines through every client and codec, byte for byte; then the report on that run's access log."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients import clients, weblog
from tests.clients.served import ServedBroker

SIZE_BYTES = 50_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
KAFKAJS_CODECS = ("none", "gzip", "snappy")

pytestmark = [pytest.mark.slow, pytest.mark.clients, pytest.mark.timeout(1500)]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[bytes]]:
    path = tmp_path_factory.mktemp("input") / "web.log"
    return path, weblog.write(path, SIZE_BYTES)


def check_all_readers(broker: ServedBroker, topic: str, values: list[bytes], codec: str) -> None:
    readers: dict[str, Callable[[str | None], list[bytes]]] = {
        name: (lambda group, read=read: read(broker.bootstrap, topic, len(values), group)) for name, read in clients.READERS.items()
    }
    if clients.java_class_path():
        readers["java"] = lambda group: clients.read_java(broker.bootstrap, topic, len(values), group)
    for name, read in readers.items():
        for group in (None, clients.new_group()):
            assert read(group) == values, f"{name}, {'group' if group else 'no group'}"
    if codec in KAFKAJS_CODECS and clients.kafkajs_ready():
        assert clients.read_kafkajs(broker.bootstrap, topic, len(values)) == values


@pytest.mark.parametrize("codec", CODECS)
def test_lines_come_out_as_they_went_in(
    start_broker: Callable[..., ServedBroker], text: tuple[Path, list[bytes]], codec: str
) -> None:
    path, values = text
    broker = start_broker()
    if clients.kcat():
        clients.send_kcat(broker.bootstrap, "by-kcat", path, codec)
        assert clients.read_kcat(broker.bootstrap, "by-kcat") == path.read_bytes()
    clients.send_confluent(broker.bootstrap, "by-librdkafka", values, **{"compression.type": codec})
    check_all_readers(broker, "by-librdkafka", values, codec)
    assert broker.stop() == 0
    broker.start()
    assert clients.read_confluent(broker.bootstrap, "by-librdkafka", len(values)) == values
    broker.kill()
    broker.start()
    assert clients.read_confluent(broker.bootstrap, "by-librdkafka", len(values)) == values
    assert broker.stop() == 0


@pytest.mark.parametrize("acks", [0, 1, "all"])
@pytest.mark.parametrize(("batch", "share"), [(1, 50), (1_000_000, 1)])
def test_batches_of_one_record_and_of_a_megabyte(
    start_broker: Callable[..., ServedBroker], text: tuple[Path, list[bytes]], acks: object, batch: int, share: int
) -> None:
    values = text[1][: len(text[1]) // share]
    broker = start_broker()
    clients.send_confluent(broker.bootstrap, "sized", [b"first"], acks="all")
    size = (
        {"batch.num.messages": 1, "linger.ms": 0}
        if batch == 1
        else {"batch.size": batch, "batch.num.messages": 100_000, "linger.ms": 50}
    )
    clients.send_confluent(broker.bootstrap, "sized", values, acks=acks, **size)
    assert clients.read_confluent(broker.bootstrap, "sized", len(values) + 1)[1:] == values
    broker.kill()
    broker.start()
    assert clients.read_kafka_python(broker.bootstrap, "sized", len(values) + 1)[1:] == values
    assert broker.stop() == 0


def request_counts(metrics: str) -> dict[str, int]:
    """Requests by API from the Prometheus page."""
    counted: dict[str, int] = {}
    for line in metrics.splitlines():
        found = re.match(r'kafka_network_RequestMetrics_RequestsPerSec_total\{.*request="(\w+)".*\} ([0-9.e+]+)', line)
        if found:
            counted[found[1]] = counted.get(found[1], 0) + int(float(found[2]))
    return counted
