"""Consumers that are told to read from a replica that is nearer to them (KIP-392)."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from zope.interface import implementer

from tests.replication.several import Cluster, Member
from tests.support.replication_harness import TOPIC, topic_id
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.metadata.cache import Node
from twisted_kafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.partition.fetch_data import ClientMetadata
from twisted_kafka.replication.replica_selector import (
    LEADER_ONLY,
    RACK_AWARE,
    IReplicaSelector,
    RackAwareReplicaSelector,
    ReplicaView,
)

OWN = f"{__name__}.Furthest"


@implementer(IReplicaSelector)
class Furthest:
    """Chooses the broker with the highest id, and remembers what it is told."""

    asked: ClientMetadata | None = None

    def configure(self, configs: Mapping[str, str]) -> None:
        assert "replica.selector.class" in configs

    def select(
        self, topic_partition: TopicPartition, client: ClientMetadata, replicas: Sequence[ReplicaView], leader: ReplicaView
    ) -> ReplicaView | None:
        Furthest.asked = client
        return max(replicas, key=lambda each: each.node.id)

    def close(self) -> None: ...


def fetch(
    member: Member, rack: str, *, offset: int = 0, version: int = 12, session: tuple[int, int] = (0, -1), wait_ms: int = 0
) -> Any:
    """Fetch as a consumer in a rack."""
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic=TOPIC, topic_id=topic_id(TOPIC), partitions=[partition])
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=session[0],
        session_epoch=session[1],
        topics=[topic],
        rack_id=rack,
    )
    member.is_direct = True
    answer = member.call(request, version)
    member.is_direct = False
    return answer


def preferred(member: Member, rack: str, **how: Any) -> int:
    (topic,) = fetch(member, rack, **how).responses
    (data,) = topic.partitions
    replica: int = data.preferred_read_replica
    assert not data.error_code
    assert (replica >= 0) == (not data.records)
    return replica


@pytest.fixture
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path, 3, replica_selector_class=getattr(request, "param", RACK_AWARE))
    cluster.racks = {1: "a", 2: "b", 3: "b"}
    cluster.create()
    cluster.members[1].write(b"a")
    cluster.run(6)
    yield cluster
    cluster.close()


def test_a_consumer_is_sent_to_the_replica_in_its_rack(cluster: Cluster) -> None:
    leader, second, _ = cluster.members.values()
    assert preferred(leader, "b") == 3
    for rack in ("a", "", "elsewhere"):
        assert preferred(leader, rack) == -1
    assert preferred(leader, "b", version=17) == 3
    assert preferred(leader, "b", version=10) == -1, "these cannot be told"
    assert preferred(second, "a") == -1, "only a leader knows the others"


def test_one_that_waits_is_told_at_once_and_a_session_says_it_each_time(cluster: Cluster) -> None:
    leader = cluster.members[1]
    first = fetch(leader, "b", session=(0, 0), offset=1, wait_ms=500)
    assert first.responses[0].partitions[0].preferred_read_replica == 3
    again = fetch(leader, "b", session=(first.session_id, 1), offset=1, wait_ms=500)
    assert again.responses[0].partitions[0].preferred_read_replica == 3


def test_only_replicas_in_sync_that_have_the_offset_are_chosen(cluster: Cluster) -> None:
    leader = cluster.members[1]
    cluster.is_reachable = lambda follower, _: follower == 2
    leader.write(b"b")
    cluster.run(2)
    assert preferred(leader, "b", offset=1) == 2, "it is further"
    assert preferred(leader, "b", offset=0) == 2
    cluster.elect(1, isr=(1,))
    assert preferred(leader, "b") == -1


@pytest.mark.parametrize("cluster", [LEADER_ONLY], indirect=True)
def test_kafkas_default_sends_nobody_elsewhere(cluster: Cluster) -> None:
    assert preferred(cluster.members[1], "b") == -1


@pytest.mark.parametrize("cluster", [OWN], indirect=True)
def test_a_class_of_ones_own_chooses(cluster: Cluster) -> None:
    assert preferred(cluster.members[1], "here") == 3
    assert Furthest.asked == ClientMetadata("here", "client", "127.0.0.1", "User:ANONYMOUS", "PLAINTEXT")


def test_a_class_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no\.such\.Selector"):
        Cluster(tmp_path, replica_selector_class="no.such.Selector")


def test_the_rack_aware_one_prefers_who_is_furthest_then_who_caught_up_last() -> None:
    def view(broker_id: int, rack: str, end_offset: int = 5, behind_ms: int = 0) -> ReplicaView:
        return ReplicaView(Node(broker_id, "b", 9, rack), end_offset, behind_ms)

    leader = view(1, "a", 9)
    client = ClientMetadata("b", "", "", "", "")
    choose = RackAwareReplicaSelector().select
    some = TopicPartition(TOPIC, 0)
    assert choose(some, client, [leader, view(2, "b", 5), view(3, "b", 6)], leader) == view(3, "b", 6)
    assert choose(some, client, [leader, view(2, "b", 5, 1), view(3, "b", 5, 2)], leader) == view(2, "b", 5, 1)
    assert choose(some, client, [leader, view(2, "b"), view(3, "b")], leader) == view(3, "b")
