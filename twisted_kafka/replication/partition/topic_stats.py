"""BrokerTopicMetrics: incoming and outgoing data, per topic and for all topics together (Kafka: ``BrokerTopicStats``)."""

from threading import get_ident
from typing import Final

from twisted_kafka.metrics.instruments import Meter, Tally, TallyMeter
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.system import machine

TYPE: Final = "BrokerTopicMetrics"

MESSAGES_IN: Final = "MessagesInPerSec"
BYTES_IN: Final = "BytesInPerSec"
BYTES_OUT: Final = "BytesOutPerSec"
BYTES_REJECTED: Final = "BytesRejectedPerSec"
PRODUCE_REQUESTS: Final = "TotalProduceRequestsPerSec"
FETCH_REQUESTS: Final = "TotalFetchRequestsPerSec"
SHARE_FETCH_REQUESTS: Final = "TotalShareFetchRequestsPerSec"
SHARE_ACKNOWLEDGEMENT_REQUESTS: Final = "TotalShareAcknowledgementRequestsPerSec"
FAILED_SHARE_FETCHES: Final = "FailedShareFetchRequestsPerSec"
FAILED_SHARE_ACKNOWLEDGEMENTS: Final = "FailedShareAcknowledgementRequestsPerSec"
FAILED_PRODUCES: Final = "FailedProduceRequestsPerSec"
FAILED_FETCHES: Final = "FailedFetchRequestsPerSec"
FETCH_CONVERSIONS: Final = "FetchMessageConversionsPerSec"
PRODUCE_CONVERSIONS: Final = "ProduceMessageConversionsPerSec"
REPLICATION_BYTES_OUT: Final = "ReplicationBytesOutPerSec"
REPLICATION_BYTES_IN: Final = "ReplicationBytesInPerSec"
REASSIGNMENT_BYTES_OUT: Final = "ReassignmentBytesOutPerSec"
REASSIGNMENT_BYTES_IN: Final = "ReassignmentBytesInPerSec"
NO_KEY_COMPACTED_TOPIC: Final = "NoKeyCompactedTopicRecordsPerSec"
INVALID_MAGIC_NUMBER: Final = "InvalidMagicNumberRecordsPerSec"
INVALID_MESSAGE_CRC: Final = "InvalidMessageCrcRecordsPerSec"
INVALID_OFFSET_OR_SEQUENCE: Final = "InvalidOffsetOrSequenceRecordsPerSec"

_TALLIED: Final = (PRODUCE_REQUESTS, BYTES_IN, MESSAGES_IN)
"""The meters that every append marks, in the order of their tally."""

_ALL: Final = (
    *_TALLIED,
    BYTES_OUT,
    BYTES_REJECTED,
    FETCH_REQUESTS,
    FAILED_PRODUCES,
    FAILED_FETCHES,
    SHARE_FETCH_REQUESTS,
    SHARE_ACKNOWLEDGEMENT_REQUESTS,
    FAILED_SHARE_FETCHES,
    FAILED_SHARE_ACKNOWLEDGEMENTS,
    FETCH_CONVERSIONS,
    PRODUCE_CONVERSIONS,
    REPLICATION_BYTES_OUT,
    REPLICATION_BYTES_IN,
    REASSIGNMENT_BYTES_OUT,
    REASSIGNMENT_BYTES_IN,
    NO_KEY_COMPACTED_TOPIC,
    INVALID_MAGIC_NUMBER,
    INVALID_MESSAGE_CRC,
    INVALID_OFFSET_OR_SEQUENCE,
)


class TopicStats:
    """The meters of one topic, or of all topics together. A topic's meter is registered with its first mark."""

    def __init__(self, registry: MetricsRegistry, topic: str | None) -> None:
        self._registry = registry
        self._tags: dict[str, str] = {} if topic is None else {"topic": topic}
        self._lock = machine.Lock()
        self._meters: dict[str, Meter] = {}
        self._appends = Tally(len(_TALLIED))
        self.appends: Tally | None = None
        """What ``append_tally`` returns, once it was called."""
        self._is_gone = False
        if topic is None:
            for name in _ALL:
                self._register(name)

    def mark(self, name: str, amount: int) -> None:
        """Add to one of the meters named above."""
        meter = self._meters.get(name)
        if meter is None:
            meter = self._register(name)
        meter.mark(amount)

    def append_tally(self) -> Tally:
        """Return the counts of requests, bytes and records that every append adds to, and register their meters."""
        for name in _TALLIED:
            self._register(name)
        self.appends = self._appends
        return self._appends

    def unregister(self) -> None:
        """Remove the meters from the registry."""
        with self._lock:
            self._is_gone = True
            for name in self._meters:
                self._registry.remove(TYPE, name, **self._tags)

    def _register(self, name: str) -> Meter:
        with self._lock:
            meter = self._meters.get(name)
            if meter is None:
                clock = self._registry.clock
                meter = TallyMeter(clock, self._appends, _TALLIED.index(name)) if name in _TALLIED else Meter(clock)
                if not self._is_gone:  # a request may be under way whose topic is deleted
                    self._registry.add(meter, TYPE, name, **self._tags)
                self._meters[name] = meter
            return meter


class BrokerTopicStats:
    """The meters of each topic, and those of all topics together."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._registry = registry
        self._topics: dict[str, TopicStats] = {}
        self._lock = machine.Lock()
        self.all_topics = TopicStats(registry, None)
        self._all_appends = self.all_topics.append_tally()

    def topic(self, topic: str) -> TopicStats:
        """Return the meters of a topic of which this broker has a partition."""
        stats = self._topics.get(topic)
        if stats is None:
            with self._lock:
                stats = self._topics.setdefault(topic, TopicStats(self._registry, topic))
        return stats

    def mark(self, topic: str, name: str, amount: int) -> None:
        """Add to a meter of all topics, and to that of the topic if this broker has a partition of it."""
        stats = self._topics.get(topic)
        if stats is not None:
            stats.mark(name, amount)
        self.all_topics.mark(name, amount)

    def count_appends(self, topic: TopicStats, requests: int, size_bytes: int, records: int) -> None:
        """Count appends to partitions of a topic."""
        thread = get_ident()
        for tally in (topic.appends or topic.append_tally(), self._all_appends):
            cell = tally.cell(thread)
            cell[0] += requests
            cell[1] += size_bytes
            cell[2] += records

    def replicated_in(self, size_bytes: int, *, is_joining: bool) -> None:
        """Count bytes copied from a leader. ``is_joining``: a reassignment adds the replica that copies (KIP-455)."""
        self.all_topics.mark(REPLICATION_BYTES_IN, size_bytes)
        if is_joining:
            self.all_topics.mark(REASSIGNMENT_BYTES_IN, size_bytes)

    def remove(self, topic: str) -> None:
        """Forget a topic of which this broker has no partition left."""
        with self._lock:
            stats = self._topics.pop(topic, None)
        if stats is not None:
            stats.unregister()
