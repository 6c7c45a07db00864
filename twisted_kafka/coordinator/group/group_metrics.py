"""What the group coordinator counts, under Kafka's names (GroupCoordinatorMetrics, GroupMetadataManager)."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeVar

from twisted_kafka.coordinator.group.classic.states import GroupState
from twisted_kafka.coordinator.group.consumer.states import ConsumerGroupState
from twisted_kafka.metrics.registry import MetricsRegistry

COORDINATOR_TYPE: Final = "kafka.server:group-coordinator-metrics"
MANAGER_TYPE: Final = "GroupMetadataManager"

T = TypeVar("T")
K = TypeVar("K")

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"


class GroupCounts(NamedTuple):
    """How many groups there are, by state, and how many committed offsets."""

    classic: dict[GroupState, int]
    consumer: dict[ConsumerGroupState, int]
    offsets: int

    @classmethod
    def total(cls, counts: "list[GroupCounts]") -> "GroupCounts":
        """Return the sum of the partitions' counts."""
        return cls(
            {state: sum(each.classic.get(state, 0) for each in counts) for state in GroupState},
            {state: sum(each.consumer.get(state, 0) for each in counts) for state in ConsumerGroupState},
            sum(each.offsets for each in counts),
        )


class GroupMetrics:
    """The coordinator's sensors; the gauges are computed when somebody looks."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._registry = registry
        self._commits = registry.meter(COORDINATOR_TYPE, "offset-commit")
        self._expirations = registry.meter(COORDINATOR_TYPE, "offset-expiration")
        self._deletions = registry.meter(COORDINATOR_TYPE, "offset-deletion")
        self._classic_rebalances = registry.meter(COORDINATOR_TYPE, "group-completed-rebalance")
        self._consumer_rebalances = registry.meter(COORDINATOR_TYPE, "consumer-group-rebalance")
        self._loads = registry.histogram(COORDINATOR_TYPE, "partition-load-time")

    def offsets_committed(self, count: int) -> None:
        """Offsets were committed."""
        self._commits.mark(count)

    def offsets_expired(self, count: int) -> None:
        """Offsets had their time."""
        self._expirations.mark(count)

    def offsets_deleted(self, count: int) -> None:
        """Offsets were deleted by an administrator, or with their topic."""
        self._deletions.mark(count)

    def rebalance_completed(self) -> None:
        """A classic group got a new generation."""
        self._classic_rebalances.mark()

    def rebalance_began(self) -> None:
        """A consumer group got a new epoch."""
        self._consumer_rebalances.mark()

    def partition_loaded(self, took_ms: float) -> None:
        """A partition of ``__consumer_offsets`` was loaded."""
        self._loads.update(took_ms)

    def expose(self, counts: Callable[[], GroupCounts], partitions: Callable[[], dict[str, int]]) -> None:
        """Make gauges of the counts of groups, and of partitions by state (``loading``, ``active``, ``failed``)."""
        gauge = self._registry.gauge
        gauge(MANAGER_TYPE, "NumOffsets", lambda: counts().offsets)
        gauge(MANAGER_TYPE, "NumGroups", lambda: sum(counts().classic.values()))
        gauge(COORDINATOR_TYPE, "group-count", lambda: sum(counts().classic.values()), protocol=CLASSIC)
        gauge(COORDINATOR_TYPE, "group-count", lambda: sum(counts().consumer.values()), protocol=CONSUMER)
        for classic_state in GroupState:
            gauge(MANAGER_TYPE, f"NumGroups{classic_state.value}", _of(counts, lambda each: each.classic, classic_state))
        for state in ConsumerGroupState:
            gauge(COORDINATOR_TYPE, "consumer-group-count", _of(counts, lambda each: each.consumer, state), state=state.value)
        for name in ("loading", "active", "failed"):
            gauge(COORDINATOR_TYPE, "num-partitions", _of(partitions, lambda each: each, name), state=name)


def _of(counts: Callable[[], T], part: Callable[[T], Mapping[K, int]], key: K) -> Callable[[], int]:
    """Return what looks one count up when it's asked."""
    return lambda: part(counts())[key]
