"""The end of a request in an Envelope whose client has gone, or whom a quota holds back, without threads."""

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import cast

import pytest

from twisted_kafka.network.requests.request import Request
from twisted_kafka.network.requests.request_channel import CallbackRequest, RequestChannel
from twisted_kafka.network.requests.request_context import ConnectionInfo, RequestContext
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.headers import encode_request_header
from twisted_kafka.protocol.messages.controller import EnvelopeRequest, EnvelopeResponse
from twisted_kafka.protocol.messages.log_data import DefaultPrincipalData
from twisted_kafka.quota.throttled_channels import ThrottledChannels
from twisted_kafka.server.apis.brokers.envelope import EnvelopeApis
from twisted_kafka.server.authorization import NoAuthorization
from twisted_kafka.server.inner_requests import InnerRequests, Serving
from twisted_kafka.timing.clock import ManualClock
from twisted_kafka.timing.timer import Timer

ENVELOPE = EnvelopeRequest(
    request_data=encode_request_header(ApiKey.LIST_GROUPS, 0, 7, "a-console"),
    request_principal=b"\0\0" + DefaultPrincipalData(type="User", name="alice").encode(0),
    client_host_address=bytes([192, 0, 2, 1]),
)


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
        return cast("Future[EnvelopeResponse]", self._apis.envelope(self.context, ENVELOPE))

    def take(self) -> Request:
        found = self.channel.receive(self._parker, 0)
        assert isinstance(found, Request)
        return found

    def call(self) -> None:
        found = self.channel.receive(self._parker, 0)
        assert isinstance(found, CallbackRequest)
        found.function()

    def answer(self, request: Request) -> None:
        self.channel.send_response(request, [b"\0\0\0\4body"], 8)


@pytest.fixture
def handler() -> Handler:
    return Handler()


def gone(handler: Handler) -> None:
    """End the wait of the Envelope, as a processor does after its client has gone."""
    give_up: Callable[[], object] | None = handler.context.give_up
    assert give_up is not None
    handler.channel.send_callback(give_up)
    handler.call()


def test_an_envelope_ends_with_the_wait_of_its_request_after_its_client_has_gone(handler: Handler) -> None:
    future = handler.envelope()
    request = handler.take()
    request.context.give_up = partial(handler.answer, request)  # as a Fetch that waits
    gone(handler)
    handler.call()
    assert future.result(0).response_data == b"body"
    assert handler.completed == [request]


def test_a_request_that_begins_to_wait_later_knows_that_the_client_has_gone(handler: Handler) -> None:
    future = handler.envelope()
    gone(handler)
    request = handler.take()
    assert not request.processor.has_channel(request.context.connection)
    handler.answer(request)
    assert future.result(0).error_code == ErrorCode.NONE


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


def test_no_quota_holds_an_envelope_back_whose_client_has_gone(handler: Handler) -> None:
    throttled = ThrottledChannels(handler.clock, Timer(handler.clock))
    future = handler.envelope()
    request = handler.take()
    throttled.throttle(handler.channel, request, 100)
    handler.answer(request)
    gone(handler)
    assert future.result(0).response_data == b"body"
    throttled.forget_closed()
    assert not len(throttled)
