"""What a test writes wrong, and the one line that says what is right."""

import pickle
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from twisted_kafka.testing import Broker, BrokerError, Cluster, Record, Rule

_JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


@pytest.fixture(scope="module")
def kafka() -> Iterator[Any]:
    with Broker() as running:
        running.create_topic("orders")
        yield running


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with Cluster(2) as running:
        running.create_topic("orders")
        yield running


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        (lambda kafka: kafka.create_topic(b"bills"), "the topic b'bills' is of type bytes: expected a text"),
        (
            lambda kafka: kafka.create_topic("bills", partitions="3"),
            "the number of partitions '3' is of type str: expected a whole",
        ),
        (lambda kafka: kafka.create_topic("bills", replication_factor="1"), "the replication factor '1' is of type str: expected"),
        (lambda kafka: kafka.alter_topic(None, partitions=2), "the topic None is of type NoneType: expected a text"),
        (
            lambda kafka: kafka.alter_topic("orders", partitions="2"),
            "the number of partitions '2' is of type str: expected a whole",
        ),
        (lambda kafka: kafka.delete_topic(5), "the topic 5 is of type int: expected a text"),
        (lambda kafka: kafka.produce(b"orders", "1"), "the topic b'orders' is of type bytes: expected a text"),
        (lambda kafka: kafka.produce("orders", "1", partition="0"), "the partition '0' is of type str: expected a whole number"),
        (lambda kafka: kafka.records(5), "the topic 5 is of type int: expected a text"),
        (lambda kafka: kafka.records("orders", "0"), "the partition '0' is of type str: expected a whole number"),
        (lambda kafka: Record(b"1", timestamp_ms="now"), "the timestamp_ms 'now' is of type str: expected a whole number"),  # type: ignore[arg-type]
        (lambda kafka: kafka.committed(None), "the group None is of type NoneType: expected a text"),
        (lambda kafka: kafka.described_group(None), "the group None is of type NoneType: expected a text"),
        (lambda kafka: kafka.delete_group(None), "the group None is of type NoneType: expected a text"),
        (lambda kafka: kafka.rebalance(None), "the group None is of type NoneType: expected a text"),
        (lambda kafka: kafka.commit(5, {}), "the group 5 is of type int: expected a text"),
        (lambda kafka: kafka.commit("g", {"orders": 7}), "the offsets {'orders': 7}: expected a topic and a partition each, as in"),
        (lambda kafka: kafka.commit("g", [("orders", 0, 7)]), "the offsets [('orders', 0, 7)]: expected a topic and a partition"),
        (lambda kafka: kafka.commit("g", {("orders", "0"): 7}), "the partition '0' is of type str: expected a whole number"),
        (lambda kafka: kafka.commit("g", {("orders", 0): "7"}), "the offset '7' is of type str: expected a whole number"),
        (lambda kafka: kafka.commit("g", {("orders", 0): -7}), "the offset -7 of orders-0: expected 0 or more, or None to remove"),
        (lambda kafka: kafka.wait_for_offset("orders", 0, "1"), "the offset '1' is of type str: expected a whole number"),
        (lambda kafka: kafka.wait_for_commit("g", "orders", 0, "1"), "the offset '1' is of type str: expected a whole number"),
        (lambda kafka: kafka.wait_for_lag("g", "0"), "the lag '0' is of type str: expected a whole number"),
        (lambda kafka: kafka.allow(5, "Read", topic="orders"), "the principal 5 is of type int: expected a text"),
        (lambda kafka: kafka.allow("alice", ["Read", "Write"], topic="orders"), "the operation ['Read', 'Write'] is of type list"),
        (lambda kafka: kafka.allow("alice", "Read", topic=5), "the topic 5 is of type int: expected a text"),
        (lambda kafka: kafka.allow("alice", "Read", topic="a*b"), "no topic matches 'a*b': only a '*' at the end makes a prefix"),
        (lambda kafka: kafka.allow("alice", "Read", topic="orders"), "the broker has no authorizer: set authorizer.class.name to"),
        (lambda kafka: kafka.add_user("alice", 5), "the password 5 is of type int: expected a text"),
        (lambda kafka: kafka.remove_user(5), "the user 5 is of type int: expected a text"),
        (lambda kafka: kafka.restore("shop"), "'shop' is of type str: expected what snapshot() returned"),
        (lambda kafka: kafka.faults.add(5), "5 is of type int: expected a Rule, or its fields as a mapping"),
        (lambda kafka: kafka.faults.inject(api="Fetch", delay_ms=1).fired, "a rule is not in force yet, and has no 'fired': write"),
        (lambda kafka: kafka.requests.where(clientid="a"), "requests have no 'clientid': did you mean 'client_id'?"),
        (lambda kafka: kafka.requests.where(qwertz="a"), "requests have no 'qwertz', only api, version, client_id, "),
        (lambda kafka: kafka.requests.where(outcome="droped"), "there is no outcome 'droped', only answered, no response, dropped"),
        (lambda kafka: kafka.requests.where(api="Prodce"), "there is no API 'Prodce': did you mean 'Produce'?"),
        (lambda kafka: kafka.faults.inject(node=2, close="before"), "node=2: the rule can never match; requests here are for 1001"),
        (lambda kafka: kafka.servers_of("SASL_SSL"), "there is no listener 'SASL_SSL', only PLAINTEXT"),
        (lambda kafka: kafka.wait_for_group("g", timeout_s="3"), "the timeout_s '3' is of type str: expected a number"),
        (lambda kafka: kafka.clock.advance(hours="1"), "the hours '1' is of type str: expected a number"),
        (lambda kafka: kafka.clock.jump(hours="1"), "the hours '1' is of type str: expected a number"),
        (lambda kafka: Cluster("2"), "the number of brokers '2' is of type str: expected a whole number"),  # type: ignore[arg-type]
        (lambda kafka: Broker(num_partitons=3), "Broker has no 'num_partitons': did you mean 'num_partitions'?"),
        (lambda kafka: Broker(persna="2.8"), "Broker has no 'persna': did you mean 'persona'?"),
        (lambda kafka: Broker(port=9092), "Broker has no 'port': expected listeners='PLAINTEXT://127.0.0.1:9092'"),
        (lambda kafka: kafka.wait_for_share_group("g", "Assigning"), "no share group is ever 'Assigning': the states are Stable,"),
        (lambda kafka: kafka.produce("oders", "1"), "UNKNOWN_TOPIC_OR_PARTITION, create the topic first, or check its name"),
        (lambda kafka: kafka.records("orders", 5), "UNKNOWN_TOPIC_OR_PARTITION, create the topic first, or check its name"),
        (lambda kafka: Broker(qwertz=1), "Broker has no 'qwertz': expected Kafka's settings, as in num_partitions=3"),
        (lambda kafka: Cluster(bokers=2), "Cluster has no 'bokers': did you mean 'brokers'?"),
        (lambda kafka: kafka.faults.add_in_order(), "there are no rules to put in order"),
        (pickle.dumps, "a Broker cannot be copied or sent to another process: send its bootstrap_servers"),
    ],
)
def test_a_wrong_use_is_explained_in_one_line(kafka: Any, call: Callable[[Any], object], advice: str) -> None:
    with pytest.raises((TypeError, ValueError, AttributeError, BrokerError), match=re.escape(advice)) as raised:
        call(kafka)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        (lambda cluster: cluster.produce("oders", "1"), "topic 'oders' cannot be read: UNKNOWN_TOPIC_OR_PARTITION"),
        (lambda cluster: cluster.move_leader("oders"), "topic 'oders' cannot be read: UNKNOWN_TOPIC_OR_PARTITION"),
        (lambda cluster: cluster.move_leader("orders", 5), "there is no partition 5 of 'orders'"),
        (
            lambda cluster: cluster.faults.inject(node=9, close="before"),
            "node=9: the rule can never match; requests here are for 1, 2",
        ),
        (lambda cluster: Cluster(2, rules=[{"node": 9, "close": "before"}]), "rules: node=9: the rule can never match"),
        (lambda cluster: cluster["1"], "there is no broker '1', only [1, 2]"),
        (lambda cluster: cluster.kill("1"), "broker '1' does not run; these do: [1, 2]"),
        (lambda cluster: cluster[2].close(), "one broker of a cluster is not closed: stop() or kill() it, or close the cluster"),
        (lambda cluster: cluster[2].reset(), "one broker of a cluster is not reset: reset the cluster"),
    ],
)
def test_a_wrong_use_of_a_cluster_is_explained_at_once(cluster: Any, call: Callable[[Any], object], advice: str) -> None:
    with pytest.raises((KeyError, ValueError, BrokerError), match=re.escape(advice)):
        call(cluster)


def test_a_wait_for_a_partition_that_is_not_there_says_so(kafka: Any) -> None:
    with pytest.raises(TimeoutError, match="the last value was 'no end: orders-9 has no offsets: UNKNOWN_TOPIC_OR_PARTITION, "):
        kafka.wait_for_offset("orders", 9, 1, timeout_s=0.1)


def test_without_a_listener_in_plain_text_the_kit_says_what_it_needs() -> None:
    certain = {"sasl.enabled.mechanisms": "SCRAM-SHA-256", "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"}
    settings = {
        **certain,
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": _JAAS,
    }
    with Broker(settings) as kafka, pytest.raises(BrokerError, match="need a PLAINTEXT listener: add PLAINTEXT:"):
        kafka.topics()


def test_a_listener_in_plain_text_need_not_be_the_first_one() -> None:
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": _JAAS,
    }
    with Broker(settings) as kafka:
        kafka.create_topic("orders")
        assert kafka.topics() == ["orders"]
        assert kafka.bootstrap_servers == kafka.servers_of("sasl_plaintext") != kafka.servers_of("PLAINTEXT")


def test_a_field_of_some_requests_selects_among_all(kafka: Any) -> None:
    assert kafka.requests.where(acks=-1).count() == 0


def test_a_rule_is_added_as_a_mapping(kafka: Any) -> None:
    fault = kafka.faults.add({"api": "Fetch", "delay_ms": 1})
    assert fault.rule == Rule(api="Fetch", delay_ms=1)
    kafka.faults.remove(fault)


def test_settings_are_arguments_too() -> None:
    assert Broker(num_partitions=3, log_dir="/nowhere").embedded.config.int("num.partitions") == 3
    assert Cluster(2, num_partitions=4)[1].embedded.config.int("num.partitions") == 4


def test_each_part_says_what_it_is() -> None:
    with Broker() as broker:
        servers = broker.bootstrap_servers
        assert repr(broker) == f"<Broker 1001 {servers}>"
        assert repr(broker.faults) == "<0 rules>"
        with broker.faults.inject(api="Fetch", delay_ms=1):
            assert repr(broker.faults) == "<1 rules:\n  api=Fetch delay_ms=1: fired 0 of 0 times>"
        assert repr(broker.faults.inject(api="Fetch", delay_ms=1)) == "<rules for a with block, not in force>"
        assert repr(broker.requests) == "<0 requests>"
        assert repr(broker.aio) == f"<the waits of <Broker 1001 {servers}>>"
        with broker.clock.held():
            assert re.fullmatch(r"<Clock \d{4}-\d\d-\d\dT[\d:.]+\+00:00, held>", repr(broker.clock))
        with broker.frozen():
            assert repr(broker) == f"<Broker 1001 {servers}, frozen>"
        broker.stop()
        assert repr(broker) == f"<Broker 1001 {servers}, stopped>"
    assert repr(broker) == f"<Broker 1001 {servers}, closed>"
    assert repr(Broker()) == "<Broker not started>"
    assert repr(Cluster(2)) == "<Cluster 0 of 2 brokers run>"
