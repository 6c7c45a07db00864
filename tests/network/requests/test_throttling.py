"""Muting by throttling, through the request channel, as quotas will use it."""

import pytest

from tests.support.network_fakes import FakeTransport, Layer, frame
from twisted_kafka.network.connection.channel import KafkaChannel
from twisted_kafka.network.connection.channel_state import CLOSED, MUTED_AND_THROTTLED, NOT_MUTED
from twisted_kafka.network.requests.request import Request


def throttled(layer: Layer) -> tuple[KafkaChannel, FakeTransport, Request]:
    channel, transport = layer.connect()
    channel.dataReceived(frame(1) + frame(2))
    request = layer.take()
    assert request is not None
    layer.channel.start_throttling(request)
    return channel, transport, request


def test_answer_is_sent_at_once_and_the_next_request_waits_for_the_end() -> None:
    layer = Layer()
    channel, transport, request = throttled(layer)
    answer = layer.answer(request)
    assert transport.written == answer
    assert channel.state == MUTED_AND_THROTTLED
    assert layer.take() is None
    layer.channel.end_throttling(request)
    layer.reactor.run_asked()
    second = layer.take()
    assert second is not None
    layer.answer(second)
    assert channel.state == NOT_MUTED
    assert len(layer.observer.completed) == 2


def test_throttling_may_end_before_the_answer() -> None:
    layer = Layer()
    channel, _, request = throttled(layer)
    layer.channel.end_throttling(request)
    layer.reactor.run_asked()
    assert layer.take() is None
    layer.answer(request)
    second = layer.take()
    assert second is not None
    layer.answer(second)
    assert channel.state == NOT_MUTED


def test_throttled_channel_reads_no_further_than_a_muted_one() -> None:
    layer = Layer()
    _, transport, request = throttled(layer)
    layer.answer(request)
    for number in range(200):
        if not transport.is_reading:
            break
        transport.read(frame(number, b"x" * 1000))
    assert not transport.is_reading
    layer.channel.end_throttling(request)
    layer.reactor.run_asked()
    while (further := layer.take()) is not None:
        layer.answer(further)
    assert transport.is_reading


def test_client_that_leaves_while_it_is_throttled_troubles_nobody() -> None:
    layer = Layer()
    channel, transport, request = throttled(layer)
    layer.answer(request)
    transport.abortConnection()
    layer.channel.end_throttling(request)
    layer.reactor.run_asked()
    assert channel.state == CLOSED
    assert not layer.processor.channels


@pytest.mark.parametrize("kind", ["twice", "end without start"])
def test_what_the_table_does_not_allow_closes_that_connection_only(kind: str) -> None:
    layer = Layer()
    other, other_transport = layer.connect()
    other.dataReceived(frame(9))
    waiting = layer.take()
    assert waiting is not None
    channel, transport = layer.connect()
    channel.dataReceived(frame(1))
    request = layer.take()
    assert request is not None
    if kind == "twice":
        layer.channel.start_throttling(request)
        layer.channel.start_throttling(request)
    else:
        layer.channel.end_throttling(request)
    layer.answer(waiting)
    assert transport.is_closed
    assert other_transport.written
    assert not other_transport.is_closed
