"""Leaders' changes of in-sync replicas: what is taken, and what is fenced."""

from typing import Any

import pytest

from tests.support.cases import case
from tests.support.controller_cluster import Cluster
from twisted_kafka.controller.controller_metrics import ControllerState
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.znodes import PartitionStateNode
from twisted_kafka.protocol.errors import ErrorCode, NotControllerError
from twisted_kafka.protocol.messages.controller import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    BrokerState,
)
from twisted_kafka.protocol.messages.inter_broker import LeaderAndIsrRequest, UpdateMetadataRequest
from twisted_kafka.protocol.topic_partition import TopicPartition

TOPIC_ID = b"t" * 16
T0 = TopicPartition("t", 0)


@pytest.fixture
def led(cluster: Cluster) -> Cluster:
    """Broker 2 leads t-0, with 1 in sync, and 3 out of it."""
    cluster.start(1, 2, 3)
    cluster.make_topic("t", [2, 1, 3], topic_id=TOPIC_ID)
    assert alter(cluster, [2, 1])["error_code"] == 0
    cluster.brokers.sent.clear()
    return cluster


def epoch(cluster: Cluster, broker: int) -> int:
    return cluster.controller.context.brokers[broker].epoch


def request(cluster: Cluster, isr: list[int], version: int = 3, **changes: Any) -> AlterPartitionRequest:
    broker = changes.pop("broker_id", 2)
    broker_epoch = changes.pop("broker_epoch", None)
    epochs = changes.pop("epochs", {})
    leadership = cluster.controller.context.leaderships[T0]
    values = {"leader_epoch": leadership.leader_epoch, "partition_epoch": leadership.partition_epoch, **changes}
    data = AlterPartitionRequestPartitionData(partition_index=values.pop("partition_index", 0), **values)
    if version >= 3:
        data.new_isr_with_epochs = [BrokerState(broker_id=each, broker_epoch=epochs.get(each, -1)) for each in isr]
    else:
        data.new_isr = isr
    topic = AlterPartitionRequestTopicData(partitions=[data])
    if version >= 2:
        topic.topic_id = TOPIC_ID
    else:
        topic.topic_name = "t"
    return AlterPartitionRequest(
        broker_id=broker, broker_epoch=epoch(cluster, broker) if broker_epoch is None else broker_epoch, topics=[topic]
    )


def send(cluster: Cluster, asked: AlterPartitionRequest, version: int = 3) -> AlterPartitionResponse:
    done = cluster.controller.run(lambda: cluster.controller.isr_changes.alter(asked, version), ControllerState.ISR_CHANGE)
    cluster.pump()
    response = done.result(0)
    return AlterPartitionResponse.decode(response.encode(version), version)


def alter(cluster: Cluster, isr: list[int], version: int = 3, **changes: Any) -> dict[str, Any]:
    """Ask for in-sync replicas; return the answer about the partition."""
    response = send(cluster, request(cluster, isr, version, **changes), version)
    assert not response.error_code
    (topic,) = response.topics
    (partition,) = topic.partitions
    assert (topic.topic_id == TOPIC_ID) if version >= 2 else (topic.topic_name == "t")
    names = ("error_code", "leader_id", "leader_epoch", "isr", "partition_epoch", "leader_recovery_state")
    return {name: getattr(partition, name) for name in names}


def test_in_sync_replicas_do_not_change_while_a_registration_is_not_handled(led: Cluster) -> None:
    asked = request(led, [2, 1, 3])
    led.kill(2)
    led.register(2)
    answer = led.controller.isr_changes.alter(asked, 3)  # it was sent before
    assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH
    led.store.delete(znodes.CONTROLLER)
    led.pump()
    assert (led.controller.epoch, led.state("t").leader, led.state("t").leader_epoch) == (2, 1, 1)
    assert not send(led, request(led, [1, 3], broker_id=1)).error_code


def test_a_leader_takes_replicas_in_and_out(led: Cluster) -> None:
    for version, isr in ((0, [2]), (1, [2, 1]), (2, [2, 1, 3]), (3, [2])):
        with case(version=version):
            before = led.store.exists(znodes.state_path(T0)).version
            answer = alter(led, isr, version)
            assert answer == {
                "error_code": 0,
                "leader_id": 2,
                "leader_epoch": 0,
                "isr": isr,
                "partition_epoch": before + 1,
                "leader_recovery_state": 0,
            }
            assert led.state("t") == PartitionStateNode(leader=2, leader_epoch=0, isr=isr, controller_epoch=1)
            told = led.brokers.take(UpdateMetadataRequest)
            assert [broker for broker, _ in told] == [1, 2, 3]
            assert [each.isr for _, sent in told for each in sent.topic_states[0].partition_states] == [isr] * 3
            assert not led.brokers.take(LeaderAndIsrRequest)


def test_who_is_behind_is_fenced(led: Cluster) -> None:
    now = led.controller.context.leaderships[T0]
    for changes, error in (
        ({"leader_epoch": now.leader_epoch + 1}, ErrorCode.NOT_CONTROLLER),
        ({"partition_epoch": now.partition_epoch + 1}, ErrorCode.NOT_CONTROLLER),
        ({"leader_epoch": now.leader_epoch - 1}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"partition_epoch": now.partition_epoch - 1}, ErrorCode.INVALID_UPDATE_VERSION),
        ({"partition_index": 7}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"broker_id": 1}, ErrorCode.INVALID_REQUEST),
        ({"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
    ):
        with case(changes=changes):
            assert alter(led, [2], **changes)["error_code"] == error
    for isr in ([1], [], [2, 2], [2, 9]):
        with case(isr=isr):
            assert alter(led, isr, version=2)["error_code"] == ErrorCode.INVALID_REQUEST
    for broker_id, broker_epoch in ((2, epoch(led, 2) - 1), (9, 1)):
        response = send(led, request(led, [2], broker_id=broker_id, broker_epoch=broker_epoch))
        assert (response.error_code, response.topics) == (ErrorCode.STALE_BROKER_EPOCH, [])
    assert led.state("t").isr == [2, 1]
    assert not led.brokers.sent


def test_an_unknown_topic_id(led: Cluster) -> None:
    asked = request(led, [2])
    asked.topics[0].topic_id = b"?" * 16
    assert send(led, asked).topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_request_that_comes_twice_succeeds_twice(led: Cluster) -> None:
    asked = request(led, [2])
    first, second = send(led, asked), send(led, asked)
    assert first == second
    assert led.store.exists(znodes.state_path(T0)).version == first.topics[0].partitions[0].partition_epoch


def test_a_replica_joins_only_while_its_broker_is_there(led: Cluster) -> None:
    context = led.controller.context
    ineligible = (ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA)
    assert alter(led, [2, 1, 3], epochs={3: epoch(led, 3) - 1})["error_code"] == ErrorCode.INELIGIBLE_REPLICA
    context.shutting_down.add(3)
    assert tuple(alter(led, [2, 1, 3], version)["error_code"] for version in (1, 2)) == ineligible
    context.shutting_down.clear()
    led.kill(3)
    led.pump()
    assert alter(led, [2, 1, 3])["error_code"] == ErrorCode.INELIGIBLE_REPLICA
    led.register(3)
    led.pump()
    assert alter(led, [2, 1, 3], epochs={3: epoch(led, 3)})["error_code"] == 0


def test_a_state_that_somebody_else_has_changed_is_not_replaced(led: Cluster) -> None:
    path = znodes.state_path(T0)
    led.store.set(path, led.store.get(path)[0])
    assert alter(led, [2])["error_code"] == ErrorCode.INVALID_UPDATE_VERSION
    assert led.state("t").isr == [2, 1]


def test_a_reassignment_that_waited_for_the_replica_is_complete(cluster: Cluster) -> None:
    cluster.start(1, 2, 3)
    cluster.make_topic("t", [2, 1], topic_id=TOPIC_ID)
    cluster.controller.run(
        lambda: cluster.controller.reassignments.alter({T0: [2, 3]}), ControllerState.ALTER_PARTITION_REASSIGNMENT
    )
    cluster.pump()
    assert alter(cluster, [2, 1, 3])["error_code"] == 0
    assert cluster.state("t").isr == [2, 3]
    assert cluster.controller.context.assignment(T0).replicas == [2, 3]


@pytest.mark.parametrize(("before", "after", "epoch"), [([1], [2], 3), ([1, 2], [2], 2), ([1, 2], [1], 2), ([1], [1, 2], 2)])
def test_a_reassignment_begins_as_many_leader_epochs_as_kafkas(
    cluster: Cluster, before: list[int], after: list[int], epoch: int
) -> None:
    cluster.start(1, 2)
    cluster.make_topic("t", before, topic_id=TOPIC_ID)
    alteration = {T0: after}
    cluster.controller.run(lambda: cluster.controller.reassignments.alter(alteration), ControllerState.ALTER_PARTITION_REASSIGNMENT)
    cluster.pump()
    if after != before and not set(after) <= set(before):
        assert alter(cluster, [*before, *after], broker_id=before[0])["error_code"] == 0
        cluster.pump()
    assert (cluster.state("t").leader, cluster.state("t").isr, cluster.state("t").leader_epoch) == (after[0], after, epoch)
    told = [state for _, sent in cluster.brokers.take(LeaderAndIsrRequest) for state in sent.topic_states[0].partition_states]
    assert (told[-1].leader_epoch, told[-1].replicas, told[-1].adding_replicas, told[-1].removing_replicas) == (
        epoch,
        after,
        [],
        [],
    )


def test_a_leader_that_was_elected_uncleanly_recovers_with_its_first_change(cluster: Cluster) -> None:
    cluster.restart(unclean_leader_election_enable="true")
    cluster.start(1, 2)
    cluster.make_topic("t", [2, 1], topic_id=TOPIC_ID)
    assert alter(cluster, [2])["error_code"] == 0
    cluster.kill(2)
    cluster.pump()
    assert cluster.state("t") == PartitionStateNode(leader=1, leader_epoch=1, isr=[1], controller_epoch=1, leader_recovery_state=1)
    told = [state for _, sent in cluster.brokers.take(LeaderAndIsrRequest) for state in sent.topic_states[0].partition_states]
    assert told[-1].leader_recovery_state == 1
    cluster.register(2)
    cluster.pump()
    answer = alter(cluster, [1, 2], broker_id=1, leader_recovery_state=1)
    assert answer["error_code"] == ErrorCode.INVALID_REQUEST, "who recovers is alone in sync"
    assert alter(cluster, [1, 2], broker_id=1)["leader_recovery_state"] == 0
    assert cluster.state("t").leader_recovery_state == 0


def test_only_the_controller_changes_them(led: Cluster) -> None:
    asked = request(led, [2])
    led.store.delete(znodes.CONTROLLER)
    led.controller.shutdown()
    with pytest.raises(NotControllerError):
        send(led, asked)
