"""Collects the requests that a step of the controller causes, and sends each broker one request of a kind.

Named after Kafka's ``ControllerBrokerRequestBatch``: LeaderAndIsr first, so that a leader serves before clients learn of it,
then UpdateMetadata, then StopReplica.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Final, NamedTuple

from twisted.logger import Logger

from twisted_kafka.controller.channels.interfaces import ControlResponse
from twisted_kafka.controller.channels.network_channels import NetworkChannels
from twisted_kafka.controller.context.context import ControllerContext, Leadership
from twisted_kafka.metadata.cache import LEADER_DURING_DELETE, NO_LEADER
from twisted_kafka.metadata.znodes import EndPointText
from twisted_kafka.protocol.messages.inter_broker import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from twisted_kafka.protocol.topic_partition import TopicPartition

_log = Logger()

EPOCH_DURING_DELETE: Final = -2
"""The leader epoch in StopReplica for a topic that is being deleted: newer than every other."""

_PROTOCOL_IDS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


class Addressee(NamedTuple):
    """The broker and the controller epoch of a request. An answer to another epoch of either is ignored."""

    broker: int
    broker_epoch: int
    controller_epoch: int


class ResponseHandlers(NamedTuple):
    """Called with the addressee and its response, on any thread."""

    leader_and_isr: Callable[[Addressee, LeaderAndIsrResponse], None]
    stop_replica: Callable[[Addressee, Collection[TopicPartition], StopReplicaResponse], None]
    """Called also with the partitions to delete; not called if there were none."""


class RequestBatch:
    """The requests of one step: ``new_batch``, then the ``add_`` methods, then ``send``."""

    def __init__(
        self, broker_id: int, context: ControllerContext, channels: NetworkChannels, handlers: ResponseHandlers, listener_name: str
    ) -> None:
        """``listener_name`` is the inter-broker listener, whose address names the live leaders."""
        self._broker_id = broker_id
        self._context = context
        self._channels = channels
        self._handlers = handlers
        self._listener_name = listener_name
        self._forget()

    def _forget(self) -> None:
        self._leader_and_isr: dict[int, dict[TopicPartition, LeaderAndIsrPartitionState]] = {}
        self._stop_replica: dict[int, dict[TopicPartition, StopReplicaPartitionState]] = {}
        self._metadata_brokers: set[int] = set()
        self._metadata: dict[TopicPartition, UpdateMetadataPartitionState] = {}

    def new_batch(self) -> None:
        """Begin a batch. The requests of a failed step are dropped."""
        if self._leader_and_isr or self._stop_replica or self._metadata_brokers:
            _log.warn("Dropping the requests of a failed step of the controller")
            self._forget()

    def add_leader_and_isr(
        self, brokers: Iterable[int], partition: TopicPartition, leadership: Leadership, *, is_new: bool = False
    ) -> None:
        """Send LeaderAndIsr for the partition to these brokers, and UpdateMetadata to all."""
        assignment = self._context.assignment(partition)
        for broker in brokers:
            if broker < 0:
                continue
            states = self._leader_and_isr.setdefault(broker, {})
            before = states.get(partition)
            states[partition] = LeaderAndIsrPartitionState(
                topic_name=partition.topic,
                partition_index=partition.partition,
                controller_epoch=leadership.controller_epoch,
                leader=leadership.leader,
                leader_epoch=leadership.leader_epoch,
                isr=list(leadership.isr),
                partition_epoch=leadership.partition_epoch,
                replicas=list(assignment.replicas),
                adding_replicas=list(assignment.adding),
                removing_replicas=list(assignment.removing),
                is_new=is_new or (before is not None and before.is_new),
                leader_recovery_state=leadership.recovery_state,
            )
        self.add_update_metadata(self._context.brokers, (partition,))

    def add_stop_replica(self, brokers: Iterable[int], partition: TopicPartition, *, delete: bool) -> None:
        """Send StopReplica for the partition to these brokers; it deletes the replica if any call in this batch asked for that."""
        leadership = self._context.leaderships.get(partition)
        epoch = leadership.leader_epoch if leadership is not None else -1
        if self._context.is_to_be_deleted(partition.topic):
            epoch = EPOCH_DURING_DELETE
        for broker in brokers:
            if broker < 0:
                continue
            states = self._stop_replica.setdefault(broker, {})
            before = states.get(partition)
            states[partition] = StopReplicaPartitionState(
                partition_index=partition.partition,
                leader_epoch=epoch,
                delete_partition=delete or (before is not None and before.delete_partition),
            )

    def add_update_metadata(self, brokers: Iterable[int], partitions: Iterable[TopicPartition]) -> None:
        """Send UpdateMetadata with the live brokers and these partitions to these brokers."""
        self._metadata_brokers.update(broker for broker in brokers if broker >= 0)
        for partition in partitions:
            state = self._metadata_state(partition)
            if state is not None:
                self._metadata[partition] = state

    def update_metadata(self, brokers: Iterable[int], partitions: Iterable[TopicPartition]) -> None:
        """Send UpdateMetadata at once, as a batch of its own."""
        self.new_batch()
        self.add_update_metadata(brokers, partitions)
        self.send()

    def _metadata_state(self, partition: TopicPartition) -> UpdateMetadataPartitionState | None:
        context = self._context
        leadership = context.leaderships.get(partition)
        replicas = context.assignment(partition).replicas
        is_to_be_deleted = context.is_to_be_deleted(partition.topic)
        if leadership is None:
            if not is_to_be_deleted:
                return None
            leadership = Leadership(NO_LEADER, -1, (), context.epoch, 0)
        return UpdateMetadataPartitionState(
            topic_name=partition.topic,
            partition_index=partition.partition,
            controller_epoch=leadership.controller_epoch,
            leader=LEADER_DURING_DELETE if is_to_be_deleted else leadership.leader,
            leader_epoch=leadership.leader_epoch,
            isr=list(leadership.isr),
            zk_version=leadership.partition_epoch,
            replicas=list(replicas),
            offline_replicas=[broker for broker in replicas if not context.is_online(partition, broker)],
        )

    def send(self) -> None:
        """Send the requests, and clear the batch."""
        leader_and_isr, stop_replica = self._leader_and_isr, self._stop_replica
        metadata_brokers, metadata = self._metadata_brokers, self._metadata
        self._forget()
        for broker, states in leader_and_isr.items():
            if broker in self._context.brokers:
                self._send_leader_and_isr(broker, states)
        if metadata_brokers:
            self._send_update_metadata(metadata_brokers & self._context.brokers.keys(), metadata)
        for broker, stops in stop_replica.items():
            if broker in self._context.brokers:
                self._send_stop_replica(broker, stops)

    def _send_leader_and_isr(self, broker: int, states: dict[TopicPartition, LeaderAndIsrPartitionState]) -> None:
        topics: dict[str, LeaderAndIsrTopicState] = {}
        for (name, _), state in states.items():
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = LeaderAndIsrTopicState(
                    topic_name=name, topic_id=self._context.topic_id(name), partition_states=[]
                )
            topic.partition_states.append(state)
        to = self._addressee(broker)
        request = LeaderAndIsrRequest(
            controller_id=self._broker_id,
            controller_epoch=self._context.epoch,
            broker_epoch=self._context.brokers[broker].epoch,
            topic_states=list(topics.values()),
            live_leaders=self._live_leaders({state.leader for state in states.values()}),
        )

        def answered(response: ControlResponse) -> None:
            assert isinstance(response, LeaderAndIsrResponse)
            self._handlers.leader_and_isr(to, response)

        self._channels.send(broker, request, answered)

    def _addressee(self, broker: int) -> Addressee:
        return Addressee(broker, self._context.brokers[broker].epoch, self._context.epoch)

    def _live_leaders(self, leaders: Collection[int]) -> list[LeaderAndIsrLiveLeader]:
        found = []
        for leader in sorted(leaders & self._context.brokers.keys()):
            for text in self._context.brokers[leader].node.endpoints:
                endpoint = EndPointText.parse(text)
                if endpoint.listener_name == self._listener_name:
                    found.append(LeaderAndIsrLiveLeader(broker_id=leader, host_name=endpoint.host, port=endpoint.port))
        return found

    def _send_update_metadata(self, brokers: Collection[int], states: dict[TopicPartition, UpdateMetadataPartitionState]) -> None:
        topics: dict[str, UpdateMetadataTopicState] = {}
        for (name, _), state in states.items():
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = UpdateMetadataTopicState(
                    topic_name=name, topic_id=self._context.topic_id(name), partition_states=[]
                )
            topic.partition_states.append(state)
        live = [self._described(broker) for broker in sorted(self._context.brokers)]
        for broker in sorted(brokers):
            request = UpdateMetadataRequest(
                controller_id=self._broker_id,
                controller_epoch=self._context.epoch,
                broker_epoch=self._context.brokers[broker].epoch,
                topic_states=list(topics.values()),
                live_brokers=live,
            )
            self._channels.send(broker, request, None)

    def _described(self, broker: int) -> UpdateMetadataBroker:
        node = self._context.brokers[broker].node
        endpoints = []
        for text in node.endpoints:
            endpoint = EndPointText.parse(text)
            protocol = node.listener_security_protocol_map.get(endpoint.listener_name, endpoint.listener_name)
            endpoints.append(
                UpdateMetadataEndpoint(
                    port=endpoint.port,
                    host=endpoint.host,
                    listener=endpoint.listener_name,
                    security_protocol=_PROTOCOL_IDS.get(protocol, 0),
                )
            )
        return UpdateMetadataBroker(id=broker, endpoints=endpoints, rack=node.rack)

    def _send_stop_replica(self, broker: int, states: dict[TopicPartition, StopReplicaPartitionState]) -> None:
        """Send one request for the replicas to stop and one for those to delete: old versions cannot mix them in a request."""
        for delete in (False, True):
            chosen = {partition: state for partition, state in states.items() if state.delete_partition == delete}
            if chosen:
                self._send_stop_replica_alike(broker, chosen, delete=delete)

    def _send_stop_replica_alike(
        self, broker: int, states: dict[TopicPartition, StopReplicaPartitionState], *, delete: bool
    ) -> None:
        topics: dict[str, StopReplicaTopicState] = {}
        for (name, _), state in states.items():
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = StopReplicaTopicState(topic_name=name, partition_states=[])
            topic.partition_states.append(state)
        to = self._addressee(broker)
        request = StopReplicaRequest(
            controller_id=self._broker_id,
            controller_epoch=self._context.epoch,
            broker_epoch=self._context.brokers[broker].epoch,
            topic_states=list(topics.values()),
        )

        def answered(response: ControlResponse) -> None:
            assert isinstance(response, StopReplicaResponse)
            self._handlers.stop_replica(to, list(states), response)

        self._channels.send(broker, request, answered if delete else None)
