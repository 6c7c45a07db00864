import math
import re
from pathlib import Path

import pytest

from tests.support.cases import case
from twisted_kafka.config.broker_config import KafkaConfig, parse_overrides
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.config.keys import BROKER_KEYS
from twisted_kafka.config.keys.declare import BROKER, LISTENER, MECHANISM
from twisted_kafka.config.prefixes import base_key


def test_defaults_are_kafkas_except_for_a_single_broker_with_the_interpreter_lock() -> None:
    config = KafkaConfig.from_properties({})
    assert config["log.segment.bytes"] == 1 << 30
    assert config.int("offsets.topic.num.partitions") == 50
    assert config.int("offsets.topic.replication.factor") == 1
    assert config.int("transaction.state.log.min.isr") == 1
    assert config.int("group.initial.rebalance.delay.ms") == 3000
    assert config.log_dirs == ("/tmp/kafka-logs",)
    assert config.warnings == ()


def test_internal_topics_have_kafkas_replicas_with_zookeeper_connect() -> None:
    config = KafkaConfig.from_properties({"zookeeper.connect": "localhost:2181"})
    assert config.int("offsets.topic.replication.factor") == 3
    assert config.int("transaction.state.log.replication.factor") == 3
    assert config.int("transaction.state.log.min.isr") == 2


@pytest.mark.parametrize("second", ["a", "./a", "link"])
def test_duplicate_log_directories_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("link").symlink_to("a")
    assert KafkaConfig.from_properties({"log.dirs": "a,b"}).log_dirs == ("a", "b")
    with pytest.raises(ConfigError, match=r"for log\.dirs: must be a list without duplicates"):
        KafkaConfig.from_properties({"log.dirs": f"a,b,{second}"})


def test_replication_factors_above_the_number_of_brokers_cause_a_warning() -> None:
    config = KafkaConfig.from_properties({"offsets.topic.replication.factor": "3", "default.replication.factor": "2"})
    (line,) = config.warnings
    assert "default.replication.factor=2, offsets.topic.replication.factor=3" in line


def test_an_embedded_broker_forms_groups_at_once() -> None:
    config = KafkaConfig.embedded({"offsets.topic.num.partitions": "7"})
    assert config.int("group.initial.rebalance.delay.ms") == 0
    assert config.int("offsets.topic.num.partitions") == 7


def test_values_are_parsed_by_type() -> None:
    config = KafkaConfig.from_properties(
        {
            "log.cleanup.policy": "compact, delete",
            "auto.create.topics.enable": "False",
            "log.cleaner.min.cleanable.ratio": "0.25",
            "broker.rack": " r1 ",
            "log.retention.ms": "-1",
        }
    )
    assert config.list("log.cleanup.policy") == ("compact", "delete")
    assert config.boolean("auto.create.topics.enable") is False
    assert config.double("log.cleaner.min.cleanable.ratio") == 0.25
    assert config.optional_string("broker.rack") == "r1"
    assert config.log_retention_ms == -1
    assert config.text("log.cleaner.io.max.bytes.per.second") == "1.7976931348623157E308"


@pytest.mark.parametrize(
    ("key", "text", "allowed"),
    [
        ("num.io.threads", "0", "at least 1"),
        ("console.hosts", "kafka.example.com,a b", "a list of host names, without schemes, ports and wildcards"),
        ("console.hosts", "kafka.example.com:8080", "a list of host names, without schemes, ports and wildcards"),
        ("console.hosts", "https://kafka", "a list of host names, without schemes, ports and wildcards"),
        ("console.hosts", "*.example.com", "a list of host names, without schemes, ports and wildcards"),
        ("num.io.threads", "many", "a whole number of 32 bits"),
        ("num.io.threads", "2147483648", "a whole number of 32 bits"),
        ("num.io.threads", "1_0", "a whole number of 32 bits"),
        ("num.io.threads", "", "a whole number of 32 bits"),
        ("auto.create.topics.enable", "yes", "true or false"),
        ("log.cleanup.policy", "delete,drop", "a list of compact, delete"),
        ("log.cleaner.min.cleanable.ratio", "1.5", "from 0 to 1"),
        ("log.cleaner.min.cleanable.ratio", "NaN", "a number"),
        ("log.cleaner.io.max.bytes.per.second", "NaN", "a number"),
        ("log.cleaner.io.max.bytes.per.second", "-nan", "a number"),
        ("log.cleaner.io.max.bytes.per.second", "inf", "a number"),
        ("log.cleaner.io.max.bytes.per.second", "1_000", "a number"),
        ("log.cleaner.io.max.bytes.per.second", "\u0661", "a number"),
        ("compression.gzip.level", "0", "from 1 to 9, or -1"),
        ("log.message.timestamp.type", "createtime", "one of CreateTime, LogAppendTime"),
        ("inter.broker.protocol.version", "9.9", "a Kafka version from 0.8.0 to 4.0-IV1"),
        ("log.retention.ms", "-2", "at least 1, or -1 for no limit"),
        ("log.dirs", " , ", "a list with at least one directory"),
        ("queued.max.request.bytes", "5", "-1, or at least socket.request.max.bytes, 104857600"),
        ("offsets.commit.required.acks", "2", "from -1 to offsets.topic.replication.factor, 1"),
        ("broker.id", "1001", "at most reserved.broker.max.id, 1000"),
        ("group.max.session.timeout.ms", "10", "at least group.min.session.timeout.ms, 6000"),
        ("max.connections.per.ip.overrides", "hosts", "a list of host:count"),
        (
            "connection.failed.authentication.delay.ms",
            "600000",
            "less than connections.max.idle.ms, 600000, or failures would not be answered",
        ),
    ],
)
def test_the_error_of_an_invalid_value_is_one_line_with_key_value_and_allowed_values(key: str, text: str, allowed: str) -> None:
    with pytest.raises(ConfigError) as caught:
        KafkaConfig.from_properties({key: text})
    assert str(caught.value) == f"Invalid value {text.strip() if text == ' , ' else text!r} for {key}: must be {allowed}"


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e3", 1000), ("+.5", 0.5), ("5.", 5), ("0.5f", 0.5), ("2E1D", 20), ("Infinity", math.inf), ("1e999", math.inf)],
)
def test_numbers_are_parsed_as_in_java(text: str, value: float) -> None:
    config = KafkaConfig.from_properties({"log.cleaner.io.max.bytes.per.second": text})
    assert config.double("log.cleaner.io.max.bytes.per.second") == value


def test_a_long_text_that_is_no_number_is_refused_at_once() -> None:
    """Without regard to how often its digits could be split in two, which takes minutes."""
    with pytest.raises(ConfigError):
        KafkaConfig.from_properties({"log.cleaner.io.max.bytes.per.second": "1" * 200_000 + "x"})


@pytest.mark.parametrize("version", ["3.9", "3.9-IV0", "2.8.1", "0.10.2", "0.8.2"])
def test_kafka_versions_may_be_abbreviated(version: str) -> None:
    KafkaConfig.from_properties({"inter.broker.protocol.version": version})


@pytest.mark.parametrize(
    ("settings", "expected_ms"),
    [
        ({}, 7 * 24 * 3_600_000),
        ({"log.retention.hours": "2"}, 2 * 3_600_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 3 * 60_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_the_key_with_the_smallest_unit_wins(settings: dict[str, str], expected_ms: int) -> None:
    assert KafkaConfig.from_properties(settings).log_retention_ms == expected_ms


def test_unknown_keys_and_keys_without_effect_are_listed_in_one_warning_each() -> None:
    config = KafkaConfig.from_properties(
        {
            "num.io.thread": "4",
            "foo": "1",
            "zookeeper.metadata.migration.min.batch.size": "9",
            "log.message.format.version": "3.0",
            "broker.id": "1",
        }
    )
    assert config.unknown_keys == ("foo", "num.io.thread")
    assert config.without_effect == ("log.message.format.version", "zookeeper.metadata.migration.min.batch.size")
    assert [line.partition(": ")[2] for line in config.warnings] == [
        "foo, num.io.thread (did you mean num.io.threads?)",
        "log.message.format.version, zookeeper.metadata.migration.min.batch.size",
    ]


def test_an_empty_list_of_directories_is_not_an_absent_one() -> None:
    with pytest.raises(ConfigError, match="must be a list with at least one directory"):
        KafkaConfig.from_properties({"log.dirs": "", "log.dir": "/tmp/somewhere"})


def test_settings_of_the_authorizer_are_known() -> None:
    config = KafkaConfig.from_properties({"super.users": "User:a", "allow.everyone.if.no.acl.found": "true"})
    assert (config.unknown_keys, config.without_effect) == ((), ())


def test_an_ignored_key_with_consequences_has_a_warning_of_its_own() -> None:
    config = KafkaConfig.from_properties({"process.roles": "broker", "controller.listener.names": "C"})
    assert "KRaft is not supported" in [line.partition(":")[0] for line in config.warnings]


def test_passwords_are_never_shown() -> None:
    config = KafkaConfig.from_properties({"ssl.key.password": "s3cret", "listener.name.plaintext.ssl.keystore.password": "s3cret"})
    assert config.string("ssl.key.password") == "s3cret"
    assert config.text("ssl.key.password") == "[hidden]"
    assert "s3cret" not in repr(config)


def test_a_listeners_setting_overrides_the_brokers() -> None:
    config = KafkaConfig.from_properties(
        {
            "listeners": "INTERNAL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
            "listener.security.protocol.map": "INTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "listener.name.internal.num.network.threads": "5",
            "listener.name.internal.foo": "1",
        }
    )
    assert config.for_listener("INTERNAL", "num.network.threads") == 5
    assert config.for_listener("PLAINTEXT", "num.network.threads") == config["num.network.threads"]
    assert config.unknown_keys == ("listener.name.internal.foo",)


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("max.connections.per.ip", "set it without the prefix listener.name.plaintext."),
        ("max.connections.per.ip.overrides", "a setting of the whole broker"),
        ("sasl.server.authentication.timeout.ms", "a setting of the whole broker"),
        ("sasl.server.authentication.max.pending", "a setting of the whole broker"),
        ("log.dirs", "a setting of the whole broker"),
    ],
)
def test_a_listeners_setting_without_effect_is_refused(key: str, why: str) -> None:
    name = f"listener.name.plaintext.{key}"
    with pytest.raises(ConfigError, match=re.escape(why)) as error:
        KafkaConfig.from_properties({name: "1"})
    assert str(error.value).startswith(f"{name} would have no effect: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("listener.name.externl.ssl.client.auth", "there is no listener externl, but PLAINTEXT"),
        ("listener.name.externl.plain.sasl.jaas.config", "there is no listener externl, but PLAINTEXT"),
        ("listener.name.PLAINTEXT.ssl.client.auth", "in lower case: listener.name.plaintext."),
    ],
)
def test_a_setting_of_a_listener_that_there_is_not_is_refused(name: str, why: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(why)):
        KafkaConfig.from_properties({name: "required"})


def test_dynamic_settings_may_be_of_listeners_to_come() -> None:
    config = KafkaConfig.from_properties({}).layered({"listener.name.new.ssl.client.auth": "required"})
    assert list(config.useless_prefixes) == ["listener.name.new.ssl.client.auth"]
    assert config.copy().useless_prefixes == config.useless_prefixes


@pytest.mark.parametrize("scope", [LISTENER, MECHANISM])
def test_keys_have_the_prefixes_that_they_declare(scope: str) -> None:
    for key in BROKER_KEYS.values():
        with case(key=key.name):
            found = (
                base_key(f"listener.name.a.{key.name}"),
                base_key(f"listener.name.a.plain.{key.name}"),
                base_key(f"plain.{key.name}"),
            )
            if key.scope == scope:
                assert found == (key.name, *([key.name if scope == MECHANISM else None] * 2))
            elif key.scope == BROKER:
                assert found == (None, None, None)


def test_updates_return_a_new_configuration() -> None:
    config = KafkaConfig.from_properties({"num.io.threads": "2"})
    assert config.updated({"num.io.threads": "3"}).int("num.io.threads") == 3
    assert config.updated({"num.io.threads": None}).int("num.io.threads") == config.default("num.io.threads")
    assert config.int("num.io.threads") == 2
    with pytest.raises(ConfigError):
        config.updated({"num.io.threads": "0"})


def test_a_kraft_configuration_starts_as_one_broker_with_a_warning() -> None:
    config = KafkaConfig.from_properties(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": "1@localhost:9093",
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "inter.broker.listener.name": "PLAINTEXT",
            "advertised.listeners": "PLAINTEXT://localhost:9092",
            "controller.listener.names": "CONTROLLER",
        }
    )
    assert [end_point.text for end_point in config.listeners] == ["PLAINTEXT://:9092"]
    assert config.broker_id == 1
    assert "KRaft is not supported" in config.warnings[0]
    with pytest.raises(ConfigError, match=r"process\.roles"):
        KafkaConfig.from_properties({"process.roles": "controller", "node.id": "1"})


def test_overrides_are_pairs() -> None:
    assert parse_overrides(["a=b=c", " d = e "]) == {"a": "b=c", "d": "e"}
    with pytest.raises(ConfigError, match="must be KEY=VALUE"):
        parse_overrides(["a"])


def test_very_many_unknown_keys_are_counted() -> None:
    (line,) = KafkaConfig.embedded({f"key{number}": "" for number in range(1000)}).warnings
    assert line.endswith("key132, key133 and 960 more")
