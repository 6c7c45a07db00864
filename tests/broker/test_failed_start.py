"""A start that fails, at whichever step, stops what it began."""

# The names that the module has imported are what is replaced in it.
# mypy: disable-error-code="attr-defined"

import contextlib
import os
import sqlite3
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from twisted_kafka.broker import kafka_server, storage
from twisted_kafka.broker.broker import Broker, StartError
from twisted_kafka.broker.errors import StartInterruptedError

STEPS = [
    (kafka_server.KafkaScheduler, "startup"),
    (kafka_server.Timer, "start"),
    (kafka_server.LogManager, "acquire_directories"),
    (storage, "prepare_store"),
    (kafka_server.ConfigRepository, "startup"),
    (kafka_server.LogManager, "startup"),
    (kafka_server.AccessLog, "start"),
    (kafka_server.SocketServer, "start"),
    (kafka_server.GroupCoordinator, "startup"),
    (kafka_server.BrokerRegistrar, "start"),
    (kafka_server.KafkaController, "startup"),
    (kafka_server.Administration, "start"),
    (kafka_server, "make_authorizer"),
    (kafka_server.IpConnectionRates, "start"),
    (kafka_server.KafkaRequestHandlerPool, "start"),
    (kafka_server.SocketServer, "enable_request_processing"),
    (storage.BrokerConfigHandler, "follow"),
]


class StepError(Exception):
    pass


def open_files(directory: Path) -> list[str]:
    folder = Path("/proc/self/fd")
    links = [os.readlink(link) for link in folder.iterdir() if os.path.lexists(link)] if folder.is_dir() else []
    return [link for link in links if link.startswith(str(directory))]


@pytest.mark.parametrize(("owner", "name"), STEPS, ids=[f"{owner.__name__.rpartition('.')[2]}.{name}" for owner, name in STEPS])
def test_it_leaves_no_thread_and_no_file_and_the_directory_free(
    owner: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = getattr(owner, name)

    def failing(*arguments: Any, **named: Any) -> None:
        done(*arguments, **named)
        raise StepError

    threads = set(threading.enumerate())
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, failing)
        with pytest.raises(StepError):
            Broker({"access.log.dir": str(tmp_path / "access")}, data_dir=tmp_path).start()
    assert set(threading.enumerate()) <= threads
    assert open_files(tmp_path) == []
    with Broker(data_dir=tmp_path) as broker:
        assert broker.is_running


@pytest.mark.parametrize("count", [0, 1, 5, 10])
def test_a_system_without_a_thread_for_it_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    start, left = threading.Thread.start, [None] * count

    def limited(self: threading.Thread) -> None:
        if not left:
            raise RuntimeError("can't start new thread")
        left.pop()
        start(self)

    threads = set(threading.enumerate())
    monkeypatch.setattr(threading.Thread, "start", limited)
    with pytest.raises(StartError, match=r"^the system has no thread to give: [^\n]*$"):
        Broker({"listeners": "PLAINTEXT://127.0.0.1:0"}, data_dir=tmp_path).start()
    assert set(threading.enumerate()) <= threads


def test_a_start_that_waits_for_its_controller_can_be_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(data_dir=tmp_path)

    def startup(_: object) -> "Future[None]":
        assert broker._server is not None
        broker._server.interrupt_start()
        return Future()

    monkeypatch.setattr(kafka_server, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(kafka_server.KafkaController, "startup", startup)
    with pytest.raises(StartInterruptedError):
        broker.start()


@pytest.mark.medium
def test_a_controller_epoch_without_a_successor_is_one_line(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path):
        pass
    (path,) = tmp_path.rglob("metadata.sqlite")
    with contextlib.closing(sqlite3.connect(path)) as store, store:
        store.execute("UPDATE node SET data = ? WHERE name = 'controller_epoch'", (b"2147483647",))
    with pytest.raises(StartError, match=r"^The /controller_epoch node cannot be read: [^\n]*$"):
        Broker(data_dir=tmp_path).start()


@pytest.mark.medium
def test_a_damaged_metadata_store_is_one_line(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path):
        pass
    (path,) = tmp_path.rglob("metadata.sqlite")
    with path.open("r+b") as file:
        for page in range(1, path.stat().st_size // 4096):
            file.seek(page * 4096)
            file.write(b"\xff" * 16)
    with pytest.raises(StartError, match=r"^[^\n]*metadata store [^\n]*metadata\.sqlite[^\n]*: database disk image is malformed$"):
        Broker(data_dir=tmp_path).start()
