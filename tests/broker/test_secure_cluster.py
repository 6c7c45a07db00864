"""A cluster with ACLs, whose brokers log in at each other over TLS, and whose clients log in on a listener of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

from tests.broker.replicated import FAST, content
from tests.support.certificates import Authority
from tests.support.eventually import eventually
from tests.support.members import Members
from tests.support.zookeeper import ZooKeeper

pytestmark = pytest.mark.long

CA = Authority()
BROKER = CA.issue("CN=broker,O=Tests", ["localhost", "127.0.0.1"])
PLAIN_JAAS = 'x.PlainLoginModule required username="broker" password="b" user_broker="b" user_admin="a" user_mallory="m";'


def settings(super_users: str) -> dict[str, object]:
    return {
        "listeners": "BROKERS://127.0.0.1:0,CLIENT://127.0.0.1:0",
        "advertised_listeners": "BROKERS://localhost:0,CLIENT://127.0.0.1:0",
        "listener_security_protocol_map": "BROKERS:SASL_SSL,CLIENT:SASL_PLAINTEXT",
        "inter_broker_listener_name": "BROKERS",
        "sasl_enabled_mechanisms": "PLAIN",
        "sasl_mechanism_inter_broker_protocol": "PLAIN",
        "listener.name.brokers.plain.sasl.jaas.config": PLAIN_JAAS,
        "listener.name.client.plain.sasl.jaas.config": PLAIN_JAAS,
        "authorizer_class_name": "kafka.security.authorizer.AclAuthorizer",
        "super_users": super_users,
        "ssl_truststore_type": "PEM",
        "ssl_truststore_certificates": CA.pem,
        "ssl_keystore_type": "PEM",
        "ssl_keystore_key": BROKER.key_pem(),
        "ssl_keystore_certificate_chain": BROKER.chain_pem,
        "auto_create_topics_enable": "false",
        **FAST,
    }


@pytest.fixture
def members(zookeeper: ZooKeeper, tmp_path: Path) -> Iterator[Members]:
    members = Members(zookeeper, tmp_path)
    yield members
    members.close()


def login(members: Members, broker_id: int, user: str) -> dict[str, object]:
    ports = {end_point.listener_name: end_point.port for end_point in members.brokers[broker_id].listeners}
    return {
        "bootstrap_servers": f"127.0.0.1:{ports['CLIENT']}",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": user,
        "sasl_plain_password": user[0],
    }


def create(members: Members, assignment: list[int]) -> None:
    admin = KafkaAdminClient(**login(members, members.controller_id, "admin"))
    admin.create_topics([NewTopic("orders", -1, -1, {0: assignment})])
    admin.close()


def produce(members: Members, count: int) -> None:
    producer = KafkaProducer(acks="all", **login(members, 1, "admin"))
    for number in range(count):
        producer.send("orders", b"%d" % number, partition=0).get(30)
    producer.close()


def test_brokers_that_log_in_over_tls_replicate_under_an_authorizer(members: Members, tmp_path: Path) -> None:
    for broker_id in (1, 2):
        members.start(broker_id, **settings("User:broker;User:admin"))
    create(members, [1, 2])
    members.all_hear("orders", leader=1)
    produce(members, 50)
    eventually(lambda: content(tmp_path, 1) == content(tmp_path, 2) != b"")
    assert sorted(members.state("orders").isr) == [1, 2]
