"""The purgatories of operations that wait for partitions."""

from collections.abc import Iterable
from functools import partial

from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.timing.clock import IClock
from twisted_kafka.timing.timer import Timer
from twisted_kafka.waiting.purgatory import DelayedOperationPurgatory


class Purgatories:
    """The purgatories of delayed produces, fetches and deletions of records, keyed by partition.

    A follower's fetch has the follower's broker id as a further key.
    """

    __slots__ = ("delete_records", "fetch", "produce")

    def __init__(self, clock: IClock, timer: Timer) -> None:
        self.produce = DelayedOperationPurgatory("Produce", clock, timer)
        self.fetch = DelayedOperationPurgatory("Fetch", clock, timer)
        self.delete_records = DelayedOperationPurgatory("DeleteRecords", clock, timer)

    def check_all(self, topic_partition: TopicPartition) -> None:
        """Complete what can be completed, after the partition's high watermark moved or its role changed.

        Call it without the partition's lock.
        """
        self.fetch.check_and_complete(topic_partition)
        self.produce.check_and_complete(topic_partition)
        self.delete_records.check_and_complete(topic_partition)

    def hurry(self, followers: Iterable[int]) -> None:
        """Answer the fetches in which these brokers wait for other partitions, so that they can ask for one more.

        A follower that has been told of a new leader cannot add the partition to a fetch that waits already, for up to
        ``replica.fetch.wait.max.ms``.
        """
        for broker_id in followers:
            self.fetch.complete_all(broker_id)

    def register_metrics(self, registry: MetricsRegistry) -> None:
        """Register the gauges ``PurgatorySize`` and ``NumDelayedOperations`` of each."""
        for purgatory in (self.produce, self.fetch, self.delete_records):
            tags = {"delayedOperation": purgatory.name}
            for name, attribute in (("PurgatorySize", "watched"), ("NumDelayedOperations", "num_delayed")):
                registry.gauge("DelayedOperationPurgatory", name, partial(getattr, purgatory, attribute), **tags)

    def shutdown(self) -> None:
        """Drop the operations."""
        for purgatory in (self.produce, self.fetch, self.delete_records):
            purgatory.shutdown()
