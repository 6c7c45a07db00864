"""The configs of one group: what the broker allows, and what applies."""

import pytest

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.group_configs import ShareGroupConfigs
from twisted_kafka.group_coordinator.shared.group_config_manager import (
    GroupConfigManager,
    GroupConfigResource,
    group_entity_path,
    group_id_of,
    node_name,
)
from twisted_kafka.group_coordinator.shared.group_coordinator_config import GroupCoordinatorConfig, MigrationPolicy
from twisted_kafka.protocol.errors import InvalidConfigurationError, InvalidRequestError

SESSION_TIMEOUT = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"


def manager(**properties: str) -> GroupConfigManager:
    return GroupConfigManager(KafkaConfig.embedded({key.replace("_", "."): text for key, text in properties.items()}))


def consumer_values(configs: GroupConfigManager, group_id: str = "g") -> tuple[int, int]:
    return configs.number(group_id, SESSION_TIMEOUT), configs.number(group_id, HEARTBEAT_INTERVAL)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"consumer.session.timeout.ms": "x"}, "whole number"),
        ({"consumer.session.timeout.ms": "0"}, "at least 1"),
        ({"consumer.session.timeout.ms": "44999"}, "at least 45000, the broker's group.consumer.min.session.timeout.ms"),
        ({"consumer.session.timeout.ms": "60001"}, "at most 60000, the broker's group.consumer.max.session.timeout.ms"),
        ({"consumer.heartbeat.interval.ms": "4999"}, "at least 5000, the broker's group.consumer.min.heartbeat.interval.ms"),
        ({"consumer.heartbeat.interval.ms": "15001"}, "at most 15000, the broker's group.consumer.max.heartbeat.interval.ms"),
        ({"share.record.lock.duration.ms": "14999"}, "15000, the broker's group.share.min.record.lock.duration.ms"),
        ({"share.delivery.count.limit": "11"}, "10, the broker's group.share.max.delivery.count.limit"),
        ({"share.auto.offset.reset": "by_duration:-PT1H"}, "latest, earliest, or by_duration"),
        ({"share.auto.offset.reset": "by_duration:P"}, "latest, earliest, or by_duration"),
        ({"share.auto.offset.reset": "by_duration:PT"}, "latest, earliest, or by_duration"),
        ({"share.isolation.level": "serializable"}, "read_committed, read_uncommitted"),
        ({"streams.num.standby.replicas": "3"}, "2, the broker's group.streams.max.standby.replicas"),
        ({"retention.ms": "1"}, "Unknown group config name"),
    ],
)
def test_configs_that_are_refused(settings: dict[str, str], message: str) -> None:
    configs = manager()
    resource = GroupConfigResource(configs)
    with pytest.raises(InvalidConfigurationError, match=message):
        resource.validate("g", settings, settings)
    before = configs.share("g")
    configs.update("g", settings)
    assert consumer_values(configs) == (45_000, 5_000)
    assert configs.share("g") == before


@pytest.mark.parametrize(("session_ms", "interval_ms"), [(45_000, 5_000), (60_000, 15_000)])
def test_the_bounds_themselves_are_allowed(session_ms: int, interval_ms: int) -> None:
    configs = manager()
    settings = {SESSION_TIMEOUT: str(session_ms), HEARTBEAT_INTERVAL: str(interval_ms)}
    GroupConfigResource(configs).validate("g", settings, settings)
    configs.update("g", settings)
    assert consumer_values(configs) == (session_ms, interval_ms)


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
def test_a_session_is_longer_than_a_heartbeat_interval(kind: str) -> None:
    limits = {f"group_{kind}_min_session_timeout_ms": "1", f"group_{kind}_session_timeout_ms": "6000"}
    if kind != "consumer":
        limits[f"group_{kind}_heartbeat_interval_ms"] = "5000"
    configs = manager(**limits)
    session, interval = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
    for settings in ({session: "5000"}, {interval: "6000"}, {session: "7000", interval: "8000"}):
        with pytest.raises(InvalidConfigurationError, match="must be greater"):
            configs.validate(settings)
    configs.validate({session: "5001"})


def test_configs_apply_to_their_group_until_they_are_removed() -> None:
    configs = manager()
    configs.update("g", {SESSION_TIMEOUT: "50000", HEARTBEAT_INTERVAL: "6000"})
    assert consumer_values(configs) == (50_000, 6_000)
    assert consumer_values(configs, "h") == (45_000, 5_000)
    configs.update("g", {HEARTBEAT_INTERVAL: "6000"})
    assert consumer_values(configs) == (45_000, 6_000)
    configs.update("g", {})
    assert consumer_values(configs) == (45_000, 5_000)


def test_a_share_group_has_the_brokers_values_and_its_own() -> None:
    configs = manager(group_share_delivery_count_limit="7")
    assert configs.share("g") == ShareGroupConfigs(30_000, 7, 2000, "read_uncommitted", "latest", True, "", False)
    settings = {
        "share.record.lock.duration.ms": "15000",
        "share.delivery.count.limit": "2",
        "share.partition.max.record.locks": "100",
        "share.isolation.level": "read_committed",
        "share.auto.offset.reset": "by_duration:P1DT1H2M3.5S",
        "share.renew.acknowledge.enable": "false",
        "errors.deadletterqueue.topic.name": "dlq.orders",
        "errors.deadletterqueue.copy.record.enable": "true",
    }
    configs.update("g", settings)
    assert list(configs.share("g")) == [15_000, 2, 100, "read_committed", "by_duration:P1DT1H2M3.5S", False, "dlq.orders", True]
    assert configs.share("g").reset_by_ms == ((25 * 60 + 2) * 60 + 3) * 1000 + 500
    assert configs.share("h").reset_by_ms is None


def test_a_group_s_node_has_any_id() -> None:
    assert group_id_of(node_name("a/b c")) == "a/b c"
    assert "/" not in node_name("a/b c")
    assert GroupConfigResource(manager()).entity_path("a/b") == "groups/a%2Fb"
    with pytest.raises(InvalidRequestError, match="empty"):
        group_entity_path("")


def test_one_config_of_a_group_is_a_list() -> None:
    resource = GroupConfigResource(manager())
    assert resource.list_default("streams.rack.aware.assignment.tags") == ""
    for key in (SESSION_TIMEOUT, "retention.ms"):
        with pytest.raises(InvalidConfigurationError, match=key):
            resource.list_default(key)


def test_the_broker_s_values_are_those_of_its_keys() -> None:
    properties = {
        "group.min.session.timeout.ms": 1,
        "group.max.session.timeout.ms": 2,
        "group.initial.rebalance.delay.ms": 3,
        "group.max.size": 4,
        "offset.metadata.max.bytes": 5,
        "offsets.retention.minutes": 6,
        "offsets.retention.check.interval.ms": 7,
        "offsets.commit.timeout.ms": 8,
        "offsets.commit.required.acks": 1,
        "offsets.topic.compression.codec": 2,
        "offsets.load.buffer.size": 11,
        "group.consumer.max.size": 12,
        "group.consumer.migration.policy": "Upgrade",
        "group.share.max.size": 13,
        "group.share.initialize.retry.interval.ms": 14,
        "group.streams.max.size": 15,
    }
    config = KafkaConfig.embedded({key: str(value) for key, value in properties.items()})
    values = list(properties.values())
    expected = [*values[:5], 6 * 60_000, *values[6:12], MigrationPolicy.UPGRADE, 13, 14, 15]
    assert list(GroupCoordinatorConfig.from_config(config)) == expected
    assert GroupCoordinatorConfig.from_config(KafkaConfig.embedded({})).offsets_retention_ms == 7 * 24 * 3_600_000


@pytest.mark.parametrize(
    ("policy", "upgrades", "downgrades"),
    [("disabled", False, False), ("upgrade", True, False), ("downgrade", False, True), ("bidirectional", True, True)],
)
def test_migration_policies(policy: str, upgrades: bool, downgrades: bool) -> None:
    found = MigrationPolicy(policy)
    assert (found.upgrades, found.downgrades) == (upgrades, downgrades)
