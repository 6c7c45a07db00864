"""The preparation of a console for its first look, with the clock turned by hand."""

from concurrent.futures import Future
from typing import Any

import pytest
from twisted.logger import capturedLogs

from tests.console.web.served import Reactor
from tests.support.fake import Fake
from twisted_kafka.console.web import rendering
from twisted_kafka.console.web.warm_up import DELAY_S, WarmUp, compiled_messages
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.messages.coordinators.groups import ListGroupsRequest, ListGroupsResponse


class Pool(Fake):
    def __init__(self) -> None:
        self.calls = 0

    def submit(self, call: Any) -> "Future[Any]":
        self.calls += 1
        future: Future[Any] = Future()
        try:
            future.set_result(call())
        except Exception as error:  # noqa: BLE001 as a pool does
            future.set_exception(error)
        return future


@pytest.fixture
def reactor() -> Reactor:
    return Reactor()  # type: ignore[no-untyped-call]


def test_pieces_are_done_one_after_the_other_and_then_nothing_runs(reactor: Reactor) -> None:
    done: list[int] = []
    pool = Pool()
    WarmUp(reactor, pool.submit, (done.append(number) for number in range(3))).start()
    reactor.advance(DELAY_S / 2)
    assert done == []
    reactor.pump([1] * 10)
    assert done == [0, 1, 2]
    assert pool.calls == 4
    assert reactor.getDelayedCalls() == []


def test_a_stop_ends_it(reactor: Reactor) -> None:
    done: list[int] = []
    warm_up = WarmUp(reactor, Pool().submit, (done.append(number) for number in range(3)))
    warm_up.start()
    reactor.advance(DELAY_S)
    warm_up.stop()
    reactor.pump([1] * 10)
    assert done == [0]
    assert reactor.getDelayedCalls() == []


def test_a_failure_is_logged_and_ends_it(reactor: Reactor) -> None:
    with capturedLogs() as events:
        WarmUp(reactor, Pool().submit, (1 // number for number in range(3))).start()
        reactor.pump([1] * 10)
    assert [each["log_format"] for each in events] == ["The console could not be prepared for its first look"]
    assert reactor.getDelayedCalls() == []


def test_every_template_and_the_messages_of_pages_are_compiled() -> None:
    assert "overview.html" in list(rendering.compiled())
    assert list(compiled_messages({int(ApiKey.LIST_GROUPS): (0, 3)})) == ["ListGroups"]
    assert {3} <= ListGroupsRequest.ENCODERS.keys() & ListGroupsResponse.DECODERS.keys()
