"""Faults that hold, drop or ask a function, rules in order, and brokers that freeze, move or are cut off."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from tests.support.budget import first_of
from twisted_kafka.client.one_request import ask
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.messages.coordinators.groups import HeartbeatRequest, HeartbeatResponse
from twisted_kafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from twisted_kafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from twisted_kafka.testing import Broker, BrokerError, Cluster, Kafka, Rule
from twisted_kafka.testing.fault_rules.faults import Arrival, Faults
from twisted_kafka.testing.fault_rules.interception import Interceptor
from twisted_kafka.testing.recorded.requests import Requests
from twisted_kafka.timing.clock import ManualClock

confluent_kafka = pytest.importorskip("confluent_kafka")


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        running.create_topic("orders")
        yield running


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(3) as running:
        running.create_topic("orders", replication_factor=3)
        yield running


def producer(kafka: Kafka, **settings: object) -> Any:
    usual = {"bootstrap.servers": kafka.bootstrap_servers, "client.id": "shop", "linger.ms": 0, "retry.backoff.ms": 10}
    return confluent_kafka.Producer({**usual, **settings})


def consumer(kafka: Kafka, **settings: object) -> Any:
    usual = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    made = confluent_kafka.Consumer({**usual, "heartbeat.interval.ms": 100, "enable.auto.commit": False, **settings})
    made.subscribe(["orders"])
    return made


def values(kafka: Kafka) -> list[bytes | None]:
    return [record.value for record in kafka.records("orders")]


def heartbeat(broker: Broker) -> int:
    host, port = broker.bootstrap_servers.split(":")
    return int(ask((host, int(port)), HeartbeatRequest(group_id="g", member_id="m"), 3, "raw", 30).error_code)


HEARTBEAT = Arrival(ApiKey.HEARTBEAT, 4, "shop", "User:a", "c", (), ("g",), None)


def test_an_answer_that_is_delayed_while_the_broker_stops_starts_no_thread() -> None:
    interceptor = Interceptor((), Requests(), ManualClock(), lambda: 1, 0)
    interceptor.stop()
    before = set(threading.enumerate())
    interceptor.later(10, lambda: None)
    assert set(threading.enumerate()) <= before


def test_a_wait_for_a_rule_that_holds_ends_when_a_release_finds_the_answer() -> None:
    rules = Faults([Rule(api="Heartbeat", hold=True)])
    (fault,) = rules
    released: list[str] = []
    firing = rules.choose(HEARTBEAT)
    assert firing is not None
    with pytest.raises(TimeoutError):
        fault.wait_for(1, timeout_s=0.01)
    firing.hold(fault, lambda: released.append("answer"))
    fault.wait_for(1)
    fault.release()
    assert released == ["answer"]


def test_a_wait_for_a_rule_that_delays_ends_when_the_clock_has_the_answer() -> None:
    rules = Faults([Rule(api="Heartbeat", delay_ms=1000, times=1)])
    (fault,) = rules
    due: list[Callable[[], object]] = []
    fired_when_due: list[int] = []
    firing = rules.choose(HEARTBEAT)
    assert firing is not None
    assert rules.choose(HEARTBEAT) is None  # one request at most
    assert (fault.fired, fault.is_finished) == (0, True)

    def later(delay_ms: float, call: Callable[[], object]) -> None:
        assert (delay_ms, fault.fired) == (1000, 0)
        due.append(call)

    firing.delay(later, 1000, lambda: fired_when_due.append(fault.fired))
    fault.wait_for(1)
    due[0]()
    assert (fired_when_due, fault.fired, list(fault.firings)) == ([1], 1, ["Heartbeat v4 from shop group g"])


def test_a_rule_has_not_fired_before_its_answer_waits_for_the_clock(broker: Broker) -> None:
    fired_before: list[int] = []
    codes: list[int] = []

    def decide(request: Arrival) -> Mapping[str, Any]:
        fired_before.append(fault.fired)
        return {"delay_ms": 60_000}

    asking = threading.Thread(target=lambda: codes.append(heartbeat(broker)))
    with broker.clock.held(), broker.faults.inject(api="Heartbeat", call=decide) as fault:
        asking.start()
        fault.wait_for(1)
        assert not broker.requests.of("Heartbeat")
        broker.clock.advance(minutes=1)
        asking.join(30)
    assert (fired_before, len(codes)) == ([0], 1)


def test_requests_to_all_brokers_of_a_cluster_have_one_time(cluster: Cluster) -> None:
    with cluster.clock.held():
        for broker in cluster:
            heartbeat(broker)
    assert len({each.arrived_ms for each in cluster.requests.of("Heartbeat")}) == 1


def test_a_dropped_request_is_not_handled_and_its_connection_stays(broker: Broker) -> None:
    sender = producer(broker, **{"request.timeout.ms": 300, "socket.timeout.ms": 500, "enable.idempotence": False})
    with broker.faults.inject(api="Produce", lose_request=True, times=1) as fault:
        sender.produce("orders", b"1")
        fault.wait_for()
        assert values(broker) == []
        assert sender.flush(30) == 0
    assert values(broker) == [b"1"]
    assert [each.outcome for each in broker.requests.of("Produce")] == ["dropped", "answered"]


def test_an_answer_is_held_until_it_is_released(broker: Broker) -> None:
    sender = producer(broker)
    with broker.faults.inject(api="Produce", hold=True) as fault:
        sender.produce("orders", b"1")
        broker.wait_for_offset("orders", 0, 1)
        broker.wait_for(lambda: fault.held, lambda held: held == 1, "a held answer")
        assert sender.flush(0.1) == 1
        fault.release()
        assert sender.flush(30) == 0
        assert fault.held == 0
        sender.produce("orders", b"2")
        broker.wait_for(lambda: fault.held, lambda held: held == 1, "another one")
    assert sender.flush(30) == 0


def test_a_request_is_held_before_it_is_handled(broker: Broker) -> None:
    sender = producer(broker)
    with broker.faults.inject(api="Produce", hold_request=True) as fault:
        sender.produce("orders", b"1")
        fault.wait_for()
        assert values(broker) == []
        fault.release()
        assert sender.flush(30) == 0
    assert values(broker) == [b"1"]


def test_a_firing_is_waited_for_also_in_a_loop(broker: Broker) -> None:
    async def main() -> None:
        with broker.faults.inject(api="Heartbeat", client_id="raw", delay_ms=1) as fault:
            asyncio.get_running_loop().run_in_executor(None, heartbeat, broker)
            await fault.aio.wait_for()
            with pytest.raises(RuntimeError, match=r"use `await fault\.aio\.wait_for"):
                fault.wait_for()

    asyncio.run(main())
    with (
        broker.faults.inject(api="Heartbeat", delay_ms=1) as fault,
        pytest.raises(TimeoutError, match=r"waited 0\.01 s for 2 firings: api=Heartbeat delay_ms=1: fired 0 of 0 times"),
    ):
        fault.wait_for(2, timeout_s=0.01)


def test_a_function_answers_delays_or_lets_pass(broker: Broker) -> None:
    seen: list[Arrival] = []
    is_asked, may_pass = threading.Event(), threading.Event()

    def decide(request: Arrival) -> HeartbeatResponse | Mapping[str, Any] | None:
        seen.append(request)
        if len(seen) == 1:
            return HeartbeatResponse(error_code=42)
        if len(seen) == 2:
            return {"error": "REBALANCE_IN_PROGRESS", "delay_ms": 1}
        is_asked.set()
        may_pass.wait(30)
        return None

    with broker.faults.inject(api="Heartbeat", call=decide) as fault:
        assert [heartbeat(broker), heartbeat(broker)] == [42, 27]
        waiting: list[int] = []
        thread = threading.Thread(target=lambda: waiting.append(heartbeat(broker)))
        thread.start()
        assert is_asked.wait(30)
        assert (waiting, fault.fired) == ([], 2)
        may_pass.set()
        thread.join(30)
    assert waiting == [16]
    assert (seen[0].api, seen[0].message.member_id, seen[0].groups, seen[0].node) == ("Heartbeat", "m", ("g",), broker.broker_id)
    assert "call=test_a_function_answers_delays_or_lets_pass.<locals>.decide" in str(fault.rule)
    assert str(fault.rule) in str(broker.requests[0])


def test_an_error_of_a_function_fails_the_block(broker: Broker) -> None:
    def wrong(request: Arrival) -> Any:
        assert request.client_id == "shop"

    with pytest.raises(AssertionError), broker.faults.inject(api="Heartbeat", call=wrong):
        assert heartbeat(broker) == -1
    with pytest.raises(TypeError, match=r"returned 5: expected a HeartbeatResponse, the fields of a rule, or None"):  # noqa: SIM117
        with broker.faults.inject(api="Heartbeat", call=lambda request: 5):
            heartbeat(broker)
    with pytest.raises(ValueError, match="call=5: expected a function"):
        Rule(call=5)  # type: ignore[arg-type]


def test_rules_fire_in_order(broker: Broker) -> None:
    first = {"api": "Heartbeat", "error": "REBALANCE_IN_PROGRESS", "times": 2}
    with broker.faults.in_order(first, Rule(api="Heartbeat", error="ILLEGAL_GENERATION")) as faults:
        assert [heartbeat(broker) for _ in range(4)] == [27, 27, 22, 22]
        assert [fault.fired for fault in faults] == [2, 2]
    assert list(broker.faults) == []
    with pytest.raises(ValueError, match=r"rule 1 of 2 never ends, so that the next one never begins: give it times=1"):
        broker.faults.add_in_order({"api": "Heartbeat", "delay_ms": 1}, {"api": "Fetch", "delay_ms": 1})


def test_a_topic_is_matched_by_its_id(broker: Broker) -> None:
    broker.create_topic("bills")
    old, host = broker.topic_id("bills"), broker.bootstrap_servers.split(":")
    address = host[0], int(host[1])
    wanted = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in ("orders", "bills")])
    with broker.faults.inject(api="Metadata", topic_id=old, error="TOPIC_AUTHORIZATION_FAILED") as fault:
        answer = ask(address, wanted, 12, "raw", 30)
        assert {topic.name: topic.error_code for topic in answer.topics} == {"orders": 0, "bills": 29}
        broker.delete_topic("bills")
        broker.create_topic("bills")  # which has another id
        answer = ask(address, wanted, 12, "raw", 30)
        assert {topic.name: topic.error_code for topic in answer.topics} == {"orders": 0, "bills": 0}
    assert fault.fired == 1
    with broker.faults.inject(api="Fetch", topic_id=old, delay_ms=1) as fault:
        part = FetchPartition(partition_max_bytes=1000)
        for topic_id in (broker.topic_id("bills"), old):
            topics = [FetchTopic(topic_id=uuid(topic_id), partitions=[part])]
            ask(address, FetchRequest(session_epoch=-1, topics=topics), 13, "raw", 30)
    assert fault.fired == 1
    with pytest.raises(ValueError, match=r"topic_id='x': expected Kafka's text of it, as kafka\.topic_id"):
        Rule(api="Fetch", topic_id="x", delay_ms=1)


def uuid(text: str) -> bytes:
    from twisted_kafka.protocol.compiler.types import uuid_from_text

    return uuid_from_text(text)


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ({"hold": True, "delay_ms": 1}, "hold cannot be combined with delay_ms"),
        ({"hold_request": True, "delay_ms": 1}, "delay_ms cannot be combined with hold_request"),
        ({"lose_request": True, "hold": True}, "hold cannot be combined with lose_request"),
        ({"close": "before", "hold": True}, "hold cannot be combined with close"),
        ({"lose_request": True, "lose_response": True}, "a rule does one of lose_request and lose_response: make two rules"),
    ],
)
def test_outcomes_that_exclude_each_other_are_refused(rule: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=f"^{why}$"):
        Rule.from_mapping(rule)


def test_a_frozen_broker_answers_nothing_until_it_thaws(broker: Broker) -> None:
    sender = producer(broker)
    sender.produce("orders", b"1")
    assert sender.flush(30) == 0
    with broker.frozen():
        sender.produce("orders", b"2")
        assert sender.flush(0.3) == 1
        assert values(broker) == [b"1"]  # a test can look nevertheless
    assert sender.flush(30) == 0
    broker.freeze()
    broker.freeze()
    broker.restart()  # which thaws it
    sender.produce("orders", b"3")
    assert sender.flush(30) == 0
    assert values(broker) == [b"1", b"2", b"3"]
    assert list(broker.faults) == []


@pytest.mark.parametrize("protocol", first_of(["classic", "consumer"]))
def test_a_group_rebalances_when_the_test_says_so(broker: Broker, protocol: str) -> None:
    assigned: list[int] = []
    settings = {"group.protocol": protocol} if protocol == "consumer" else {}
    usual = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"}
    reader = confluent_kafka.Consumer({**usual, **({} if settings else {"heartbeat.interval.ms": 100}), **settings})
    reader.subscribe(["orders"], on_assign=lambda _, partitions: assigned.append(len(partitions)))
    while not assigned:
        reader.poll(0.05)
    broker.wait_for_group("g")
    broker.rebalance("g")
    for _ in range(400):
        if len(assigned) > 1:
            break
        reader.poll(0.05)
    assert assigned == [1, 1]
    reader.close()
    with pytest.raises(BrokerError, match="group 'none' cannot rebalance: GROUP_ID_NOT_FOUND"):
        broker.rebalance("none")


def test_a_rule_is_about_one_node_of_a_cluster(cluster: Cluster) -> None:
    leader = cluster.leader_of("orders")
    assert leader is not None
    other = next(each for each in cluster.brokers if each != leader)
    with cluster.faults.inject(api="Produce", node=other, close="before") as elsewhere:  # noqa: SIM117
        with cluster.faults.inject(api="Produce", node=leader, error="NOT_LEADER_OR_FOLLOWER", times=1) as here:
            sender = producer(cluster)
            sender.produce("orders", b"1")
            assert sender.flush(30) == 0
    assert (here.fired, elsewhere.fired) == (1, 0)
    assert {each.node for each in cluster.requests.of("Produce").where(node=leader)} == {leader}


def test_a_leader_and_a_coordinator_move_without_a_death(cluster: Cluster) -> None:
    sender, old = producer(cluster), cluster.leader_of("orders")
    sender.produce("orders", b"1")
    assert sender.flush(30) == 0
    new = cluster.move_leader("orders")
    assert new != old
    assert cluster.leader_of("orders") == new
    third = ({1, 2, 3} - {old, new}).pop()
    assert cluster.move_leader("orders", to=third) == third
    sender.produce("orders", b"2")
    assert sender.flush(30) == 0
    assert sorted(cluster.brokers) == cluster.isr_of("orders") == [1, 2, 3]
    reader = consumer(cluster)
    assert reader.poll(30).value() == b"1"
    coordinator = cluster.coordinator("g").broker_id
    moved = cluster.move_coordinator("g")
    assert moved != coordinator
    assert cluster.coordinator("g").broker_id == moved
    message = reader.poll(30)
    assert message.value() == b"2"
    reader.commit(message, asynchronous=False)
    assert cluster.committed("g")["orders", 0] == 2
    assert any(each.node == moved for each in cluster.requests.of("OffsetCommit").where(error=None))
    reader.close()
    with pytest.raises(KeyError, match="broker 7 does not run"):
        cluster.move_leader("orders", to=7)


def test_a_leader_moves_to_a_broker_without_a_replica() -> None:
    with Cluster(3) as cluster:
        cluster.create_topic("orders", replication_factor=1)
        cluster.produce("orders", "1")
        with pytest.raises(BrokerError, match="orders-0 cannot move: no other replica is in sync, only"):
            cluster.move_leader("orders")
        to = next(each for each in cluster.brokers if each != cluster.leader_of("orders"))
        assert cluster.move_leader("orders", to=to) == to
        assert cluster.isr_of("orders") == [to]
        assert values(cluster) == [b"1"]


def test_a_broker_that_is_cut_off_leaves_the_replicas_in_sync_and_comes_back() -> None:
    with Cluster(3, {"replica.lag.time.max.ms": 2000, "replica.fetch.wait.max.ms": 100}) as cluster:
        cluster.create_topic("orders", replication_factor=3)
        leader = cluster.leader_of("orders")
        # Not the controller, without which the other brokers do not hear of the change.
        follower = next(each for each in cluster.brokers if each not in (leader, cluster.controller().broker_id))
        with cluster.cut_off(follower, incoming=False):
            assert cluster.produce("orders", "1") == 0  # which waits until the follower is out of sync
            cluster.wait_for_isr("orders", 0, {1, 2, 3} - {follower})
            assert list(cluster.faults) == []
        cluster.wait_for_isr("orders", 0, [1, 2, 3], timeout_s=30)


def test_a_broker_that_is_cut_off_from_the_metadata_too_is_replaced(cluster: Cluster) -> None:
    old = cluster.leader_of("orders")
    assert old is not None
    with cluster.cut_off(old, metadata=True):
        assert cluster.settle() is None
        cluster.wait_for(lambda: cluster.leader_of("orders"), lambda seen: seen not in (None, old), "another leader")
        cluster.produce("orders", "1")
    cluster.wait_for_isr("orders", 0, [1, 2, 3], timeout_s=30)
    cluster.settle()


@pytest.mark.parametrize("controls", [False, True])
def test_a_frozen_broker_of_a_cluster_is_missed_and_comes_back(cluster: Cluster, controls: bool) -> None:
    controller = cluster.controller().broker_id
    old = controller if controls else next(each for each in cluster.brokers if each != controller)
    cluster.move_leader("orders", to=old) if cluster.leader_of("orders") != old else None
    sender = producer(cluster)
    sender.produce("orders", b"1")
    assert sender.flush(30) == 0
    with cluster[old].frozen():
        sender.produce("orders", b"2")
        assert cluster.wait_for_leader("orders", timeout_s=20) != old
        cluster.produce("orders", "3")
        cluster.create_topic("bills", replication_factor=2)
        assert values(cluster)[-1] == b"3"
    assert sender.flush(60) == 0
    cluster.wait_for_isr("orders", 0, [1, 2, 3], timeout_s=30)
    cluster.settle()
    assert b"2" in values(cluster)
