"""How long a console waits for another broker, and what it remembers of one that does not answer."""

from collections.abc import Callable
from concurrent.futures import Future
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import pytest

from tests.support.fake import Fake
from twisted_kafka.client.errors import ConnectError, ResponseTimeoutError
from twisted_kafka.console import actions
from twisted_kafka.console.cluster import producer
from twisted_kafka.console.cluster.in_process import InProcess, KeptResults, LocalBroker
from twisted_kafka.console.cluster.other_brokers import CHANGES, PATIENCE_S, RETRIES_S, SILENT_S, Asker, OtherBrokers
from twisted_kafka.console.cluster.problems import NotNowError, TryAgainError
from twisted_kafka.metadata.cache import Node
from twisted_kafka.network.requests.kafka_principal import ANONYMOUS
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.messages.administration.topics import CreateTopicsRequest
from twisted_kafka.protocol.messages.coordinators.groups import ListGroupsRequest, ListGroupsResponse
from twisted_kafka.timing.clock import ManualClock

LEFT_S = 10.0
ASKER = Asker(ANONYMOUS, "127.0.0.1", "console")


class Cluster(Fake):
    """Other brokers: what they were asked, and what becomes of it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.sent: list[tuple[int, int]] = []
        """Broker and timeout in milliseconds."""
        self.answers: Callable[[int, Future[Any], int], object] = lambda broker, future, _: future.set_result(ListGroupsResponse())
        self.others = OtherBrokers(self.send, lambda each: Node(each, "localhost", 9092, None), self.clock, has_authorizer=False)

    def send(self, node: Node, request: Message, latest: int | None, timeout_ms: int) -> "Future[Any]":
        self.sent.append((node.id, timeout_ms))
        future: Future[Any] = Future()
        self.answers(node.id, future, timeout_ms)
        return future

    def time_out(self, broker: int, future: "Future[Any]", timeout_ms: int) -> None:
        self.clock.advance_ms(timeout_ms)
        future.set_exception(ResponseTimeoutError("no response"))

    def refuse(self, broker: int, future: "Future[Any]", timeout_ms: int) -> None:
        future.set_exception(ConnectError("Connection refused"))

    def ask(self, broker: int = 2, request: Message | None = None) -> Any:
        return self.others.begin(broker, request or ListGroupsRequest(), 4, ASKER, LEFT_S)()


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_a_page_waits_two_seconds_and_the_next_ones_do_not(cluster: Cluster) -> None:
    cluster.answers = cluster.time_out
    for _ in range(3):
        with pytest.raises(NotNowError, match="broker 2 does not answer: no response"):
            cluster.ask()
    assert cluster.sent == [(2, int(PATIENCE_S * 1000))]


def test_one_question_in_some_seconds_finds_out_whether_it_is_back(cluster: Cluster) -> None:
    cluster.answers = cluster.refuse
    with pytest.raises(TryAgainError):
        cluster.ask()
    cluster.clock.advance_ms(int(RETRIES_S * 1000))
    with pytest.raises(NotNowError):
        cluster.ask()
    cluster.clock.advance_ms(int(SILENT_S * 1000))
    waiting = cluster.others
    cluster.answers = lambda *_: None  # the question is under way
    wait = waiting.begin(2, ListGroupsRequest(), 4, ASKER, LEFT_S)
    with pytest.raises(NotNowError, match="Connection refused"):
        cluster.ask()
    assert callable(wait)
    cluster.clock.advance_ms(int(SILENT_S * 1000))
    cluster.answers = lambda broker, future, _: future.set_result(ListGroupsResponse())
    assert cluster.ask().groups == []
    cluster.answers = cluster.refuse
    with pytest.raises(TryAgainError):  # it has answered: this is a first failure again
        cluster.ask()


def test_a_lost_connection_may_be_tried_again_for_a_second(cluster: Cluster) -> None:
    cluster.answers = cluster.refuse
    for _ in range(4):
        with pytest.raises(TryAgainError, match="Connection refused"):
            cluster.ask()
        cluster.clock.advance_ms(240)
    cluster.clock.advance_ms(40)
    with pytest.raises(NotNowError):
        cluster.ask()


def test_one_broker_says_nothing_of_another(cluster: Cluster) -> None:
    cluster.answers = lambda broker, future, timeout_ms: (
        cluster.time_out(broker, future, timeout_ms) if broker == 2 else future.set_result(ListGroupsResponse())
    )
    with pytest.raises(NotNowError):
        cluster.ask(2)
    assert cluster.ask(3).groups == []


def test_a_change_gets_all_the_time_there_is(cluster: Cluster) -> None:
    cluster.ask(2, CreateTopicsRequest())
    assert cluster.sent == [(2, int(LEFT_S * 1000))]


def test_every_request_of_a_change_is_known_as_one() -> None:
    modules = [import_module(f"{actions.__name__}.{each.name}") for each in iter_modules(actions.__path__)]
    sent = {each.__name__: int(each.KEY) for module in (*modules, producer) for each in vars(module).values() if is_request(each)}
    assert {"CreateTopicsRequest", "ProduceRequest"} <= sent.keys()
    assert {key for name, key in sent.items() if not name.startswith("Describe")} == CHANGES


def is_request(each: object) -> bool:
    return isinstance(each, type) and issubclass(each, Message) and each.__name__.endswith("Request")


def test_brokers_are_asked_at_the_same_time(cluster: Cluster) -> None:
    pending: dict[int, Future[Any]] = {}

    def answer_with_the_last(broker: int, future: "Future[Any]", _: int) -> None:
        pending[broker] = future
        if len(pending) == 3:
            pending.pop(3).set_exception(ResponseTimeoutError("no response"))
            for each in pending.values():
                each.set_result(ListGroupsResponse())

    cluster.answers = answer_with_the_last
    served = {int(ApiKey.LIST_GROUPS): (0, 4)}
    serving = Fake()
    broker = LocalBroker(lambda: 1, serving, lambda: served, ("A", "PLAINTEXT"), cluster.others, tuple, KeptResults())
    found = InProcess(broker, ANONYMOUS, "127.0.0.1").ask_each(dict.fromkeys((2, 3, 4), ListGroupsRequest()), None, LEFT_S)
    assert [type(each) for each in found.values()] == [ListGroupsResponse, TryAgainError, ListGroupsResponse]
    assert list(found) == [2, 3, 4]
