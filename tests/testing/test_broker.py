"""The broker under test: its records, its requests and its faults, with real clients over TCP."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.eventually import WAIT_S, eventually
from twisted_kafka.broker.errors import StartError
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.coordinator import runtime
from twisted_kafka.coordinator.loader import load_partition
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.headers import encode_request_header, parse_response_header
from twisted_kafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from twisted_kafka.protocol.messages.coordinators.groups import FindCoordinatorRequest, HeartbeatRequest, HeartbeatResponse
from twisted_kafka.protocol.messages.coordinators.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from twisted_kafka.protocol.messages.coordinators.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from twisted_kafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from twisted_kafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from twisted_kafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from twisted_kafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.testing import Broker, Rule
from twisted_kafka.testing.broker import BrokerError
from twisted_kafka.testing.fault_rules.faults import Arrival
from twisted_kafka.testing.fault_rules.injection import Fault
from twisted_kafka.testing.fault_rules.rules_file import RulesError

confluent_kafka = pytest.importorskip("confluent_kafka")
confluent_kafka_admin = pytest.importorskip("confluent_kafka.admin")


def answered(kind: type[Message], frame: bytes, version: int) -> Any:
    """Return the response in a frame."""
    return kind.decode(frame, version, parse_response_header(kind.KEY, version, frame)[1])


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        running.create_topic("orders")
        yield running


def producer(broker: Broker, **settings: object) -> Any:
    fast = {"bootstrap.servers": broker.bootstrap_servers, "client.id": "shop", "linger.ms": 0, "retry.backoff.ms": 10}
    return confluent_kafka.Producer({**fast, **{name.replace("_", "."): value for name, value in settings.items()}})


def send(broker: Broker, *values: bytes, **settings: object) -> list[Any]:
    errors: list[Any] = []
    sender = producer(broker, **settings)
    for value in values:
        sender.produce("orders", value, on_delivery=lambda error, message: errors.append(error and error.name()))
        sender.flush(30)
    return errors


def values(broker: Broker) -> list[bytes]:
    return [record.value for record in broker.records("orders")]


def ask(broker: Broker, request: Message, version: int = 0) -> bytes:
    """Return the answer's frame; empty if the connection is closed."""
    frame = encode_request_header(request.KEY, version, 7, "raw") + request.encode(version)
    host, port = broker.bootstrap_servers.split(":")
    with socket.create_connection((host, int(port)), 20) as connection, connection.makefile("rb") as stream:
        connection.sendall(len(frame).to_bytes(4, "big") + frame)
        return stream.read(int.from_bytes(stream.read(4), "big"))


def test_records_go_in_and_out_without_a_client(broker: Broker) -> None:
    assert broker.produce("orders", [b"1", "two"], key=b"k") == 0
    assert broker.produce("orders", ["3"]) == 2
    assert [(record.offset, record.key, record.value) for record in broker.records("orders")] == [
        (0, b"k", b"1"),
        (1, b"k", b"two"),
        (2, None, b"3"),
    ]
    assert (broker.end_offset("orders"), len(broker.requests)) == (3, 0)
    with pytest.raises(BrokerError, match="topic 'other' cannot be read: UNKNOWN_TOPIC_OR_PARTITION"):
        broker.records("other")
    with pytest.raises(BrokerError, match="cannot create topic 'orders': TOPIC_ALREADY_EXISTS"):
        broker.create_topic("orders")


def test_requests_are_told_with_what_they_say_and_what_they_were_answered(broker: Broker) -> None:
    assert send(broker, b"1", b"2") == [None, None]
    produced = broker.requests.of("Produce").where(acks=-1, topic="orders", client_id="shop")
    assert [each.response.responses[0].partition_responses[0].base_offset for each in produced.wait_for(2)] == [0, 1]
    assert produced.count() == len(produced) == 2
    assert produced.last.partitions == (("orders", 0),)
    assert "Produce v" in str(produced.last)
    assert "from shop  orders-0  -> answered in " in str(produced)
    assert not broker.requests.of("Produce").where(error="NOT_LEADER_OR_FOLLOWER")
    broker.requests.clear()
    assert str(broker.requests) == "no requests"


def test_waits_say_what_there_was_instead(broker: Broker) -> None:
    send(broker, b"1")
    broker.wait_for_offset("orders", 0, 1)
    with pytest.raises(
        TimeoutError, match=r"waited 0\.01 s for end of orders-0 at 5 or more; the last value was 1; the last requests"
    ):
        broker.wait_for_offset("orders", 0, 5, timeout_s=0.01)
    with pytest.raises(TimeoutError, match=r"waited 0\.01 s for group 'g' Stable; the last value was 'Dead'"):
        broker.wait_for_group("g", timeout_s=0.01)
    with pytest.raises(TimeoutError, match=r"0 of 1 requests Fetch with topic='orders' came in 0\.01 s; the last requests were:\n"):
        broker.requests.of("Fetch").where(topic="orders").wait_for(timeout_s=0.01)


def test_a_broker_that_loads_the_groups_coordinates_none_yet(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    may_load = threading.Event()

    def load(*arguments: Any) -> Any:
        may_load.wait(WAIT_S)
        return load_partition(*arguments)

    monkeypatch.setattr(runtime, "load_partition", load)
    broker.wait_for(lambda: broker.ask(FindCoordinatorRequest(key="g")).node_id, lambda seen: seen >= 0, "a leader")
    assert broker.coordinator_id("g") == -1
    may_load.set()
    broker.wait_for(lambda: broker.coordinator_id("g"), lambda seen: seen == broker.broker_id, "a coordinator")


def test_a_new_leader_that_does_not_know_its_offsets_yet_is_asked_again(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    broker.produce("orders", ["1"])
    errors = [ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    ask_broker = Broker.ask

    def ask_new_leader(self: Broker, request: Message) -> Any:
        answer = ask_broker(self, request)
        if isinstance(request, ListOffsetsRequest) and errors:
            answer.topics[0].partitions[0].error_code = errors.pop()
        return answer

    monkeypatch.setattr(Broker, "ask", ask_new_leader)
    assert broker.end_offset("orders") == 1
    assert errors == []


def test_a_state_that_no_group_has_is_refused(broker: Broker) -> None:
    with pytest.raises(ValueError, match=r"^no group is ever 'stable': the states are Stable, Empty, Dead, "):
        broker.wait_for_group("g", "stable")


def test_a_port_that_is_taken_is_told_with_advice(broker: Broker) -> None:
    address = broker.bootstrap_servers
    with pytest.raises(StartError, match=rf"{address}: Address already in use; stop what listens there, or take another port"):
        Broker({"listeners": f"PLAINTEXT://{address}"}).start()


def test_a_group_is_waited_for(broker: Broker) -> None:
    broker.produce("orders", ["1"])
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer(settings)
    consumer.subscribe(["orders"])
    assert consumer.poll(30).value() == b"1"
    broker.wait_for_group("g")
    consumer.commit(asynchronous=False)
    broker.wait_for_commit("g", "orders", 0, 1)
    assert broker.committed("g") == {("orders", 0): 1}
    assert broker.requests.of("JoinGroup").where(group="g")
    consumer.close()
    broker.wait_for_group("g", "Empty")


def test_an_error_is_answered_to_the_second_produce_and_nothing_stored_for_it(broker: Broker) -> None:
    with broker.faults.inject(api="Produce", topic="orders", nth=2, error="NOT_LEADER_OR_FOLLOWER") as fault:
        assert send(broker, b"1", b"2", b"3") == [None, None, None]
    assert (fault.fired, values(broker)) == (1, [b"1", b"2", b"3"])
    assert [each.error for each in broker.requests.of("Produce")] == [None, "NOT_LEADER_OR_FOLLOWER", None, None]
    with broker.faults.inject(api="Produce", error="MESSAGE_TOO_LARGE"):
        assert send(broker, b"4") == ["MSG_SIZE_TOO_LARGE"]
    assert values(broker) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("idempotent", [True, False])
def test_records_whose_answer_is_not_sent_are_stored_once_by_an_idempotent_producer(broker: Broker, idempotent: bool) -> None:
    with broker.faults.inject(api="Produce", close="after", times=1) as fault:
        assert send(broker, b"1", enable_idempotence=idempotent) == [None]
    assert (fault.fired, values(broker)) == (1, [b"1"] if idempotent else [b"1", b"1"])
    assert [each.outcome for each in broker.requests.of("Produce")] == ["closed", "answered"]


def test_a_connection_is_closed_before_handling(broker: Broker) -> None:
    with broker.faults.inject(api="Produce", close="before", times=1):
        assert send(broker, b"1", enable_idempotence=False) == [None]
    assert values(broker) == [b"1"]


def test_a_lost_response_is_waited_for_in_vain(broker: Broker) -> None:
    with broker.faults.inject(api="Produce", lose_response=True, times=1):
        assert send(broker, b"1", enable_idempotence=False, socket_timeout_ms=1000, request_timeout_ms=900) == [None]
    assert values(broker) == [b"1", b"1"]
    assert [each.outcome for each in broker.requests.of("Produce")] == ["lost", "answered"]


def test_a_delay_follows_the_broker_s_clock(broker: Broker) -> None:
    with broker.faults.inject(api="Produce", delay_ms=3_600_000, times=1), broker.clock.held():
        sender = producer(broker)
        sender.produce("orders", b"1")
        broker.wait_for_offset("orders", 0, 1)
        assert not broker.requests.of("Produce")
        # The records are there before the answer waits.
        eventually(lambda: broker.clock.advance(hours=1) or broker.requests.of("Produce"))
        assert broker.requests.of("Produce")[0].answered_ms >= 3_600_000
        assert sender.flush(30) == 0


def test_an_answer_is_spoiled_throttled_or_right(broker: Broker) -> None:
    right = ask(broker, ApiVersionsRequest(), 1)
    with broker.faults.inject(api="ApiVersions", client_id="raw", corrupt_response=True):
        corrupt = ask(broker, ApiVersionsRequest(), 1)
    assert (len(corrupt), corrupt[:4], set(corrupt[4:])) == (len(right), right[:4], {255})
    with broker.faults.inject(api="ApiVersions", throttle_ms=250):
        throttled = ApiVersionsResponse.decode(ask(broker, ApiVersionsRequest(), 1), 1, 4)
    assert throttled.throttle_time_ms == 250
    with broker.faults.inject(group="g", error="REBALANCE_IN_PROGRESS"):
        answer = ask(broker, HeartbeatRequest(group_id="g"))
    assert HeartbeatResponse.decode(answer, 0, parse_response_header(12, 0, answer)[1]).error_code == 27
    with broker.faults.inject(api="Heartbeat", where={"member_id": "m"}, close="before") as fault:
        assert ask(broker, HeartbeatRequest(group_id="g"))
        assert ask(broker, HeartbeatRequest(group_id="g", member_id="m")) == b""
    assert (fault.fired, list(broker.faults)) == (1, [])


def test_an_error_is_answered_for_the_partition_that_it_is_about_and_the_rest_is_handled(broker: Broker) -> None:
    broker.create_topic("two", partitions=2)
    both = [PartitionProduceData(index=index, records=build_batch([SimpleRecord(1, None, b"x")])) for index in (0, 1)]
    produce = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="two", partition_data=both)])
    with broker.faults.inject(api="Produce", topic="two", partition=1, error="NOT_ENOUGH_REPLICAS") as fault:
        answer = ask(broker, produce, 7)
        (topic,) = ProduceResponse.decode(answer, 7, 4).responses
    assert sorted((each.index, each.error_code) for each in topic.partition_responses) == [(0, 0), (1, 19)]
    assert (broker.end_offset("two", 0), broker.end_offset("two", 1)) == (1, 0)
    assert broker.requests.last.error == "NOT_ENOUGH_REPLICAS"
    assert (list(fault.firings), fault.fired) == (["Produce v7 from raw two-0 two-1"], 1)
    produce.acks = 0
    with broker.faults.inject(topic="two", partition=1, error="NOT_ENOUGH_REPLICAS"):
        assert ask(broker, produce, 7) == b""
    assert (broker.end_offset("two", 0), broker.end_offset("two", 1)) == (2, 0)


def test_a_fetch_of_a_session_gets_the_error_of_a_partition_that_it_does_not_name(broker: Broker) -> None:
    asked = [FetchTopic(topic="orders", partitions=[FetchPartition(partition_max_bytes=1000)])]
    first = FetchResponse.decode(ask(broker, FetchRequest(session_epoch=0, topics=asked), 7), 7, 4)
    with broker.faults.inject(api="Fetch", topic="orders", error="FENCED_LEADER_EPOCH") as fault:
        answer = ask(broker, FetchRequest(session_id=first.session_id, session_epoch=1), 7)
    ((topic,), is_known) = (FetchResponse.decode(answer, 7, 4).responses, first.session_id > 0)
    assert (is_known, topic.topic, [each.error_code for each in topic.partitions]) == (True, "orders", [74])
    assert (list(fault.firings), broker.requests.of("Fetch").where(topic="orders").count()) == (["Fetch v7 from raw orders-0"], 2)


@pytest.mark.parametrize("version", [5, 8, 9])
def test_an_error_is_answered_for_one_topic_of_an_offset_fetch(broker: Broker, version: int) -> None:
    partitions = [OffsetFetchRequestTopics(name=name, partition_indexes=[0]) for name in ("orders", "bills")]
    fetch = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=partitions)])
    if version < 8:
        of_one = [OffsetFetchRequestTopic(name=each.name, partition_indexes=[0]) for each in partitions]
        fetch = OffsetFetchRequest(group_id="g", topics=of_one)
    broker.wait_for(lambda: broker.coordinator_id("g"), lambda found: found >= 0, "a coordinator")
    with broker.faults.inject(api="OffsetFetch", topic="orders", error="TOPIC_AUTHORIZATION_FAILED") as fault:
        answer = answered(OffsetFetchResponse, ask(broker, fetch, version), version)
    topics = answer.groups[0].topics if version >= 8 else answer.topics
    assert {topic.name: topic.partitions[0].error_code for topic in topics} == {"orders": 29, "bills": 0}
    assert (len(answer.groups), fault.fired) == (int(version >= 8), 1)


@pytest.mark.parametrize("version", [9, 12, 13])
def test_an_error_is_answered_for_one_topic_of_metadata_and_the_brokers_are_told(broker: Broker, version: int) -> None:
    broker.create_topic("bills")
    with broker.faults.inject(api="Metadata", topic="orders", error="TOPIC_AUTHORIZATION_FAILED"):
        for names, codes in ((("orders", "bills"), {"orders": 29, "bills": 0}), (("orders",), {"orders": 29})):
            wanted = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
            answer = answered(MetadataResponse, ask(broker, wanted, version), version)
            assert {topic.name: topic.error_code for topic in answer.topics} == codes
            assert (len(answer.brokers), answer.error_code) == (1, 0)


@pytest.mark.parametrize(("version", "codes"), [(3, {"orders": 29, "bills": 55}), (4, {})])
def test_an_error_is_answered_for_one_topic_of_a_transaction_where_clients_send_it(
    broker: Broker, version: int, codes: dict[str, int]
) -> None:
    broker.create_topic("bills")
    topics = [AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in ("orders", "bills")]
    request = AddPartitionsToTxnRequest(v3_and_below_transactional_id="t", v3_and_below_topics=topics)
    if version > 3:
        request = AddPartitionsToTxnRequest(transactions=[AddPartitionsToTxnTransaction(transactional_id="t", topics=topics)])
    with broker.faults.inject(api="AddPartitionsToTxn", topic="orders", error="TOPIC_AUTHORIZATION_FAILED") as fault:
        answer = answered(AddPartitionsToTxnResponse, ask(broker, request, version), version)
    found = {each.name: each.results_by_partition[0].partition_error_code for each in answer.results_by_topic_v3_and_below}
    assert set(found) == set(codes)
    assert found.get("orders") == codes.get("orders")
    assert (answer.error_code, fault.fired) == (29 if version > 3 else 0, 1)


@pytest.mark.slow
def test_a_consumer_hears_of_the_error_of_its_partition(broker: Broker) -> None:
    broker.produce("orders", ["1"])
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "-"})
    with broker.faults.inject(api="Fetch", topic="orders", error="TOPIC_AUTHORIZATION_FAILED"):
        consumer.assign([confluent_kafka.TopicPartition("orders", 0, 0)])
        assert consumer.poll(30).error().name() == "TOPIC_AUTHORIZATION_FAILED"
    assert consumer.poll(30).value() == b"1"
    consumer.close()


def test_half_of_an_answer_comes_and_the_connection_is_closed(broker: Broker) -> None:
    whole = ask(broker, ApiVersionsRequest(), 1)
    with broker.faults.inject(api="ApiVersions", client_id="raw", half_response=True):
        half = ask(broker, ApiVersionsRequest(), 1)
    assert half == whole[: len(half)]
    assert 0 < len(half) < len(whole)
    with broker.faults.inject(api="Produce", half_response=True, times=1):
        assert send(broker, b"1", enable_idempotence=True) == [None]
    assert values(broker) == [b"1"]
    assert [each.outcome for each in broker.requests.of("Produce")] == ["half", "answered"]


def test_another_leader_is_claimed(broker: Broker) -> None:
    with broker.faults.inject(topic="orders", leader=77):
        answer = MetadataResponse.decode(ask(broker, MetadataRequest(topics=None), 1), 1, 4)
        assert [each.partitions[0].leader_id for each in answer.topics] == [77]
        listed = [ListOffsetsTopic(name="orders", partitions=[ListOffsetsPartition(timestamp=-1)])]
        refused = ListOffsetsResponse.decode(ask(broker, ListOffsetsRequest(topics=listed), 1), 1, 4)
        assert refused.topics[0].partitions[0].error_code == 6
        sender = producer(broker)
        sender.produce("orders", b"1")
        broker.requests.of("Metadata").where(client_id="shop", topic="orders").wait_for(2)
        assert values(broker) == []
    assert sender.flush(30) == 0
    assert values(broker) == [b"1"]


def test_a_full_disk_refuses_what_appends_and_keeps_what_is_there(broker: Broker) -> None:
    broker.produce("orders", ["before"])
    sender = producer(broker)
    with broker.faults.inject(disk="full") as fault:
        sender.produce("orders", b"1")
        broker.requests.of("Produce").where(error="KAFKA_STORAGE_ERROR").wait_for()
        assert values(broker) == [b"before"]
        admin = confluent_kafka_admin.AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        refused = admin.create_topics([confluent_kafka_admin.NewTopic("bills", 1)])["bills"]
        with pytest.raises(confluent_kafka.KafkaException, match="KAFKA_STORAGE_ERROR"):
            refused.result(30)
        assert broker.topics() == ["orders"]
    assert sender.flush(30) == 0
    assert (fault.fired > 0, values(broker)) == (True, [b"before", b"1"])


def test_a_stalled_disk_appends_when_it_works_again(broker: Broker) -> None:
    sender = producer(broker)
    with broker.faults.inject(disk="stalled", api="Produce") as fault:
        sender.produce("orders", b"1")
        broker.wait_for(lambda: fault.fired, bool, "a stalled produce")
        assert (values(broker), len(broker.requests.of("Produce"))) == ([], 0)
        assert str(broker.faults) == "api=Produce disk=stalled: fired 1 of 1 times"
    assert sender.flush(30) == 0
    assert values(broker) == [b"1"]


def test_what_a_stalled_disk_holds_is_stored_also_when_its_client_has_gone(broker: Broker) -> None:
    data = PartitionProduceData(index=0, records=build_batch([SimpleRecord(1, None, b"1")]))
    produce = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="orders", partition_data=[data])])
    frame = encode_request_header(produce.KEY, 7, 7, "raw") + produce.encode(7)
    host, port = broker.bootstrap_servers.split(":")
    with broker.faults.inject(disk="stalled") as fault:
        with socket.create_connection((host, int(port)), 20) as connection:
            connection.sendall(len(frame).to_bytes(4, "big") + frame)
            broker.wait_for(lambda: fault.fired, bool, "a stalled produce")
        assert values(broker) == []
    broker.wait_for(lambda: values(broker), lambda found: found == [b"1"], "what was held")


def test_a_connection_alone_is_closed(broker: Broker) -> None:
    named, other = producer(broker, client_id="named"), producer(broker, client_id="other")
    named.produce("orders", b"1")
    assert named.flush(30) == 0
    # Of Produce alone: a client asks for metadata when it likes.
    with broker.faults.inject(api="Produce", connection=broker.requests.of("Produce").last.connection, close="before") as fault:
        other.produce("orders", b"2")
        assert other.flush(30) == 0
        assert fault.fired == 0
        named.produce("orders", b"3")
        assert named.flush(30) == 0
        assert fault.fired == 1
    assert values(broker) == [b"1", b"2", b"3"]


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ({"api": "Produced", "error": "X"}, "there is no API 'Produced': did you mean 'Produce'?"),
        ({"api": "Produce", "version": 99, "delay_ms": 1}, r"Produce has versions 0 to 13, not 99"),
        ({"version": 3, "delay_ms": 1}, "version needs an api"),
        ({"api": "Heartbeat", "topic": "t", "delay_ms": 1}, "Heartbeat requests name no topic; these do: Produce, Fetch"),
        ({"api": "Produce", "group": "g", "delay_ms": 1}, "Produce requests name no group; these do: OffsetCommit"),
        (
            {"api": "Produce", "where": {"ack": 1}, "delay_ms": 1},
            "Produce requests have no field 'ack', only transactional_id, acks",
        ),
        ({"api": "Produce", "error": "NOT_LEADER"}, "there is no error 'NOT_LEADER': did you mean 'NOT_"),
        ({"api": "Produce"}, "a rule that does nothing: give one of error, close, "),
        ({"error": "NONE"}, "there is no error 'NONE'"),
        ({"close": "during"}, "close='during': expected 'before' or 'after'"),
        ({"close": "after", "lose_response": True}, "a rule does one of close and lose_response: make two rules"),
        ({"nth": 0, "delay_ms": 1}, "nth=0: expected 1 or more"),
        ({"probability": 2, "delay_ms": 1}, "probability=2: expected more than 0"),
        ({"partition": -1, "delay_ms": 1}, "partition=-1: expected 0 or more"),
        ({"principal": "till", "delay_ms": 1}, "principal='till': expected its type, too, as in 'User:till'"),
        ({"delay_ms": -1}, "delay_ms=-1: expected 0 to 86400000"),
        ({"delay_ms": float("inf")}, "delay_ms=inf: expected 0 to 86400000"),
        ({"delay_ms": float("nan")}, "delay_ms=nan: expected 0 to 86400000"),
        ({"api": "Fetch", "throttle_ms": 2**31}, "throttle_ms=2147483648: expected 0 to 86400000"),
        ({"leader": 2**31}, "leader=2147483648: expected a broker's id, or -1 for none"),
        ({"throttle_ms": 5}, "throttle_ms needs an api"),
        ({"api": "SaslHandshake", "throttle_ms": 5}, "SaslHandshake responses have no throttle time"),
        ({"api": "Produce", "leader": 2, "error": "NONE"}, "a rule does one of error and leader"),
        ({"api": "Heartbeat", "leader": 2}, "leader does nothing to Heartbeat, but to Metadata, Produce, Fetch, ListOffsets"),
        ({"api": "Fetch", "disk": "full"}, "disk does nothing to Fetch, but to Produce, OffsetCommit"),
        ({"disk": "slow"}, "disk='slow': expected 'full' or 'stalled'"),
        ({"api": "Produce", "where": {"acks": "all"}, "delay_ms": 1}, "acks of Produce is never 'all': expected a value like 0"),
        ({"api": "Produce", "where": {"acks": 0}, "error": "MESSAGE_TOO_LARGE"}, "Produce with acks=0 is not answered"),
        (
            {"api": "Fetch", "version": 4, "where": {"session_id": 1}, "delay_ms": 1},
            "Fetch v4 has no field 'session_id': it is in versions from 7 on",
        ),
        ({"api": "DescribeTopicPartitions", "partition": 1, "error": "NOT_CONTROLLER"}, "requests name no partition"),
        ({"apis": "Produce"}, "a rule has no 'apis', only api, version"),
    ],
)
def test_a_rule_that_cannot_work_is_refused_in_one_line(rule: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why.replace("?", r"\?")) as refused:
        Rule.from_mapping(rule)
    assert "\n" not in str(refused.value)


def test_what_is_asked_of_the_record_is_checked(broker: Broker) -> None:
    with pytest.raises(ValueError, match="there is no API 'Fetsch': did you mean 'Fetch'"):
        broker.requests.of("Fetsch")
    with pytest.raises(ValueError, match="Fetch requests have no field 'acks', only cluster_id"):
        broker.requests.of("Fetch").where(acks=1)
    with pytest.raises(ValueError, match="there is no error 'OOPS'"):
        broker.requests.where(error="OOPS")


def test_a_rule_that_the_persona_never_meets_is_refused_in_one_line() -> None:
    with Broker(persona="2.8") as old:
        with (
            pytest.raises(ValueError, match=r"^this broker serves Metadata v0 to v11, not v12$"),
            old.faults.inject(api="Metadata", version=12, delay_ms=1),
        ):
            pass
        with pytest.raises(ValueError, match=r"^this broker does not serve ConsumerGroupHeartbeat, so the rule can never match"):
            old.faults.add(Rule(api="ConsumerGroupHeartbeat", delay_ms=1))
    with pytest.raises(RulesError, match=r"^rules: this broker serves Metadata"):
        Broker(persona="2.8", rules=[{"api": "Metadata", "version": 12, "delay_ms": 1}])


def test_chance_is_the_same_each_time() -> None:
    arrival = Arrival(0, 9, "shop", "User:ANONYMOUS", "1-2-3", (("orders", 0),), (), None)
    rule = Rule(topic="orders", probability=0.3, seed=5, error="REQUEST_TIMED_OUT")
    runs = []
    for _ in range(2):
        fault = Fault(rule)
        runs.append([fault.takes(arrival) for _ in range(200)])
    assert runs[0] == runs[1]
    assert 30 < sum(runs[0]) < 90
    assert str(rule) == "topic=orders probability=0.3 seed=5 error=REQUEST_TIMED_OUT"


def test_a_setting_that_looks_misspelt_is_refused_and_a_plug_ins_is_not() -> None:
    with pytest.raises(ConfigError, match=r"There is no setting 'log\.retention\.hour': did you mean 'log\.retention\.hours'\?"):
        Broker({"log.retention.hour": 1})
    Broker({"my.interceptor.url": "x", "listener.name.plaintext.max.connections": 10})


def test_a_broker_that_does_not_run_says_so_at_once() -> None:
    broker = Broker()
    with pytest.raises(RuntimeError, match=r"the broker does not run: start\(\) it, or use it inside its with block"):
        broker.produce("orders", ["1"])
    with pytest.raises(RuntimeError, match="the broker does not run"):
        broker.replay("shop.jsonl")
    with pytest.raises(TimeoutError, match="0 of 1 requests came before the broker stopped, or it does not run"):
        broker.requests.wait_for(timeout_s=1000)
    with pytest.raises(RuntimeError, match="the broker does not run"):
        print(broker.bootstrap_servers)
    with broker:
        with pytest.raises(RuntimeError, match="the broker runs already"):
            broker.start()
        broker.create_topic("orders")
        assert Path(broker.embedded.config.log_dirs[0], "orders-0").is_dir()
    with pytest.raises(RuntimeError, match="and a fixture in its own test"):
        broker.records("orders")
    with pytest.raises(RuntimeError, match="the broker does not run"):
        broker.wait_for_offset("orders", 0, 1)
