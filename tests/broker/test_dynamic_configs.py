"""Settings changed while the broker runs, in the metadata store as Kafka's own tools write them there."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker.running import Running, run
from tests.support.eventually import WAIT_S, eventually
from twisted_kafka.broker.broker import Broker
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.metadata.znodes import DEFAULT_ENTITY
from twisted_kafka.system import machine


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with run({"num.network.threads": "2", "broker.id": "3"}, tmp_path) as running:
        yield running


def test_network_threads_of_all_and_of_one_listener(running: Running) -> None:
    prefix = "data-plane-kafka-network-thread-3-"
    assert running.threads(prefix) == 2
    running.write({"num.network.threads": "4"}, DEFAULT_ENTITY)
    eventually(lambda: running.threads(prefix) == 4)
    running.write({"listener.name.plaintext.num.network.threads": "3"})
    eventually(lambda: running.threads(prefix) == 3)
    assert running.ask(running.port("PLAINTEXT")) == b"\0\0\0\7"
    running.write({})
    running.write({}, DEFAULT_ENTITY)
    eventually(lambda: running.threads(prefix) == 2)


def test_more_threads_than_twice_as_many_are_refused(running: Running) -> None:
    dynamic = running.broker._server.dynamic
    assert dynamic is not None
    for settings, what, why in (
        ({"num.network.threads": "5"}, "5 for num.network.threads", "not be greater than double the current value 2"),
        ({"background.threads": "4"}, "4 for background.threads", "be at least half the current value 10"),
        (
            {"listener.name.plaintext.num.network.threads": "9"},
            "9 for listener.name.plaintext.num.network.threads",
            "not be greater than double the current value 2",
        ),
    ):
        with pytest.raises(ConfigError) as refused:
            dynamic.validate(settings, per_broker=True)
        assert str(refused.value) == f"Invalid value {what}: Dynamic thread count update validation failed, value should {why}"


def test_a_listener_comes_with_its_address_and_goes(running: Running) -> None:
    first = running.port("PLAINTEXT")
    running.write(
        {
            "listeners": "PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:0",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
        }
    )
    eventually(lambda: len(running.broker.listeners) == 2)
    assert running.port("PLAINTEXT") == first
    assert running.ask(running.port("OTHER")) == b"\0\0\0\7"
    metadata = running.broker._server.metadata
    assert metadata is not None
    eventually(lambda: [node.port for node in metadata.snapshot.nodes("OTHER")] == [running.port("OTHER")])
    running.write({})
    eventually(lambda: len(running.broker.listeners) == 1)
    eventually(lambda: not metadata.snapshot.nodes("OTHER"))
    assert running.ask(first) == b"\0\0\0\7"


def test_an_advertised_address_is_told_to_clients(running: Running) -> None:
    running.write({"advertised.listeners": "PLAINTEXT://elsewhere.example:1234"})
    metadata = running.broker._server.metadata
    assert metadata is not None
    eventually(lambda: [(node.host, node.port) for node in metadata.snapshot.nodes("PLAINTEXT")] == [("elsewhere.example", 1234)])


def test_connection_limits(running: Running) -> None:
    port = running.port("PLAINTEXT")
    running.write({"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.2:5"}, DEFAULT_ENTITY)
    eventually(lambda: _is_refused(running, port))
    running.write({"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:5"}, DEFAULT_ENTITY)
    eventually(lambda: not _is_refused(running, port))


def _is_refused(running: Running, port: int) -> bool:
    try:
        return running.ask(port) == b""
    except ConnectionResetError:
        return True


def test_a_name_server_that_hangs_keeps_no_watch_waiting(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, hang = threading.Event(), threading.Event()
    look_up = socket.getaddrinfo

    def slow(host: str, *arguments: Any, **options: Any) -> Any:
        if host != "slow.example":
            return look_up(host, *arguments, **options)
        if options.get("flags") == socket.AI_NUMERICHOST:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        asked.set()
        hang.wait(60)
        return look_up("127.0.0.1", *arguments, **options)

    monkeypatch.setattr(machine, "getaddrinfo", slow)
    try:
        running.configs.write("ips/slow.example", {"connection_creation_rate": "5"})
        running.write({"max.connections.per.ip.overrides": "slow.example:5"}, DEFAULT_ENTITY)
        assert asked.wait(WAIT_S)
        came = threading.Event()
        running.store.watch("/watched", lambda _: came.set())
        running.store.create("/watched")
        assert came.wait(WAIT_S)
    finally:
        hang.set()


def test_a_main_reactor_that_is_busy_keeps_no_watch_waiting(running: Running) -> None:
    main = running.broker._main
    assert main is not None
    blocked, release = threading.Event(), threading.Event()

    def block() -> None:
        blocked.set()
        release.wait(60)

    main.reactor.callFromThread(block)
    assert blocked.wait(WAIT_S)
    try:
        running.write({"num.network.threads": "4"}, DEFAULT_ENTITY)
        came = threading.Event()
        running.store.watch("/watched", lambda _: came.set())
        running.store.create("/watched")
        assert came.wait(WAIT_S)
    finally:
        release.set()
    eventually(lambda: running.threads("data-plane-kafka-network-thread-3-") == 4)


def test_defaults_of_topics(running: Running) -> None:
    logs = running.broker._server.logs
    assert logs is not None
    running.write({"message.max.bytes": "2222", "log.retention.ms": "5000"}, DEFAULT_ENTITY)
    eventually(lambda: logs.topic_config("anything").max_message_bytes == 2222)
    assert logs.topic_config("anything").retention_ms == 5000
    running.write({"message.max.bytes": "3333"})
    eventually(lambda: logs.topic_config("anything").max_message_bytes == 3333)


@pytest.mark.medium
def test_settings_of_the_last_run_count_from_the_start(tmp_path: Path) -> None:
    with Broker({"broker.id": "3"}, data_dir=tmp_path) as broker:
        running = Running(broker)
        running.write({"num.network.threads": "2"})
        running.write({"max.connections": "77"}, DEFAULT_ENTITY)
    with run({"broker.id": "3"}, tmp_path) as running:
        assert running.broker.config.int("num.network.threads") == 2
        assert running.broker.config.int("max.connections") == 77
        assert running.threads("data-plane-kafka-network-thread-3-") == 2


@pytest.mark.medium
def test_passwords_lie_encrypted_and_follow_a_change_of_the_secret(tmp_path: Path) -> None:
    key = "listener.name.plaintext.ssl.keystore.password"
    with Broker({"broker.id": "3", "password.encoder.secret": "first"}, data_dir=tmp_path) as broker:
        running = Running(broker)
        dynamic = broker._server.dynamic
        assert dynamic is not None
        stored = dynamic.stored({key: "open sesame", "max.connections": "9"})
        assert stored["max.connections"] == "9"
        assert "sesame" not in stored[key]
        running.write(stored)
        eventually(lambda: broker.config.prefixed(key) == "open sesame")
    changed = {"broker.id": "3", "password.encoder.secret": "second", "password.encoder.old.secret": "first"}
    with Broker(changed, data_dir=tmp_path) as broker:
        assert broker.config.prefixed(key) == "open sesame"
    del changed["password.encoder.old.secret"]
    with Broker(changed, data_dir=tmp_path) as broker:
        assert broker.config.prefixed(key) == "open sesame"


def test_handlers(running: Running) -> None:
    running.write({"num.io.threads": "7"})
    eventually(lambda: running.broker.config.int("num.io.threads") == 7)
    prefix = "data-plane-kafka-request-handler-"
    eventually(lambda: running.threads(prefix) == 7)
    running.write({})
    eventually(lambda: running.threads(prefix) == running.broker.config.default("num.io.threads"))
    assert running.ask(running.port("PLAINTEXT")) == b"\0\0\0\7"


def test_a_new_listener_is_refused_that_could_not_work(running: Running) -> None:
    dynamic = running.broker._server.dynamic
    assert dynamic is not None
    new = {
        "listeners": "PLAINTEXT://127.0.0.1:0,NEW://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,NEW:SSL",
    }
    with pytest.raises(ConfigError, match="keystore"):
        dynamic.validate(new, per_broker=True)


@pytest.mark.medium
def test_a_broker_starts_without_the_stored_settings_of_a_listener_that_cannot_work(tmp_path: Path) -> None:
    with run({"broker.id": "3"}, tmp_path) as running:
        running.write(
            {
                "num.io.threads": "5",
                "listeners": "PLAINTEXT://127.0.0.1:0,NEW://127.0.0.1:0",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,NEW:PLAINTEXT",
                "listener.name.new.principal.builder.class": "os.abort",
            }
        )
    with run({"broker.id": "3"}, tmp_path) as running:
        assert running.broker.config.int("num.io.threads") == 5
        assert [each.listener_name for each in running.broker.listeners] == ["PLAINTEXT", "NEW"]
