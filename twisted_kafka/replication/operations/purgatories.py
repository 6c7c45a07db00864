"""The purgatories of operations that wait for partitions."""

from functools import partial

from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.partition.fetch_watch import FetchWatches
from twisted_kafka.timing.clock import IClock
from twisted_kafka.timing.timer import Timer
from twisted_kafka.waiting.purgatory import DelayedOperationPurgatory


class Purgatories:
    """The purgatories of delayed produces, fetches and deletions of records, keyed by partition.

    The fetch of a follower's session has the session's ``FetchWatch`` as its only key: it waits for any of thousands of partitions.
    """

    __slots__ = ("delete_records", "fetch", "produce", "share_fetch", "watches")

    def __init__(self, clock: IClock, timer: Timer) -> None:
        self.watches = FetchWatches()
        self.produce = DelayedOperationPurgatory("Produce", clock, timer)
        self.fetch = DelayedOperationPurgatory("Fetch", clock, timer)
        self.share_fetch = DelayedOperationPurgatory("ShareFetch", clock, timer)
        """Keyed by share partition, too, which the floor above knows."""
        self.delete_records = DelayedOperationPurgatory("DeleteRecords", clock, timer)

    def check_all(self, *topic_partitions: TopicPartition) -> None:
        """Complete the operations that can be, after the partitions' high watermarks moved or their roles changed.

        Call it without the partitions' locks.
        """
        self.check_fetches(*topic_partitions)
        self.produce.check_and_complete(*topic_partitions)
        self.delete_records.check_and_complete(*topic_partitions)

    def check_fetches(self, *topic_partitions: TopicPartition) -> None:
        """Complete the fetches that can be, after appends or higher high watermarks. Call it without the partitions' locks."""
        self.fetch.check_and_complete(*topic_partitions)
        self.share_fetch.check_and_complete(*topic_partitions)
        self.watches.changed(topic_partitions)

    def register_metrics(self, registry: MetricsRegistry) -> None:
        """Register the gauges ``PurgatorySize`` and ``NumDelayedOperations`` of each."""
        for purgatory in (self.produce, self.fetch, self.share_fetch, self.delete_records):
            tags = {"delayedOperation": purgatory.name}
            for name, attribute in (("PurgatorySize", "watched"), ("NumDelayedOperations", "num_delayed")):
                registry.gauge("DelayedOperationPurgatory", name, partial(getattr, purgatory, attribute), **tags)

    def shutdown(self) -> None:
        """Answer waiting fetches with the available records, so that nobody waits for them; drop the other operations."""
        self.fetch.finish()
        self.share_fetch.finish()
        for purgatory in (self.produce, self.fetch, self.share_fetch, self.delete_records):
            purgatory.shutdown()
