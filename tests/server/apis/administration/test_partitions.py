"""Elections, reassignments and producers on one broker, through the codec."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.apis.topic_harness import OneBroker
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.administration.partitions import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ElectLeadersRequestTopicPartitions,
    ListPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OneBroker]:
    broker = OneBroker(tmp_path)
    broker.create("t", 2)
    yield broker
    broker.store.close()


@pytest.mark.parametrize("version", range(3))
def test_one_brokers_partitions_have_the_leaders_they_prefer(broker: OneBroker, version: int) -> None:
    wanted = [ElectLeadersRequestTopicPartitions(topic="t", partitions=[0, 5])]
    (topic,) = broker.ask(ElectLeadersRequest(topic_partitions=wanted), version).replica_election_results
    assert {each.partition_id: each.error_code for each in topic.partition_result} == {
        0: ErrorCode.ELECTION_NOT_NEEDED,
        5: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert broker.ask(ElectLeadersRequest(topic_partitions=None), version).replica_election_results == []


def reassign(broker: OneBroker, replicas: list[int] | None, version: int = 1, **options: Any) -> int:
    topics = [ReassignableTopic(name="t", partitions=[ReassignablePartition(partition_index=0, replicas=replicas)])]
    (topic,) = broker.ask(AlterPartitionReassignmentsRequest(topics=topics, **options), version).responses
    return topic.partitions[0].error_code


def test_a_move_to_the_same_replicas_is_complete_at_once(broker: OneBroker) -> None:
    assert reassign(broker, [1]) == ErrorCode.NONE
    assert broker.ask(ListPartitionReassignmentsRequest(topics=None), 0).topics == []
    assert reassign(broker, None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_the_number_of_replicas_is_kept_when_asked_for(broker: OneBroker) -> None:
    assert reassign(broker, [1, 2], allow_replication_factor_change=False) == ErrorCode.INVALID_REPLICATION_FACTOR
    assert reassign(broker, [1, 2]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
