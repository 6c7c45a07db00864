"""The internal topics of a streams group in a cluster of three brokers."""

from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.support.share_client import RawClient
from twisted_kafka.protocol.compiler.types import NO_UUID
from twisted_kafka.protocol.messages.coordinators.groups import FindCoordinatorRequest, FindCoordinatorResponse
from twisted_kafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from twisted_kafka.protocol.messages.streams.streams_groups import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestSubtopology,
    StreamsGroupHeartbeatRequestTopology,
    StreamsGroupHeartbeatResponse,
    TopicInfo,
)
from twisted_kafka.testing import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.long]


def coordinator_of(client: RawClient, group_id: str) -> str:
    """Return the address of a group's coordinator."""
    request = FindCoordinatorRequest(coordinator_keys=[group_id])

    def found() -> Any:
        (coordinator,) = client.call(request, FindCoordinatorResponse, 4).coordinators
        return None if coordinator.error_code else coordinator

    coordinator = eventually(found)
    return f"{coordinator.host}:{coordinator.port}"


def test_internal_topics_have_as_many_replicas_as_the_topology_asks_for() -> None:
    wanted = {"three": 3, "one": 1}
    changelogs = [TopicInfo(name=name, replication_factor=factor) for name, factor in wanted.items()]
    subtopology = StreamsGroupHeartbeatRequestSubtopology(
        subtopology_id="0", source_topics=["orders"], state_changelog_topics=changelogs
    )
    joining = StreamsGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        process_id="m",
        rebalance_timeout_ms=60_000,
        topology=StreamsGroupHeartbeatRequestTopology(subtopologies=[subtopology]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=name, topic_id=NO_UUID) for name in wanted])
    with Cluster(3) as cluster:
        cluster.create_topic("orders", partitions=2, replication_factor=3)
        with RawClient(cluster.controller().bootstrap_servers) as client:
            address = coordinator_of(client, "g")

        def has_tasks() -> bool:
            with RawClient(address) as member:
                return bool(member.call(joining, StreamsGroupHeartbeatResponse, 1).active_tasks)

        eventually(has_tasks)
        with RawClient(address) as client:
            topics = client.call(asked, MetadataResponse, 12).topics
        assert {each.name: [len(part.replica_nodes) for part in each.partitions] for each in topics} == {
            "three": [3, 3],
            "one": [1, 1],
        }
