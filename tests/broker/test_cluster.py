"""Several brokers on a real ZooKeeper: how they find one another, who leads, and what becomes of it when one goes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clients.served import ServedBroker
from tests.support.eventually import eventually
from tests.support.members import Members
from tests.support.ports import free_port
from tests.support.security.sasl_wire import Wire
from tests.support.zookeeper import ZooKeeper, proxied
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.znodes import PartitionStateNode
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.administration.scram import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from twisted_kafka.security.scram.formulas import SCRAM_SHA_512, salted_password

pytestmark = pytest.mark.long


@pytest.fixture
def members(zookeeper: ZooKeeper, tmp_path: Path) -> Iterator[Members]:
    members = Members(zookeeper, tmp_path)
    yield members
    members.close()


def test_brokers_hear_of_one_another_and_lead_what_the_controller_says(members: Members) -> None:
    members.start(1)
    members.start(2)
    assert members.controller_id == 1
    members.create("orders", [[2, 1], [1, 2]])
    members.all_hear("orders", leader=2, isr=[2, 1])
    for broker_id in (1, 2):
        admin = members.admin(broker_id)
        found = admin.describe_cluster()
        assert ({each["broker_id"] for each in found["brokers"]}, found["controller_id"]) == ({1, 2}, 1)
        admin.close()
    assert members.brokers[2].metrics.value("ReplicaManager", "PartitionCount") == 2
    assert members.brokers[2].metrics.value("ReplicaManager", "LeaderCount") == 1


def test_a_broker_that_stops_gives_its_leaderships_up_first(members: Members) -> None:
    members.start(1)
    members.start(2)
    members.create("orders", [[2, 1]])
    members.all_hear("orders", leader=2)
    members.stop(2)
    assert members.state("orders") == PartitionStateNode(leader=1, leader_epoch=1, isr=[1], controller_epoch=1)
    members.all_hear("orders", leader=1, offline_replicas=[2])
    members.start(2)
    members.all_hear("orders", leader=1, offline_replicas=[])


def test_when_the_controller_stops_another_broker_takes_the_office(members: Members) -> None:
    members.start(1)
    members.start(2)
    members.create("orders", [[1, 2]])
    members.all_hear("orders", leader=1)
    members.stop(1)
    eventually(lambda: members.nodes.exists(znodes.CONTROLLER) and members.controller_id == 2)
    members.all_hear("orders", leader=2, isr=[2], controller_epoch=1)
    members.start(1)
    members.create("more", [[1, 2]])
    members.all_hear("more", leader=1, controller_epoch=2)


def test_scram_credentials_are_altered_by_the_controller_alone(members: Members) -> None:
    members.start(1)
    members.start(2)
    salted = salted_password(SCRAM_SHA_512, b"s3cret", b"salt", 4096)
    upsertions = [
        ScramCredentialUpsertion(name=name, mechanism=2, iterations=4096, salt=b"salt", salted_password=salted)
        for name in ("bob", "alice")
    ]
    request = AlterUserScramCredentialsRequest(upsertions=upsertions)
    answers = {}
    for broker_id, broker in members.brokers.items():
        wire = Wire(broker.listeners[0].port)
        answers[broker_id] = {each.user: each.error_code for each in wire.send(request, 0).results}
    assert answers == {1: {"alice": 0, "bob": 0}, 2: dict.fromkeys(("alice", "bob"), ErrorCode.NOT_CONTROLLER)}


def test_a_topic_is_deleted_from_all_brokers(members: Members, tmp_path: Path) -> None:
    members.start(1)
    members.start(2)
    members.create("gone", [[2, 1]])
    members.all_hear("gone", leader=2)
    admin = members.admin(1)
    admin.delete_topics(["gone"])
    admin.close()
    eventually(lambda: not members.nodes.exists(znodes.topic_path("gone")))
    assert [members.partition(each, "gone") for each in (1, 2)] == [None, None]
    eventually(lambda: not list(tmp_path.glob("*/log/gone-0")))


def test_the_controllers_requests_go_to_the_control_plane(members: Members) -> None:
    for broker_id in (1, 2):
        members.start(
            broker_id,
            listeners=[f"{name}://localhost:{free_port()}" for name in ("CONTROL", "PLAINTEXT")],
            listener_security_protocol_map="CONTROL:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            control_plane_listener_name="CONTROL",
        )
    members.create("orders", [[2, 1]])
    members.all_hear("orders", leader=2)
    members.stop(2)
    members.all_hear("orders", leader=1, isr=[1])


def test_a_controller_whose_session_expires_is_a_broker_like_others_then(members: Members, zookeeper: ZooKeeper) -> None:
    with proxied(zookeeper) as proxy:
        members.start(1, zookeeper_connect=members.connect.replace(zookeeper.address, proxy.address))
        members.start(2)
        members.create("before", [[1, 2], [2, 1]])
        members.all_hear("before", leader=1)
        registered = members.nodes.exists(znodes.broker_path(1)).czxid
        proxy.expire()
        eventually(lambda: (found := members.nodes.exists(znodes.broker_path(1))) is not None and found.czxid > registered)
        eventually(lambda: members.nodes.exists(znodes.CONTROLLER))
        members.create("after", [[1, 2]])
        members.all_hear("after", leader=1, controller_epoch=2)
        members.stop(1)
        members.all_hear("after", leader=2)


@pytest.mark.slow  # tests/testing kills brokers within the process
def test_a_broker_that_is_killed_is_replaced_when_its_session_has_expired(members: Members, tmp_path: Path) -> None:
    members.start(1)
    settings = {
        "zookeeper.connect": members.connect,
        "broker.id": "2",
        "zookeeper.session.timeout.ms": "1000",
    }
    killed = ServedBroker(tmp_path / "2", *[f"{key}={value}" for key, value in settings.items()])
    killed.start()
    members.create("orders", [[2, 1]])
    members.all_hear("orders", leader=2)
    killed.kill()
    members.all_hear("orders", leader=1, isr=[1], offline_replicas=[2])
    killed.start()
    members.all_hear("orders", leader=1, offline_replicas=[])
    killed.stop()
