"""Controlled shutdown: moves leaderships away from a broker before it stops (Kafka: KafkaController.doControlledShutdown)."""

from collections.abc import Sequence

from twisted.logger import Logger

from twisted_kafka.controller.context.context import Leadership
from twisted_kafka.controller.context.states import PartitionStatus, ReplicaStatus
from twisted_kafka.controller.machines.leader_elections import Elected, offline_leader
from twisted_kafka.controller.machines.machinery import Machinery
from twisted_kafka.protocol.errors import BrokerNotAvailableError, StaleBrokerEpochError
from twisted_kafka.protocol.topic_partition import TopicPartition

_log = Logger()

UNKNOWN_EPOCH = -1
"""Old brokers do not send their epoch."""


class ControlledShutdown:
    """Used on the controller's event thread only."""

    def __init__(self, machinery: Machinery) -> None:
        self._context = machinery.context
        self._requests = machinery.requests
        self._partitions = machinery.partitions
        self._replicas = machinery.replicas

    def begin(self, broker: int, broker_epoch: int) -> list[TopicPartition]:
        """Move the broker's leaderships away; return those without another in-sync replica, which it still leads.

        Raises BrokerNotAvailableError for a broker that is not alive, StaleBrokerEpochError for one that has restarted since.
        """
        context = self._context
        if broker not in context.brokers:
            raise BrokerNotAvailableError(f"Broker {broker} is not available: it is not alive")
        if broker_epoch != UNKNOWN_EPOCH and broker_epoch < context.brokers[broker].epoch:
            raise StaleBrokerEpochError(
                f"The broker epoch {broker_epoch} is stale: broker {broker} has {context.brokers[broker].epoch}"
            )
        _log.info("Broker {broker} is shutting down", broker=broker)
        context.shutting_down.add(broker)
        held = [
            partition
            for partition, holder in context.replicas_on((broker,))
            if len(context.assignment(partition).replicas) > 1
            and partition in context.leaderships
            and not context.is_to_be_deleted(partition.topic)
        ]
        led = [partition for partition in held if context.leaderships[partition].leader == broker]
        followed = [partition for partition in held if context.leaderships[partition].leader != broker]
        self._partitions.handle(led, PartitionStatus.ONLINE, self._elect)
        self._requests.new_batch()
        for partition in followed:
            self._requests.add_stop_replica((broker,), partition, delete=False)
        self._requests.send()
        self._replicas.handle([(partition, broker) for partition in followed], ReplicaStatus.OFFLINE)
        return [partition for partition in led if context.leaderships[partition].leader == broker]

    def _elect(self, partition: TopicPartition, leadership: Leadership, alive: Sequence[int]) -> Elected | None:
        elected = offline_leader(self._context.assignment(partition).replicas, leadership.isr, alive, unclean=False)
        if elected is None:
            return None
        return Elected(elected.leader, [each for each in leadership.isr if each not in self._context.shutting_down])
