"""A disk that takes no more: producers are told, the broker ends with status 1, and what was acknowledged is there afterwards."""

import resource
import signal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.support.clients.clients import read_confluent
from tests.support.clients.served import ServedBroker

LIMIT_BYTES = 2_000_000
"""No file of the broker may grow beyond this: to it, that is a write error as a full disk is one."""


@pytest.mark.slow
def test_broker_without_any_directory_left_gives_up_and_loses_nothing(tmp_path: Path) -> None:
    broker = ServedBroker(tmp_path / "data")
    broker.start()
    assert broker.process is not None
    process = broker.process
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (LIMIT_BYTES, LIMIT_BYTES))
    acknowledged: list[Any] = []
    refused: list[Any] = []

    def delivered(error: object, message: object) -> None:
        (acknowledged if error is None else refused).append(message.value())  # type: ignore[attr-defined]

    producer = Producer({"bootstrap.servers": broker.bootstrap, "message.timeout.ms": 3000, "acks": "all", "log_level": 0})
    for number in range(4_000):
        producer.produce("full", b"%06d" % number + b"x" * 1000, on_delivery=delivered)
    producer.flush(30)
    assert acknowledged
    assert refused
    assert process.wait(30) == 1
    told = broker.output.read_text()
    assert "goes offline" in told
    assert "all log dirs have failed" in told

    broker.start()
    try:
        kept = read_confluent(broker.bootstrap, "full", len(acknowledged))
        assert set(acknowledged) <= set(kept)
        assert broker.stop() == 0
    finally:
        if broker.process is not None:
            broker.process.send_signal(signal.SIGKILL)
            broker.process.wait()
