"""Orders of a controller, and a broker's request for a controlled shutdown: good, stale and wrong ones."""

from twisted_kafka.protocol.messages.inter_broker import (
    ControlledShutdownRequest,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
    UpdateMetadataRequest,
)
from twisted_kafka.tools.compare.talk import Talk, scenario

EPOCH = 1
"""Both brokers are in the first term of their controllers."""

BROKER = 1
STALE = 0
TOPIC_ID = bytes(range(1, 17))


def lead(
    talk: Talk, version: int, *, index: int = 0, epoch: int = EPOCH, leader_epoch: int = 0, **other: object
) -> LeaderAndIsrRequest:
    state = LeaderAndIsrPartitionState(
        topic_name=talk.topic("orders"),
        partition_index=index,
        controller_epoch=epoch,
        leader=BROKER,
        leader_epoch=leader_epoch,
        isr=[BROKER],
        replicas=[BROKER],
    )
    for name, value in other.items():
        setattr(state, name, value)
    request = LeaderAndIsrRequest(controller_id=BROKER, controller_epoch=epoch)
    if version >= 2:
        topic_id = TOPIC_ID[:-1] + bytes([version])
        request.topic_states = [LeaderAndIsrTopicState(topic_name=state.topic_name, topic_id=topic_id, partition_states=[state])]
    else:
        request.ungrouped_partition_states = [state]
    return request


def stop(talk: Talk, version: int, *, index: int = 0, delete: bool = True, leader_epoch: int = 0) -> StopReplicaRequest:
    topic = talk.topic("orders")
    request = StopReplicaRequest(controller_id=BROKER, controller_epoch=EPOCH, delete_partitions=delete and version < 3)
    if version >= 3:
        state = StopReplicaPartitionState(partition_index=index, leader_epoch=leader_epoch, delete_partition=delete)
        request.topic_states = [StopReplicaTopicState(topic_name=topic, partition_states=[state])]
    elif version >= 1:
        request.topics = [StopReplicaTopicV1(name=topic, partition_indexes=[index])]
    else:
        request.ungrouped_partitions = [StopReplicaPartitionV0(topic_name=topic, partition_index=index)]
    return request


@scenario(LeaderAndIsrRequest)
def leader_and_isr(talk: Talk, version: int) -> None:
    talk.ask(lead(talk, version), version)
    talk.ask(lead(talk, version, leader_epoch=3), version)
    talk.ask(lead(talk, version, leader_epoch=2), version)
    talk.ask(lead(talk, version, epoch=STALE, leader_epoch=4), version)
    talk.ask(lead(talk, version, index=1, replicas=[7], leader=7, isr=[7]), version)
    if version >= 2:
        request = lead(talk, version, leader_epoch=5)
        request.broker_epoch = STALE
        talk.ask(request, version)
    if version >= 5:
        request = lead(talk, version, leader_epoch=6)
        request.topic_states[0].topic_id = bytes(range(20, 36))
        talk.ask(request, version)
    talk.ask(LeaderAndIsrRequest(controller_id=BROKER, controller_epoch=EPOCH), version)
    talk.ask(stop(talk, 3, leader_epoch=9), 3, note=False)


@scenario(StopReplicaRequest)
def stop_replica(talk: Talk, version: int) -> None:
    talk.ask(stop(talk, version), version)
    talk.ask(lead(talk, 4, leader_epoch=3), 4)
    talk.ask(stop(talk, version, delete=False, leader_epoch=2), version)
    talk.ask(stop(talk, version, delete=False, leader_epoch=3), version)
    talk.ask(stop(talk, version, leader_epoch=-2), version)
    for change in ({"controller_epoch": STALE}, {"broker_epoch": STALE} if version >= 1 else {}):
        request = stop(talk, version)
        for name, value in change.items():
            setattr(request, name, value)
        talk.ask(request, version)
    talk.ask(StopReplicaRequest(controller_id=BROKER, controller_epoch=EPOCH), version)


@scenario(UpdateMetadataRequest)
def update_metadata(talk: Talk, version: int) -> None:
    talk.ask(UpdateMetadataRequest(controller_id=BROKER, controller_epoch=STALE), version)
    if version >= 5:
        talk.ask(UpdateMetadataRequest(controller_id=BROKER, controller_epoch=EPOCH, broker_epoch=STALE), version)


@scenario(ControlledShutdownRequest)
def controlled_shutdown_of_nobody(talk: Talk, version: int) -> None:
    talk.ask(ControlledShutdownRequest(broker_id=99), version)
    if version >= 2:
        talk.ask(ControlledShutdownRequest(broker_id=BROKER, broker_epoch=STALE), version)
