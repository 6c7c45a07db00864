"""The gauges of consumer lag, from stores that are filled by hand."""

from twisted_kafka.group_coordinator.consumer_lag import ConsumerLag
from twisted_kafka.group_coordinator.state.group_store import GroupStore
from twisted_kafka.metrics.prometheus import render
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.messages.coordinators.coordinator_records import OffsetCommitValue
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.timing.clock import ManualClock


def store_with(*committed: tuple[str, str, int, int]) -> GroupStore:
    store = GroupStore(1000, 1000)
    for group, topic, partition, offset in committed:
        store.offsets.put(group, TopicPartition(topic, partition), OffsetCommitValue(offset=offset), 0)
    return store


def lines(registry: MetricsRegistry) -> list[str]:
    return [line for line in render(registry).decode().splitlines() if line.startswith("kafka_consumergroup")]


def test_lag_is_the_distance_to_the_high_watermark() -> None:
    stores = [store_with(("billing", "orders", 0, 7), ("billing", "orders", 1, 20)), store_with(("audit", "orders", 0, 0))]
    ends = {TopicPartition("orders", 0): 10, TopicPartition("orders", 1): 20}
    registry = MetricsRegistry(ManualClock())
    ConsumerLag(lambda: stores, ends.get).register(registry)
    assert lines(registry) == [
        'kafka_consumergroup_current_offset{consumergroup="audit",partition="0",topic="orders"} 0.0',
        'kafka_consumergroup_current_offset{consumergroup="billing",partition="0",topic="orders"} 7.0',
        'kafka_consumergroup_current_offset{consumergroup="billing",partition="1",topic="orders"} 20.0',
        'kafka_consumergroup_lag{consumergroup="audit",partition="0",topic="orders"} 10.0',
        'kafka_consumergroup_lag{consumergroup="billing",partition="0",topic="orders"} 3.0',
        'kafka_consumergroup_lag{consumergroup="billing",partition="1",topic="orders"} 0.0',
    ]
    ends[TopicPartition("orders", 0)] = 5  # truncated: the group is ahead
    stores[0].offsets.put("billing", TopicPartition("orders", 1), None, 1)
    assert 'kafka_consumergroup_lag{consumergroup="billing",partition="0",topic="orders"} 0.0' in lines(registry)
    assert not [line for line in lines(registry) if 'partition="1"' in line]


def test_a_partition_that_is_elsewhere_has_an_offset_but_no_lag() -> None:
    registry = MetricsRegistry(ManualClock())
    ConsumerLag(lambda: [store_with(("g", "t", 0, 7))], lambda _: None).register(registry)
    assert lines(registry) == ['kafka_consumergroup_current_offset{consumergroup="g",partition="0",topic="t"} 7.0']


def test_the_number_of_series_is_limited_and_no_more_is_computed() -> None:
    asked: list[TopicPartition] = []
    registry = MetricsRegistry(ManualClock(), max_series=5)
    store = store_with(*(("g", "t", partition, 0) for partition in range(1000)))
    ConsumerLag(lambda: [store], lambda partition: asked.append(partition) or 1).register(registry)
    assert len([line for line in lines(registry) if "_lag{" in line]) == 5
    assert len(asked) == 5
