"""The configs of one group: what the broker allows, and what applies."""

from typing import Any

import pytest

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.group_coordinator.group_config_manager import (
    HEARTBEAT_INTERVAL,
    SESSION_TIMEOUT,
    GroupConfigManager,
    GroupConfigResource,
    group_entity_path,
    group_id_of,
    node_name,
)
from twisted_kafka.group_coordinator.group_coordinator_config import GroupCoordinatorConfig, MigrationPolicy
from twisted_kafka.protocol.errors import InvalidConfigurationError, InvalidRequestError


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"consumer.session.timeout.ms": "x"}, "Not a number"),
        ({"consumer.session.timeout.ms": "44999"}, "from 45000 to 60000"),
        ({"consumer.session.timeout.ms": "60001"}, "from 45000 to 60000"),
        ({"consumer.heartbeat.interval.ms": "4999"}, "from 5000 to 15000"),
        ({"consumer.heartbeat.interval.ms": "15001"}, "from 5000 to 15000"),
        ({"retention.ms": "1"}, "Unknown group config name"),
    ],
)
def test_configs_that_are_refused(settings: dict[str, str], message: str) -> None:
    configs = GroupConfigManager(GroupCoordinatorConfig())
    resource = GroupConfigResource(configs)
    with pytest.raises(InvalidConfigurationError, match=message):
        resource.validate("g", settings, settings)
    configs.update("g", settings)
    assert (configs.session_timeout_ms("g"), configs.heartbeat_interval_ms("g")) == (45_000, 5_000)


@pytest.mark.parametrize(("session_ms", "interval_ms"), [(45_000, 5_000), (60_000, 15_000)])
def test_the_bounds_themselves_are_allowed(session_ms: int, interval_ms: int) -> None:
    configs = GroupConfigManager(GroupCoordinatorConfig())
    settings = {SESSION_TIMEOUT: str(session_ms), HEARTBEAT_INTERVAL: str(interval_ms)}
    GroupConfigResource(configs).validate("g", settings, settings)
    configs.update("g", settings)
    assert (configs.session_timeout_ms("g"), configs.heartbeat_interval_ms("g")) == (session_ms, interval_ms)


def test_a_session_is_longer_than_a_heartbeat_interval() -> None:
    limits: dict[str, Any] = {"consumer_min_session_timeout_ms": 1, "consumer_session_timeout_ms": 6_000}
    configs = GroupConfigManager(GroupCoordinatorConfig(**limits))
    both = {SESSION_TIMEOUT: "7000", HEARTBEAT_INTERVAL: "8000"}
    for settings in ({SESSION_TIMEOUT: "5000"}, {HEARTBEAT_INTERVAL: "6000"}, both):
        with pytest.raises(InvalidConfigurationError, match="must be greater"):
            configs.validate(settings)
    configs.validate({SESSION_TIMEOUT: "5001"})


def test_configs_apply_to_their_group_until_they_are_removed() -> None:
    configs = GroupConfigManager(GroupCoordinatorConfig())
    configs.update("g", {SESSION_TIMEOUT: "50000", HEARTBEAT_INTERVAL: "6000"})
    assert (configs.session_timeout_ms("g"), configs.heartbeat_interval_ms("g")) == (50_000, 6_000)
    assert (configs.session_timeout_ms("h"), configs.heartbeat_interval_ms("h")) == (45_000, 5_000)
    configs.update("g", {HEARTBEAT_INTERVAL: "6000"})
    assert (configs.session_timeout_ms("g"), configs.heartbeat_interval_ms("g")) == (45_000, 6_000)
    configs.update("g", {})
    assert configs.heartbeat_interval_ms("g") == 5_000


def test_a_group_s_node_has_any_id() -> None:
    assert group_id_of(node_name("a/b c")) == "a/b c"
    assert "/" not in node_name("a/b c")
    assert GroupConfigResource(GroupConfigManager(GroupCoordinatorConfig())).entity_path("a/b") == "groups/a%2Fb"
    with pytest.raises(InvalidRequestError, match="empty"):
        group_entity_path("")


def test_no_config_of_a_group_is_a_list() -> None:
    with pytest.raises(InvalidConfigurationError, match=SESSION_TIMEOUT):
        GroupConfigResource(GroupConfigManager(GroupCoordinatorConfig())).list_default(SESSION_TIMEOUT)


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
        "group.consumer.session.timeout.ms": 45_001,
        "group.consumer.min.session.timeout.ms": 45_000,
        "group.consumer.max.session.timeout.ms": 45_002,
        "group.consumer.heartbeat.interval.ms": 5_001,
        "group.consumer.min.heartbeat.interval.ms": 5_000,
        "group.consumer.max.heartbeat.interval.ms": 5_002,
        "group.consumer.migration.policy": "Upgrade",
    }
    config = KafkaConfig.embedded({key: str(value) for key, value in properties.items()})
    values = list(properties.values())
    expected = [*values[:5], 6 * 60_000, *values[6:18], MigrationPolicy.UPGRADE]
    assert list(GroupCoordinatorConfig.from_config(config)) == expected
    assert GroupCoordinatorConfig.from_config(KafkaConfig.embedded({})).offsets_retention_ms == 7 * 24 * 3_600_000


@pytest.mark.parametrize(
    ("policy", "upgrades", "downgrades"),
    [("disabled", False, False), ("upgrade", True, False), ("downgrade", False, True), ("bidirectional", True, True)],
)
def test_migration_policies(policy: str, upgrades: bool, downgrades: bool) -> None:
    found = MigrationPolicy(policy)
    assert (found.upgrades, found.downgrades) == (upgrades, downgrades)
