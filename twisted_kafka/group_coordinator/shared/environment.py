"""The parts that all shards of the group coordinator share."""

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from typing import NamedTuple

from twisted_kafka.group_coordinator.assignors.interface import ConsumerGroupAssignor
from twisted_kafka.group_coordinator.assignors.task_interface import TaskAssignor
from twisted_kafka.group_coordinator.shared.end_offsets import EndOffset
from twisted_kafka.group_coordinator.shared.group_config_manager import GroupConfigManager
from twisted_kafka.group_coordinator.shared.group_coordinator_config import GroupCoordinatorConfig
from twisted_kafka.group_coordinator.shared.group_coordinator_metrics import GroupCoordinatorMetrics
from twisted_kafka.group_coordinator.shared.topology_descriptions import TopologyDescriptions
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.share.persister import IPersister
from twisted_kafka.timing.clock import IClock


class GroupEnvironment(NamedTuple):
    """The configuration and services that every shard uses."""

    clock: IClock
    config: GroupCoordinatorConfig
    group_config_manager: GroupConfigManager
    topics: MetadataCache
    assignors: Mapping[str, ConsumerGroupAssignor]
    share_assignor: ConsumerGroupAssignor
    task_assignors: Mapping[str, TaskAssignor]
    """By name; the first one is the default."""
    metrics: GroupCoordinatorMetrics
    new_id: Callable[[], str]
    persister: IPersister
    """Keeps the states of share partitions."""
    end_offsets: Callable[[Collection[TopicPartition]], "Future[dict[TopicPartition, EndOffset]]"]
    """Returns the end offsets of partitions; the future never fails."""
    descriptions: TopologyDescriptions | None = None
    """The plug-in that keeps descriptions of streams groups' topologies."""

    def task_assignor(self, name: str | None) -> TaskAssignor:
        """Return the assignor of streams groups with the name; the default one without a name, or if the name is unknown."""
        default = next(iter(self.task_assignors.values()))
        return default if name is None else self.task_assignors.get(name, default)
