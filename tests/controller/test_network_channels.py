"""The controller's channels to other brokers: in order, again until they answer, and nothing of a broker that is gone."""

from concurrent.futures import Future
from typing import Any

import pytest

from twisted_kafka.client.errors import DisconnectedError
from twisted_kafka.controller.channels import network_channels
from twisted_kafka.controller.channels.network_channels import RETRY_BACKOFF_MS, NetworkChannels
from twisted_kafka.controller.channels.own_broker import ControlClients
from twisted_kafka.metadata.cache import Node
from twisted_kafka.metadata.znodes import BrokerNode
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.inter_broker import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopicState,
)
from twisted_kafka.timing.clock import ManualClock
from twisted_kafka.timing.timer import Timer

LISTENER = "INSIDE"
OWN = Node(1, "", 0, None)
TYPE = "ControllerChannelManager"
LATEST: dict[type[Message], int] = {LeaderAndIsrRequest: 5, UpdateMetadataRequest: 7, StopReplicaRequest: 3}


def node(port: int = 9092, listener: str = LISTENER) -> BrokerNode:
    return BrokerNode([f"OUTSIDE://public:{port}", f"{listener}://[::1]:{port}"], {}, 0)


class Control:
    """The controller's own broker."""

    def __init__(self) -> None:
        self.carried_out: list[int] = []
        self.error: Exception | None = None

    def leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        if self.error is not None:
            raise self.error
        self.carried_out.append(request.controller_epoch)
        return LeaderAndIsrResponse()

    def stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse:
        if self.error is not None:
            raise self.error
        return StopReplicaResponse()

    def update_metadata(self, request: UpdateMetadataRequest) -> bool:
        if self.error is not None:
            raise self.error
        return request.controller_epoch > 0


class World:
    """Broker 1 with the controller, brokers 2 and 3, and the controller's channels to them."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.retries = Timer(self.clock)
        self.metrics = MetricsRegistry(self.clock)
        self.sent: list[tuple[Node, Any, int, Future[Any]]] = []
        self.disconnected: list[int] = []
        self.control = Control()
        self.clients = ControlClients(OWN.id, self.control, self, threaded=False)
        self.channels = NetworkChannels(self.clients, LATEST, OWN, LISTENER, self.retries, self.clock, self.metrics)
        self.answers: list[Any] = []
        self.channels.add_broker(1, node(listener="ELSE"))
        for broker_id in (2, 3):
            self.channels.add_broker(broker_id, node())

    def send(self, node: Node, request: Any, latest_version: int) -> "Future[Any]":
        future: Future[Any] = Future()
        self.sent.append((node, request.request, latest_version, future))
        return future

    def disconnect(self, broker_id: int) -> None:
        self.disconnected.append(broker_id)

    def order(self, broker_id: int, epoch: int) -> None:
        self.channels.send(broker_id, LeaderAndIsrRequest(controller_epoch=epoch), self.answers.append)

    def take(self) -> tuple[int, int, "Future[Any]"]:
        """The only request in flight: its broker, epoch, and the future of its response."""
        ((to, request, _, future),) = self.sent
        self.sent.clear()
        return to.id, request.controller_epoch, future

    def later(self) -> None:
        self.clock.advance_ms(RETRY_BACKOFF_MS)
        self.retries.expire_due()


@pytest.fixture
def world() -> World:
    return World()


def test_a_request_goes_to_the_listener_in_a_version_that_brokers_speak(world: World) -> None:
    world.order(2, 7)
    ((to, request, latest, _),) = world.sent
    assert (to, latest) == (Node(2, "::1", 9092, None), 5)
    assert request == LeaderAndIsrRequest(controller_epoch=7)


def test_one_request_is_in_flight_for_each_broker(world: World) -> None:
    for epoch in (1, 2):
        world.order(2, epoch)
    broker, epoch, future = world.take()
    assert (broker, epoch) == (2, 1)
    world.order(3, 3)
    assert world.take()[:2] == (3, 3)  # no broker waits for another
    future.set_result(LeaderAndIsrResponse(error_code=11))
    assert world.answers == [LeaderAndIsrResponse(error_code=11)]
    assert world.take()[:2] == (2, 2)


def test_a_callback_that_fails_does_not_keep_the_next_request(world: World, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_response: object) -> None:
        raise RuntimeError("the callback is broken")

    world.channels.send(2, LeaderAndIsrRequest(controller_epoch=1), fail)
    world.order(2, 2)
    world.take()[2].set_result(LeaderAndIsrResponse())
    assert world.take()[:2] == (2, 2)
    assert "the callback is broken" in caplog.text


def test_it_is_sent_again_before_what_comes_behind_it(world: World) -> None:
    for epoch in (1, 2):
        world.order(2, epoch)
    for _ in range(3):
        broker, epoch, future = world.take()
        assert (broker, epoch) == (2, 1)
        future.set_exception(DisconnectedError("lost"))
        assert not world.sent
        world.later()
    world.take()[2].set_result(LeaderAndIsrResponse())
    assert len(world.answers) == 1
    assert world.take()[:2] == (2, 2)


def test_nothing_comes_of_a_broker_that_is_gone(world: World) -> None:
    for epoch in (1, 2):
        world.order(2, epoch)
    _, _, future = world.take()
    world.channels.remove_broker(2)
    assert world.disconnected == [2]
    future.set_result(LeaderAndIsrResponse())
    assert (world.answers, world.sent) == ([], [])
    world.order(2, 3)
    assert not world.sent


def test_nothing_is_sent_again_to_a_broker_that_is_gone_even_if_it_is_back(world: World) -> None:
    world.order(2, 1)
    _, _, future = world.take()
    world.channels.remove_broker(2)
    world.channels.add_broker(2, node())
    future.set_exception(DisconnectedError("closed"))
    world.later()
    assert not world.sent
    world.order(2, 2)
    assert world.take()[:2] == (2, 2)


def test_removing_all_drops_all(world: World) -> None:
    world.channels.remove_all()
    world.order(2, 1)
    assert (world.sent, sorted(world.disconnected)) == ([], [2, 3])


def test_a_broker_that_moves_gets_what_was_in_flight_at_its_new_address(world: World) -> None:
    world.order(2, 1)
    _, _, future = world.take()
    world.channels.add_broker(2, node(9093))
    assert world.disconnected == [2]
    future.set_exception(DisconnectedError("closed"))
    world.later()
    ((to, _, _, _),) = world.sent
    assert to.port == 9093


def test_a_broker_without_the_listener_is_waited_for(world: World) -> None:
    world.channels.add_broker(4, node(listener="OTHER"))
    world.order(4, 1)
    assert not world.sent
    world.channels.add_broker(4, node())
    world.later()
    assert world.take()[:2] == (4, 1)


def test_a_broker_that_never_answers_is_told_anew(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_channels, "MAX_QUEUED", 2)
    told: list[int] = []
    world.channels.set_overflow_listener(told.append)
    for epoch in (1, 2, 3):
        world.order(2, epoch)
    assert not told
    world.order(2, 4)
    assert told == [2]
    world.take()[2].set_result(LeaderAndIsrResponse())
    assert not world.sent
    world.order(2, 5)
    assert world.take()[:2] == (2, 5)


def test_a_broker_that_never_answers_holds_no_more_states_than_it_may(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request has the states of any number of partitions."""
    monkeypatch.setattr(network_channels, "MAX_QUEUED_STATES", 100)
    told: list[int] = []
    world.channels.set_overflow_listener(told.append)

    def send(partitions: int) -> None:
        states = [UpdateMetadataPartitionState(partition_index=index) for index in range(partitions)]
        world.channels.send(
            2, UpdateMetadataRequest(topic_states=[UpdateMetadataTopicState(topic_name="t", partition_states=states)]), None
        )

    send(1)  # in flight
    for _ in range(10):
        send(10)
    assert not told
    send(10)
    assert told == [2]
    for _ in range(4):
        send(1_000)  # the whole state of a large cluster, more than once
    assert told == [2]
    send(1)
    assert told == [2, 2]
    send(1)
    assert told == [2, 2]


def test_the_metrics_are_kafkas(world: World) -> None:
    for epoch in (1, 2, 3):
        world.order(2, epoch)
    world.channels.send(3, UpdateMetadataRequest(), None)
    tags = {"broker-id": 2}
    assert world.metrics.value(TYPE, "QueueSize", **tags) == 2
    assert world.metrics.value(TYPE, "TotalQueueSize") == 2
    assert world.metrics.value(TYPE, "RequestRateAndQueueTimeMs", **tags) == 1
    world.channels.remove_broker(2)
    assert world.metrics.value(TYPE, "QueueSize", **tags) is None
    assert world.metrics.value(TYPE, "RequestRateAndQueueTimeMs", **tags) is None


def test_a_refusal_does_not_keep_the_next_request(world: World) -> None:
    world.channels.send(2, UpdateMetadataRequest(controller_epoch=1), None)
    world.order(2, 2)
    world.take()[2].set_result(UpdateMetadataResponse(error_code=77))
    assert world.take()[:2] == (2, 2)


def test_the_own_broker_is_one_like_the_others(world: World) -> None:
    for epoch in (1, 2):
        world.order(1, epoch)
    assert (world.control.carried_out, world.answers) == ([], []), "its disk may hang: nothing waits for it"
    world.order(2, 3)
    assert world.take()[:2] == (2, 3)
    assert world.metrics.value(TYPE, "QueueSize", **{"broker-id": 1}) == 1
    world.clients.pump()
    assert world.control.carried_out == [1, 2]
    assert world.answers == [LeaderAndIsrResponse()] * 2
    assert not world.sent
    world.clients.stop()


def test_what_goes_wrong_in_the_own_broker_is_an_error_response(world: World) -> None:
    world.control.error = OSError("full")
    for request in (LeaderAndIsrRequest(), StopReplicaRequest(), UpdateMetadataRequest(controller_epoch=1)):
        world.channels.send(1, request, world.answers.append)
    world.clients.pump()
    assert [each.error_code for each in world.answers] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 3


def test_the_own_broker_says_which_metadata_are_stale(world: World) -> None:
    for epoch in (0, 1):
        world.channels.send(1, UpdateMetadataRequest(controller_epoch=epoch), world.answers.append)
    world.clients.pump()
    assert [each.error_code for each in world.answers] == [ErrorCode.STALE_CONTROLLER_EPOCH, ErrorCode.NONE]


def test_nothing_of_a_former_term_is_carried_out(world: World) -> None:
    world.order(1, 1)
    world.order(1, 2)
    drained = world.channels.drained(1)
    world.channels.remove_all()
    assert drained.done()
    world.clients.pump()
    assert (world.control.carried_out, world.answers) == ([1], []), "what had begun ends, and nobody hears of it"


@pytest.mark.parametrize("broker_id", [1, 9])
def test_a_start_waits_for_what_its_controller_has_decided(world: World, broker_id: int) -> None:
    world.order(1, 1)
    drained = world.channels.drained(broker_id)
    assert drained.done() == (broker_id == 9), "there is no broker 9"
    world.clients.pump()
    assert drained.done()
    assert world.channels.drained(1).done()


@pytest.mark.medium
def test_very_many_may_wait_for_an_answer() -> None:
    world = World()
    world.order(2, 1)
    drained = [world.channels.drained(2) for _ in range(5_000)]
    assert not any(each.done() for each in drained)
    world.sent[0][3].set_result(LeaderAndIsrResponse())
    assert all(each.done() for each in drained)
    world.order(2, 2)
    assert len(world.sent) == 2
