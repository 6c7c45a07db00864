"""The rules for dynamic settings of one broker or of all brokers (Kafka: DynamicBrokerConfig.validateConfigs)."""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from twisted_kafka.config.errors import ConfigError
from twisted_kafka.config.keys import BROKER_KEYS
from twisted_kafka.config.keys.declare import CLASS, PASSWORD, PER_BROKER, READ_ONLY
from twisted_kafka.config.prefixes import base_key
from twisted_kafka.config.values import parse_value

_LISTENER: Final = re.compile(r"listener\.name\.[^.]*\.(.*)")

CLUSTER_LEVEL_LISTENER_KEYS: Final = frozenset(("max.connections", "max.connection.creation.rate", "num.network.threads"))
"""Keys that may be set for all brokers even with a listener prefix."""

STORE_KEYS: Final = frozenset(
    f"ssl.{store}.{what}"
    for store, properties in (
        ("keystore", ("type", "location", "password", "key", "certificate.chain")),
        ("truststore", ("type", "location", "password", "certificates")),
    )
    for what in properties
) | {"ssl.key.password"}
"""Keys of key stores and trust stores: they may only be changed with a listener prefix."""

ALLOWED_CLASSES: Final = "dynamic.class.names"
"""The key of the file that lists classes that settings may name at runtime."""

_KAFKAS_OWN: Final = "org.apache.kafka."
"""Classes with this prefix name built-in parts; they are not loaded."""

_DESCRIPTIONS: Final = {
    "static": "Cannot update these configs dynamically",
    "unprefixed": "These security configs can be dynamically updated only per-listener using the listener prefix",
    "per broker": "Cannot update these configs at default cluster level, broker id must be specified",
    "secret": "Password config can be defined only at broker level",
}


def is_secret(name: str) -> bool:
    """Whether the value is a password."""
    base = base_key(name)
    return base in BROKER_KEYS and BROKER_KEYS[base].type == PASSWORD


def refused(settings: Mapping[str, str], *, per_broker: bool, classes: Collection[str] = ()) -> dict[str, str]:
    """Return the reason for each setting that is refused, by name; settings that are allowed are not included.

    ``classes`` are the classes that settings may name.
    """
    found = {}
    for name, text in settings.items():
        why = _why_refused(name, text, per_broker) or _why_no_class(name, text, classes)
        if why is not None:
            found[name] = why
    return found


def check(settings: Mapping[str, str], *, per_broker: bool, classes: Collection[str] = ()) -> None:
    """Raise ConfigError when a setting may not be changed dynamically, or its value is invalid; ``classes`` as of ``refused``."""
    wrong = refused(settings, per_broker=per_broker, classes=classes)
    for kind in _DESCRIPTIONS.values():
        names = sorted(name for name, why in wrong.items() if why == kind)
        if names:
            raise ConfigError(f"{kind}: {_set(names)}")
    for why in wrong.values():
        raise ConfigError(why)


def _why_refused(name: str, text: str, per_broker: bool) -> str | None:
    key = BROKER_KEYS.get(name)
    if key is not None and key.update_mode == READ_ONLY:
        return _DESCRIPTIONS["static"]
    if name in STORE_KEYS:
        return _DESCRIPTIONS["unprefixed"]
    if not per_broker and _is_per_broker(name):
        return _DESCRIPTIONS["per broker"]
    if not per_broker and is_secret(name):
        return _DESCRIPTIONS["secret"]
    base = base_key(name)
    if base in BROKER_KEYS:
        try:
            parse_value(BROKER_KEYS[base]._replace(name=name), text)
        except ConfigError as error:
            return str(error)
    return None


def _why_no_class(name: str, text: str, classes: Collection[str]) -> str | None:
    """Return why a class may not be named at runtime: clients would have code of their choice called."""
    match = _LISTENER.fullmatch(name)  # with the prefix of a listener, also keys that have no effect with one
    key = BROKER_KEYS.get(base_key(name) or (match[1] if match is not None else name))
    if key is None or key.type != CLASS:
        return None
    if not text:
        return f"Invalid value '' for {name}: must be the name of a class"
    if text in classes or text.startswith(_KAFKAS_OWN):
        return None
    return (
        f"Invalid value {text!r} for {name}: at runtime only a class may be named that the broker's file has in {ALLOWED_CLASSES}"
    )


def _is_per_broker(name: str) -> bool:
    match = _LISTENER.fullmatch(name)
    if match is not None:
        return match[1] not in CLUSTER_LEVEL_LISTENER_KEYS
    key = BROKER_KEYS.get(name)
    return key is not None and key.update_mode == PER_BROKER


def _set(names: Iterable[str]) -> str:
    return "Set(" + ", ".join(names) + ")"
