from pathlib import Path
from typing import Any

import pytest
from twisted.logger import capturedLogs

from tests.support.replica_apis import Apis
from tests.support.replication_harness import BROKER, OTHER, TOPIC, TP
from twisted_kafka.broker.settings.config_handlers import follow_replication_quotas
from twisted_kafka.metadata.config_repository import ConfigRepository
from twisted_kafka.metadata.embedded import SqliteStore
from twisted_kafka.metadata.registration import prepare_store
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.replication_quota_manager import FOLLOWER, LEADER, ReplicationQuotaManager
from twisted_kafka.timing.clock import ManualClock

REPLICAS = "leader.replication.throttled.replicas"
RATE = "leader.replication.throttled.rate"
BOTH = (BROKER, OTHER)


@pytest.mark.parametrize(
    ("text", "throttled"),
    [("*", [0, 1, 2]), ("0:1,1:2,2:1", [0, 2]), (" 1:1 , 2:3", [1]), ("0:2", []), ("", [])],
)
def test_the_replicas_of_this_broker_are_throttled(text: str, throttled: list[int]) -> None:
    quota = ReplicationQuotaManager(LEADER, 1, (11, 1000), ManualClock(), MetricsRegistry(ManualClock()))
    quota.configure_topic("t", {REPLICAS: text})
    assert [index for index in range(3) if quota.is_throttled(TopicPartition("t", index))] == throttled
    assert not quota.is_throttled(TopicPartition("other", 0))
    quota.configure_topic("t", {})
    assert not quota.has_throttled


def test_the_bound_is_of_all_throttled_replicas_together() -> None:
    clock = ManualClock()
    metrics = MetricsRegistry(clock)
    quota = ReplicationQuotaManager(FOLLOWER, 1, (11, 1000), clock, metrics)
    quota.record(1_000_000)
    assert not quota.is_exceeded
    quota.configure({"follower.replication.throttled.rate": "99999"})
    assert quota.is_exceeded
    assert metrics.value("FollowerReplication", "byte-rate") == 100_000
    with capturedLogs() as logs:
        quota.configure({"follower.replication.throttled.rate": "fast"})
    assert len(logs) == 1
    assert quota.is_exceeded
    clock.advance_ms(11_000)
    assert not quota.is_exceeded
    quota.configure({})
    quota.record(1_000_000)
    assert not quota.is_exceeded


@pytest.fixture
def apis(tmp_path: Path) -> Apis:
    apis = Apis(tmp_path)
    apis.lead(replicas=BOTH, isr=(BROKER,))
    apis.append(b"a" * 1000)
    return apis


def request(offset: int, **fields: Any) -> FetchRequest:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(min_bytes=1, replica_id=OTHER, topics=[FetchTopic(topic=TOPIC, partitions=[wanted])], **fields)


def followed(apis: Apis, offset: int) -> int:
    """Fetch as the other broker; return how many bytes came."""
    (topic,) = apis.call(request(offset), 11).responses
    assert topic.partitions[0].error_code == 0
    return len(topic.partitions[0].records)


def throttle(apis: Apis, replicas: str = "*", rate: str = "50") -> None:
    apis.replicas.leader_quota.configure_topic(TOPIC, {REPLICAS: replicas})
    apis.replicas.leader_quota.configure({RATE: rate})


def test_a_throttled_follower_gets_nothing_until_the_rate_is_lower(apis: Apis) -> None:
    throttle(apis)
    assert followed(apis, 0) > 1000
    assert followed(apis, 0) == 0
    assert apis.replicas.leader_quota.rate > 100
    apis.advance_ms(11_000)
    assert followed(apis, 0) > 1000


def test_followers_in_sync_and_replicas_that_are_not_named_are_not_throttled(apis: Apis) -> None:
    throttle(apis, f"0:{OTHER}")
    assert [followed(apis, 0) > 0 for _ in range(2)] == [True, True]
    assert apis.metrics.value("LeaderReplication", "byte-rate") == 0
    throttle(apis)
    assert [followed(apis, 0) > 0 for _ in range(2)] == [True, False]
    partition = apis.replicas.get_partition(TP)
    partition.isr = frozenset(BOTH)
    assert followed(apis, 0) > 0


def test_consumers_are_not_throttled_with_followers(apis: Apis) -> None:
    throttle(apis)
    followed(apis, 0)
    partition = apis.replicas.get_partition(TP)
    partition.isr = frozenset((BROKER,))
    apis.replicas.leader_quota.record(1_000_000)
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    response = apis.call(FetchRequest(topics=[FetchTopic(topic=TOPIC, partitions=[wanted])]), 11)
    assert response.responses[0].partitions[0].error_code == 0


def test_what_is_withheld_ends_no_wait(apis: Apis) -> None:
    throttle(apis)
    followed(apis, 0)
    waiting = apis.start(request(0, max_wait_ms=500), 11)
    apis.append(b"more")
    assert not waiting.done()
    throttle(apis, rate="1000000")
    apis.append(b"still more")
    assert waiting.done()


def test_configs_of_brokers_and_topics_are_followed(apis: Apis, tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "metadata.sqlite", apis.clock, threaded=False)
    prepare_store(store)
    configs = ConfigRepository(store, apis.clock, threaded=False)
    configs.startup()
    configs.write(f"topics/{TOPIC}", {REPLICAS: f"0:{BROKER}", "follower.replication.throttled.replicas": "*"})
    configs.write(f"brokers/{BROKER}", {RATE: "50", "follower.replication.throttled.rate": "70"})
    follow_replication_quotas(configs, BROKER, apis.replicas)
    assert apis.replicas.leader_quota.is_throttled(TP)
    assert apis.replicas.follower_quota.is_throttled(TopicPartition(TOPIC, 9))
    apis.replicas.leader_quota.record(1000)
    assert apis.replicas.leader_quota.is_exceeded
    configs.write("topics/later", {REPLICAS: "*"})
    configs.write(f"topics/{TOPIC}", {})
    configs.write(f"brokers/{BROKER}", {RATE: "500"})
    while store.pump() + configs.pump():
        pass
    assert apis.replicas.leader_quota.is_throttled(TopicPartition("later", 0))
    assert not apis.replicas.leader_quota.is_throttled(TP)
    assert not apis.replicas.leader_quota.is_exceeded
    store.close()
