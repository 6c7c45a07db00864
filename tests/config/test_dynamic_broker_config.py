"""Layers of dynamic settings; the messages and rules are those of Kafka's DynamicBrokerConfig."""

from collections.abc import Callable
from typing import Any

import pytest
from twisted.logger import capturedLogs, formatEvent

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.dynamic.dynamic_broker_config import DynamicBrokerConfig
from twisted_kafka.config.errors import ConfigError


class Part:
    """Records its calls."""

    def __init__(self, *keys: str, refuses: Callable[[KafkaConfig], bool] = lambda _: False, rereads_files: bool = False) -> None:
        self.reconfigurable_keys = frozenset(keys)
        self.rereads_files = rereads_files
        self.refuses = refuses
        self.told: list[tuple[Any, Any]] = []

    def validate_reconfiguration(self, old: KafkaConfig, new: KafkaConfig) -> None:
        if self.refuses(new):
            raise ConfigError("this part cannot")

    def reconfigure(self, old: KafkaConfig, new: KafkaConfig) -> None:
        key = min(self.reconfigurable_keys)
        self.told.append((old[key], new[key]))


def make(**properties: str) -> tuple[KafkaConfig, DynamicBrokerConfig]:
    config = KafkaConfig({"broker.id": "1", **{key.replace("_", "."): text for key, text in properties.items()}})
    return config, DynamicBrokerConfig(config)


def test_the_precedence_of_broker_cluster_file_and_default() -> None:
    config, dynamic = make(num_io_threads="3")
    seen = [config.int("num.io.threads")]
    dynamic.update_defaults({"num.io.threads": "5"})
    seen.append(config.int("num.io.threads"))
    dynamic.update_own({"num.io.threads": "6", "max.connections": "7"})
    seen.append(config.int("num.io.threads"))
    dynamic.update_own({})
    seen.append(config.int("num.io.threads"))
    dynamic.update_defaults({})
    seen.append(config.int("num.io.threads"))
    assert seen == [3, 5, 6, 5, 3]
    assert config.int("max.connections") == config.default("max.connections")
    assert config.originals == {"broker.id": "1", "num.io.threads": "3"}


def test_only_affected_parts_are_notified() -> None:
    config, dynamic = make()
    threads, connections = Part("num.io.threads"), Part("max.connections")
    dynamic.add_reconfigurable(threads)
    dynamic.add_reconfigurable(connections)
    before = config.int("max.connections")
    dynamic.update_own({"max.connections": "7"})
    dynamic.update_own({"max.connections": "7"})
    dynamic.update_own({"max.connections": "7", "listener.name.plaintext.max.connections": "2"})
    assert connections.told == [(before, 7), (7, 7)]
    assert config.for_listener("PLAINTEXT", "max.connections") == 2
    assert threads.told == []


def test_a_part_that_rereads_files_is_notified_of_every_update() -> None:
    _, dynamic = make()
    part = Part("ssl.keystore.location", rereads_files=True)
    dynamic.add_reconfigurable(part)
    dynamic.update_own({})
    dynamic.update_defaults({})
    assert len(part.told) == 1


def test_derived_values_follow_the_change() -> None:
    config, dynamic = make(listeners="PLAINTEXT://127.0.0.1:9092")
    assert len(config.listeners) == 1
    dynamic.update_own(
        {
            "listeners": "PLAINTEXT://127.0.0.1:9092,OTHER://127.0.0.1:9093",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
        }
    )
    assert [each.listener_name for each in config.listeners] == ["PLAINTEXT", "OTHER"]


def test_an_assigned_broker_id_stays() -> None:
    config = KafkaConfig({})
    config.take_broker_id(1001)
    told = []
    part = Part("num.io.threads")
    part.reconfigure = lambda old, new: told.append((old.broker_id, new.broker_id))
    dynamic = DynamicBrokerConfig(config)
    dynamic.add_reconfigurable(part)
    dynamic.update_own({"num.io.threads": "5"})
    assert config.broker_id == 1001
    assert told == [(1001, 1001)]


STATIC = "Cannot update these configs dynamically"
UNPREFIXED = "These security configs can be dynamically updated only per-listener using the listener prefix"
PER_BROKER_ONLY = "Cannot update these configs at default cluster level, broker id must be specified"


@pytest.mark.parametrize(
    ("settings", "per_broker", "text"),
    [
        ({"broker.rack": "r", "zookeeper.connect": "z"}, True, f"{STATIC}: Set(broker.rack, zookeeper.connect)"),
        ({"ssl.keystore.location": "/x"}, True, f"{UNPREFIXED}: Set(ssl.keystore.location)"),
        ({"listeners": "PLAINTEXT://:1"}, False, f"{PER_BROKER_ONLY}: Set(listeners)"),
        ({"listener.name.x.ssl.protocol": "TLS"}, False, f"{PER_BROKER_ONLY}: Set(listener.name.x.ssl.protocol)"),
        ({"num.io.threads": "many"}, True, "Invalid value 'many' for num.io.threads: must be a whole number of 32 bits"),
        ({"num.io.threads": "0"}, False, "Invalid value '0' for num.io.threads: must be at least 1"),
        ({"listener.name.x.max.connections": "-1"}, False,
         "Invalid value '-1' for listener.name.x.max.connections: must be at least 0"),
        ({"listener.name.x.client.quota.callback.class": ""}, True,
         "Invalid value '' for listener.name.x.client.quota.callback.class: must be the name of a class"),
    ],
)  # fmt: skip
def test_invalid_settings_are_refused(settings: dict[str, str], per_broker: bool, text: str) -> None:
    _, dynamic = make()
    with pytest.raises(ConfigError) as refused:
        dynamic.validate(settings, per_broker=per_broker)
    assert str(refused.value) == text


def test_valid_settings_are_accepted() -> None:
    config, dynamic = make()
    dynamic.validate(
        {"listener.name.plaintext.max.connections": "1", "max.connections": "5", "somebodys.plugin": "x"}, per_broker=False
    )
    dynamic.validate({"listener.name.x.ssl.keystore.location": "/x"}, per_broker=True)
    assert config.int("max.connections") == config.default("max.connections"), "nothing is changed"


def test_parts_and_rules_between_settings_can_refuse_a_change() -> None:
    config, dynamic = make()
    part = Part("max.connections", refuses=lambda new: new.int("max.connections") > 5)
    dynamic.add_reconfigurable(part)
    with pytest.raises(ConfigError, match="this part cannot"):
        dynamic.validate({"max.connections": "6"}, per_broker=False)
    with pytest.raises(ConfigError, match=r"advertised\.listeners"):
        dynamic.validate({"advertised.listeners": "SSL://here:1"}, per_broker=True)
    dynamic.update_defaults({"max.connections": "6"})
    assert config.int("max.connections") != 6, "and it is not applied when somebody wrote it all the same"
    assert part.told == []
    dynamic.update_defaults({"max.connections": "5"})
    assert config.int("max.connections") == 5


def test_unusable_settings_are_ignored_and_the_rest_applied() -> None:
    config, dynamic = make()
    dynamic.update_own({"broker.rack": "r", "num.io.threads": "x", "ssl.key.password": "p", "max.connections": "9"})
    assert config.int("max.connections") == 9
    assert config.optional_string("broker.rack") is None


def test_the_failure_of_one_part_does_not_affect_the_others() -> None:
    _, dynamic = make()
    failing, other = Part("max.connections"), Part("max.connections")
    failing.reconfigure = lambda old, new: 1 / 0  # type: ignore[assignment]
    dynamic.add_reconfigurable(failing)
    dynamic.add_reconfigurable(other)
    dynamic.update_own({"max.connections": "9"})
    assert len(other.told) == 1


BUILDER = "listener.name.plaintext.principal.builder.class"


@pytest.mark.parametrize(
    ("in_the_file", "named", "is_allowed"),
    [
        ({}, "os.abort", False),
        ({}, "my.Builder", False),
        ({"dynamic.class.names": "my.Other,my.Builder"}, "my.Builder", True),
        ({"principal.builder.class": "my.Builder"}, "my.Builder", True),
        ({"listener.name.plaintext.plain.sasl.server.callback.handler.class": "my.Builder"}, "my.Builder", True),
        ({}, "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder", True),
    ],
)
def test_a_class_is_named_at_runtime_only_if_the_file_names_it(in_the_file: dict[str, str], named: str, is_allowed: bool) -> None:
    keys = (
        BUILDER,
        "listener.name.plaintext.plain.sasl.server.callback.handler.class",
        "plain.sasl.server.callback.handler.class",
        "listener.name.plaintext.ssl.engine.factory.class",
    )
    config = KafkaConfig({"broker.id": "1", **in_the_file})
    dynamic = DynamicBrokerConfig(config)
    for key in keys:
        if is_allowed:
            dynamic.validate({key: named}, per_broker=True)
            continue
        with pytest.raises(ConfigError) as error:
            dynamic.validate({key: named}, per_broker=True)
        assert f"Invalid value {named!r} for {key}: at runtime only" in str(error.value)
        with capturedLogs() as events:
            dynamic.update_own({key: named})
        assert [formatEvent(event).startswith(f"The dynamic config {key} is ignored") for event in events] == [True]
        assert config.prefixed(key) is None


def test_a_class_that_was_named_at_runtime_allows_no_other() -> None:
    _, dynamic = make(dynamic_class_names="my.Builder")
    dynamic.update_own({BUILDER: "my.Builder"})
    with pytest.raises(ConfigError):
        dynamic.validate({BUILDER: "my.Other"}, per_broker=True)


def started(own: dict[str, str], trial: Callable[[KafkaConfig], object], **properties: str) -> tuple[KafkaConfig, list[str]]:
    config, dynamic = make(**properties)
    with capturedLogs() as events:
        dynamic.start_with({"num.io.threads": "5"}, own)
        dynamic.leave_out_what_fails(trial)
    return config, [formatEvent(event) for event in events]


def test_a_stored_setting_that_prevents_a_start_is_left_out_alone() -> None:
    listeners = {"listeners": "PLAINTEXT://h:1,NEW://h:2", "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,NEW:PLAINTEXT"}
    bad = {"listener.name.new.ssl.keystore.location": "/gone"}

    def trial(config: KafkaConfig) -> None:
        if config.prefixed(next(iter(bad))):
            raise ConfigError("there is no /gone")

    config, lines = started({**listeners, **bad}, trial)
    assert lines == [
        "The dynamic config listener.name.new.ssl.keystore.location is left out, as the broker could not start: there is no /gone",
        "Correct or delete it: twisted-kafka configs alter broker default "
        "--delete listener.name.new.ssl.keystore.location (or the broker's id instead of default)",
    ]
    assert [each.listener_name for each in config.listeners] == ["PLAINTEXT", "NEW"]
    assert config.int("num.io.threads") == 5


def test_settings_that_contradict_each_other_do_not_prevent_a_start() -> None:
    config, lines = started({"listeners": "NEW://h:2"}, lambda _: None)
    assert [each.listener_name for each in config.listeners] == ["PLAINTEXT"]
    assert "The dynamic config listeners is left out" in lines[0]
    assert config.int("num.io.threads") == 5


def test_what_several_settings_cause_together_leaves_out_all() -> None:
    def trial(config: KafkaConfig) -> None:
        if config.int("background.threads") == 7 or config.int("num.io.threads") == 5:
            raise ConfigError("too many")

    config, lines = started({"background.threads": "7"}, trial)
    assert len(lines) == 4
    assert (config["num.io.threads"], config["background.threads"]) == (
        config.default("num.io.threads"),
        config.default("background.threads"),
    )


def test_what_the_file_causes_is_no_fault_of_the_store() -> None:
    def trial(config: KafkaConfig) -> None:
        raise ConfigError("the port is taken")

    config, lines = started({}, trial)
    assert lines == []
    assert config.int("num.io.threads") == 5


def test_a_setting_of_an_unknown_listener_is_warned_about() -> None:
    _, dynamic = make()
    with capturedLogs() as events:
        dynamic.update_own(
            {"listener.name.externl.ssl.client.auth": "required", "listener.name.plaintext.max.connections.per.ip": "1"}
        )
    assert sorted(formatEvent(event) for event in events)[1:] == [
        "The dynamic config listener.name.externl.ssl.client.auth has no effect: there is no listener externl, but PLAINTEXT",
        "The dynamic config listener.name.plaintext.max.connections.per.ip has no effect: max.connections.per.ip is a setting of "
        "the whole broker: set it without the prefix listener.name.plaintext.",
    ]


def test_settings_that_a_trial_does_not_depend_on_are_neither_tried_nor_left_out() -> None:
    trials: list[KafkaConfig] = []

    def trial(config: KafkaConfig) -> None:
        trials.append(config)
        if config.int("max.connections") == 7:
            raise ConfigError("too few")

    config, dynamic = make()
    dynamic.start_with({"num.io.threads": "5"}, {})
    dynamic.leave_out_what_fails(trial, lambda name: name == "max.connections")
    assert trials == []
    dynamic.start_with({"num.io.threads": "5"}, {"max.connections": "7", "background.threads": "11"})
    dynamic.leave_out_what_fails(trial, lambda name: name == "max.connections")
    assert len(trials) == 2
    assert config["max.connections"] == config.default("max.connections")
    assert (config["num.io.threads"], config["background.threads"]) == (5, 11)
