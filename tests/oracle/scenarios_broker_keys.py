"""Every broker key, changed while the broker runs (validate only): for one broker, for all, for a listener; good values and bad."""

from tests.oracle.scenarios_configs import BROKER, OWN, SET, change
from tests.oracle.talk import Talk, scenario
from twisted_kafka.config.keys import BROKER_KEYS, OWN_KEYS
from twisted_kafka.config.keys.declare import BOOLEAN, CLASS, DOUBLE, INT, LIST, LONG, PASSWORD, SHORT, STRING, ConfigKey
from twisted_kafka.protocol.messages.configs import IncrementalAlterConfigsRequest

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


KAFKA_KEYS = [key for name, key in sorted(BROKER_KEYS.items()) if name not in OWN_KEYS]


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
