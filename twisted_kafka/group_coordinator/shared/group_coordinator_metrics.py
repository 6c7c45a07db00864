"""The group coordinator's metrics, under Kafka's names (GroupCoordinatorMetrics, GroupMetadataManager)."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeVar

from twisted_kafka.coordinator.load_times import LoadTimes
from twisted_kafka.group_coordinator.state.classic_group_state import ClassicGroupState
from twisted_kafka.group_coordinator.state.consumer.consumer_group_state import ConsumerGroupState
from twisted_kafka.group_coordinator.state.group import CLASSIC, CONSUMER, SHARE, STREAMS
from twisted_kafka.group_coordinator.state.share.share_group import ShareGroupState
from twisted_kafka.group_coordinator.state.streams.streams_group import StreamsGroupState
from twisted_kafka.metrics.instruments import Counter
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.metrics.windows import WindowedIdleRatio, WindowedRate
from twisted_kafka.timing.clock import IClock

COORDINATOR_TYPE: Final = "kafka.server:group-coordinator-metrics"
MANAGER_TYPE: Final = "GroupMetadataManager"
DESCRIPTION: Final = "streams-group-topology-description"
DESCRIPTION_CALLS: Final = ("set", "get", "delete")
"""What the plug-in for topology descriptions is asked."""

T = TypeVar("T")
K = TypeVar("K")


class GroupCounts(NamedTuple):
    """The number of groups by state, and of committed offsets."""

    classic: dict[ClassicGroupState, int]
    consumer: dict[ConsumerGroupState, int]
    share: dict[ShareGroupState, int]
    streams: dict[StreamsGroupState, int]
    offsets: int

    @classmethod
    def total(cls, counts: "list[GroupCounts]") -> "GroupCounts":
        """Return the sum of the partitions' counts."""
        return cls(
            {state: sum(each.classic.get(state, 0) for each in counts) for state in ClassicGroupState},
            {state: sum(each.consumer.get(state, 0) for each in counts) for state in ConsumerGroupState},
            {state: sum(each.share.get(state, 0) for each in counts) for state in ShareGroupState},
            {state: sum(each.streams.get(state, 0) for each in counts) for state in StreamsGroupState},
            sum(each.offsets for each in counts),
        )


def _counter_with_rate(registry: MetricsRegistry, clock: IClock, name: str) -> Counter:
    """Return a registered counter; its rate is registered beside it, as with Kafka's sensors."""
    counter = registry.counter(COORDINATOR_TYPE, f"{name}-count")
    registry.add(WindowedRate(clock, lambda: counter.count), COORDINATOR_TYPE, f"{name}-rate")
    return counter


class GroupCoordinatorMetrics:
    """The coordinator's sensors and gauges; gauges are computed when they are read."""

    def __init__(self, registry: MetricsRegistry, clock: IClock) -> None:
        self._registry = registry
        self._clock = clock
        self._commits = _counter_with_rate(registry, clock, "offset-commit")
        self._expirations = _counter_with_rate(registry, clock, "offset-expiration")
        self._deletions = _counter_with_rate(registry, clock, "offset-deletion")
        self._classic_rebalances = _counter_with_rate(registry, clock, "group-completed-rebalance")
        self._consumer_rebalances = _counter_with_rate(registry, clock, "consumer-group-rebalance")
        self._share_rebalances = _counter_with_rate(registry, clock, "share-group-rebalance")
        self._streams_rebalances = _counter_with_rate(registry, clock, "streams-group-rebalance")
        self._description_calls = {
            (call, is_done): _counter_with_rate(registry, clock, f"{DESCRIPTION}-{call}-{'success' if is_done else 'error'}")
            for call in DESCRIPTION_CALLS
            for is_done in (True, False)
        }
        self._description_cleanups = _counter_with_rate(registry, clock, f"{DESCRIPTION}-cleanup-cycle")
        self._unused_descriptions = _counter_with_rate(registry, clock, f"{DESCRIPTION}-cleanup-eligible")
        self._loads = LoadTimes(registry, COORDINATOR_TYPE)

    def offsets_committed(self, count: int) -> None:
        """Count committed offsets."""
        self._commits.inc(count)

    def offsets_expired(self, count: int) -> None:
        """Count expired offsets."""
        self._expirations.inc(count)

    def offsets_deleted(self, count: int) -> None:
        """Count offsets deleted by an administrator, or with their topic."""
        self._deletions.inc(count)

    def rebalance_completed(self) -> None:
        """Count a new generation of a classic group."""
        self._classic_rebalances.inc()

    def rebalance_began(self) -> None:
        """Count a new epoch of a consumer group."""
        self._consumer_rebalances.inc()

    def streams_rebalance_began(self) -> None:
        """Count a new epoch of a streams group."""
        self._streams_rebalances.inc()

    def share_rebalance_began(self) -> None:
        """Count a new epoch of a share group."""
        self._share_rebalances.inc()

    def description_called(self, call: str, is_done: bool) -> None:
        """Count one of ``DESCRIPTION_CALLS`` of the plug-in for topology descriptions (KIP-1331)."""
        self._description_calls[call, is_done].inc()

    def descriptions_cleaned_up(self, unused: int) -> None:
        """Count a search for descriptions that no group uses any more, and the descriptions."""
        self._description_cleanups.inc()
        self._unused_descriptions.inc(unused)

    def partition_loaded(self, took_ms: float) -> None:
        """Record the load time of a partition of ``__consumer_offsets``, in milliseconds."""
        self._loads.update(took_ms)

    def expose(self, counts: Callable[[], GroupCounts], partitions: Callable[[], dict[str, int]]) -> None:
        """Register gauges of groups by state, and of partitions by state (``loading``, ``active``, ``failed``)."""
        gauge = self._registry.gauge
        gauge(MANAGER_TYPE, "NumOffsets", lambda: counts().offsets)
        gauge(MANAGER_TYPE, "NumGroups", lambda: sum(counts().classic.values()))
        gauge(COORDINATOR_TYPE, "group-count", lambda: sum(counts().classic.values()), protocol=CLASSIC)
        gauge(COORDINATOR_TYPE, "group-count", lambda: sum(counts().consumer.values()), protocol=CONSUMER)
        gauge(COORDINATOR_TYPE, "group-count", lambda: sum(counts().share.values()), protocol=SHARE)
        gauge(COORDINATOR_TYPE, "group-count", lambda: sum(counts().streams.values()), protocol=STREAMS)
        for classic_state in ClassicGroupState:
            gauge(MANAGER_TYPE, f"NumGroups{classic_state.value}", _of(counts, lambda each: each.classic, classic_state))
        for state in ConsumerGroupState:
            gauge(COORDINATOR_TYPE, "consumer-group-count", _of(counts, lambda each: each.consumer, state), state=state.value)
        for share_state in ShareGroupState:
            gauge(COORDINATOR_TYPE, "share-group-count", _of(counts, lambda each: each.share, share_state), state=share_state.value)
        for streams_state in StreamsGroupState:
            count = _of(counts, lambda each: each.streams, streams_state)
            gauge(COORDINATOR_TYPE, "streams-group-count", count, state=streams_state.value)
        for name in ("loading", "active", "failed"):
            gauge(COORDINATOR_TYPE, "num-partitions", _of(partitions, lambda each: each, name), state=name)

    def expose_work(self, waiting: Callable[[], int], busy_ns: Callable[[], int]) -> None:
        """Register gauges of the queue size and of the idle ratio.

        Kafka's coordinator has its own threads, this one runs on the request handlers' threads: the time it uses on any of them
        counts as if it had one thread.
        """
        self._registry.gauge(COORDINATOR_TYPE, "event-queue-size", waiting)
        self._registry.add(WindowedIdleRatio(self._clock, busy_ns), COORDINATOR_TYPE, "thread-idle-ratio-avg")


def _of(counts: Callable[[], T], part: Callable[[T], Mapping[K, int]], key: K) -> Callable[[], int]:
    """Return a gauge function that looks up one count."""
    return lambda: part(counts())[key]
