"""The parts that all shards of the group coordinator share."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from twisted_kafka.group_coordinator.assignors.interface import ConsumerGroupAssignor
from twisted_kafka.group_coordinator.group_config_manager import GroupConfigManager
from twisted_kafka.group_coordinator.group_coordinator_config import GroupCoordinatorConfig
from twisted_kafka.group_coordinator.group_coordinator_metrics import GroupCoordinatorMetrics
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.timing.clock import IClock


class GroupEnvironment(NamedTuple):
    """The configuration and services that every shard uses."""

    clock: IClock
    config: GroupCoordinatorConfig
    group_config_manager: GroupConfigManager
    topics: MetadataCache
    assignors: Mapping[str, ConsumerGroupAssignor]
    metrics: GroupCoordinatorMetrics
    new_id: Callable[[], str]
