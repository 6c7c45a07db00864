"""Gives leaderships back to preferred replicas, where too many are elsewhere (Kafka: checkAndTriggerAutoLeaderRebalance)."""

from collections.abc import Callable, Iterable

from twisted.logger import Logger

from twisted_kafka.controller.context.context import ControllerContext
from twisted_kafka.controller.machines.leader_elections import ElectionType
from twisted_kafka.protocol.errors import KafkaError
from twisted_kafka.protocol.topic_partition import TopicPartition

_log = Logger()

Elections = Callable[[Iterable[TopicPartition], ElectionType], dict[TopicPartition, KafkaError | None]]


class LeaderBalance:
    """Used on the controller's event thread only."""

    def __init__(self, context: ControllerContext, elect: Elections, limit_percent: int) -> None:
        """``limit_percent`` is ``leader.imbalance.per.broker.percentage``, of the partitions that prefer a broker."""
        self._context = context
        self._elect = elect
        self._limit_percent = limit_percent

    def restore(self) -> None:
        """For each broker that leads too few of the partitions that prefer it, elect it where it is in sync."""
        preferring: dict[int, list[TopicPartition]] = {}
        for partition in self._context.all_partitions():
            replicas = self._context.assignment(partition).replicas
            if replicas and not self._context.is_to_be_deleted(partition.topic):
                preferring.setdefault(replicas[0], []).append(partition)
        for broker, partitions in sorted(preferring.items()):
            elsewhere = [each for each in partitions if self._is_led_by_another(each, broker)]
            if len(elsewhere) * 100 > self._limit_percent * len(partitions):
                self._give_back(broker, elsewhere)

    def _is_led_by_another(self, partition: TopicPartition, broker: int) -> bool:
        leadership = self._context.leaderships.get(partition)
        return leadership is not None and leadership.leader != broker

    def _give_back(self, broker: int, partitions: Iterable[TopicPartition]) -> None:
        context = self._context
        possible = [
            each
            for each in partitions
            if not context.assignment(each).is_reassigned
            and broker in context.leaderships[each].isr
            and context.is_online(each, broker)
        ]
        if possible:
            results = self._elect(possible, ElectionType.PREFERRED)
            elected = sum(error is None for error in results.values())
            _log.info("Broker {broker} leads {n} partitions again that prefer it", broker=broker, n=elected)
