"""A listener's settings for one mechanism: the prefixes of their keys, JAAS entries, classes of callback handlers.

A key may be set with the prefixes ``listener.name.<listener>.<mechanism>.`` (Kafka's only place for JAAS configurations),
``<mechanism>.``, ``listener.name.<listener>.`` and without one; the first that is set counts.
"""

from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

from typing_extensions import override

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.config.keys.declare import Value
from twisted_kafka.config.python_class import instance_of, unusable
from twisted_kafka.security.sasl.jaas import JaasEntry, JaasError, parse_jaas

JAAS: Final = "sasl.jaas.config"
CALLBACK_HANDLER: Final = "sasl.server.callback.handler.class"

_METHODS: Final = ("configure", "handle", "close")


class FoundSetting(NamedTuple):
    """A value, and the key that sets it."""

    key: str
    value: Value

    @override
    def __repr__(self) -> str:
        return f"FoundSetting({self.key!r})"  # the value may be a JAAS configuration


def find_setting(config: KafkaConfig, listener_name: str, mechanism: str, key: str) -> FoundSetting:
    """Return the value of a key for a mechanism of a listener; the key's default if it is not set."""
    listener, prefix = f"listener.name.{listener_name.lower()}.", f"{mechanism.lower()}."
    for name in (f"{listener}{prefix}{key}", f"{prefix}{key}", f"{listener}{key}"):
        value = config.prefixed(name)
        if value is not None:
            return FoundSetting(name, value)
    return FoundSetting(key, config[key])


def jaas_entries(config: KafkaConfig, listener_name: str, mechanism: str) -> Sequence[JaasEntry]:
    """Return the JAAS entries for a mechanism; raises ConfigError if they are missing or do not parse."""
    found = find_setting(config, listener_name, mechanism, JAAS)
    if not found.value:
        raise ConfigError(
            f"listener.name.{listener_name.lower()}.{mechanism.lower()}.{JAAS} must be set: "
            f"sasl.enabled.mechanisms enables {mechanism} for listener {listener_name}"
        )
    try:
        return parse_jaas(str(found.value))
    except JaasError as error:
        raise ConfigError(f"Invalid value for {found.key}: {error}") from None


def ensure_login_module(config: KafkaConfig, listener_name: str, mechanism: str, module: str, entries: Sequence[JaasEntry]) -> None:
    """Raise ConfigError if no entry is of the mechanism's login module."""
    if not any(entry.module_name == module for entry in entries):
        key = find_setting(config, listener_name, mechanism, JAAS).key
        raise ConfigError(f"Invalid value for {key}: it must have an entry of {module}, which {mechanism} needs")


def class_name(config: KafkaConfig, listener_name: str, mechanism: str) -> str:
    """Return the name of the configured class of callback handlers; empty for none."""
    value = find_setting(config, listener_name, mechanism, CALLBACK_HANDLER).value
    return value if isinstance(value, str) else ""


def custom_handler(
    config: KafkaConfig, listener_name: str, mechanism: str, entries: Sequence[JaasEntry], known: Collection[str]
) -> Any | None:
    """Return the configured callback handler; None for the mechanism's own, which ``known`` classes of Kafka stand for, too.

    Raises ConfigError if it cannot be made.
    """
    found = find_setting(config, listener_name, mechanism, CALLBACK_HANDLER)
    name = found.value
    if not isinstance(name, str) or not name or name in known:
        return None
    handler = instance_of(name, found.key, _METHODS)
    try:
        handler.configure(dict(config.originals), mechanism, entries)
    except ConfigError:
        raise
    except Exception as error:
        raise unusable(name, found.key, error) from error
    return handler
