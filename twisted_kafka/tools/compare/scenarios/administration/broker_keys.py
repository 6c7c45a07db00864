"""Every broker key, changed while the broker runs (validate only): for one broker, for all, for a listener; good values and bad."""

from twisted_kafka.config.keys import BROKER_KEYS, EXTENSION_KEYS, KAFKA_4_KEYS
from twisted_kafka.config.keys.declare import BOOLEAN, CLASS, DOUBLE, INT, LIST, LONG, PASSWORD, SHORT, STRING, ConfigKey
from twisted_kafka.protocol.messages.administration.configs import IncrementalAlterConfigsRequest
from twisted_kafka.tools.compare.scenarios.administration.configs import BROKER, OWN, SET, change
from twisted_kafka.tools.compare.talk import Talk, scenario

SAMPLES = {BOOLEAN: "true", INT: "1", SHORT: "1", LONG: "1", DOUBLE: "0.5", LIST: "", STRING: "x", PASSWORD: "secret", CLASS: ""}
OF_BOTH = {"num.network.threads": "2"}
"""Values for keys whose default is another here: a number of threads can be doubled and halved."""
BAD = {BOOLEAN: "perhaps", INT: "1.5", SHORT: "70000", LONG: "much", DOUBLE: "half"}


def good_value(key: ConfigKey) -> str:
    """Return a value that the key can have: its default, or one of its type."""
    default = key.default
    if key.name in OF_BOTH:
        return OF_BOTH[key.name]
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, tuple):
        return ",".join(default)
    return SAMPLES[key.type] if default is None or default == "" else str(default)


KAFKA_KEYS = [key for name, key in sorted(BROKER_KEYS.items()) if name not in EXTENSION_KEYS | KAFKA_4_KEYS]


def each_alone(talk: Talk, version: int, name: str, values: dict[str, str]) -> None:
    """Note, key by key, whether it could be set."""
    for key, value in values.items():
        request = change(BROKER, name, [(key, SET, value)], validate_only=True)
        answer = talk.ask(request, version, note=False)
        talk.answers.append((f"{key}={value}", answer.responses[0].error_code))


@scenario(IncrementalAlterConfigsRequest, since=1)
def every_broker_key_for_one(talk: Talk, version: int) -> None:
    each_alone(talk, version, OWN, {key.name: good_value(key) for key in KAFKA_KEYS})


@scenario(IncrementalAlterConfigsRequest, since=1)
def every_broker_key_for_all(talk: Talk, version: int) -> None:
    each_alone(talk, version, "", {key.name: good_value(key) for key in KAFKA_KEYS})


@scenario(IncrementalAlterConfigsRequest, since=1)
def every_broker_key_for_a_listener(talk: Talk, version: int) -> None:
    values = {f"listener.name.plaintext.{key.name}": good_value(key) for key in KAFKA_KEYS}
    each_alone(talk, version, OWN, values)
    each_alone(talk, version, "", values)


@scenario(IncrementalAlterConfigsRequest, since=1)
def every_broker_key_with_a_bad_value(talk: Talk, version: int) -> None:
    values = {key.name: BAD[key.type] for key in KAFKA_KEYS if key.type in BAD}
    each_alone(talk, version, OWN, values)
    each_alone(talk, version, "", values)


@scenario(IncrementalAlterConfigsRequest, since=1)
def rules_between_broker_keys(talk: Talk, version: int) -> None:
    for settings in (
        {"max.connections.per.ip": "0"},
        {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:5"},
        {"max.connections.per.ip.overrides": "127.0.0.1"},
        {"max.connections.per.ip.overrides": "127.0.0.1:x"},
        {"log.local.retention.ms": "99999999999"},
        {"log.local.retention.ms": "-1"},
        {"log.local.retention.ms": "1000", "log.retention.ms": "999"},
        {"log.local.retention.ms": "1000", "log.retention.ms": "-1"},
        {"log.local.retention.bytes": "1000"},
        {"log.local.retention.bytes": "1000", "log.retention.bytes": "999"},
        {"log.local.retention.bytes": "-1", "log.retention.bytes": "999"},
        {"log.cleaner.threads": "3"},
        {"log.cleaner.threads": "2"},
        {"num.io.threads": "1000"},
        {"background.threads": "4"},
        {"num.replica.fetchers": "2"},
        {"num.replica.fetchers": "3"},
        {"num.recovery.threads.per.data.dir": "3"},
        {"producer.id.expiration.ms": "-1"},
        {"producer.id.expiration.ms": "0"},
        {"log.cleaner.io.buffer.load.factor": "2.0"},
        {"log.cleaner.dedupe.buffer.size": "1000"},
        {"log.segment.bytes": "13"},
        {"log.cleaner.min.compaction.lag.ms": "1000", "log.cleaner.max.compaction.lag.ms": "999"},
        {"log.cleanup.policy": "compact,keep"},
        {"compression.type": "none"},
        {"log.message.timestamp.type": "Now"},
        {"message.max.bytes": "-1"},
        {"min.insync.replicas": "0"},
        {"log.retention.ms": "0"},
        {"log.roll.ms": "0"},
        {"unheard.of": "x"},
        {"ssl.keystore.location": "/nowhere"},
        {"listener.name.nobody.ssl.keystore.location": "/nowhere"},
        {"listener.name.plaintext.max.connections": "-1"},
        {"listener.name.plaintext.max.connection.creation.rate": "5"},
    ):
        for name in (OWN, ""):
            request = change(BROKER, name, [(key, SET, value) for key, value in settings.items()], validate_only=True)
            answer = talk.ask(request, version, note=False)
            talk.answers.append((f"{settings} {name}", answer.responses[0].error_code))
