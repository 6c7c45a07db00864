"""The controller's metrics, by Kafka's names (``ControllerStats``, ``KafkaController``)."""

from collections.abc import Callable
from enum import Enum
from typing import Final

from twisted_kafka.controller.context.context import ControllerContext
from twisted_kafka.controller.context.states import PartitionStatus, ReplicaStatus
from twisted_kafka.metrics.instruments import Histogram
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.timing.clock import IClock


class ControllerState(Enum):
    """The kind of an event: its number in the gauge ControllerState, and the metric of its duration."""

    IDLE = (0, None)
    CONTROLLER_CHANGE = (1, "ControllerChangeRateAndTimeMs")
    BROKER_CHANGE = (2, "LeaderElectionRateAndTimeMs")
    TOPIC_CHANGE = (3, "TopicChangeRateAndTimeMs")
    TOPIC_DELETION = (4, "TopicDeletionRateAndTimeMs")
    ALTER_PARTITION_REASSIGNMENT = (5, "PartitionReassignmentRateAndTimeMs")
    AUTO_LEADER_BALANCE = (6, "AutoLeaderBalanceRateAndTimeMs")
    MANUAL_LEADER_BALANCE = (7, "ManualLeaderBalanceRateAndTimeMs")
    CONTROLLED_SHUTDOWN = (8, "ControlledShutdownRateAndTimeMs")
    ISR_CHANGE = (9, "IsrChangeRateAndTimeMs")
    LEADER_AND_ISR_RESPONSE_RECEIVED = (10, "LeaderAndIsrResponseReceivedRateAndTimeMs")
    LOG_DIR_CHANGE = (11, "LogDirChangeRateAndTimeMs")
    CONTROLLER_SHUTDOWN = (12, "ControllerShutdownRateAndTimeMs")
    UNCLEAN_LEADER_ELECTION_ENABLE = (13, "UncleanLeaderElectionEnableRateAndTimeMs")
    TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE = (14, "TopicUncleanLeaderElectionEnableRateAndTimeMs")
    LIST_PARTITION_REASSIGNMENT = (15, "ListPartitionReassignmentRateAndTimeMs")
    UPDATE_FEATURES = (17, "UpdateFeaturesRateAndTimeMs")

    def __init__(self, number: int, times: str | None) -> None:
        self.number = number
        self.times = times


ZK_MODE: Final = 4
"""The gauge ZkMigrationState of a cluster in ZooKeeper mode."""

_NS_TO_MS: Final = 1e-6


class ControllerMetrics:
    """Times the events of one controller, and registers gauges of its context."""

    def __init__(self, clock: IClock, registry: MetricsRegistry) -> None:
        self._clock = clock
        self._registry = registry
        self._state = ControllerState.IDLE
        self._queue_times = registry.add(Histogram(_NS_TO_MS), "ControllerEventManager", "EventQueueTimeMs")
        self._times = {
            state: registry.add(Histogram(_NS_TO_MS), "ControllerStats", state.times) for state in ControllerState if state.times
        }
        self._unclean_elections = registry.meter("ControllerStats", "UncleanLeaderElectionsPerSec")

    def timed(self, state: ControllerState, event: Callable[[], None]) -> Callable[[], None]:
        """Wrap an event that is queued now, to record its time in the queue and its duration."""
        queued_ns = self._clock.monotonic_ns()

        def run() -> None:
            began_ns = self._clock.monotonic_ns()
            self._queue_times.update(began_ns - queued_ns)
            self._state = state
            try:
                event()
            finally:
                self._state = ControllerState.IDLE
                if state in self._times:
                    self._times[state].update(self._clock.monotonic_ns() - began_ns)

        return run

    def unclean_election(self) -> None:
        """Count a leader that was not in sync."""
        self._unclean_elections.inc()

    def show(self, context: ControllerContext, is_active: Callable[[], bool], queue_size: Callable[[], int]) -> None:
        """Register the gauges. Those about the cluster are 0 while another broker is the controller."""
        self._registry.gauge("ControllerEventManager", "EventQueueSize", queue_size)
        gauges: dict[str, Callable[[], int]] = {
            "ActiveControllerCount": is_active,
            "ControllerState": lambda: self._state.number,
            "ActiveBrokerCount": lambda: len(context.brokers),
            "FencedBrokerCount": lambda: 0,
            "GlobalTopicCount": lambda: len(context.assignments),
            "GlobalPartitionCount": lambda: sum(map(len, list(context.assignments.values()))),
            "OfflinePartitionsCount": lambda: _offline(context),
            "PreferredReplicaImbalanceCount": lambda: _imbalanced(context),
            "TopicsToDeleteCount": lambda: len(context.topics_to_delete),
            "TopicsIneligibleToDeleteCount": lambda: len(context.ineligible_for_deletion),
            "ReplicasToDeleteCount": lambda: _replicas_to_delete(context),
            "ReplicasIneligibleToDeleteCount": lambda: _count(context, ReplicaStatus.DELETION_INELIGIBLE),
            "ZkMigrationState": lambda: ZK_MODE,
        }
        for name, function in gauges.items():
            self._registry.gauge("KafkaController", name, lambda function=function: int(function()))  # type: ignore[misc]


# The event thread may change the context at the same time: list() copies a dictionary in one step.


def _offline(context: ControllerContext) -> int:
    return sum(
        state is not PartitionStatus.ONLINE and partition.topic not in context.topics_to_delete
        for partition, state in list(context.partition_states.items())
    )


def _imbalanced(context: ControllerContext) -> int:
    return sum(
        bool(replicas := context.assignment(partition).replicas) and leadership.leader != replicas[0]
        for partition, leadership in list(context.leaderships.items())
        if partition.topic not in context.topics_to_delete
    )


def _replicas_to_delete(context: ControllerContext) -> int:
    doomed = list(context.topics_to_delete)
    return sum(len(assignment.replicas) for topic in doomed for assignment in list(context.assignments.get(topic, {}).values()))


def _count(context: ControllerContext, status: ReplicaStatus) -> int:
    doomed = frozenset(context.topics_to_delete)
    return sum(state is status and replica[0].topic in doomed for replica, state in list(context.replica_states.items()))
