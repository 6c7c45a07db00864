"""The vocabulary that one broker and a cluster share: records, groups, stops, snapshots, requests and recordings."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.budget import first_of
from twisted_kafka.testing import Broker, BrokerError, Cluster, Kafka, Record

confluent_kafka = pytest.importorskip("confluent_kafka")


of_one_broker = pytest.mark.parametrize("kafka", first_of([Broker, Cluster]), indirect=True)
"""For what a cluster does with the code of one broker."""


@pytest.fixture(params=[Broker, Cluster])
def kafka(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    with request.param() as running:
        running.create_topic("orders", partitions=2)
        yield running


def values(kafka: Kafka, topic: str = "orders") -> list[bytes | None]:
    return [record.value for record in kafka.records(topic)]


def consumer(kafka: Kafka, **settings: object) -> Any:
    usual = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    return confluent_kafka.Consumer({**usual, "enable.auto.commit": False, **settings})


def send(kafka: Kafka, *sent: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers, "client.id": "shop", "linger.ms": 0})
    for value in sent:
        producer.produce("orders", value, partition=0)
    assert producer.flush(30) == 0


@of_one_broker
def test_records_are_what_a_test_writes(kafka: Kafka) -> None:
    assert kafka.produce("orders", "one text", key="k") == 0
    assert kafka.produce("orders", [b"1", None], key="k", headers={"trace": "7"}) == 1
    whole = Record("v", "k", [("a", b"b"), ("none", None)], timestamp_ms=5)  # type: ignore[arg-type]
    assert kafka.produce("orders", whole, partition=1) == 0
    assert [(each.partition, each.offset, each.key, each.value, each.headers) for each in kafka.records("orders")] == [
        (0, 0, b"k", b"one text", ()),
        (0, 1, b"k", b"1", (("trace", b"7"),)),
        (0, 2, b"k", None, (("trace", b"7"),)),
        (1, 0, b"k", b"v", (("a", b"b"), ("none", None))),
    ]
    (again,) = kafka.records("orders", 1)
    assert (again.topic, again.timestamp_ms) == ("orders", 5)
    assert kafka.append("orders", [again]) == 3


@of_one_broker
def test_more_records_than_a_batch_takes_are_several_batches(kafka: Kafka) -> None:
    assert kafka.produce("orders", ["x" * 1000] * 3000) == 0
    assert kafka.end_offset("orders") == 3000
    kafka.create_topic("small", max_message_bytes=500)
    assert kafka.produce("small", [str(number) * 50 for number in range(10)] * 3) == 0
    assert values(kafka, "small")[9:11] == [b"9" * 50, b"0" * 50]
    with pytest.raises(BrokerError, match="cannot produce to small-0: MESSAGE_TOO_LARGE"):
        kafka.produce("small", "x" * 1000)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (
            ({"id": 1},),
            r"the value \{'id': 1\} is of type dict: expected bytes, a text or None; json\.dumps\(\) makes a text of it",
        ),
        (([{"id": 1}],), r"the value \{'id': 1\} is of type dict"),
        ((7,), "the value 7 is of type int: expected bytes, a text or None"),
        ((["x"], {"key": 5}), "the key 5 is of type int"),
        ((["x"], {"headers": ["ab"]}), r"the header 'ab': expected a name and a value, as in headers=\{'trace': b'1'\}"),
        ((["x"], {"headers": {"a": 1}}), "the value of header 'a' 1 is of type int"),
    ],
)
def test_what_is_no_record_is_refused_in_one_line(arguments: Any, why: str) -> None:
    given, named = (*arguments, {})[:2]
    with Broker() as broker:
        broker.create_topic("orders")
        with pytest.raises(TypeError, match=why):
            broker.produce("orders", given, **named)
        with pytest.raises(ValueError, match="there are no values to produce"):
            broker.produce("orders", [])


def test_a_group_is_seen(kafka: Kafka) -> None:
    kafka.produce("orders", ["1", "2"])
    with pytest.raises(TimeoutError, match="the last value was 'no lag: the group has committed no offset'"):
        kafka.wait_for_lag("g", timeout_s=0.1)
    reader = consumer(kafka)
    reader.subscribe(["orders"])
    assert reader.poll(30).value() == b"1"
    kafka.wait_for_group("g")
    reader.commit(asynchronous=False)
    kafka.wait_for_commit("g", "orders", 0, 1)
    kafka.wait_for_lag("g", 1)
    assert (kafka.committed("g")["orders", 0], kafka.lag("g"), kafka.group_state("g")) == (1, 1, "Stable")
    (member,) = kafka.described_group("g").members
    assert sorted(member.assigned) == [("orders", 0), ("orders", 1)]
    assert kafka.groups() == {"g": "Stable"}
    assert kafka.coordinator("g").broker_id == kafka.coordinator_id("g")
    reader.close()


@of_one_broker
def test_requests_are_a_sequence_that_can_be_read(kafka: Kafka) -> None:
    send(kafka, "1")
    send(kafka, "2")
    produced = kafka.requests.of("Produce").where(client_id="shop")
    produced.wait_for(2)
    assert (produced[0].fields.topic_data[0].name, produced[-1].fields.acks) == ("orders", -1)
    assert produced[0:1] == [produced[0]]
    assert produced[0] in produced
    assert list(reversed(produced)) == [produced[1], produced[0]]
    assert {each.node for each in produced} <= set(kafka.brokers)
    assert repr(produced).startswith("<2 requests Produce with client_id='shop':\n  ")
    assert "from shop orders-0 -> answered in " in repr(produced[0])
    assert repr(kafka.requests.of("Produce").where(client_id="none")) == "<0 requests Produce with client_id='none'>"
    with pytest.raises(IndexError, match=r"there are 2 requests Produce with client_id='shop', none at 5; the last requests were"):
        produced[5]
    assert not any(each.client_id.startswith("broker-") for each in kafka.requests if each.client_id)


def test_a_restart_and_a_pause_keep_addresses_and_data(kafka: Kafka) -> None:
    address = kafka.bootstrap_servers
    producer = confluent_kafka.Producer({"bootstrap.servers": address, "linger.ms": 0, "retry.backoff.ms": 10})
    kafka.produce("orders", "1")
    kafka.restart()
    with kafka.down():
        assert not kafka.is_running
        producer.produce("orders", b"2", partition=0)
        assert producer.flush(0.2) == 1
    assert producer.flush(30) == 0
    kafka.stop()
    kafka.stop()  # harmless
    kafka.start()
    assert (values(kafka), kafka.bootstrap_servers) == ([b"1", b"2"], address)


def test_one_broker_goes_and_comes_back_alone(kafka: Kafka) -> None:
    kafka.produce("orders", "1")
    broker: Any = kafka.leader("orders")
    address = broker.bootstrap_servers
    broker.kill()
    assert broker.broker_id not in kafka.brokers
    with pytest.raises(RuntimeError, match="the broker does not run"):
        broker.kill()
    broker.start()
    with broker.down():
        assert not broker.is_running
    broker.restart()
    assert (broker.bootstrap_servers, values(kafka)) == (address, [b"1"])


def test_a_snapshot_is_restored_and_a_reset_forgets(kafka: Kafka) -> None:
    kafka.produce("orders", "1")
    before = kafka.snapshot()
    kafka.produce("orders", "2")
    kafka.create_topic("bills")
    kafka.restore(before)
    assert (kafka.topics(), values(kafka)) == (["orders"], [b"1"])
    kafka.produce("orders", "3")
    kafka.restore(before)
    assert values(kafka) == [b"1"]
    kafka.reset()
    assert (kafka.topics(), len(kafka.requests)) == ([], 0)


@of_one_broker
def test_the_time_of_a_request_counts_on_after_a_restart(kafka: Kafka) -> None:
    kafka.clock.advance(minutes=1)
    send(kafka, "1")
    kafka.restart()
    send(kafka, "2")
    first, second = kafka.requests.of("Produce")
    assert 60_000 < first.answered_ms < second.arrived_ms


@of_one_broker
def test_a_closed_one_says_so(kafka: Kafka) -> None:
    kafka.close()
    kafka.close()
    with pytest.raises(RuntimeError, match="is closed, and its data is gone: make another one"):
        kafka.start()


def test_a_recording_has_the_clients_requests(kafka: Kafka, tmp_path: Path) -> None:
    with kafka.record(tmp_path / "shop.jsonl") as recording:
        send(kafka, "1")
        kafka.requests.of("Produce").wait_for()
    assert recording.written == len(kafka.requests)
    assert '"Produce"' in (tmp_path / "shop.jsonl").read_text()


def test_a_recording_is_replayed(kafka: Kafka, tmp_path: Path) -> None:
    with kafka.record(tmp_path / "shop.jsonl"):
        producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": "till"})
        producer.init_transactions(20)
        producer.begin_transaction()
        producer.produce("orders", b"1", partition=1)
        producer.flush(30)
        producer.commit_transaction(20)
        reader = consumer(kafka)
        reader.subscribe(["orders"])
        assert reader.poll(30).value() == b"1"
        reader.commit(asynchronous=False)
        reader.close()
        kafka.requests.of("LeaveGroup").wait_for()
    with type(kafka)() as other:
        other.create_topic("orders", partitions=2)
        report = other.replay(tmp_path / "shop.jsonl")
        assert not report.differences, report
        assert values(other) == [b"1"]
        assert other.committed("g")["orders", 1] == kafka.committed("g")["orders", 1]


def test_what_create_topic_does_not_take_is_explained() -> None:
    with Broker() as broker:
        with pytest.raises(TypeError, match=r"^create_topic has no 'num_partitions': expected partitions=3$"):
            broker.create_topic("orders", num_partitions=3)
        with pytest.raises(
            TypeError, match=r"^create_topic has no 'config': expected Kafka's settings by name, as in retention_ms"
        ):
            broker.create_topic("orders", config={"retention.ms": 1})


def test_a_topic_has_as_many_partitions_as_the_setting_says() -> None:
    with Broker({"num.partitions": 3}) as broker:
        broker.create_topic("three")
        broker.create_topic("two", partitions=2)
        assert (broker.partitions("three"), broker.partitions("two")) == ([0, 1, 2], [0, 1])


def test_a_wait_in_a_running_loop_fails_at_once_with_advice() -> None:
    async def main(kafka: Broker) -> None:
        for wait, arguments in (("wait_for_commit", ("g", "orders", 0, 1)), ("wait_for_group", ("g",)), ("wait_for_lag", ("g",))):
            with pytest.raises(
                RuntimeError, match=rf"^kafka\.{wait}\(\) would block the running event loop: use `await kafka\.aio"
            ):
                getattr(kafka, wait)(*arguments)
        with pytest.raises(RuntimeError, match=r"use `await kafka\.requests\.aio\.wait_for\(\.\.\.\)`"):
            kafka.requests.of("Produce").wait_for()

    with Broker() as broker:
        asyncio.run(main(broker))


def test_a_wait_of_an_async_test_lets_the_loop_run() -> None:
    aiokafka = pytest.importorskip("aiokafka")

    async def main(kafka: Broker) -> None:
        async def application() -> None:
            async with aiokafka.AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
                await producer.send_and_wait("orders", b"1")

        running = asyncio.ensure_future(application())
        await kafka.aio.wait_for_offset("orders", 0, 1)
        assert len(await kafka.requests.of("Produce").aio.wait_for()) == 1
        await running
        with pytest.raises(TimeoutError, match=r"waited 0\.01 s for group 'g' Stable"):
            await kafka.aio.wait_for_group("g", timeout_s=0.01)
        with pytest.raises(AttributeError, match="aio has only the waits"):
            kafka.aio.produce("orders", "1")
        assert "wait_for_lag" in dir(kafka.aio)

    with Broker() as broker:
        broker.create_topic("orders")
        asyncio.run(main(broker))


def test_a_cancelled_wait_ends_its_thread() -> None:
    async def main(kafka: Broker) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(kafka.aio.wait_for_offset("orders", 0, 1, timeout_s=1000), 0.05)

    with Broker() as broker:
        before = set(threading.enumerate())
        asyncio.run(main(broker))  # which waits for its threads
        assert set(threading.enumerate()) == before


def test_a_name_of_the_module_kafka_is_explained() -> None:
    broker = Broker()
    with pytest.raises(AttributeError, match=r"hides kafka-python's module.*as in `from kafka import KafkaProducer`"):
        broker.KafkaProducer()  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"^'Broker' object has no attribute 'record'?s_of'$"):
        broker.records_of  # type: ignore[attr-defined] # noqa: B018
