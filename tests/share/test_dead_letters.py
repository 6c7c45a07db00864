"""Records that a share group gives up on, and the letters about them in its dead-letter topic (KIP-1191)."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.eventually import WAIT_S, eventually
from tests.support.fake import Fake
from tests.support.share_client import (
    RawClient,
    ShareMember,
    error_of,
    initialize,
    new_topic,
    read_state,
    set_configs,
    set_group_configs,
)
from twisted_kafka.config.group_configs import ShareGroupConfigs
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.share.dead_letter_queue import DeadLetterQueue, DeadLetterSettings, DeadLetterTopics
from twisted_kafka.share.other_threads import OtherThreads
from twisted_kafka.share.share_partition_key import SharePartitionKey
from twisted_kafka.testing import Broker
from twisted_kafka.timing.clock import ManualClock
from twisted_kafka.timing.timer import Timer

pytestmark = pytest.mark.medium

ACCEPT, RELEASE, REJECT = 1, 2, 3
BROKER_RESOURCE = 4


def letters(broker: Broker, topic: str, partition: int = 0) -> list[tuple[Any, Any, dict[str, str]]]:
    return [
        (record.key, record.value, {name: (value or b"").decode() for name, value in record.headers})
        for record in broker.records(topic, partition=partition)
    ]


def test_a_rejected_record_and_one_over_the_limit_become_letters(broker: Broker, client: RawClient) -> None:
    topic_id = new_topic(client, "orders")
    new_topic(client, "dlq.orders", errors_deadletterqueue_group_enable="true")
    initialize(client, "group", topic_id)
    set_group_configs(
        client,
        "group",
        errors_deadletterqueue_topic_name="dlq.orders",
        errors_deadletterqueue_copy_record_enable="true",
        share_delivery_count_limit="2",
    )
    broker.embedded.apply_config_changes(WAIT_S)
    for value in ("rejected", "poison", "good"):
        broker.produce("orders", value, key="key")
    with ShareMember(broker.bootstrap_servers, "group", "one", topic_id) as one:
        eventually(lambda: one.acquired(max_wait_ms=100))
        assert error_of(one.acknowledge((0, 2, [REJECT, RELEASE, ACCEPT]))) == (0, 0)
        assert eventually(lambda: one.acquired(max_wait_ms=100)) == [(1, 1, 2)]
        assert error_of(one.acknowledge((1, 1, [RELEASE]))) == (0, 0)
        eventually(lambda: len(letters(broker, "dlq.orders")) == 2)
    origin = {"__dlq.errors.topic": "orders", "__dlq.errors.partition": "0", "__dlq.errors.group": "group"}
    assert [(key, value) for key, value, _ in letters(broker, "dlq.orders")] == [(b"key", b"rejected"), (b"key", b"poison")]
    assert [headers.items() >= origin.items() for _, _, headers in letters(broker, "dlq.orders")] == [True, True]
    about = [
        tuple(headers[f"__dlq.errors.{name}"] for name in ("offset", "delivery.count", "message"))
        for _, _, headers in letters(broker, "dlq.orders")
    ]
    assert about == [("0", "1", "Offset rejected by client."), ("1", "2", "Offset delivery count exceeded the threshold.")]
    eventually(lambda: all(state in (2, 4) for _, _, state, _ in read_state(client, "group", topic_id)[1]))


def test_letters_of_a_group_with_a_long_name_fit_into_batches(broker: Broker, client: RawClient) -> None:
    group, count = "g" * 12_000, 100
    topic_id = new_topic(client, "long")
    new_topic(client, "dlq.long", errors_deadletterqueue_group_enable="true")
    initialize(client, group, topic_id)
    set_group_configs(client, group, errors_deadletterqueue_topic_name="dlq.long")
    broker.embedded.apply_config_changes(WAIT_S)
    for _ in range(count):
        broker.produce("long", "rejected")
    with ShareMember(broker.bootstrap_servers, group, "one", topic_id) as one:
        eventually(lambda: one.acquired(max_wait_ms=100) == [(0, count - 1, 1)])
        assert error_of(one.acknowledge((0, count - 1, [REJECT]))) == (0, 0)
        eventually(lambda: len(letters(broker, "dlq.long")) == count)


@pytest.mark.parametrize("topic", ["dlq.nothing", "dlq.not-enabled", "wrong-prefix"])
def test_letters_that_cannot_be_written_do_not_stop_the_group(broker: Broker, client: RawClient, topic: str) -> None:
    source = f"source-of-{topic}"
    topic_id = new_topic(client, source)
    if topic != "dlq.nothing":
        new_topic(client, topic)
    initialize(client, source, topic_id)
    set_group_configs(client, source, errors_deadletterqueue_topic_name=topic)
    broker.embedded.apply_config_changes(WAIT_S)
    broker.produce(source, "rejected")
    with ShareMember(broker.bootstrap_servers, source, "one", topic_id) as one:
        eventually(lambda: one.acquired(max_wait_ms=100))
        assert error_of(one.acknowledge((0, 0, [REJECT]))) == (0, 0)
        broker.produce(source, "next")
        assert eventually(lambda: one.acquired(max_wait_ms=100)) == [(1, 1, 1)]
        eventually(lambda: read_state(client, source, topic_id)[1] == [(0, 0, 4, 1)])


def test_topics_are_created_once_the_broker_may_do_that() -> None:
    with Broker({"share.coordinator.state.topic.num.partitions": 1}) as broker, RawClient(broker.bootstrap_servers) as client:
        topic_id = new_topic(client, "orders")
        initialize(client, "group", topic_id)
        set_group_configs(client, "group", errors_deadletterqueue_topic_name="letters-of-orders")
        set_configs(
            client,
            BROKER_RESOURCE,
            "",
            errors_deadletterqueue_auto_create_topics_enable="true",
            errors_deadletterqueue_topic_name_prefix="letters-",
        )
        broker.embedded.apply_config_changes(WAIT_S)
        broker.produce("orders", "rejected")
        with ShareMember(broker.bootstrap_servers, "group", "one", topic_id) as one:
            eventually(lambda: one.acquired(max_wait_ms=100))
            assert error_of(one.acknowledge((0, 0, [REJECT]))) == (0, 0)
            assert eventually(lambda: "letters-of-orders" in broker.topics() and letters(broker, "letters-of-orders"))
            assert letters(broker, "letters-of-orders")[0][:2] == (None, None)


class Share(Fake):
    """A share partition with a record on its way to the dead-letter topic."""

    key = SharePartitionKey("group", bytes(16), 0)

    def __init__(self) -> None:
        self.left = [(0, 0, 1)]

    def archiving(self) -> list[tuple[int, int, int]]:
        return self.left


class NoTopics(Fake):
    """Replicas of a broker on which the dead-letter topic does not exist yet."""

    metadata: Any

    def __init__(self) -> None:
        self.metadata = self

    def partition_count(self, _: str) -> None: ...


def test_a_share_partition_does_not_wait_for_the_letters_of_its_fenced_predecessor() -> None:
    clock = ManualClock()
    timer = Timer(clock)
    later: list[Callable[[], None]] = []
    configs = ShareGroupConfigs(1000, 5, 100, "read_uncommitted", "earliest", True, "dlq.orders", False)
    settings = DeadLetterSettings(lambda: "dlq.", lambda: True, "PLAINTEXT", 1000)
    created: list[str] = []
    topics = DeadLetterTopics(lambda _: True, created.append)
    queue = DeadLetterQueue(NoTopics(), lambda _: configs, settings, topics, Fake(), clock, OtherThreads(timer, later.append))
    old, new = Share(), Share()
    name = TopicPartition("orders", 0)
    queue.undeliverable(old, name)
    later.pop()()
    assert created == ["dlq.orders"]
    old.left = []  # it is fenced while its letters are tried again
    queue.undeliverable(new, name)
    later.pop()()
    assert created == ["dlq.orders"] * 2
