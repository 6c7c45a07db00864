"""The proxy that records, between real clients and a broker, and the two commands."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import start_tied
from tests.support.shop import run_the_shop
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.headers import encode_request_header, parse_response_header
from twisted_kafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from twisted_kafka.protocol.messages.coordinators.groups import FindCoordinatorRequest, FindCoordinatorResponse
from twisted_kafka.protocol.messages.metadata import MetadataRequest, MetadataResponse
from twisted_kafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from twisted_kafka.protocol.messages.sasl import SaslHandshakeRequest
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.recording.recording import read_recording
from twisted_kafka.testing import Broker, RecordingProxy
from twisted_kafka.tools.main import main

pytestmark = pytest.mark.medium


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


class Client:
    """A connection on which several requests can be under way."""

    def __init__(self, servers: str) -> None:
        host, port = servers.split(":")
        self._socket = socket.create_connection((host, int(port)), 20)
        self._stream = self._socket.makefile("rb")

    def send(self, request: Message, version: int, correlation_id: int = 1) -> None:
        frame = encode_request_header(request.KEY, version, correlation_id, "raw") + request.encode(version)
        self._socket.sendall(len(frame).to_bytes(4, "big") + frame)

    def receive(self) -> bytes:
        """Return a frame; empty when the connection is closed."""
        try:
            return self._stream.read(int.from_bytes(self._stream.read(4), "big"))
        except ConnectionResetError:
            return b""

    def ask(self, request: Message, version: int, response: Any) -> Any:
        self.send(request, version)
        frame = self.receive()
        return response.decode(frame, version, parse_response_header(request.KEY, version, frame)[1])

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


def test_a_client_stays_behind_it_and_is_recorded(broker: Broker, tmp_path: Path) -> None:
    path = tmp_path / "shop.jsonl"
    with RecordingProxy(broker.bootstrap_servers, path) as proxy:
        run_the_shop(proxy.bootstrap_servers)
        # The addresses of the broker's side: all connections are the proxy's, and everything that was asked is in the file.
        assert proxy.recording.written == len(broker.requests)
    assert [line.key.title for line in read_recording(path)] == [each.api for each in broker.requests]
    with Broker() as other:
        assert other.replay(path).differences == []


def test_addresses_in_answers_are_its_own(broker: Broker, tmp_path: Path) -> None:
    own = int(broker.bootstrap_servers.rpartition(":")[2])
    broker.create_topic("orders")
    with RecordingProxy(broker.bootstrap_servers, tmp_path / "a") as proxy:
        client = Client(proxy.bootstrap_servers)
        (node,) = client.ask(MetadataRequest(topics=[]), 9, MetadataResponse).brokers
        assert f"{node.host}:{node.port}" == proxy.bootstrap_servers
        for version in (0, 4):
            request = FindCoordinatorRequest(coordinator_keys=["g"]) if version else FindCoordinatorRequest(key="g")
            answer = client.ask(request, version, FindCoordinatorResponse)
            node = answer.coordinators[0] if version else answer
            assert node.port in (-1, int(proxy.bootstrap_servers.rpartition(":")[2]))
        client.close()
    recorded = next(iter(read_recording(tmp_path / "a"))).response
    assert recorded["brokers"][0]["port"] == own, "what the broker said is recorded"


def test_requests_on_their_way_are_told_apart_and_those_without_answer_are_recorded(broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("orders")
    data = PartitionProduceData(index=0, records=build_batch([SimpleRecord(1, b"k", b"v")]))
    produce = ProduceRequest(acks=0, timeout_ms=1000, topic_data=[TopicProduceData(name="orders", partition_data=[data])])
    with RecordingProxy(broker.bootstrap_servers, tmp_path / "a") as proxy:
        client = Client(proxy.bootstrap_servers)
        client.send(MetadataRequest(topics=[]), 5, 1)
        client.send(produce, 7, 2)
        client.send(ApiVersionsRequest(), 2, 3)
        assert [int.from_bytes(client.receive()[:4], "big") for _ in range(2)] == [1, 3]
        client.close()
    found = {line.title: line.outcome for line in read_recording(tmp_path / "a")}
    assert found == {"Metadata v5": "answered", "Produce v7": "no response", "ApiVersions v2": "answered"}
    assert [record.value for record in broker.records("orders")] == [b"v"]


def test_tokens_that_cannot_be_told_from_requests_are_refused(broker: Broker, tmp_path: Path) -> None:
    with RecordingProxy(broker.bootstrap_servers, tmp_path / "a") as proxy:
        client = Client(proxy.bootstrap_servers)
        told = client.ask(ApiVersionsRequest(), 2, ApiVersionsResponse).api_keys
        assert {each.api_key: each.min_version for each in told}[17] == 1
        client.send(SaslHandshakeRequest(mechanism="PLAIN"), 0)
        assert client.receive() == b""
        client.close()
    assert [line.title for line in read_recording(tmp_path / "a")] == ["ApiVersions v2"]


def test_a_request_that_the_broker_answers_by_closing_is_recorded(broker: Broker, tmp_path: Path) -> None:
    with broker.faults.inject(api="Metadata", close="before"), RecordingProxy(broker.bootstrap_servers, tmp_path / "a") as proxy:
        client = Client(proxy.bootstrap_servers)
        client.send(MetadataRequest(topics=[]), 5)
        assert client.receive() == b""
        client.close()
    assert [line.outcome for line in read_recording(tmp_path / "a")] == ["closed"]


def test_a_broker_that_is_not_there_closes_the_connection(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    # The reset may come before connect has returned.
    with RecordingProxy(f"127.0.0.1:{port}", tmp_path / "a") as proxy, suppress(ConnectionResetError):
        client = Client(proxy.bootstrap_servers)
        assert client.receive() == b""
        client.close()


@pytest.mark.long
def test_the_commands(broker: Broker, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "twisted_kafka.tools.main", "record", "shop.jsonl", "--to", broker.bootstrap_servers]
    process = start_tied(
        command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(Path.cwd())}
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.endswith(f", in front of {broker.bootstrap_servers}\n")
        client = Client(line.split()[1].strip(","))
        client.ask(MetadataRequest(topics=[]), 5, MetadataResponse)
        client.close()
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=30)[0] == "1 requests of 1 connections are in shop.jsonl\n"
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate(timeout=30)
    assert main(["replay", str(tmp_path / "shop.jsonl"), broker.bootstrap_servers]) == 0


def test_a_replay_that_differs_exits_with_1(broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with broker.record(tmp_path / "a"):
        client = Client(broker.bootstrap_servers)
        client.ask(ApiVersionsRequest(), 2, ApiVersionsResponse)
        client.close()
    head, line = (tmp_path / "a").read_text().splitlines()
    changed = json.loads(line)
    changed["response"]["apiKeys"][0]["maxVersion"] = 99
    (tmp_path / "a").write_text(f"{head}\n{json.dumps(changed)}\n")
    assert main(["replay", str(tmp_path / "a"), broker.bootstrap_servers]) == 1
    assert "line 2, ApiVersions v2 from raw: apiKeys[Produce].maxVersion: 99 was recorded, now " in capsys.readouterr().out
    for arguments, why in (
        (["replay", str(tmp_path / "none"), broker.bootstrap_servers], "No such file"),
        (["replay", str(tmp_path / "a"), "nowhere"], "'nowhere' is not an address: expected HOST:PORT"),
        (["record", str(tmp_path / "a"), "--to", broker.bootstrap_servers], "exists already"),
        (["record", str(tmp_path / "b"), "--to", "b:1", "--listen", broker.bootstrap_servers], "cannot listen on "),
        (["record", str(tmp_path / "b"), "--to", "b:1", "--max-mb", "0"], "--max-mb 0: expected 1 to 256"),
    ):
        assert main(arguments) == 2
        assert why in capsys.readouterr().err
    assert not (tmp_path / "b").exists()
