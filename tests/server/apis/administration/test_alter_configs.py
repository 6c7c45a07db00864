"""AlterConfigs and IncrementalAlterConfigs through the codec; what they change is read back from the broker and from the store."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.logger import capturedLogs, formatEvent

from tests.server.apis.topic_harness import OneBroker
from twisted_kafka.admin.policies import ConfigOrder, TopicOrder
from twisted_kafka.config.keys.groups import GROUP_KEYS
from twisted_kafka.metadata.znodes import ConfigChangeNode, ConfigNode
from twisted_kafka.protocol.errors import ErrorCode, PolicyViolationError
from twisted_kafka.protocol.messages.administration.configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsRequestAlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from twisted_kafka.protocol.messages.administration.topics import CreatableTopic, CreateTopicsRequest

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


class NoShortRetention:
    """A policy of an operator's own."""

    seen: list[Any] = []  # noqa: RUF012 the broker makes the object

    def configure(self, configs: dict[str, str]) -> None:
        self.broker_id = configs["broker.id"]

    def validate(self, order: TopicOrder | ConfigOrder) -> None:
        self.seen.append(order)
        if order.configs.get("retention.ms") == "1":
            raise PolicyViolationError("too short")
        if order.configs.get("retention.ms") == "2":
            raise ZeroDivisionError("a mistake of the policy")

    def close(self) -> None:
        pass


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OneBroker]:
    broker = OneBroker(tmp_path)
    broker.create("t", retention_ms="5000")
    yield broker
    broker.store.close()


def replace(broker: OneBroker, kind: int, name: str, *settings: Any, version: int = 2, validate_only: bool = False) -> int:
    configs = [AlterConfigsRequestAlterableConfig(name=key, value=value) for key, value in settings]
    resource = AlterConfigsRequestAlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    (answer,) = broker.ask(AlterConfigsRequest(resources=[resource], validate_only=validate_only), version).responses
    assert (answer.resource_type, answer.resource_name) == (kind, name)
    return answer.error_code


def change(broker: OneBroker, kind: int, name: str, *changes: Any, version: int = 1, validate_only: bool = False) -> int:
    configs = [
        IncrementalAlterConfigsRequestAlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (answer,) = broker.ask(request, version).responses
    assert (answer.resource_type, answer.resource_name) == (kind, name)
    return answer.error_code


def described(broker: OneBroker, kind: int, name: str, *keys: Any) -> dict[str, str]:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys))
    (result,) = broker.ask(DescribeConfigsRequest(resources=[resource]), 4).results
    return {each.name: each.value for each in result.configs}


def stored(broker: OneBroker, path: str) -> dict[str, str]:
    found = broker.store.get(f"/config/{path}")
    return None if found is None else ConfigNode.decode(found[0]).config


@pytest.mark.parametrize("version", range(3))
def test_what_is_not_named_goes_back_to_its_default(broker: OneBroker, version: int) -> None:
    assert replace(broker, TOPIC, "t", ("segment.bytes", "2000000"), version=version) == ErrorCode.NONE
    assert described(broker, TOPIC, "t", "segment.bytes", "retention.ms") == {
        "segment.bytes": "2000000",
        "retention.ms": "604800000",
    }
    assert stored(broker, "topics/t") == {"segment.bytes": "2000000"}


@pytest.mark.parametrize("version", range(2))
def test_what_is_not_named_stays(broker: OneBroker, version: int) -> None:
    assert change(broker, TOPIC, "t", ("segment.bytes", SET, "2000000"), version=version) == ErrorCode.NONE
    assert stored(broker, "topics/t") == {"retention.ms": "5000", "segment.bytes": "2000000"}
    assert change(broker, TOPIC, "t", ("retention.ms", DELETE, None), version=version) == ErrorCode.NONE
    assert stored(broker, "topics/t") == {"segment.bytes": "2000000"}


def test_a_change_is_announced_to_all_brokers(broker: OneBroker) -> None:
    assert change(broker, TOPIC, "t", ("segment.bytes", SET, "2000000")) == ErrorCode.NONE
    (name,) = broker.store.children("/config/changes")
    assert ConfigChangeNode.decode(broker.store.get(f"/config/changes/{name}")[0]).entity_path == "topics/t"


def test_nothing_is_changed_when_only_validated(broker: OneBroker) -> None:
    assert change(broker, TOPIC, "t", ("segment.bytes", SET, "2000000"), validate_only=True) == ErrorCode.NONE
    assert replace(broker, TOPIC, "t", ("segment.bytes", "2000000"), validate_only=True) == ErrorCode.NONE
    assert stored(broker, "topics/t") == {"retention.ms": "5000"}
    assert broker.store.children("/config/changes") == []


def test_lists_grow_and_shrink(broker: OneBroker) -> None:
    for operation, value, result in (
        (APPEND, "compact", "delete,compact"),
        (APPEND, "compact", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "delete", "compact"),
    ):
        assert change(broker, TOPIC, "t", ("cleanup.policy", operation, value)) == ErrorCode.NONE
        assert stored(broker, "topics/t")["cleanup.policy"] == result


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ([("retention.ms", SET, "x")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", SET, "1"), ("segment.bytes", SET, "x")], ErrorCode.INVALID_CONFIG),
        ([("unheard.of", SET, "1")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", APPEND, "1")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", SET, "1"), ("retention.ms", DELETE, None)], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", 9, "1")], ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_bad_change_changes_nothing(
    broker: OneBroker, changes: list[tuple[str, int, str] | tuple[str, int, None]], error: ErrorCode
) -> None:
    assert change(broker, TOPIC, "t", *changes) == error
    assert stored(broker, "topics/t") == {"retention.ms": "5000"}
    assert broker.errors[-1] == error


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC, "missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "", ErrorCode.INVALID_REQUEST),
        (BROKER, "7", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (3, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_there_must_be_such_a_resource(broker: OneBroker, kind: int, name: str, error: ErrorCode) -> None:
    assert change(broker, kind, name, ("retention.ms", SET, "1")) == error
    assert replace(broker, kind, name, ("retention.ms", "1")) == error


def test_a_resource_that_is_named_twice_is_refused_both_times(broker: OneBroker) -> None:
    setting = [AlterConfigsRequestAlterableConfig(name="retention.ms", value="1")]
    resource = AlterConfigsRequestAlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=setting)
    answers = broker.ask(AlterConfigsRequest(resources=[resource, resource]), 2).responses
    assert [answer.error_code for answer in answers] == [ErrorCode.INVALID_REQUEST] * 2
    assert stored(broker, "topics/t") == {"retention.ms": "5000"}


def test_settings_of_this_broker_and_of_all(broker: OneBroker) -> None:
    assert change(broker, BROKER, "1", ("log.cleaner.backoff.ms", SET, "14000")) == ErrorCode.NONE
    assert change(broker, BROKER, "", ("log.cleaner.backoff.ms", SET, "13000")) == ErrorCode.NONE
    assert (stored(broker, "brokers/1"), stored(broker, "brokers/<default>")) == (
        {"log.cleaner.backoff.ms": "14000"},
        {"log.cleaner.backoff.ms": "13000"},
    )
    assert described(broker, BROKER, "1", "log.cleaner.backoff.ms") == {"log.cleaner.backoff.ms": "14000"}
    assert described(broker, BROKER, "", "log.cleaner.backoff.ms") == {"log.cleaner.backoff.ms": "13000"}
    assert change(broker, BROKER, "1", ("broker.id", SET, "5")) == ErrorCode.INVALID_REQUEST
    assert change(broker, BROKER, "1", ("log.cleaner.backoff.ms", SET, "x")) == ErrorCode.INVALID_REQUEST
    assert stored(broker, "brokers/1") == {"log.cleaner.backoff.ms": "14000"}


def test_levels_of_loggers(broker: OneBroker) -> None:
    assert change(broker, LOGGER, "1", ("twisted_kafka.server", SET, "DEBUG"), validate_only=True) == ErrorCode.NONE
    assert described(broker, LOGGER, "1", "twisted_kafka.server") == {"twisted_kafka.server": "INFO"}
    assert change(broker, LOGGER, "1", ("twisted_kafka.server", SET, "DEBUG")) == ErrorCode.NONE
    assert described(broker, LOGGER, "1", "twisted_kafka.server") == {"twisted_kafka.server": "DEBUG"}
    assert change(broker, LOGGER, "1", ("twisted_kafka.server", DELETE, None)) == ErrorCode.NONE
    assert described(broker, LOGGER, "1", "twisted_kafka.server") == {"twisted_kafka.server": "INFO"}
    for bad in (("nobody", SET, "INFO"), ("root", SET, "LOUD")):
        assert change(broker, LOGGER, "1", bad) == ErrorCode.INVALID_CONFIG
    for bad in (("root", APPEND, "DEBUG"), ("root", SET, None), ("root", DELETE, None)):
        assert change(broker, LOGGER, "1", bad) == ErrorCode.INVALID_REQUEST
    assert change(broker, LOGGER, "7", ("root", SET, "INFO")) == ErrorCode.INVALID_REQUEST
    assert replace(broker, LOGGER, "1", ("root", "INFO")) == ErrorCode.INVALID_REQUEST


def test_subscriptions_to_client_metrics(broker: OneBroker) -> None:
    assert change(broker, CLIENT_METRICS, "s", ("interval.ms", SET, "1000"), ("metrics", SET, "a,b")) == ErrorCode.NONE
    assert described(broker, CLIENT_METRICS, "s") == {"interval.ms": "1000", "metrics": "a,b"}
    assert stored(broker, "client-metrics/s") == {"interval.ms": "1000", "metrics": "a,b"}
    for bad in (("interval.ms", SET, "99"), ("interval.ms", SET, "x"), ("unheard.of", SET, "1")):
        assert change(broker, CLIENT_METRICS, "s", bad) == ErrorCode.INVALID_REQUEST
    for bad in ("foo=bar", "client_id=[", "client_id", "client_id="):  # type: ignore[assignment]
        assert change(broker, CLIENT_METRICS, "s", ("match", SET, bad)) == ErrorCode.INVALID_CONFIG
    assert change(broker, CLIENT_METRICS, "", ("interval.ms", SET, "1000")) == ErrorCode.INVALID_REQUEST


def test_settings_of_a_group(broker: OneBroker) -> None:
    shown = described(broker, GROUP, "a/b")
    assert shown.keys() == {name for name, key in GROUP_KEYS.items() if not key.internal}
    assert shown["streams.assignor.name"] == "sticky"
    assert (shown["consumer.session.timeout.ms"], shown["share.delivery.count.limit"]) == ("45000", "5")
    assert change(broker, GROUP, "a/b", ("consumer.session.timeout.ms", SET, "50000")) == ErrorCode.NONE
    assert described(broker, GROUP, "a/b", "consumer.session.timeout.ms") == {"consumer.session.timeout.ms": "50000"}
    assert described(broker, GROUP, "other", "consumer.session.timeout.ms") == {"consumer.session.timeout.ms": "45000"}
    for key, value in (("consumer.session.timeout.ms", "x"), ("consumer.session.timeout.ms", "1"), ("unheard.of", "1")):
        assert change(broker, GROUP, "a/b", (key, SET, value)) == ErrorCode.INVALID_CONFIG
    assert change(broker, GROUP, "a/b", ("consumer.session.timeout.ms", APPEND, "1")) == ErrorCode.INVALID_CONFIG
    assert change(broker, GROUP, "a/b", ("streams.num.warmup.replicas", SET, "1")) == ErrorCode.NONE
    assert described(broker, GROUP, "a/b", "streams.num.warmup.replicas") == {"streams.num.warmup.replicas": "1"}
    assert change(broker, GROUP, "", ("consumer.session.timeout.ms", SET, "50000")) == ErrorCode.INVALID_REQUEST


def test_an_operators_policies_decide(tmp_path: Path) -> None:
    policy = f"{__name__}.NoShortRetention"
    NoShortRetention.seen.clear()
    broker = OneBroker(tmp_path, alter_config_policy_class_name=policy, create_topic_policy_class_name=policy)
    try:
        broker.create("t", 2, retention_ms="5000")
        order = NoShortRetention.seen.pop()
        assert (order.topic, order.num_partitions, order.replication_factor, order.configs) == ("t", 2, 1, {"retention.ms": "5000"})
        assert change(broker, TOPIC, "t", ("retention.ms", SET, "1")) == ErrorCode.POLICY_VIOLATION
        assert NoShortRetention.seen.pop() == ("topics/t", {"retention.ms": "1"})
        assert change(broker, TOPIC, "t", ("retention.ms", SET, "2")) == ErrorCode.UNKNOWN_SERVER_ERROR
        assert change(broker, TOPIC, "t", ("retention.ms", SET, "3"), validate_only=True) == ErrorCode.NONE
        assert stored(broker, "topics/t") == {"retention.ms": "5000"}
        refused = CreatableTopic(name="u", num_partitions=1, replication_factor=1)
        refused.configs = broker.settings(retention_ms="1")
        (answer,) = broker.ask(CreateTopicsRequest(topics=[refused]), 7).topics
        assert (answer.error_code, answer.error_message) == (ErrorCode.POLICY_VIOLATION, "too short")
    finally:
        broker.store.close()


@pytest.mark.parametrize("name", ["", ".", "..", "a\0b", "a/b", "x" * 250])
def test_a_name_that_no_subscription_can_have_fails_alone(broker: OneBroker, name: str) -> None:
    resources = [
        IncrementalAlterConfigsRequestAlterConfigsResource(
            resource_type=CLIENT_METRICS,
            resource_name=each,
            configs=[IncrementalAlterConfigsRequestAlterableConfig(name="interval.ms", config_operation=SET, value="1000")],
        )
        for each in (name, "s")
    ]
    answers = broker.ask(IncrementalAlterConfigsRequest(resources=resources), 1).responses
    assert [answer.error_code for answer in answers] == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert stored(broker, "client-metrics/s") == {"interval.ms": "1000"}
    asked = [DescribeConfigsResource(resource_type=CLIENT_METRICS, resource_name=each) for each in (name, "s")]
    results = broker.ask(DescribeConfigsRequest(resources=asked), 4).results
    assert [result.error_code for result in results] == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]


@pytest.mark.medium
def test_a_request_that_fails_for_many_resources_is_one_line(broker: OneBroker) -> None:
    resources = [
        IncrementalAlterConfigsRequestAlterConfigsResource(resource_type=TOPIC, resource_name=f"no-such-{number}", configs=[])
        for number in range(1000)
    ]
    with capturedLogs() as events:
        broker.ask(IncrementalAlterConfigsRequest(resources=resources), 1)
    lines = [formatEvent(event) for event in events if event["log_namespace"].endswith("alter_configs")]
    assert len(lines) == 1
    assert lines[0].endswith("; and of 999 other resources")


@pytest.mark.parametrize("name", [".", ".."])
def test_a_name_that_no_node_can_have_fails_alone(broker: OneBroker, name: str) -> None:
    resources = [
        IncrementalAlterConfigsRequestAlterConfigsResource(
            resource_type=GROUP,
            resource_name=each,
            configs=[
                IncrementalAlterConfigsRequestAlterableConfig(
                    name="consumer.session.timeout.ms", config_operation=SET, value="50000"
                )
            ],
        )
        for each in (name, "g")
    ]
    answers = broker.ask(IncrementalAlterConfigsRequest(resources=resources), 1).responses
    assert [answer.error_code for answer in answers] == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    asked = [DescribeConfigsResource(resource_type=GROUP, resource_name=each) for each in (name, "g")]
    results = broker.ask(DescribeConfigsRequest(resources=asked), 4).results
    assert [result.error_code for result in results] == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
