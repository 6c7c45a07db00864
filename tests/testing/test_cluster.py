"""Several brokers in one process: real clients lose none of what was acknowledged while brokers go and come back."""

import threading
from collections.abc import Iterator

import pytest

from twisted_kafka.broker.broker import Broker as EmbeddedBroker
from twisted_kafka.broker.broker import StartError
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.testing import Cluster
from twisted_kafka.testing.broker import BrokerError

confluent_kafka = pytest.importorskip("confluent_kafka")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(3) as running:
        running.create_topic("orders", 2, replication_factor=3)
        yield running


def test_a_producer_survives_the_loss_of_its_leader(cluster: Cluster) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0})
    producer.produce("orders", b"before", partition=0)
    assert producer.flush(30) == 0
    old = cluster.leader_of("orders")
    cluster.kill(old)
    producer.produce("orders", b"after", partition=0)
    assert producer.flush(30) == 0
    assert cluster.wait_for_leader("orders") != old
    assert [record.value for record in cluster.records("orders")] == [b"before", b"after"]
    assert old not in cluster.isr_of("orders")


def test_a_broker_that_comes_back_catches_up_and_leads_again(cluster: Cluster) -> None:
    old = cluster.leader_of("orders")
    address = cluster[old].bootstrap_servers
    cluster.produce("orders", ["1"])
    cluster.kill(old)
    cluster.produce("orders", ["2"])
    cluster.start_broker(old)
    assert cluster[old].bootstrap_servers == address
    cluster.wait_for_isr("orders", 0, [1, 2, 3])
    cluster.elect("orders")
    cluster.elect("orders")  # it leads already, which is well
    assert cluster.wait_for_leader("orders") == old
    assert [record.value for record in cluster.records("orders", 0)] == [b"1", b"2"]
    cluster.produce("orders", ["elsewhere"], partition=1)
    assert [record.value for record in cluster.records("orders")] == [b"1", b"2", b"elsewhere"]


def test_a_broker_that_stops_gives_its_leaderships_up(cluster: Cluster) -> None:
    old = cluster.leader_of("orders", 1)
    cluster.stop_broker(old)
    assert cluster.leader_of("orders", 1) not in (old, None)
    assert (len(cluster), old in [broker.embedded.broker_id for broker in cluster]) == (2, False)


def test_a_group_moves_to_another_coordinator(cluster: Cluster) -> None:
    cluster.produce("orders", ["1"])
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer(settings)
    consumer.subscribe(["orders"])
    assert consumer.poll(30).value() == b"1"
    consumer.commit(asynchronous=False)
    coordinator = next(broker for broker in cluster if broker.requests.of("JoinGroup"))
    cluster.kill(coordinator.embedded.broker_id)
    cluster.produce("orders", ["2"])
    assert consumer.poll(30).value() == b"2"
    consumer.close()


def test_requests_and_faults_are_each_brokers_own(cluster: Cluster) -> None:
    leader = cluster.leader_of("orders")
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers, "client.id": "shop", "linger.ms": 0})
    with cluster[leader].faults.inject(api="Produce", error="NOT_LEADER_OR_FOLLOWER", times=1) as fault:
        producer.produce("orders", b"x", partition=0)
        assert producer.flush(30) == 0
    assert fault.fired == 1
    assert [broker.embedded.broker_id for broker in cluster if broker.requests.of("Produce")] == [leader]
    told = cluster.told()
    assert f"broker {leader}:\n" in told
    assert "Produce v" in told
    assert "Fetch v" not in told, "brokers' own requests are not shown"
    cluster.kill(leader)
    assert f"broker {leader}, which does not run:\n" in cluster.told()


def test_nothing_stays_behind() -> None:
    before = set(threading.enumerate())
    with Cluster(2) as cluster:
        directory = cluster._directory
        cluster.create_topic("orders")
    assert [thread.name for thread in set(threading.enumerate()) - before] == []
    assert not directory.exists()


def test_what_is_wrong_is_told_in_one_line(cluster: Cluster) -> None:
    with pytest.raises(KeyError, match=r"broker 7 does not run; these do: \[1, 2, 3\]"):
        cluster.kill(7)
    with pytest.raises(KeyError, match=r"there is no broker 7, only \[1, 2, 3\]"):
        cluster.start_broker(7)
    with pytest.raises(RuntimeError, match="broker 1 runs"):
        cluster.start_broker(1)
    with pytest.raises(BrokerError, match="there is no partition 9 of 'orders'"):
        cluster.leader_of("orders", 9)
    with pytest.raises(TimeoutError, match=r"orders-0 in sync on \[1\]; the last value was \[1, 2, 3\]"):
        cluster.wait_for_isr("orders", 0, [1], timeout_s=0.05)
    with pytest.raises(ValueError, match="brokers=0: expected 1 to 20"):
        Cluster(0)
    with pytest.raises(ValueError, match="listeners is the cluster's to set"):
        Cluster(properties={"listeners": "PLAINTEXT://:9092"})
    with pytest.raises(ConfigError), Cluster(properties={"num.partitions": 0}):
        pass
    with pytest.raises(StartError, match=r"zookeeper\.connect=in-process/none: this process shares no metadata of this name"):
        EmbeddedBroker({"zookeeper.connect": "in-process/none", "broker.id": 1}).start()
    old = {"zookeeper.connect": "in-process/none", "broker.id": 1, "inter.broker.protocol.version": "2.7"}
    with pytest.raises(StartError, match=r"Invalid value '2\.7' for inter\.broker\.protocol\.version.*at least 2\.8"):
        EmbeddedBroker(old).start()
    with Cluster(1) as ended:
        pass
    with pytest.raises(BrokerError, match="no broker of the cluster runs: use it inside its with block, or start one"):
        ended.create_topic("orders")
    with pytest.raises(RuntimeError, match=r"the cluster does not run: start\(\) it, or use it inside its with block"):
        ended.start_broker(1)
