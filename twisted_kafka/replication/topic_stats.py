"""BrokerTopicMetrics: what goes in and out, per topic and of all topics together (Kafka: ``BrokerTopicStats``)."""

import threading
from typing import Final

from twisted_kafka.metrics.instruments import Meter, Tally, TallyMeter
from twisted_kafka.metrics.registry import MetricsRegistry

TYPE: Final = "BrokerTopicMetrics"

_METERS: Final = {
    "messages_in": "MessagesInPerSec",
    "bytes_in": "BytesInPerSec",
    "bytes_out": "BytesOutPerSec",
    "bytes_rejected": "BytesRejectedPerSec",
    "produce_requests": "TotalProduceRequestsPerSec",
    "fetch_requests": "TotalFetchRequestsPerSec",
    "failed_produces": "FailedProduceRequestsPerSec",
    "failed_fetches": "FailedFetchRequestsPerSec",
    "fetch_conversions": "FetchMessageConversionsPerSec",
    "produce_conversions": "ProduceMessageConversionsPerSec",
    "replication_bytes_out": "ReplicationBytesOutPerSec",
    "replication_bytes_in": "ReplicationBytesInPerSec",
    "no_key_compacted_topic": "NoKeyCompactedTopicRecordsPerSec",
    "invalid_magic_number": "InvalidMagicNumberRecordsPerSec",
    "invalid_message_crc": "InvalidMessageCrcRecordsPerSec",
    "invalid_offset_or_sequence": "InvalidOffsetOrSequenceRecordsPerSec",
}


_TALLIED: Final = ("produce_requests", "bytes_in", "messages_in")
"""The meters that every append counts in, in the order of their tally."""


class TopicStats:
    """The meters of one topic, or of all; a topic's are made when they are first used."""

    messages_in: Meter
    bytes_in: Meter
    bytes_out: Meter
    bytes_rejected: Meter
    produce_requests: Meter
    fetch_requests: Meter
    failed_produces: Meter
    failed_fetches: Meter
    fetch_conversions: Meter
    produce_conversions: Meter
    replication_bytes_out: Meter
    replication_bytes_in: Meter
    no_key_compacted_topic: Meter
    invalid_magic_number: Meter
    invalid_message_crc: Meter
    invalid_offset_or_sequence: Meter

    def __init__(self, registry: MetricsRegistry, topic: str | None) -> None:
        self._registry = registry
        self._tags: dict[str, str] = {} if topic is None else {"topic": topic}
        self._appends = Tally(len(_TALLIED))
        if topic is None:
            for attribute in _METERS:
                getattr(self, attribute)

    def __getattr__(self, attribute: str) -> Meter:
        # Called only while the attribute is missing: from then on it is an ordinary, fast one.
        name = _METERS.get(attribute)
        if name is None:
            raise AttributeError(attribute)
        registry = self._registry
        if attribute in _TALLIED:
            tallied = TallyMeter(registry.clock, self._appends, _TALLIED.index(attribute))
            meter: Meter = registry.add(tallied, TYPE, name, **self._tags)
        else:
            meter = registry.meter(TYPE, name, **self._tags)
        self.__dict__[attribute] = meter
        return meter

    def append_tally(self) -> Tally:
        """Return the counts of requests, bytes and records that every append adds to, whose meters there are from then on."""
        for attribute in _TALLIED:
            getattr(self, attribute)
        return self._appends


class BrokerTopicStats:
    """All topics' meters, and each one's."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._registry = registry
        self._topics: dict[str, TopicStats] = {}
        self._lock = threading.Lock()
        self.all_topics = TopicStats(registry, None)

    def topic(self, topic: str) -> TopicStats:
        """Return the topic's meters."""
        stats = self._topics.get(topic)
        if stats is None:
            with self._lock:
                stats = self._topics.setdefault(topic, TopicStats(self._registry, topic))
        return stats

    def remove(self, topic: str) -> None:
        """Forget a topic that this broker no longer has a part of."""
        with self._lock:
            stats = self._topics.pop(topic, None)
        if stats is not None:
            for attribute, name in _METERS.items():
                if attribute in stats.__dict__:
                    self._registry.remove(TYPE, name, topic=topic)
