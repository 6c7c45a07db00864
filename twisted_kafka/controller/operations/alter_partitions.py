"""Leaders' changes of in-sync replicas, by request (KIP-497; Kafka: ``KafkaController.tryProcessAlterPartition``).

A leader that is behind is fenced: by its broker epoch, its leader epoch, and the partition epoch that it has seen. A replica joins
only while its broker is alive and not about to stop (KIP-841), and in the broker epoch in which it has caught up (KIP-903).
"""

from collections.abc import Mapping
from typing import NamedTuple

from twisted.logger import Logger

from twisted_kafka.controller.context.context import ControllerContext, Leadership
from twisted_kafka.controller.machines.machinery import Machinery
from twisted_kafka.controller.machines.partition_machine import RECOVERING, encoded_leadership
from twisted_kafka.controller.operations.reassignments import Reassignments
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.store import BadVersionError, Set, StoreError
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.controller import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from twisted_kafka.protocol.topic_partition import TopicPartition

_log = Logger()

TOPIC_IDS_SINCE = 2
"""Since this version, requests and responses identify topics by id, and leaders know INELIGIBLE_REPLICA."""

EPOCHS_SINCE = 3
"""Since this version, requests have the broker epochs of the in-sync replicas."""

UNKNOWN_EPOCH = -1


class _Wanted(NamedTuple):
    """The state of a partition that its leader proposes; ``epochs`` are the broker epochs of the in-sync replicas."""

    leader: int
    leader_epoch: int
    isr: list[int]
    epochs: Mapping[int, int]
    recovery_state: int
    partition_epoch: int


class AlterPartitions:
    """Used on the controller's event thread only."""

    def __init__(self, machinery: Machinery, reassignments: Reassignments) -> None:
        self._context = machinery.context
        self._store = machinery.store
        self._requests = machinery.requests
        self._reassignments = reassignments

    def alter(self, request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
        """Write the permitted changes of in-sync replicas, inform all brokers, and complete reassignments that waited for them."""
        broker = self._context.brokers.get(request.broker_id)
        if broker is None or broker.epoch != request.broker_epoch:
            _log.info("Broker {broker} may not change in-sync replicas: its epoch is stale", broker=request.broker_id)
            return AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        if self._store.children_version(znodes.BROKER_IDS) != self._context.brokers_version:
            # The broker asks again. If it has restarted since, the written state would hide that from the next controller.
            _log.info("In-sync replicas may change once registrations of brokers are handled")
            return AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        errors: dict[TopicPartition, ErrorCode] = {}
        changes: dict[TopicPartition, Leadership] = {}
        for partition, wanted in self._wanted(request, version).items():
            found = _judged(self._context, partition, wanted, version)
            if isinstance(found, Leadership):
                changes[partition] = found
            else:
                errors[partition] = found
        changed = self._write(changes, errors)
        response = self._response(request, version, errors)
        if changes:
            self._requests.update_metadata(self._context.brokers, changed)
        self._reassignments.resume(each for each, error in errors.items() if not error)
        return response

    def _wanted(self, request: AlterPartitionRequest, version: int) -> dict[TopicPartition, _Wanted]:
        wanted = {}
        for topic in request.topics:
            name = self._context.topic_name(topic.topic_id) if version >= TOPIC_IDS_SINCE else topic.topic_name
            if name:
                for each in topic.partitions:
                    wanted[TopicPartition(name, each.partition_index)] = _wanted(request.broker_id, each, version)
        return wanted

    def _write(self, changes: Mapping[TopicPartition, Leadership], errors: dict[TopicPartition, ErrorCode]) -> list[TopicPartition]:
        """Write the state nodes; return the partitions that have changed. ``errors`` gets the error code of each."""
        groups = [
            [Set(znodes.state_path(partition), encoded_leadership(leadership), leadership.partition_epoch - 1)]
            for partition, leadership in changes.items()
        ]
        changed = []
        for (partition, leadership), result in zip(changes.items(), self._store.batch(groups), strict=True):
            if isinstance(result, BadVersionError):
                errors[partition] = ErrorCode.INVALID_UPDATE_VERSION
            elif isinstance(result, StoreError):
                _log.error("The ISR of {partition} could not be changed: {error}", partition=partition, error=result)
                errors[partition] = ErrorCode.UNKNOWN_SERVER_ERROR
            else:
                self._context.leaderships[partition] = leadership
                errors[partition] = ErrorCode.NONE
                changed.append(partition)
        return changed

    def _response(
        self, request: AlterPartitionRequest, version: int, errors: Mapping[TopicPartition, ErrorCode]
    ) -> AlterPartitionResponse:
        topics = []
        for topic in request.topics:
            name = self._context.topic_name(topic.topic_id) if version >= TOPIC_IDS_SINCE else topic.topic_name
            partitions = []
            for each in topic.partitions:
                partition = TopicPartition(name, each.partition_index)
                answer = AlterPartitionResponsePartitionData(partition_index=each.partition_index)
                answer.error_code = errors[partition] if name else ErrorCode.UNKNOWN_TOPIC_ID
                leadership = self._context.leaderships.get(partition)
                if not answer.error_code and leadership is not None:
                    answer.leader_id = leadership.leader
                    answer.leader_epoch = leadership.leader_epoch
                    answer.isr = list(leadership.isr)
                    answer.leader_recovery_state = leadership.recovery_state
                    answer.partition_epoch = leadership.partition_epoch
                partitions.append(answer)
            topics.append(
                AlterPartitionResponseTopicData(topic_name=topic.topic_name, topic_id=topic.topic_id, partitions=partitions)
            )
        return AlterPartitionResponse(topics=topics)


def _wanted(leader: int, partition: AlterPartitionRequestPartitionData, version: int) -> _Wanted:
    epochs = {}
    isr = partition.new_isr
    if version >= EPOCHS_SINCE:
        epochs = {each.broker_id: each.broker_epoch for each in partition.new_isr_with_epochs}
        isr = list(epochs)
    return _Wanted(leader, partition.leader_epoch, isr, epochs, partition.leader_recovery_state, partition.partition_epoch)


def _judged(context: ControllerContext, partition: TopicPartition, wanted: _Wanted, version: int) -> Leadership | ErrorCode:
    """Return the state to be written, or an error: NONE if the partition is in the wanted state already."""
    now = context.leaderships.get(partition)
    if now is None or context.is_to_be_deleted(partition.topic):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if wanted.partition_epoch > now.partition_epoch or wanted.leader_epoch > now.leader_epoch:
        return ErrorCode.NOT_CONTROLLER  # the leader knows a later controller
    if wanted.leader_epoch < now.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if wanted.leader == now.leader and set(wanted.isr) == set(now.isr) and wanted.recovery_state == now.recovery_state:
        return ErrorCode.NONE  # also for an older partition epoch: a request that is sent again succeeds again
    if wanted.partition_epoch < now.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    is_possible = wanted.leader == now.leader and wanted.leader in wanted.isr and len(set(wanted.isr)) == len(wanted.isr)
    is_recovery = wanted.recovery_state == RECOVERING and (len(wanted.isr) > 1 or now.recovery_state != RECOVERING)
    if not is_possible or is_recovery or not set(wanted.isr) <= set(context.assignment(partition).replicas):
        return ErrorCode.INVALID_REQUEST
    joining = [broker for broker in wanted.isr if broker not in now.isr]
    if not all(_may_join(context, partition, broker, wanted.epochs.get(broker, UNKNOWN_EPOCH)) for broker in joining):
        return ErrorCode.INELIGIBLE_REPLICA if version >= TOPIC_IDS_SINCE else ErrorCode.OPERATION_NOT_ATTEMPTED
    return Leadership(
        now.leader, now.leader_epoch, wanted.isr, context.epoch, now.partition_epoch + 1, recovery_state=wanted.recovery_state
    )


def _may_join(context: ControllerContext, partition: TopicPartition, broker: int, epoch: int) -> bool:
    return context.is_online(partition, broker) and epoch in (UNKNOWN_EPOCH, context.brokers[broker].epoch)
