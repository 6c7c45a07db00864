"""The quota of the bytes that other brokers replicate from this one, or this one from others. (Kafka: ReplicationQuotaManager.)

It applies to the replicas that their topics name (``leader.replication.throttled.replicas``, ``follower.…``), and to all of them
together (``leader.replication.throttled.rate``): reassignments are throttled so, and replicas in sync are not.
"""

import math
from collections.abc import Mapping
from typing import Final

from twisted.logger import Logger

from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.metrics.sampled import SampledRate
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock

LEADER: Final = "leader"
FOLLOWER: Final = "follower"

_METRIC_TYPES: Final = {LEADER: "LeaderReplication", FOLLOWER: "FollowerReplication"}
_REPLICAS_KEYS: Final = {LEADER: "leader.replication.throttled.replicas", FOLLOWER: "follower.replication.throttled.replicas"}
_ALL: Final = "*"

_log = Logger()


class ReplicationQuotaManager:
    """Measures the bytes for throttled replicas, and compares them with the bound, at first infinite. Thread-safe."""

    def __init__(self, role: str, broker_id: int, windows: tuple[int, int], clock: IClock, metrics: MetricsRegistry) -> None:
        """``role``: LEADER or FOLLOWER; ``windows``: the number of samples, and the milliseconds of each."""
        self.rate_key = f"{role}.replication.throttled.rate"
        self.replicas_key = _REPLICAS_KEYS[role]
        self._broker_id = broker_id
        self._clock = clock
        self._lock = machine.Lock()
        self._rate = SampledRate(*windows)
        self._bound = math.inf
        self._throttled: dict[str, frozenset[int] | None] = {}
        """Partitions by topic; None for all of them."""
        metrics.gauge(_METRIC_TYPES[role], "byte-rate", lambda: self.rate)

    # Configs.

    def configure(self, settings: Mapping[str, str]) -> None:
        """Set the bound from the broker's dynamic configs; without the key, it is infinite."""
        text = settings.get(self.rate_key)
        try:
            self._bound = math.inf if text is None else int(text)
        except ValueError:
            _log.error("{key}={text} is ignored: it must be a number", key=self.rate_key, text=text)

    def configure_topic(self, topic: str, settings: Mapping[str, str]) -> None:
        """Set a topic's throttled replicas from its configs: ``partition:broker`` pairs of this broker, or ``*`` for all."""
        text = settings.get(self.replicas_key, "").strip()
        if not text:
            self._throttled.pop(topic, None)
            return
        if text == _ALL:
            self._throttled[topic] = None
            return
        pairs = [pair.strip().partition(":") for pair in text.split(",")]
        self._throttled[topic] = frozenset(int(index) for index, _, broker in pairs if broker.strip() == str(self._broker_id))

    # Use.

    @property
    def has_throttled(self) -> bool:
        """Whether any replica is throttled."""
        return bool(self._throttled)

    def is_throttled(self, topic_partition: TopicPartition) -> bool:
        """Whether the quota applies to a replica."""
        topic, index = topic_partition
        if topic not in self._throttled:
            return False
        partitions = self._throttled.get(topic, frozenset())
        return partitions is None or index in partitions

    def record(self, size_bytes: int) -> None:
        """Count bytes of throttled replicas."""
        with self._lock:
            self._rate.record(size_bytes, self._now_ms())

    @property
    def rate(self) -> float:
        """The bytes per second over the windows."""
        with self._lock:
            return self._rate.measure(self._now_ms())

    @property
    def is_exceeded(self) -> bool:
        """Whether throttled replicas get nothing at the moment."""
        return self.rate > self._bound

    def _now_ms(self) -> int:
        return self._clock.monotonic_ns() // 1_000_000
