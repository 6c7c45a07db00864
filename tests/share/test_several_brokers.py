"""Share partitions of a cluster: their state at other brokers' coordinators, and a leader that stops."""

from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.support.share_client import RawClient, ShareMember, acquired_of, error_of, initialize_where_it_is, topic_id_of
from twisted_kafka.testing import Cluster

PARTITIONS = 3


@pytest.mark.slow
@pytest.mark.long
def test_the_next_leader_goes_on_where_the_last_one_stopped() -> None:
    with Cluster(3, {"share.coordinator.state.topic.num.partitions": 3}) as cluster:
        cluster.create_topic("orders", partitions=PARTITIONS, replication_factor=2)
        with RawClient(cluster.controller().bootstrap_servers) as client:
            topic_id = topic_id_of(client, "orders")
            for partition in range(PARTITIONS):
                initialize_where_it_is(client, "group", topic_id, partition)
        for partition in range(PARTITIONS):
            cluster.produce("orders", ["a", "b", "c", "d"], partition=partition)
            leader = cluster.leader("orders", partition)
            with ShareMember(leader.bootstrap_servers, "group", "one", topic_id, (partition,)) as one:
                assert eventually(lambda one=one: one.acquired()) == [(0, 3, 1)]  # type: ignore[misc]
                assert error_of(one.acknowledge((0, 1, [1]), partition=partition)) == (0, 0)
        stopped = cluster.leader("orders", 0)
        stopped.stop()
        leader = eventually(lambda: _other(cluster, stopped.broker_id))
        with ShareMember(leader.bootstrap_servers, "group", "two", topic_id) as two:
            ((first, last, count),) = eventually(lambda: _again(two))
            assert (first, last) == (2, 3)
            assert count in (1, 2), "the end of the first member's session may have been written, or not"
            assert error_of(two.acknowledge((2, 3, [1]))) == (0, 0)


def _other(cluster: Cluster, broker_id: int) -> Any:
    leader = cluster.leader("orders", 0)
    return leader if leader.broker_id != broker_id else None


def _again(member: ShareMember) -> list[tuple[int, int, int]]:
    """Begin a session; return what was acquired, nothing after an error."""
    member.epoch = 0
    response = member.fetch()
    return acquired_of(response) if error_of(response) == (0, 0) else []
