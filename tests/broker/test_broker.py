"""The embedded broker as a program uses it."""

import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from twisted.internet.selectreactor import SelectReactor
from twisted.logger import capturedLogs, formatEvent

import twisted_kafka
from tests.support.budget import patient
from tests.support.eventually import WAIT_S
from tests.support.no_threads import no_threads
from tests.support.processes import start_tied
from twisted_kafka.broker.broker import Broker, StartError
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.service import BrokerService
from twisted_kafka.system.files import disk

API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 7, -1)


def ask_versions(broker: Broker) -> bytes:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=WAIT_S) as client:
        client.sendall(API_VERSIONS)
        return client.recv(4096)


def test_it_serves_inside_a_with_block_and_leaves_nothing_behind() -> None:
    threads = set(threading.enumerate())
    with twisted_kafka.Broker() as broker:
        assert broker.is_running
        assert broker.bootstrap_servers.startswith("127.0.0.1:")
        assert ask_versions(broker)[4:8] == b"\0\0\0\7"
        (log_dir,) = map(Path, broker.config.log_dirs)
        assert log_dir.is_dir()
    assert not broker.is_running
    assert not log_dir.parent.exists()
    assert set(threading.enumerate()) <= threads
    with pytest.raises(OSError, match="refused"):
        ask_versions(broker)


@pytest.mark.long
def test_a_directory_of_its_own_goes_without_a_start_too(tmp_path: Path) -> None:
    program = "import twisted_kafka; kept = twisted_kafka.Broker(); twisted_kafka.Broker(); started = twisted_kafka.Broker(); "
    program += "started.start(); import os; forked = os.fork(); forked and os.wait(); assert os.listdir(os.environ['TMPDIR'])"
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], env=environment, capture_output=True, timeout=patient(60), check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="Linux alone tells a descriptor's path this way")
def test_it_syncs_what_lasts_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    synced: list[Path] = []
    for name in ("sync", "sync_data"):

        def sync(real: Callable[[int], None], descriptor: int) -> None:
            synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
            real(descriptor)

        monkeypatch.setattr(disk, name, partial(sync, getattr(disk, name)))
    for data_dir in (None, tmp_path / "lasting"):
        with Broker(data_dir=data_dir) as broker:
            assert ask_versions(broker)
    assert tmp_path / "lasting" / "log" / "meta.properties.tmp" in synced
    assert not [path for path in synced if path.is_relative_to(tmp_path / "temporary")]


@pytest.mark.long
def test_the_directory_of_one_that_was_killed_goes_with_the_next_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    program = "import twisted_kafka; twisted_kafka.Broker().start(); print('started', flush=True); input()"
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    with contextlib.ExitStack() as running:

        def start() -> "subprocess.Popen[bytes]":
            before = {*tmp_path.iterdir()}
            command = [sys.executable, "-W", "ignore", "-c", program]
            process = start_tied(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            running.enter_context(process)
            running.callback(process.kill)
            assert process.stdout is not None
            assert process.stdout.readline() == b"started\n"
            (directories[process],) = {*tmp_path.iterdir()} - before
            return process

        directories: dict[subprocess.Popen[bytes], Path] = {}
        alive, killed = start(), start()
        killed.kill()
        killed.wait()
        (tmp_path / "twisted-kafka-of-somebody-else").mkdir()
        assert directories[killed].exists()
        others = [twisted_kafka.Broker(), twisted_kafka.Broker()]
        assert not directories[killed].exists()
        kept = {directories[alive], tmp_path / "twisted-kafka-of-somebody-else"}
        kept |= {Path(other.config.log_dirs[0]).parent for other in others}
        assert {*tmp_path.iterdir()} == kept
        for other in others:
            with other:
                assert ask_versions(other)


def open_files() -> list[str]:
    folder = Path("/proc/self/fd")
    return sorted(os.readlink(link) for link in folder.iterdir() if os.path.lexists(link))


@pytest.mark.medium
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="Linux alone tells a process's descriptors this way")
def test_it_leaves_no_file_descriptor_open(tmp_path: Path) -> None:
    """A test session has hundreds of brokers, one after the other."""
    with Broker(data_dir=tmp_path) as broker:
        ask_versions(broker)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        before = open_files()
        with Broker(data_dir=tmp_path) as broker:
            ask_versions(broker)
        assert open_files() == before
        with pytest.raises(StartError):
            Broker({"listeners": f"PLAINTEXT://127.0.0.1:{taken.getsockname()[1]}"}, data_dir=tmp_path).start()
        assert open_files() == before


def test_clients_are_given_addresses_that_they_can_use_together() -> None:
    """Not the control plane's, nor those of another security protocol; the first of listeners first, whatever brokers use."""
    protocols = "OUT:PLAINTEXT,IN:PLAINTEXT,ORDERS:PLAINTEXT"
    settings = {
        "listeners": "OUT://127.0.0.1:0,IN://127.0.0.2:0,ORDERS://127.0.0.1:0",
        "listener.security.protocol.map": protocols,
        "inter.broker.listener.name": "IN",
        "control.plane.listener.name": "ORDERS",
    }
    with Broker(settings) as broker:
        ports = {end_point.listener_name: end_point.port for end_point in broker.listeners}
        assert broker.bootstrap_servers == f"127.0.0.1:{ports['OUT']},127.0.0.2:{ports['IN']}"


def test_a_process_may_have_several() -> None:
    with Broker() as one, Broker() as two:
        assert one.cluster_id != two.cluster_id
        assert ask_versions(one)
        assert ask_versions(two)


def test_its_identity_lasts_in_its_directory(tmp_path: Path) -> None:
    with Broker({"broker.id": 5}, data_dir=tmp_path) as broker:
        first = (broker.broker_id, broker.cluster_id)
    with Broker(data_dir=tmp_path) as broker:
        assert (broker.broker_id, broker.cluster_id) == first
    with pytest.raises(StartError, match=r"Invalid value '6' for broker\.id: must be 5"):
        Broker({"broker.id": 6}, data_dir=tmp_path).start()


def test_logs_without_their_metadata_are_warned_of(tmp_path: Path) -> None:
    """The broker would look empty, while retention goes on with the defaults."""
    for number in range(2):
        with capturedLogs() as events, Broker(data_dir=tmp_path):
            told = [formatEvent(event) for event in events if event["log_level"].name == "warn"]
            assert [line for line in told if "topics that are not in the metadata" in line] == told
            assert len(told) == number
        (tmp_path / "log" / "orders-0").mkdir(exist_ok=True)
    assert "of 1 topics" in told[0]
    assert "orders" in told[0]


def test_without_a_number_it_gets_one_above_those_given_by_hand(tmp_path: Path) -> None:
    for _ in range(2):
        with Broker(data_dir=tmp_path) as broker:
            assert broker.broker_id == 1001


def test_settings_may_be_of_pythons_types(tmp_path: Path) -> None:
    broker = Broker({"auto.create.topics.enable": False, "num.partitions": 3, "log.cleanup.policy": ["compact"]}, data_dir=tmp_path)
    assert broker.config.boolean("auto.create.topics.enable") is False
    assert broker.config.int("num.partitions") == 3
    assert broker.config.list("log.cleanup.policy") == ("compact",)
    assert not Broker({"broker.rack": None}, data_dir=tmp_path).config.is_set("broker.rack")
    with pytest.raises(ConfigError, match=r"num\.partitions"):
        Broker({"num.partitions": 0})


def test_a_start_that_fails_leaves_nothing_running(tmp_path: Path) -> None:
    threads = set(threading.enumerate())
    with Broker(data_dir=tmp_path) as broker:
        with pytest.raises(StartError, match="is in use"):
            Broker(data_dir=tmp_path).start()
        with pytest.raises(StartError, match="Address already in use") as caught:
            Broker({"listeners": f"PLAINTEXT://{broker.bootstrap_servers}"}).start()
        assert "\n" not in str(caught.value)
    assert set(threading.enumerate()) <= threads


def test_it_is_started_once(tmp_path: Path) -> None:
    broker = Broker(data_dir=tmp_path)
    broker.stop()
    broker.start()
    with pytest.raises(RuntimeError):
        broker.start()
    broker.stop()
    broker.stop()


def test_the_access_log_counts_what_the_metrics_count(tmp_path: Path) -> None:
    with Broker({"access.log.dir": str(tmp_path / "access")}) as broker:
        for _ in range(20):
            ask_versions(broker)
        metrics = broker.metrics
    lines = [json.loads(line) for path in (tmp_path / "access").rglob("node-*.jsonl") for line in path.open()]
    assert len(lines) == 20
    assert metrics.value("RequestMetrics", "RequestsPerSec", request="ApiVersions", version=0) == 20
    assert {line["api"] for line in lines} == {"ApiVersions"}


def test_an_access_log_that_cannot_be_written_is_told_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in ("file", "file/access"):
        with pytest.raises(StartError, match=rf"Cannot use access\.log\.dir: .*{place}"):
            Broker({"access.log.dir": tmp_path / place}).start()


def test_a_process_that_was_forked_before_the_start_has_the_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(data_dir=tmp_path)
    monkeypatch.setattr("twisted_kafka.broker.broker.process_number", lambda: -1)
    broker.start()
    assert broker.is_running
    broker.stop()
    assert (tmp_path / "log" / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("has_threads", [True, False])
def test_a_twisted_application_may_have_it_on_its_own_reactor(tmp_path: Path, has_threads: bool) -> None:
    reactor = SelectReactor()
    config = KafkaConfig.embedded({"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path)})
    service = BrokerService(config, reactor)
    answers: list[bytes] = []

    def ask() -> None:
        answers.append(ask_versions(service.broker))
        reactor.callFromThread(stop)

    def stop() -> None:
        with contextlib.nullcontext() if has_threads else no_threads():
            service.stopService().addCallback(lambda _: reactor.stop())

    service.startService()
    reactor.callWhenRunning(lambda: threading.Thread(target=ask).start())
    reactor.run(installSignalHandlers=False)
    assert answers[0][4:8] == b"\0\0\0\7"
    assert not service.broker.is_running
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_service_may_be_started_again(tmp_path: Path) -> None:
    reactor = SelectReactor()
    service = BrokerService(KafkaConfig.embedded({"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path)}), reactor)
    answers: list[tuple[str, bytes]] = []

    def ask() -> None:
        answers.append((service.broker.cluster_id, ask_versions(service.broker)))
        reactor.callFromThread(stop)

    def stop() -> None:
        service.stopService().addCallback(lambda _: begin() if len(answers) < 2 else reactor.stop())

    def begin() -> None:
        service.startService()
        threading.Thread(target=ask).start()

    reactor.callWhenRunning(begin)
    reactor.run(installSignalHandlers=False)
    (first, _), (second, answer) = answers
    assert first == second
    assert answer[4:8] == b"\0\0\0\7"
