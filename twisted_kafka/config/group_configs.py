"""The configs of one group: its own values, and the broker's where it has none (Kafka: GroupConfig)."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.config.keys.declare import LIST, Value, reset_duration_ms
from twisted_kafka.config.keys.groups import GROUP_KEYS, GroupKey
from twisted_kafka.config.typed import TypedValues
from twisted_kafka.config.values import parse_value
from twisted_kafka.protocol.errors import InvalidConfigurationError

_MUST_EXCEED: Final = tuple(
    (f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms") for kind in ("consumer", "share", "streams")
)


class ShareGroupConfigs(NamedTuple):
    """The configs of a share group that its partitions need."""

    record_lock_duration_ms: int
    delivery_count_limit: int
    partition_max_record_locks: int
    isolation_level: str
    """``read_committed`` or ``read_uncommitted``."""
    auto_offset_reset: str
    """``latest``, ``earliest``, or ``by_duration:`` with a duration, which ``reset_by_ms`` has."""
    renew_acknowledge_enable: bool
    dead_letter_topic: str
    """Empty if the group has none."""
    dead_letter_copies_record: bool

    @property
    def reset_by_ms(self) -> int | None:
        """The duration before the present at which the group starts; None with another reset strategy."""
        return reset_duration_ms(self.auto_offset_reset)


class StreamsGroupConfigs(NamedTuple):
    """The configs of a streams group that its assignments depend on."""

    assignor: str | None
    standby_replicas: int
    rack_aware_tags: tuple[str, ...]

    @property
    def for_assignment(self) -> Mapping[str, str]:
        """What of them is stored with the group: if it changes, the group gets a new assignment."""
        configs = {"num.standby.replicas": str(self.standby_replicas)}
        if self.rack_aware_tags:
            configs["rack.aware.assignment.tags"] = ",".join(self.rack_aware_tags)
        return configs


def group_value(broker: TypedValues, own: Mapping[str, Value], name: str) -> Value:
    """Return the effective value of a group key."""
    if name in own:
        return own[name]
    key = GROUP_KEYS[name]
    value = key.default if key.synonym is None else broker[key.synonym]
    # The default of an assignor is the first one of a list.
    return next(iter(value), None) if isinstance(value, tuple) and key.type != LIST else value


def validated_group_configs(broker: KafkaConfig, texts: Mapping[str, str]) -> dict[str, Value]:
    """Return a group's parsed values. Raises InvalidConfigurationError, with a message of one line, for the first invalid one."""
    own = {name: _parse(broker, name, text) for name, text in texts.items()}
    for greater, less in _MUST_EXCEED:
        values = group_value(broker, own, greater), group_value(broker, own, less)
        if (greater in own or less in own) and _number(values[0]) <= _number(values[1]):
            raise InvalidConfigurationError(f"{greater} must be greater than {less}.")
    return own


def _parse(broker: KafkaConfig, name: str, text: str) -> Value:
    key = broker.group_keys.get(name)
    if key is None:
        raise InvalidConfigurationError(f"Unknown group config name: {name}")
    try:
        value = parse_value(key, text)
    except ConfigError as error:
        raise InvalidConfigurationError(str(error)) from None
    if key.low is not None or key.high is not None:
        _check_bounds(broker, key, value)
    return value


def _check_bounds(broker: TypedValues, key: GroupKey, value: Value) -> None:
    low = 0 if key.low is None else _number(broker[key.low])
    if _number(value) < low:
        raise InvalidConfigurationError(f"{key.name} must be at least {low}, the broker's {key.low}.")
    if key.high is not None and _number(value) > _number(broker[key.high]):
        raise InvalidConfigurationError(f"{key.name} must be at most {broker[key.high]}, the broker's {key.high}.")


def _number(value: Value) -> int:
    assert isinstance(value, int)
    return value
