import os
import threading
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import pytest

from tests.support.client_harness import NODE, Attempt, FakeConnector
from tests.support.network_fakes import lines_of
from twisted_kafka.client.blocking import BlockingNetworkClient
from twisted_kafka.client.client_settings import ClientSettings
from twisted_kafka.client.errors import ClientClosedError
from twisted_kafka.client.network_client import NetworkClient
from twisted_kafka.protocol.messages.coordinators.groups import HeartbeatRequest
from twisted_kafka.timing.clock import SystemClock


def make_client() -> BlockingNetworkClient:
    settings = ClientSettings(client_id="me", discover_versions=False)
    return BlockingNetworkClient("test-client", lambda reactor: NetworkClient(reactor, FakeConnector(), settings), SystemClock())


def request() -> HeartbeatRequest:
    return HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def assert_closed(future: "Future[Any]") -> None:
    assert wait([future], 10).done
    assert isinstance(future.exception(), ClientClosedError)


def test_nothing_waits_for_a_client_that_was_stopped() -> None:
    client = make_client()
    assert_closed(client.send(NODE, request()))  # not started yet
    client.start()
    under_way = client.send(NODE, request())
    client.stop()
    assert_closed(under_way)
    assert_closed(client.send(NODE, request()))


def test_requests_are_told_of_a_stop_before_the_loop_loses_their_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    client = make_client()
    is_running: list[bool] = []
    close = client._client.close

    def note_and_close() -> None:
        is_running.append(client._reactor.running)
        close()

    monkeypatch.setattr(client._client, "close", note_and_close)
    client.start()
    client.stop()
    assert is_running == [True, False]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="only Linux shows the descriptors")
def test_nothing_is_left_of_a_client_that_was_stopped() -> None:
    before = set(os.listdir("/proc/self/fd"))
    client = make_client()
    client.start()
    client.stop()
    client.stop()
    assert set(os.listdir("/proc/self/fd")) <= before


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="only Linux shows the descriptors")
def test_nothing_is_left_of_a_client_that_cannot_be_made() -> None:
    def fail(_: object) -> NetworkClient:
        raise ValueError("no certificates")

    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(ValueError, match="no certificates"):
        BlockingNetworkClient("test-client", fail, SystemClock())
    assert set(os.listdir("/proc/self/fd")) <= before


def test_nothing_goes_wrong_from_the_start_to_the_stop() -> None:
    client = make_client()

    def run() -> None:
        client.start()
        assert [thread.daemon for thread in threading.enumerate() if thread.name == "test-client"] == [True]
        client.stop()

    assert lines_of(run) == []


def test_a_request_that_is_cancelled_is_not_sent_any_more() -> None:
    connector = FakeConnector()
    settings = ClientSettings(client_id="me", discover_versions=False)
    client = BlockingNetworkClient("test-client", lambda reactor: NetworkClient(reactor, connector, settings), SystemClock())
    client.start()
    cancelled, wanted = client.send(NODE, request()), client.send(NODE, request())
    waiting: Future[Attempt] = Future()
    client._reactor.callFromThread(lambda: waiting.set_result(connector.attempts[0]))
    attempt = waiting.result(30)
    assert cancelled.cancel()
    sent: Future[int] = Future()
    client._reactor.callFromThread(lambda: sent.set_result(len(attempt.succeed().requests())))
    assert sent.result(30) == 1
    client.stop()
    assert_closed(wanted)


def test_nothing_waits_for_a_client_whose_thread_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    client = make_client()
    client.start()
    under_way = client.send(NODE, request())

    handed_over: list[Future[Any]] = []

    def fail(_: object) -> None:
        handed_over.append(client.send(NODE, request()))
        raise SystemError("injected")

    monkeypatch.setattr(client._reactor, "doIteration", fail)
    late = client.send(NODE, request())
    client._thread.join(30)
    assert not client._thread.is_alive()
    assert_closed(under_way)
    assert_closed(late)
    for future in handed_over:
        assert_closed(future)
    assert_closed(client.send(NODE, request()))
    client.stop()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="only Linux shows the descriptors")
def test_nothing_is_left_of_a_client_whose_thread_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(os.listdir("/proc/self/fd"))
    client = make_client()

    def fail(_: object) -> None:
        raise SystemError("injected")

    monkeypatch.setattr(client._reactor, "doIteration", fail)
    client.start()
    client._thread.join(30)
    assert not client._thread.is_alive()
    client.stop()
    assert set(os.listdir("/proc/self/fd")) <= before


def test_nothing_waits_for_a_client_whose_thread_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    client = make_client()

    def fail() -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(client._thread, "start", fail)
    with pytest.raises(RuntimeError):
        client.start()
    assert not client.is_running
    assert_closed(client.send(NODE, request()))
    client.stop()


def test_nobody_waits_for_a_request_that_cannot_even_begin() -> None:
    client = make_client()
    client.start()
    future = client.send(NODE, request(), timeout_ms=-1)
    assert isinstance(future.exception(10), AssertionError)
    client.stop()
