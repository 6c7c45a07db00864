"""The purgatories of operations that wait for partitions."""

from collections.abc import Iterable
from functools import partial
from typing import Final

from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.timing.clock import IClock
from twisted_kafka.timing.timer import Timer
from twisted_kafka.waiting.purgatory import DelayedOperationPurgatory

HURRIED_MS: Final = 500
"""How long a follower that was hurried has to be told of the partition."""
HURRIED_WAIT_MS: Final = 5
"""How long its fetches may wait meanwhile."""


class Purgatories:
    """The purgatories of delayed produces, fetches and deletions of records, keyed by partition.

    A follower's fetch has the follower's broker id as a further key.
    """

    __slots__ = ("_clock", "_hurried", "delete_records", "fetch", "produce")

    def __init__(self, clock: IClock, timer: Timer) -> None:
        self._clock = clock
        self._hurried: dict[int, tuple[int, TopicPartition]] = {}
        """Until when each follower is hurried, and for which partition, by broker id."""
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

    def hurry(self, followers: Iterable[int], topic_partition: TopicPartition) -> None:
        """Answer the fetches in which these brokers wait for other partitions, so that they can ask for this one.

        A follower that has been told of a new leader cannot add the partition to a fetch that waits already, for up to
        ``replica.fetch.wait.max.ms``. The follower may not have been told yet: for a while it does not wait long.
        """
        until_ns = self._clock.monotonic_ns() + HURRIED_MS * 1_000_000
        for broker_id in followers:
            self._hurried[broker_id] = (until_ns, topic_partition)
            self.fetch.complete_all(broker_id)

    def has_asked(self, broker_id: int, topic_partition: TopicPartition) -> None:
        """Let a follower wait again if it is this partition that it was hurried for last."""
        hurried = self._hurried.get(broker_id)
        if hurried is not None and hurried[1] == topic_partition:
            self._hurried.pop(broker_id, None)

    def wait_ms(self, broker_id: int, wanted_ms: int) -> int:
        """Return how long a follower's fetch may wait."""
        hurried = self._hurried.get(broker_id)
        if hurried is None:
            return wanted_ms
        if self._clock.monotonic_ns() >= hurried[0]:
            self._hurried.pop(broker_id, None)
            return wanted_ms
        return min(wanted_ms, HURRIED_WAIT_MS)

    def register_metrics(self, registry: MetricsRegistry) -> None:
        """Register the gauges ``PurgatorySize`` and ``NumDelayedOperations`` of each."""
        for purgatory in (self.produce, self.fetch, self.delete_records):
            tags = {"delayedOperation": purgatory.name}
            for name, attribute in (("PurgatorySize", "watched"), ("NumDelayedOperations", "num_delayed")):
                registry.gauge("DelayedOperationPurgatory", name, partial(getattr, purgatory, attribute), **tags)

    def shutdown(self) -> None:
        """Answer fetches with what there is, so that nobody waits for them; drop the other operations."""
        self.fetch.finish()
        for purgatory in (self.produce, self.fetch, self.delete_records):
            purgatory.shutdown()
