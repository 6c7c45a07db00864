"""Requests to the controller: it is found, lost and found elsewhere, and each request has one answer."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from tests.support.broker_network import LISTENER, cluster
from tests.support.fake import Fake
from twisted_kafka.broker.peers import controller_client
from twisted_kafka.broker.peers.controller_client import RETRY_BACKOFF_MS, ControllerClient
from twisted_kafka.broker.peers.inter_broker_client import StoppedError
from twisted_kafka.client.errors import DisconnectedError
from twisted_kafka.metadata.cache import MetadataCache, Node
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.errors import ErrorCode, RequestTimedOutError, UnsupportedVersionError
from twisted_kafka.protocol.messages.controller import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from twisted_kafka.timing.clock import ManualClock
from twisted_kafka.timing.timer import Timer

TIMEOUT_MS = 1_000
REQUEST = AllocateProducerIdsRequest(broker_id=1)


class World(Fake):
    """Broker 1, which asks a controller; the test is the network."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.retries = Timer(self.clock)
        self.metadata = MetadataCache(1)
        self.sent: list[tuple[int, Message, int | None, Future[Any]]] = []
        self.client = ControllerClient(self, self.metadata, LISTENER, self.retries, self.clock, TIMEOUT_MS)

    def send(self, node: Node, request: Message, latest_version: int | None = None) -> "Future[Any]":
        future: Future[Any] = Future()
        self.sent.append((node.id, request, latest_version, future))
        return future

    def has_controller(self, broker_id: int, *alive: int) -> None:
        update = cluster({}, *(alive or (1, 2, 3)))
        update.controller_id = broker_id
        self.metadata.apply(update)

    def answer(self, broker_id: int, with_: Callable[["Future[Any]"], None]) -> None:
        ((asked, _, _, future),) = self.sent
        assert asked == broker_id
        self.sent.clear()
        with_(future)

    def later(self) -> None:
        self.clock.advance_ms(RETRY_BACKOFF_MS)
        self.retries.expire_due()


@pytest.fixture
def world() -> World:
    return World()


def response(error: int = 0) -> Callable[["Future[Any]"], None]:
    return lambda future: future.set_result(AllocateProducerIdsResponse(error_code=error))


def lost(future: "Future[Any]") -> None:
    future.set_exception(DisconnectedError("lost"))


def test_the_controller_answers(world: World) -> None:
    world.has_controller(3)
    answer = world.client.send(REQUEST, latest_version=0)
    assert [(asked, request, latest) for asked, request, latest, _ in world.sent] == [(3, REQUEST, 0)]
    assert not answer.done()
    world.answer(3, response(ErrorCode.STALE_BROKER_EPOCH))
    assert answer.result(0) == AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)


def test_a_request_waits_until_there_is_a_controller(world: World) -> None:
    answer = world.client.send(REQUEST)
    world.has_controller(3, 1, 2)  # it is not alive
    world.later()
    assert not world.sent
    world.has_controller(2)
    world.later()
    world.answer(2, response())
    assert answer.result(0) == AllocateProducerIdsResponse()


@pytest.mark.parametrize("refuse", [response(ErrorCode.NOT_CONTROLLER), lost])
def test_it_is_sent_to_the_next_controller(world: World, refuse: Callable[["Future[Any]"], None]) -> None:
    world.has_controller(2)
    answer = world.client.send(REQUEST)
    world.answer(2, refuse)
    assert not world.sent
    world.has_controller(3)
    world.later()
    world.answer(3, response())
    assert answer.result(0) == AllocateProducerIdsResponse()


def test_nobody_answers_in_time(world: World) -> None:
    world.has_controller(2)
    answer = world.client.send(REQUEST)
    attempts = 0
    while world.sent:
        attempts += 1
        world.answer(2, lost)
        world.later()
    assert attempts == TIMEOUT_MS // RETRY_BACKOFF_MS + 1
    with pytest.raises(RequestTimedOutError, match="did not answer within 1000 ms: lost"):
        answer.result(0)


def test_what_another_attempt_does_not_change_fails_at_once(world: World) -> None:
    world.has_controller(2)
    answer = world.client.send(REQUEST)
    world.answer(2, lambda future: future.set_exception(UnsupportedVersionError("too old")))
    with pytest.raises(UnsupportedVersionError):
        answer.result(0)


@pytest.mark.parametrize("is_sent", [True, False])
def test_stopping_fails_what_waits(world: World, is_sent: bool) -> None:
    if is_sent:
        world.has_controller(2)
    answer = world.client.send(REQUEST)
    world.client.stop()
    for each in (answer, world.client.send(REQUEST)):
        with pytest.raises(StoppedError):
            each.result(0)
    if is_sent:
        world.answer(2, response())  # too late, and harmless
    else:
        world.has_controller(2)
        world.later()
        assert not world.sent


def test_so_many_wait_and_no_more(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_client, "MAX_WAITING", 1)
    world.has_controller(2)
    first = world.client.send(REQUEST)
    with pytest.raises(controller_client.TooManyWaitingError):
        world.client.send(REQUEST).result(0)
    world.answer(2, response())
    assert first.done()
    assert not world.client.send(REQUEST).done()
