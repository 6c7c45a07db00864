"""Reacts to brokers that start and fail, and to their answers about replicas.

(Kafka: KafkaController.onBrokerStartup, onBrokerFailure, onReplicasBecomeOffline, processLeaderAndIsrResponseReceived.)
Everything here runs on the controller's event thread.
"""

from collections.abc import Collection

from twisted.logger import Logger

from twisted_kafka.controller.context.states import PartitionStatus, ReplicaStatus
from twisted_kafka.controller.machines.machinery import Machinery
from twisted_kafka.controller.operations.topic_deletion import TopicDeletion
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.inter_broker import LeaderAndIsrResponse, StopReplicaResponse
from twisted_kafka.protocol.topic_partition import TopicPartition

_log = Logger()


class BrokerChanges:
    """Drives the state machines when brokers start, fail or answer."""

    def __init__(self, machinery: Machinery, deletion: TopicDeletion) -> None:
        self._context = machinery.context
        self._requests = machinery.requests
        self._partitions = machinery.partitions
        self._replicas = machinery.replicas
        self._deletion = deletion

    def started(self, new: Collection[int]) -> None:
        """Send the whole metadata to new brokers, which are in the context already, and bring their replicas online."""
        context = self._context
        context.offline_replicas = {replica for replica in context.offline_replicas if replica[1] not in new}
        self._requests.update_metadata(context.brokers.keys() - new, ())
        # New brokers need the metadata of all partitions.
        self._requests.update_metadata(new, context.all_partitions())
        replicas = context.replicas_on(new)
        self._replicas.handle(replicas, ReplicaStatus.ONLINE)
        self._partitions.elect_for_offline()
        self._deletion.retry({partition.topic for partition, _ in replicas})

    def tell_anew(self, broker: int) -> None:
        """Send a broker the whole metadata and the leaders of its replicas, and retry its unfinished deletions."""
        context = self._context
        if broker not in context.brokers:
            return
        self._requests.update_metadata((broker,), context.all_partitions())
        replicas = context.replicas_on((broker,))
        online = [replica for replica in replicas if context.replica_states.get(replica) is ReplicaStatus.ONLINE]
        self._replicas.handle(online, ReplicaStatus.ONLINE)
        self._deletion.replicas_failed(replicas)
        self._deletion.retry({partition.topic for partition, _ in replicas})

    def failed(self, gone: Collection[int]) -> None:
        """Elect other leaders for the partitions that these brokers led; they are out of the context already."""
        self.replicas_failed(self._context.replicas_on(gone))
        self._requests.update_metadata(self._context.brokers, ())

    def replicas_failed(self, replicas: list[tuple[TopicPartition, int]]) -> None:
        """Take replicas, each a partition and a broker, offline."""
        context = self._context
        deleted = [replica for replica in replicas if context.is_to_be_deleted(replica[0].topic)]
        others = [replica for replica in replicas if not context.is_to_be_deleted(replica[0].topic)]
        leaderless = [
            partition
            for partition in dict.fromkeys(partition for partition, _ in others)
            if (leadership := context.leaderships.get(partition)) is not None
            and not context.is_online(partition, leadership.leader)
        ]
        self._partitions.handle(leaderless, PartitionStatus.OFFLINE)
        self._partitions.elect_for_offline()
        self._replicas.handle(others, ReplicaStatus.OFFLINE)
        if deleted:
            self._deletion.make_ineligible({partition.topic for partition, _ in deleted}, "a replica's broker died")
            self._deletion.replicas_failed(deleted)

    def leaders_taken(self, broker: int, response: LeaderAndIsrResponse) -> None:
        """Handle a LeaderAndIsr response: take failed replicas offline, and bring recovered ones back."""
        if response.error_code:
            _log.error("Broker {broker} refused to change leaders: error {code}", broker=broker, code=response.error_code)
            return
        context = self._context
        failed, recovered = [], []
        errors = [(error.topic_name, error) for error in response.partition_errors]
        errors += [(context.topic_name(topic.topic_id), error) for topic in response.topics for error in topic.partition_errors]
        for topic, error in errors:
            replica = (TopicPartition(topic, error.partition_index), broker)
            if error.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
                failed.append(replica)
            elif not error.error_code and replica in context.offline_replicas:
                recovered.append(replica)
        context.offline_replicas.update(failed)
        context.offline_replicas.difference_update(recovered)
        if failed:
            self.replicas_failed(failed)
        if recovered:
            self._replicas.handle(recovered, ReplicaStatus.ONLINE)
            self._partitions.elect_for_offline()

    def replicas_stopped(self, broker: int, deleted: Collection[TopicPartition], response: StopReplicaResponse) -> None:
        """Handle a StopReplica response: continue the deletion of topics."""
        errors = {TopicPartition(each.topic_name, each.partition_index): each.error_code for each in response.partition_errors}
        failed = {each for each in deleted if response.error_code or errors.get(each, ErrorCode.NONE)}
        self._deletion.replicas_failed([(each, broker) for each in failed])
        self._deletion.replicas_deleted([(each, broker) for each in deleted if each not in failed])
