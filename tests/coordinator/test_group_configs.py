"""The configs of one group: what the broker allows, and what applies."""

from typing import Any

import pytest

from twisted_kafka.coordinator.group.group_config_manager import (
    HEARTBEAT_INTERVAL,
    SESSION_TIMEOUT,
    GroupConfigManager,
    GroupConfigResource,
    group_entity_path,
    group_id_of,
    node_name,
)
from twisted_kafka.coordinator.group.group_coordinator_config import GroupCoordinatorConfig
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
