"""A broker whose metadata are in a real ZooKeeper."""

import itertools
import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic
from kazoo.client import KazooClient

from tests.support.cases import case
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.zookeeper import Proxy, ZooKeeper, proxied
from twisted_kafka.broker.broker import Broker, StartError
from twisted_kafka.broker.registration.metadata_store import METADATA_FILE
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.znodes import BrokerNode, ClusterIdNode, ControllerNode, NumberNode
from twisted_kafka.tools.main import main

pytestmark = pytest.mark.long

_numbers = itertools.count()


@pytest.fixture
def chroot() -> str:
    return f"/brokers-on-zookeeper/{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def nodes(zookeeper: ZooKeeper, chroot: str) -> Iterator[KazooClient]:
    """A client of the broker's nodes."""
    client = KazooClient(zookeeper.address + chroot)
    client.start_async().wait(30)
    yield client
    client.stop()
    client.close()


def make_broker(server: ZooKeeper | Proxy, chroot: str, directory: Path, **settings: object) -> Broker:
    properties: dict[str, object] = {
        "zookeeper.connect": server.address + chroot,
        "broker.id": 1,
        "zookeeper.session.timeout.ms": 5000,
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        **{key.replace("_", "."): value for key, value in settings.items()},
    }
    return Broker(properties, data_dir=directory)


def create_topics(broker: Broker, **partitions: int) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    admin.create_topics([NewTopic(name, count, 1) for name, count in partitions.items()])
    admin.close()


def produce(broker: Broker, topic: str, values: Iterable[int], **settings: object) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, **settings)
    if settings:
        producer.init_transactions()
        producer.begin_transaction()
    sent = [producer.send(topic, b"%d" % value) for value in values]
    for each in sent:
        each.get(30)
    if settings:
        producer.commit_transaction()
    producer.close()


def consume(broker: Broker, topic: str, count: int) -> set[int]:
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap_servers,
        group_id="group",
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        consumer_timeout_ms=60_000,
    )
    found = {int(record.value) for record in itertools.islice(consumer, count)}
    consumer.close()
    return found


def test_one_broker_works_whole(zookeeper: ZooKeeper, nodes: KazooClient, chroot: str, tmp_path: Path) -> None:
    with make_broker(zookeeper, chroot, tmp_path) as broker:
        data, stat = nodes.get(znodes.broker_path(1))
        assert f"PLAINTEXT://{broker.bootstrap_servers}" in BrokerNode.decode(data).endpoints
        assert stat.ephemeralOwner
        assert ControllerNode.decode(nodes.get(znodes.CONTROLLER)[0]).broker_id == 1
        cluster_id = ClusterIdNode.decode(nodes.get(znodes.CLUSTER_ID)[0]).cluster_id
        assert broker.cluster_id == cluster_id
        create_topics(broker, orders=3, gone=1)
        produce(broker, "orders", range(100), transactional_id="t")
        assert consume(broker, "orders", 100) == set(range(100))
        assert sorted(nodes.get_children("/brokers/topics/orders/partitions")) == ["0", "1", "2"]
        assert nodes.exists("/brokers/topics/__consumer_offsets/partitions/0/state")
        assert nodes.exists("/brokers/topics/__transaction_state/partitions/0/state")
        assert b'"block_end":"999"' in nodes.get(znodes.PRODUCER_ID_BLOCK)[0]
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
        admin.delete_topics(["gone"])
        admin.close()
        eventually(lambda: not nodes.exists("/brokers/topics/gone") and not nodes.exists("/admin/delete_topics/gone"))
    assert nodes.get_children(znodes.BROKER_IDS) == []
    assert not nodes.exists(znodes.CONTROLLER)
    assert not list(tmp_path.rglob(METADATA_FILE))
    with make_broker(zookeeper, chroot, tmp_path) as broker:
        assert broker.cluster_id == cluster_id
        produce(broker, "orders", range(100, 200))
        assert consume(broker, "orders", 100) == set(range(100, 200))


def test_after_an_expired_session_the_broker_registers_and_is_elected_again(
    zookeeper: ZooKeeper, nodes: KazooClient, chroot: str, tmp_path: Path
) -> None:
    with proxied(zookeeper) as proxy, make_broker(proxy, chroot, tmp_path) as broker:
        create_topics(broker, before=1)
        for _ in range(3):
            registered = nodes.get(znodes.broker_path(1))
            epoch = NumberNode.decode(nodes.get(znodes.CONTROLLER_EPOCH)[0]).value
            proxy.expire()

            def is_registered_again(before: int = registered[1].czxid) -> bool:
                found = nodes.exists(znodes.broker_path(1))
                return found is not None and found.czxid > before

            eventually(is_registered_again)
            eventually(lambda: nodes.exists(znodes.CONTROLLER))
            again = BrokerNode.decode(nodes.get(znodes.broker_path(1))[0])
            assert again.endpoints == BrokerNode.decode(registered[0]).endpoints
            assert NumberNode.decode(nodes.get(znodes.CONTROLLER_EPOCH)[0]).value == epoch + 1
            owners = {nodes.exists(path).ephemeralOwner for path in (znodes.broker_path(1), znodes.CONTROLLER)}
            assert owners == {proxy.sessions[-1][0]}
        eventually(lambda: _can_create(broker, "after"))
        for topic in ("before", "after"):
            with case(topic=topic):
                produce(broker, topic, range(10))
        assert consume(broker, "before", 10) == set(range(10))


def _can_create(broker: Broker, topic: str) -> bool:
    try:
        create_topics(broker, **{topic: 1})
    except RuntimeError:  # the client found no controller
        return False
    return True


def test_a_topic_that_is_created_while_there_is_no_connection_comes_later(
    zookeeper: ZooKeeper, nodes: KazooClient, chroot: str, tmp_path: Path
) -> None:
    with proxied(zookeeper) as proxy, make_broker(proxy, chroot, tmp_path) as broker:
        proxy.cut()
        created = threading.Thread(target=create_topics, args=(broker,), kwargs={"late": 1})
        created.start()
        proxy.mend()
        created.join()
        produce(broker, "late", range(10))


def test_produce_and_fetch_go_on_while_zookeeper_is_away(zookeeper: ZooKeeper, chroot: str, tmp_path: Path) -> None:
    with proxied(zookeeper) as proxy, make_broker(proxy, chroot, tmp_path) as broker:
        create_topics(broker, orders=1)
        produce(broker, "orders", range(10))
        assert consume(broker, "orders", 10) == set(range(10))
        proxy.cut()
        produce(broker, "orders", range(10, 20))
        assert consume(broker, "orders", 10) == set(range(10, 20))
        proxy.mend()


def test_a_second_broker_with_the_same_id_is_refused(zookeeper: ZooKeeper, nodes: KazooClient, chroot: str, tmp_path: Path) -> None:
    with make_broker(zookeeper, chroot, tmp_path / "1"):
        before = nodes.get(znodes.CONTROLLER)
        settings = {"zookeeper_session_timeout_ms": 1000, "zookeeper_connection_timeout_ms": 30_000}
        with pytest.raises(StartError, match=r"^a broker with the id 1 is already registered$"):
            make_broker(zookeeper, chroot, tmp_path / "3", **settings).start()
        assert nodes.get_children(znodes.BROKER_IDS) == ["1"]
        assert nodes.get(znodes.CONTROLLER) == before


def test_a_killed_brokers_registration_is_waited_for(zookeeper: ZooKeeper, nodes: KazooClient, chroot: str, tmp_path: Path) -> None:
    with make_broker(zookeeper, chroot, tmp_path):
        pass
    killed = KazooClient(zookeeper.address + chroot, timeout=30)
    killed.start()
    killed.create(znodes.broker_path(1), b"{}", ephemeral=True)
    starting = make_broker(zookeeper, chroot, tmp_path)
    started = threading.Thread(target=starting.start)
    started.start()
    eventually(lambda: _watchers(zookeeper, chroot + znodes.broker_path(1)))
    killed.stop()
    killed.close()
    started.join()
    assert nodes.exists(znodes.broker_path(1)).ephemeralOwner
    starting.stop()


def _watchers(server: ZooKeeper, path: str) -> bool:
    """Whether somebody watches a node."""
    client = KazooClient(server.address)
    client.start()
    text = client.command(b"wchp")
    client.stop()
    client.close()
    return path in text


def test_settings_that_cannot_be_kept_are_refused(zookeeper: ZooKeeper, chroot: str, tmp_path: Path) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    for settings, why in (
        ({"zookeeper.connect": nobody, "zookeeper.connection.timeout.ms": 300}, f"cannot connect to ZooKeeper at {nobody}"),
        ({"zookeeper.connect": "a:1,,b:2"}, "Invalid value 'a:1,,b:2' for zookeeper.connect: must be host:port pairs"),
        ({"zookeeper.connect": "a:b"}, "Invalid value 'a:b' for zookeeper.connect: has an invalid port 'b'"),
        ({"zookeeper.connect": "a:²"}, "for zookeeper.connect: has an invalid port '²'"),
        ({"zookeeper.connect": "a:1/x//y"}, "has an invalid path '/x//y'"),
        ({"zookeeper.metadata.migration.enable": "true"}, "for zookeeper.metadata.migration.enable: must be false"),
        ({"zookeeper.ssl.ocsp.enable": "true"}, "for zookeeper.ssl.ocsp.enable: must be false"),
        ({"zookeeper.set.acl": "true"}, "zookeeper.set.acl=true requires an identity at ZooKeeper"),
        ({"zookeeper.auth.digest": "nobody"}, "Invalid value for zookeeper.auth.digest: must be USER:PASSWORD"),
        (
            {"zookeeper.sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required;"},
            "Invalid value for zookeeper.sasl.jaas.config: must be org.apache.zookeeper.server.auth.DigestLoginModule required",
        ),
        ({"zookeeper.sasl.jaas.config": "secret"}, "Invalid value for zookeeper.sasl.jaas.config: the login module has no control"),
        ({"zookeeper.clientCnxnSocket": "x"}, "Invalid value 'x' for zookeeper.clientCnxnSocket"),
        (
            {"zookeeper.ssl.client.enable": "true", "zookeeper.ssl.truststore.location": "/nowhere.p12"},
            "Cannot read zookeeper.ssl.truststore.location /nowhere.p12",
        ),
        (
            {"zookeeper.ssl.client.enable": "true", "zookeeper.ssl.enabled.protocols": "SSLv3"},
            "Invalid value 'SSLv3' for zookeeper.ssl.enabled.protocols",
        ),
    ):
        with case(settings=settings), pytest.raises(StartError) as caught:
            Broker({"zookeeper.connect": zookeeper.address + chroot, **settings}, data_dir=tmp_path).start()
        assert why in str(caught.value)


def test_a_broker_with_metadata_of_its_own_does_not_start_without_them(zookeeper: ZooKeeper, chroot: str, tmp_path: Path) -> None:
    with Broker({"broker.id": 1}, data_dir=tmp_path) as broker:
        create_topics(broker, orders=1)
    with pytest.raises(StartError, match=rf"{METADATA_FILE} has the broker's metadata: copy them to ZooKeeper"):
        make_broker(zookeeper, chroot, tmp_path).start()


def test_a_broker_moves_to_zookeeper_and_back(zookeeper: ZooKeeper, chroot: str, tmp_path: Path) -> None:
    def run(action: str, file: str, **settings: object) -> None:
        text = {"broker.id": 1, "log.dirs": data_dir / "log", **settings}
        properties = tmp_path / "server.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in text.items()))
        assert main(["metadata", action, "--config", str(properties), str(tmp_path / file)]) == 0

    data_dir = tmp_path / "data"
    in_zookeeper = {"zookeeper.connect": zookeeper.address + chroot}
    with Broker({"broker.id": 1}, data_dir=data_dir) as broker:
        cluster_id = broker.cluster_id
        create_topics(broker, orders=2)
        produce(broker, "orders", range(10))
    run("export", "first")
    assert (tmp_path / "first").stat().st_mode & 0o777 == 0o600
    (data_dir / "log" / METADATA_FILE).rename(tmp_path / METADATA_FILE)
    run("import", "first", **in_zookeeper)
    with make_broker(zookeeper, chroot, data_dir) as broker:
        assert broker.cluster_id == cluster_id
        assert consume(broker, "orders", 10) == set(range(10))
        produce(broker, "orders", range(10, 20))
    run("export", "second", **in_zookeeper)
    run("import", "second")
    with Broker({"broker.id": 1}, data_dir=data_dir) as broker:
        assert broker.cluster_id == cluster_id
        assert consume(broker, "orders", 10) == set(range(10, 20))
