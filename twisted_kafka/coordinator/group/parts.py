"""What the state machines of all partitions of ``__consumer_offsets`` share."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from twisted_kafka.coordinator.group.consumer.assignors.interface import ConsumerGroupAssignor
from twisted_kafka.coordinator.group.consumer.topic_image import TopicSource
from twisted_kafka.coordinator.group.group_config import GroupConfig
from twisted_kafka.coordinator.group.group_configs import GroupConfigs
from twisted_kafka.coordinator.group.group_metrics import GroupMetrics
from twisted_kafka.timing.clock import IClock


class GroupParts(NamedTuple):
    """Everything that a shard is made of, next to its own effects."""

    clock: IClock
    config: GroupConfig
    group_configs: GroupConfigs
    topics: TopicSource
    assignors: Mapping[str, ConsumerGroupAssignor]
    metrics: GroupMetrics
    new_id: Callable[[], str]
