import socket
import struct
import threading

import pytest

from tests.support.eventually import WAIT_S, eventually
from twisted_kafka import Broker
from twisted_kafka.broker import broker as broker_module
from twisted_kafka.network.requests.request import Request
from twisted_kafka.protocol.errors import FatalExitError
from twisted_kafka.server.kafka_apis import KafkaApis


def test_a_broker_that_cannot_go_on_stops_once_there_is_a_thread_for_that(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start
    refused: list[threading.Thread] = []

    def limited(self: threading.Thread) -> None:
        if self.name == "kafka-fatal-shutdown" and not refused:
            refused.append(self)
            raise RuntimeError("can't start new thread")
        start(self)

    def fail(self: KafkaApis, request: Request) -> None:
        raise FatalExitError("the disk lies")

    monkeypatch.setattr(broker_module, "STOP_RETRY_S", 0.0)
    monkeypatch.setattr(threading.Thread, "start", limited)
    monkeypatch.setattr(KafkaApis, "handle", fail)
    with Broker() as broker, socket.create_connection(("127.0.0.1", broker.listeners[0].port), timeout=WAIT_S) as client:
        client.sendall(struct.pack(">ihhih", 10, 18, 0, 1, -1))
        eventually(lambda: not broker.is_running)
    assert len(refused) == 1


@pytest.mark.parametrize("error", [FatalExitError, SystemExit])
def test_fatal_error_of_a_handler_is_told_once_and_any_other_is_its_requests(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = KafkaApis.handle

    def fail(self: KafkaApis, request: Request) -> None:
        if request.context.correlation_id == 1:
            raise RuntimeError("of this request")
        if request.context.correlation_id == 2:
            raise error("the disk lies")
        handle(self, request)

    monkeypatch.setattr(KafkaApis, "handle", fail)
    told: list[str] = []
    is_told = threading.Event()

    def on_fatal(why: str) -> None:
        told.append(why)
        is_told.set()

    with Broker(on_fatal=on_fatal) as broker:
        for correlation_id in (1, 2):
            with socket.create_connection(("127.0.0.1", broker.listeners[0].port), timeout=WAIT_S) as client:
                client.sendall(struct.pack(">ihhih", 10, 18, 0, correlation_id, -1))
                if correlation_id == 1:
                    assert client.recv(100) == b""
                    assert not told
                assert correlation_id == 1 or is_told.wait(WAIT_S)
    (line,) = told
    assert line.startswith("Fatal error in data-plane-kafka-request-handler-")
    assert line.endswith(f": {error.__name__}: the disk lies")
