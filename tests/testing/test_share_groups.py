"""Share groups as a test sees them: states, members and offsets."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.share_client import RawClient, ShareMember, new_topic
from twisted_kafka.protocol.messages.share.share_groups import ShareGroupHeartbeatRequest
from twisted_kafka.protocol.messages.share.share_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from twisted_kafka.testing import Broker, BrokerError, Cluster, Kafka
from twisted_kafka.tools.compare.talk import Talk

RELEASE = 2
MEMBER = "AAAAAAAAAAAAAAAAAAAAAQ"


@pytest.fixture(params=[Broker, Cluster])
def kafka(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    with request.param() as running:
        running.create_topic("orders", partitions=2)
        yield running


@contextmanager
def asking(kafka: Kafka) -> Iterator[Callable[..., Any]]:
    """Send requests to the group's coordinator."""
    kafka.wait_for(lambda: kafka.coordinator_id("g"), lambda seen: seen >= 0, "a coordinator")
    address = kafka.coordinator("g").bootstrap_servers  # type: ignore[attr-defined]
    talk = Talk(int(address.rpartition(":")[2]), "member")
    yield talk.ask
    talk.close()


def test_a_share_group_is_seen(kafka: Kafka) -> None:
    assert kafka.share_group("g") == ("Dead", (), {}, {}, ())
    request = ShareGroupHeartbeatRequest(group_id="g", member_id=MEMBER, subscribed_topic_names=["orders"])
    with asking(kafka) as ask:

        def beat() -> int:
            answer = ask(request, 1)
            request.member_epoch = answer.member_epoch or request.member_epoch
            members = kafka.share_group("g").members
            return len(members[0].assigned) if members else 0

        kafka.wait_for(beat, lambda seen: seen == 2, "assigned partitions")
        kafka.wait_for_share_group("g")
        (member,) = kafka.share_group("g").members
        assert (member.member_id, sorted(member.assigned)) == (MEMBER, [("orders", 0), ("orders", 1)])
        assert kafka.share_group("g").offsets == {("orders", 0): -1, ("orders", 1): -1}
        assert (kafka.group_state("g"), kafka.groups()) == ("Stable", {"g": "Stable"})
        with pytest.raises(TimeoutError, match=r"share group 'g' Stable at \{\('orders', 0\): 1\} or more"):
            kafka.wait_for_share_group("g", offsets={("orders", 0): 1}, timeout_s=0.01)
        request.member_epoch = -1
        assert not ask(request, 1).error_code
    kafka.wait_for_share_group("g", "Empty")
    kafka.delete_group("g")
    assert kafka.share_group("g").state == "Dead"


def alter(kafka: Kafka, name: str, offset: int) -> None:
    partition = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=offset)
    topic = AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=[partition])
    with asking(kafka) as ask:
        request = AlterShareGroupOffsetsRequest(group_id="g", topics=[topic])
        kafka.wait_for(lambda: ask(request, 0).error_code, lambda seen: not seen, "altered offsets")


def test_the_offsets_of_a_share_group(kafka: Kafka) -> None:
    kafka.produce("orders", ["1", "2", "3"])
    alter(kafka, "orders", 2)
    kafka.wait_for_share_group("g", "Empty", offsets={("orders", 0): 2})
    found = kafka.share_group("g")
    assert (found.state, found.offsets, found.lag) == ("Empty", {("orders", 0): 2}, {("orders", 0): 1})


def test_records_that_a_member_has_acquired(kafka: Kafka) -> None:
    with RawClient(kafka.any().bootstrap_servers) as client:  # type: ignore[attr-defined]
        topic_id = new_topic(client, "tasks")
    kafka.produce("tasks", ["1", "2", "3"])
    alter(kafka, "tasks", 1)
    leader: Any = kafka.leader("tasks")
    with ShareMember(leader.bootstrap_servers, "g", MEMBER, topic_id) as member:
        # The leader may not know the share coordinator yet, and answers without records when the fetch has waited long enough.
        kafka.wait_for(lambda: (member.fetch(), kafka.share_group("g").acquired)[1], bool, "acquired records")
        (acquired,) = kafka.share_group("g").acquired
        assert acquired == ("tasks", 0, 1, 2, "ACQUIRED", 1, MEMBER)
        member.acknowledge((1, 1, [RELEASE]))
        first, second = kafka.share_group("g").in_flight
        assert (first.state, first.delivery_count, first.member_id, second.state) == ("AVAILABLE", 1, "", "ACQUIRED")


@pytest.mark.parametrize("persona", ["3.9", "4.1"])
def test_personas_without_share_groups(persona: str) -> None:
    with Broker(persona=persona) as broker, pytest.raises(BrokerError, match=r"share group 'g' .*: UNSUPPORTED_VERSION"):
        broker.share_group("g")
