from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.apis.topic_harness import OneBroker
from twisted_kafka.admin.loggers import LoggerLevels
from twisted_kafka.metadata.config_repository import ConfigRepository
from twisted_kafka.metadata.znodes import ConfigNode
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.administration.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResult,
)
from twisted_kafka.server.apis.administration import describe_configs
from twisted_kafka.server.apis.administration.config_describer import ConfigDescriber

TOPIC, BROKER, LOGGER, GROUP = 2, 4, 8, 32


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OneBroker]:
    broker = OneBroker(tmp_path, log_retention_bytes="1000", ssl_keystore_password="secret")
    broker.store.create("/config/brokers/<default>", ConfigNode({"log.retention.bytes": "900"}).encode())
    broker.store.create("/config/brokers/1", ConfigNode({"log.retention.bytes": "800"}).encode())
    broker.create("t", retention_bytes="5", cleanup_policy="compact, delete")
    broker.create("plain")
    yield broker
    broker.store.close()


def describe(
    broker: OneBroker, kind: int, name: str, keys: list[str] | None = None, version: int = 4, **options: Any
) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    (result,) = broker.ask(DescribeConfigsRequest(resources=[resource], **options), version).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


@pytest.mark.parametrize("version", range(5))
def test_a_topic_in_every_version(broker: OneBroker, version: int) -> None:
    options = {"include_synonyms": True} if version >= 1 else {}
    options |= {"include_documentation": True} if version >= 3 else {}
    result = describe(broker, TOPIC, "t", ["retention.bytes", "segment.ms", "nope"], version, **options)
    own, default = sorted(result.configs, key=lambda config: config.name)
    assert (own.value, default.value) == ("5", "604800000")
    assert not own.read_only
    if version >= 1:
        assert (own.config_source, default.config_source) == (1, 5)
        assert [(each.name, each.value, each.source) for each in own.synonyms] == [
            ("retention.bytes", "5", 1),
            ("log.retention.bytes", "800", 2),
            ("log.retention.bytes", "900", 3),
            ("log.retention.bytes", "1000", 4),
            ("log.retention.bytes", "-1", 5),
        ]
    if version >= 3:
        assert own.config_type == 5
        assert own.documentation


def test_a_topic_without_its_own_value_has_the_brokers(broker: OneBroker) -> None:
    (config,) = describe(broker, TOPIC, "plain", ["retention.bytes"]).configs
    assert (config.value, config.config_source, config.synonyms, config.documentation) == ("800", 2, [], None)


def test_lists_are_written_as_kafka_does(broker: OneBroker) -> None:
    assert describe(broker, TOPIC, "t", ["cleanup.policy"]).configs[0].value == "compact,delete"


def test_no_keys_are_all_keys(broker: OneBroker) -> None:
    assert len(describe(broker, TOPIC, "t").configs) == len(describe(broker, TOPIC, "t", []).configs) == 38
    assert len(describe(broker, BROKER, "1").configs) > 300


@pytest.mark.medium
@pytest.mark.parametrize(("kind", "name"), [(TOPIC, "t"), (TOPIC, "plain"), (BROKER, "1"), (LOGGER, "1"), (GROUP, "g")])
def test_a_small_request_has_no_giant_response(broker: OneBroker, monkeypatch: pytest.MonkeyPatch, kind: int, name: str) -> None:
    values = len(describe(broker, kind, name).configs)
    monkeypatch.setattr(describe_configs, "MOST_VALUES", 3 * values)
    resources = [DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)] * 5
    results = broker.ask(DescribeConfigsRequest(resources=resources), 4).results
    assert [len(each.configs) for each in results] == [values, values, values, 0, 0]
    assert [each.error_code for each in results] == [0, 0, 0, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST]


def test_configs_that_are_equal_are_made_once(broker: OneBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(ConfigDescriber, "group", lambda *arguments: asked.append(arguments) or [])
    resources = [
        DescribeConfigsResource(resource_type=GROUP, resource_name=f"g{each}", configuration_keys=None) for each in range(9)
    ]
    assert len(broker.ask(DescribeConfigsRequest(resources=resources), 4).results) == 9
    assert len(asked) == 1


@pytest.mark.parametrize(("kind", "name"), [(BROKER, "1"), (BROKER, ""), (LOGGER, "1"), (GROUP, "g"), (TOPIC, "plain")])
def test_what_all_resources_have_in_common_is_read_once(
    broker: OneBroker, monkeypatch: pytest.MonkeyPatch, kind: int, name: str
) -> None:
    """Each resource asks for another key, so that none shares the entries of another; and keys that do not exist have no values."""
    reads: list[object] = []
    configs, levels = ConfigRepository.configs, LoggerLevels.all

    def read(repository: ConfigRepository, paths: Iterable[str]) -> Any:
        reads.extend(path for path in paths if path == "brokers/<default>")
        return configs(repository, paths)

    monkeypatch.setattr(ConfigRepository, "configs", read)
    monkeypatch.setattr(LoggerLevels, "all", lambda loggers: reads.append(loggers) or levels(loggers))
    resources = [
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=[f"unknown{each}"]) for each in range(9)
    ]
    results = broker.ask(DescribeConfigsRequest(resources=resources), 4).results
    assert [(each.error_code, each.configs) for each in results] == [(0, [])] * 9
    assert len(reads) == 1


def test_secrets_are_not_told(broker: OneBroker) -> None:
    (config,) = describe(broker, BROKER, "1", ["ssl.keystore.password"], include_synonyms=True).configs
    assert (config.value, config.is_sensitive, config.config_type) == (None, True, 9)
    assert {synonym.value for synonym in config.synonyms} == {None}


def test_a_brokers_settings_and_those_of_all(broker: OneBroker) -> None:
    by_name = {
        config.name: config for config in describe(broker, BROKER, "1", ["log.retention.bytes", "broker.id", "node.id"]).configs
    }
    assert (by_name["log.retention.bytes"].value, by_name["log.retention.bytes"].config_source) == ("800", 2)
    assert (by_name["node.id"].value, by_name["broker.id"].value, by_name["broker.id"].read_only) == ("1", "1", True)
    (everywhere,) = describe(broker, BROKER, "").configs
    assert (everywhere.name, everywhere.value, everywhere.config_source) == ("log.retention.bytes", "900", 3)


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "b/", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (LOGGER, "", ErrorCode.INVALID_REQUEST),
        (LOGGER, "2", ErrorCode.INVALID_REQUEST),
        (0, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_described(broker: OneBroker, kind: int, name: str, error: ErrorCode) -> None:
    result = describe(broker, kind, name)
    assert (result.error_code, result.configs) == (error, [])
    assert broker.errors[-1] == error


def test_loggers(broker: OneBroker) -> None:
    levels = {each.name: (each.value, each.config_source) for each in describe(broker, LOGGER, "1").configs}
    assert levels["root"] == levels["twisted_kafka.server.apis.administration.describe_configs"] == ("INFO", 6)
    some = describe(broker, LOGGER, "1", ["twisted", "nope", "root", "root"]).configs
    assert [each.name for each in some] == ["root", "twisted"]
