"""Answers that a client in this process takes as they are."""

from collections.abc import Callable, Sequence

import pytest

from twisted_kafka.network.requests.request_channel import RequestChannel
from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.messages.coordinators.groups import ListGroupsResponse
from twisted_kafka.server.inner_requests import InnerConnection, InnerRequests, Serving, is_handed_over
from twisted_kafka.timing.clock import ManualClock


class Client:
    """A client in this process whose request a handler has answered with an object, but not yet with bytes."""

    def __init__(self) -> None:
        clock = ManualClock()
        self._channel = RequestChannel(10, clock)
        parker = self._channel.add_handler()
        self.connection = InnerConnection("console-1", "INTERNAL", "PLAINTEXT", "127.0.0.1")
        self.connection.answers = {}
        self.inner = InnerRequests(Serving(self._channel, [], clock), self.connection)
        context = RequestContext(ApiKey.LIST_GROUPS, 4, 7, "console", self.connection)
        self.request, self.future = self.inner.queue(context, b"", 0)
        assert self._channel.receive(parker, 0) is self.request
        assert is_handed_over(context, ListGroupsResponse())

    def answer(self) -> None:
        self._channel.send_response(self.request, [b"\0\0\0\4body"], 8)

    def give_up(self) -> None:
        self.inner.give_up(self.request)


@pytest.mark.parametrize("steps", [(Client.answer, Client.give_up), (Client.give_up, Client.answer)])
def test_an_answer_is_not_kept_for_a_client_that_does_not_wait(steps: Sequence[Callable[[Client], None]]) -> None:
    client = Client()
    for step in steps:
        step(client)
    assert client.connection.answers == {}


def test_an_answer_is_kept_for_a_client_that_waits() -> None:
    client = Client()
    client.answer()
    assert client.future.result(0) == b"body"
    assert list(client.connection.answers) == [7]
