"""The end of a request in an Envelope that a quota holds back, without threads."""

from concurrent.futures import Future
from functools import partial
from typing import cast

import pytest

from tests.server.apis.brokers.test_envelope import ENDS, envelope
from twisted_kafka.network.requests.request import Request
from twisted_kafka.network.requests.request_channel import RequestChannel
from twisted_kafka.network.requests.request_context import ConnectionInfo, RequestContext
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.messages.controller import EnvelopeResponse
from twisted_kafka.quota.throttled_channels import ThrottledChannels
from twisted_kafka.server.apis.brokers.envelope import EnvelopeApis
from twisted_kafka.server.authorization import NoAuthorization
from twisted_kafka.server.inner_requests import InnerRequests, Serving
from twisted_kafka.timing.clock import ManualClock
from twisted_kafka.timing.timer import Timer


class Allowing(NoAuthorization):
    """Allows everything, as an authorizer."""

    enforces = True


class Handler:
    """Takes requests from the queue when a test says so."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.channel = RequestChannel(10, self.clock)
        self._parker = self.channel.add_handler()
        self.completed: list[Request] = []
        make_inner = partial(InnerRequests, Serving(self.channel, [self], self.clock))
        self._apis = EnvelopeApis(make_inner, lambda: "INTERNAL", Allowing())
        self.context = RequestContext(ApiKey.ENVELOPE, 0, 1, "b", ConnectionInfo("1", "INTERNAL", "PLAINTEXT", "192.0.2.9"))

    def request_completed(self, request: Request) -> None:
        self.completed.append(request)

    def envelope(self) -> "Future[EnvelopeResponse]":
        return cast("Future[EnvelopeResponse]", self._apis.envelope(self.context, envelope(ENDS, 7)))

    def take(self) -> Request:
        found = self.channel.receive(self._parker, 0)
        assert isinstance(found, Request)
        return found

    def answer(self, request: Request) -> None:
        self.channel.send_response(request, [b"\0\0\0\4body"], 8)


@pytest.fixture
def handler() -> Handler:
    return Handler()


def test_a_quota_holds_an_envelope_back_only_for_its_time(handler: Handler) -> None:
    timer = Timer(handler.clock)
    throttled = ThrottledChannels(handler.clock, timer)
    future = handler.envelope()
    request = handler.take()
    throttled.throttle(handler.channel, request, 100)
    handler.answer(request)
    throttled.forget_closed()
    assert not future.done()
    handler.clock.advance_ms(200)
    timer.expire_due()
    assert future.result(0).response_data == b"body"
