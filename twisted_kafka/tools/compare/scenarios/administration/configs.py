"""Changes of configurations: good input and bad."""

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
from twisted_kafka.tools.compare.talk import Talk, scenario

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
OWN = "1"
DYNAMIC_BROKER, DYNAMIC_DEFAULT_BROKER = 2, 3
RESULTS = {"log.cleanup.policy": "delete,compact"}

Settings = list[tuple[str, str | None]]
Changes = list[tuple[str, int, str | None]]


def replace(kind: int, name: str, settings: Settings, *, validate_only: bool = False) -> AlterConfigsRequest:
    configs = [AlterConfigsRequestAlterableConfig(name=key, value=value) for key, value in settings]
    resource = AlterConfigsRequestAlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return AlterConfigsRequest(resources=[resource], validate_only=validate_only)


def change(kind: int, name: str, changes: Changes, *, validate_only: bool = False) -> IncrementalAlterConfigsRequest:
    configs = [
        IncrementalAlterConfigsRequestAlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)


def describe(kind: int, name: str, *keys: str) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys))
    return DescribeConfigsRequest(resources=[resource], include_synonyms=True)


def settled(talk: Talk, name: str, key: str, value: str | None) -> None:
    """Note the description of a key once a change has arrived: Apache Kafka applies it after the answer."""
    own = DYNAMIC_BROKER if name else DYNAMIC_DEFAULT_BROKER

    def has_arrived() -> bool:
        (result,) = talk.ask(describe(BROKER, name, key), 4, note=False).results
        values = [each.value for config in result.configs for each in config.synonyms if each.source == own]
        return values == ([] if value is None else [value])

    talk.until(has_arrived, f"{key} of broker {name or 'default'} does not become {value}")
    talk.ask(describe(BROKER, name, key), 4)


@scenario(AlterConfigsRequest)
def alter_configs_of_topics(talk: Talk, version: int) -> None:
    topic = talk.create("a", retention_ms="5000")
    keys = ("retention.ms", "cleanup.policy", "segment.bytes")
    talk.ask(replace(TOPIC, topic, [("segment.bytes", "2000000")], validate_only=True), version)
    talk.ask(describe(TOPIC, topic, *keys), 4)
    talk.ask(replace(TOPIC, topic, [("segment.bytes", "2000000"), ("cleanup.policy", "compact,delete")]), version)
    talk.ask(describe(TOPIC, topic, *keys), 4)
    bad: list[Settings] = [
        [("retention.ms", "x")],
        [("retention.ms", "-5")],
        [("retention.ms", None)],
        [("unheard.of", "1")],
        [("retention.ms", "1"), ("retention.ms", "2")],
        [("cleanup.policy", "burn")],
        [("min.compaction.lag.ms", "10"), ("max.compaction.lag.ms", "5")],
        [("leader.replication.throttled.replicas", "0:1")],
        [("leader.replication.throttled.replicas", "zero")],
        [("remote.storage.enable", "true")],
    ]
    for settings in bad:
        talk.ask(replace(TOPIC, topic, settings), version)
    talk.ask(describe(TOPIC, topic, *keys), 4)
    talk.ask(replace(TOPIC, talk.topic("missing"), [("retention.ms", "1")]), version)
    talk.ask(replace(TOPIC, "a/b", [("retention.ms", "1")]), version)
    talk.ask(replace(TOPIC, "", [("retention.ms", "1")]), version)
    talk.ask(replace(TOPIC, topic, []), version)
    talk.ask(describe(TOPIC, topic, *keys), 4)
    talk.ask(AlterConfigsRequest(resources=[]), version)


@scenario(AlterConfigsRequest)
def alter_configs_of_brokers(talk: Talk, version: int) -> None:
    key = "log.cleaner.backoff.ms"
    talk.ask(replace(BROKER, OWN, [(key, "14000")], validate_only=True), version)
    talk.ask(replace(BROKER, OWN, [(key, "14000")]), version)
    settled(talk, OWN, key, "14000")
    talk.ask(replace(BROKER, "", [(key, "13000")]), version)
    settled(talk, "", key, "13000")
    settled(talk, OWN, key, "14000")
    bad: list[Settings] = [
        [("log.cleaner.backoff.ms", "x")],
        [("log.cleaner.backoff.ms", None)],
        [("zookeeper.connect", "elsewhere:1")],
        [("broker.id", "5")],
        [("unheard.of", "1")],
    ]
    for settings in bad:
        for name in (OWN, ""):
            talk.ask(replace(BROKER, name, settings), version)
    for name in ("7", "x", "-1"):
        talk.ask(replace(BROKER, name, [("log.cleaner.backoff.ms", "14000")]), version)
    for name in ("", OWN):
        talk.ask(replace(BROKER, name, []), version)
        settled(talk, name, key, None)
    talk.ask(replace(BROKER_LOGGER, OWN, [("kafka.log", "DEBUG")]), version)


@scenario(IncrementalAlterConfigsRequest)
def incremental_alter_configs_of_topics(talk: Talk, version: int) -> None:
    topic = talk.create("a", retention_ms="5000")
    keys = ("retention.ms", "cleanup.policy", "leader.replication.throttled.replicas", "segment.bytes")
    good: list[Changes] = [
        [("segment.bytes", SET, "2000000")],
        [("cleanup.policy", APPEND, "compact")],
        [("cleanup.policy", APPEND, "compact")],
        [("cleanup.policy", SUBTRACT, "delete")],
        [("cleanup.policy", SUBTRACT, "delete")],
        [("leader.replication.throttled.replicas", APPEND, "0:1,1:1")],
        [("leader.replication.throttled.replicas", SUBTRACT, "0:1")],
        [("retention.ms", DELETE, None), ("segment.bytes", SET, "3000000")],
        [("retention.ms", DELETE, "")],
    ]
    for changes in good:
        talk.ask(change(TOPIC, topic, changes, validate_only=True), version)
        talk.ask(change(TOPIC, topic, changes), version)
        talk.ask(describe(TOPIC, topic, *keys), 4)
    bad: list[Changes] = [
        [("retention.ms", APPEND, "1")],
        [("retention.ms", SUBTRACT, "1")],
        [("retention.ms", SET, "x")],
        [("retention.ms", SET, None)],
        [("cleanup.policy", APPEND, None)],
        [("cleanup.policy", APPEND, "burn")],
        [("cleanup.policy", SET, "")],
        [("unheard.of", SET, "1")],
        [("unheard.of", DELETE, None)],
        [("unheard.of", APPEND, "1")],
        [("retention.ms", 9, "1")],
        [("retention.ms", SET, "1"), ("retention.ms", DELETE, None)],
        [("retention.ms", SET, "1"), ("segment.bytes", SET, "x")],
    ]
    for changes in bad:
        talk.ask(change(TOPIC, topic, changes), version)
    talk.ask(describe(TOPIC, topic, *keys), 4)
    talk.ask(change(TOPIC, talk.topic("missing"), [("retention.ms", SET, "1")]), version)
    talk.ask(change(TOPIC, "a/b", [("retention.ms", SET, "1")]), version)
    talk.ask(change(TOPIC, "", [("retention.ms", SET, "1")]), version)
    talk.ask(change(TOPIC, topic, []), version)
    twice = change(TOPIC, topic, [("retention.ms", SET, "1")])
    twice.resources *= 2
    talk.ask(twice, version)
    talk.ask(change(3, "x", [("retention.ms", SET, "1")]), version)
    talk.ask(change(0, "", [("retention.ms", SET, "1")]), version)


@scenario(IncrementalAlterConfigsRequest)
def incremental_alter_configs_of_brokers(talk: Talk, version: int) -> None:
    good: list[Changes] = [
        [("log.cleaner.backoff.ms", SET, "14000")],
        [("log.cleanup.policy", APPEND, "compact")],
        [("log.retention.ms", SET, "60000000")],
        [("max.connections.per.ip.overrides", SET, "127.0.0.9:5")],
        [("message.max.bytes", SET, "2000000")],
        [("log.cleaner.backoff.ms", DELETE, None), ("message.max.bytes", DELETE, None), ("log.retention.ms", DELETE, None)],
        [("log.cleanup.policy", DELETE, None), ("max.connections.per.ip.overrides", DELETE, None)],
    ]
    for name in ("", OWN):
        for changes in good:
            talk.ask(change(BROKER, name, changes, validate_only=True), version)
            talk.ask(change(BROKER, name, changes), version)
            for key, operation, value in changes:
                settled(talk, name, key, RESULTS.get(key, value) if operation != DELETE else None)
    bad: list[Changes] = [
        [("log.cleaner.backoff.ms", SET, "x")],
        [("log.cleaner.backoff.ms", SET, "-1")],
        [("log.cleaner.backoff.ms", APPEND, "1")],
        [("zookeeper.connect", SET, "elsewhere:1")],
        [("broker.id", SET, "5")],
        [("log.dirs", APPEND, "/nowhere")],
        [("unheard.of", SET, "1")],
        [("log.segment.bytes", SET, "1")],
        [("min.insync.replicas", SET, "0")],
        [("listener.name.nobody.max.connections", SET, "5")],
        [("num.network.threads", SET, "1000")],
        [("num.io.threads", SET, "0")],
        [("log.retention.hours", SET, "5")],
    ]
    for changes in bad:
        for name in (OWN, ""):
            talk.ask(change(BROKER, name, changes), version)
    for name in (OWN, ""):
        # What nobody knows is kept, and Kafka's tools stumble over it.
        talk.ask(change(BROKER, name, [("unheard.of", DELETE, None)]), version)
        talk.ask(change(BROKER, name, [("listener.name.nobody.max.connections", DELETE, None)]), version)
    for name in ("7", "x", "-1"):
        talk.ask(change(BROKER, name, [("log.cleaner.backoff.ms", SET, "14000")]), version)


@scenario(IncrementalAlterConfigsRequest)
def incremental_alter_configs_of_the_rest(talk: Talk, version: int) -> None:
    bad: list[Changes] = [
        [("unheard.of", SET, "DEBUG")],
        [("root", SET, "LOUD")],
        [("root", APPEND, "DEBUG")],
        [("root", SET, None)],
        [("root", DELETE, None)],
    ]
    for changes in bad:
        talk.ask(change(BROKER_LOGGER, OWN, changes), version)
    talk.ask(change(BROKER_LOGGER, OWN, [("root", SET, "INFO")], validate_only=True), version)
    for name in ("", "7", "x"):
        talk.ask(change(BROKER_LOGGER, name, [("root", SET, "INFO")]), version)
