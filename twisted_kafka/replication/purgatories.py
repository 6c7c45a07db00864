"""The purgatories whose operations wait for a partition, keyed by it."""

from functools import partial

from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.timing.clock import IClock
from twisted_kafka.timing.timer import Timer
from twisted_kafka.waiting.purgatory import DelayedOperationPurgatory


class Purgatories:
    """Where produces, fetches and deletions of records wait."""

    __slots__ = ("delete_records", "fetch", "produce")

    def __init__(self, clock: IClock, timer: Timer) -> None:
        self.produce = DelayedOperationPurgatory("Produce", clock, timer)
        self.fetch = DelayedOperationPurgatory("Fetch", clock, timer)
        self.delete_records = DelayedOperationPurgatory("DeleteRecords", clock, timer)

    def check_all(self, topic_partition: TopicPartition) -> None:
        """Look at all that waits for the partition: its high watermark moved, or its role changed.

        To be called without the partition's lock.
        """
        self.fetch.check_and_complete(topic_partition)
        self.produce.check_and_complete(topic_partition)
        self.delete_records.check_and_complete(topic_partition)

    def register_metrics(self, registry: MetricsRegistry) -> None:
        """Show ``PurgatorySize`` and ``NumDelayedOperations`` of each."""
        for purgatory in (self.produce, self.fetch, self.delete_records):
            tags = {"delayedOperation": purgatory.name}
            for name, attribute in (("PurgatorySize", "watched"), ("NumDelayedOperations", "num_delayed")):
                registry.gauge("DelayedOperationPurgatory", name, partial(getattr, purgatory, attribute), **tags)

    def shutdown(self) -> None:
        """Forget what waits."""
        for purgatory in (self.produce, self.fetch, self.delete_records):
            purgatory.shutdown()
