"""What must hold between settings, and what the operator is warned of (Kafka: KafkaConfig.validateValues)."""

import os
from typing import TYPE_CHECKING

from twisted_kafka.config.endpoints import EndPoint, ensure_distinct
from twisted_kafka.config.errors import ConfigError

if TYPE_CHECKING:
    from twisted_kafka.config.broker_config import KafkaConfig

_META_ADDRESS = "0.0.0.0"
_SHOWN_KEYS_MAX = 40
_CLEANER_MIN_BYTES = 1024 * 1024
_COUNTS_OF_REPLICAS = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
)


def check(config: "KafkaConfig") -> None:
    """Raise ConfigError for the first rule that the settings break."""
    _check_identity(config)
    _check_listeners(config)
    _check_limits(config)
    _check_log(config)
    _check_groups(config)


def warnings(config: "KafkaConfig") -> tuple[str, ...]:
    """Return what the operator should be told, one line each."""
    lines = []
    if config.unknown_keys:
        lines.append(f"Unknown keys in the configuration, ignored: {_names(config.unknown_keys)}")
    if config.is_kraft:
        lines.append(
            "This broker has no KRaft: process.roles is ignored, and it runs as one broker with a metadata store of its own"
        )
    if config.optional_string("zookeeper.connect"):
        lines.append("ZooKeeper is not supported yet: zookeeper.connect is ignored, and this broker keeps its metadata to itself")
    if config.string("authorizer.class.name"):
        lines.append("This broker has no ACLs yet: authorizer.class.name is ignored, and everybody may do everything")
    wanted = [f"{key}={config.int(key)}" for key in _COUNTS_OF_REPLICAS if config.int(key) > 1]
    if wanted:
        lines.append(f"There is one broker, which cannot meet {', '.join(wanted)}: set 1, or what needs more replicas will fail")
    explained = {"process.roles", "zookeeper.connect", "authorizer.class.name"}
    silent = tuple(key for key in config.without_effect if key not in explained)
    if silent:
        lines.append(f"Keys that are set but have no effect in this broker yet: {_names(silent)}")
    return tuple(lines)


def _names(keys: tuple[str, ...]) -> str:
    more = len(keys) - _SHOWN_KEYS_MAX
    return ", ".join(keys[:_SHOWN_KEYS_MAX]) + (f" and {more} more" if more > 0 else "")


def _ensure(condition: bool, config: "KafkaConfig", key: str, allowed: str) -> None:
    if not condition:
        raise ConfigError(f"Invalid value {config.text(key)!r} for {key}: must be {allowed}")


def _check_identity(config: "KafkaConfig") -> None:
    broker_id, node_id = config.int("broker.id"), config.int("node.id")
    if config.is_kraft:
        _ensure("broker" in config.list("process.roles"), config, "process.roles", "a list with broker in it, for want of KRaft")
    if config.is_set("broker.id") and config.is_set("node.id"):
        _ensure(broker_id == node_id, config, "node.id", f"the same as broker.id, {broker_id}")
    if config.boolean("broker.id.generation.enable"):
        _ensure(broker_id >= -1, config, "broker.id", "at least -1")
        if not config.is_kraft:
            highest = config.int("reserved.broker.max.id")
            _ensure(broker_id <= highest, config, "broker.id", f"at most reserved.broker.max.id, {highest}")
    elif not config.is_kraft:
        _ensure(config.broker_id >= 0, config, "broker.id", "at least 0, for broker.id.generation.enable is false")


def _check_listeners(config: "KafkaConfig") -> None:
    ensure_distinct("listeners", config.listeners, ports=True)
    ensure_distinct("advertised.listeners", _advertised(config), ports=False)
    _ensure(bool(config.listeners), config, "listeners", "a list with at least one listener")
    _ = config.metrics_listener  # which raises for a malformed one
    names = {end_point.listener_name for end_point in config.listeners}
    for end_point in _advertised(config):
        given = "advertised.listeners" if config.is_set("advertised.listeners") else "listeners"
        _ensure(
            end_point.host != _META_ADDRESS,
            config,
            given,
            f"an address to connect to, not {_META_ADDRESS}: set advertised.listeners",
        )
        _ensure(end_point.listener_name in names, config, "advertised.listeners", "a list of names that listeners has")
    named = config.optional_string("inter.broker.listener.name")
    if named is not None:
        _ensure(
            not config.is_set("security.inter.broker.protocol"),
            config,
            "security.inter.broker.protocol",
            "left out when inter.broker.listener.name is set",
        )
        _ensure(named.upper() in names, config, "inter.broker.listener.name", "one of the names in listeners")
    control_plane = config.optional_string("control.plane.listener.name")
    if control_plane is not None:
        _ensure(control_plane.upper() in names, config, "control.plane.listener.name", "one of the names in listeners")
        _ensure(
            control_plane.upper() != config.inter_broker_listener_name,
            config,
            "control.plane.listener.name",
            "another listener than the one between brokers",
        )


def _advertised(config: "KafkaConfig") -> tuple[EndPoint, ...]:
    # Without advertised.listeners the listeners are looked at as they are: finding this machine's name may take a while.
    return config.advertised_listeners if config.is_set("advertised.listeners") else config.listeners


def _check_limits(config: "KafkaConfig") -> None:
    largest = config.int("socket.request.max.bytes")
    queued_bytes = config.int("queued.max.request.bytes")
    allowed = f"-1, or at least socket.request.max.bytes, {largest}"
    _ensure(queued_bytes <= 0 or queued_bytes >= largest, config, "queued.max.request.bytes", allowed)
    wait_ms = config.int("replica.fetch.wait.max.ms")
    for key in ("replica.socket.timeout.ms", "replica.lag.time.max.ms"):
        _ensure(config.int(key) >= wait_ms, config, key, f"at least replica.fetch.wait.max.ms, {wait_ms}")
    overrides = config.string("max.connections.per.ip.overrides")
    allowed = "at least 1, unless max.connections.per.ip.overrides is set"
    _ensure(config.int("max.connections.per.ip") > 0 or bool(overrides), config, "max.connections.per.ip", allowed)
    for pair in filter(None, overrides.split(",")):
        host, _, count = pair.rpartition(":")
        _ensure(
            bool(host.strip()) and count.strip().isdecimal(), config, "max.connections.per.ip.overrides", "a list of host:count"
        )


def _check_log(config: "KafkaConfig") -> None:
    _ensure(bool(config.log_dirs), config, "log.dirs", "a list with at least one directory")
    places = {os.path.realpath(directory) for directory in config.log_dirs}
    _ensure(len(places) == len(config.log_dirs), config, "log.dirs", "a list with no directory twice")
    for key, low in (("log.roll.ms", 1), ("log.roll.jitter.ms", 0)):
        _ensure(config[key] is None or config.int(key) >= low, config, key, f"at least {low}")
    for key in ("log.retention.ms", "log.retention.minutes", "log.retention.hours"):
        _ensure(config[key] is None or config.int(key) >= 1 or config.int(key) == -1, config, key, "at least 1, or -1 for no limit")
    each_bytes = config.long("log.cleaner.dedupe.buffer.size") // max(config.int("log.cleaner.threads"), 1)
    _ensure(
        each_bytes > _CLEANER_MIN_BYTES, config, "log.cleaner.dedupe.buffer.size", "more than 1 MiB for each of log.cleaner.threads"
    )
    acks, factor = config.int("offsets.commit.required.acks"), config.int("offsets.topic.replication.factor")
    allowed = f"from -1 to offsets.topic.replication.factor, {factor}"
    _ensure(-1 <= acks <= factor, config, "offsets.commit.required.acks", allowed)


def _check_groups(config: "KafkaConfig") -> None:
    shortest = config.int("group.min.session.timeout.ms")
    allowed = f"at least group.min.session.timeout.ms, {shortest}"
    _ensure(config.int("group.max.session.timeout.ms") >= shortest, config, "group.max.session.timeout.ms", allowed)
    _ensure("classic" in config.list("group.coordinator.rebalance.protocols"), config, "group.coordinator.rebalance.protocols",
            "a list with classic in it")  # fmt: skip
    for name in ("session.timeout.ms", "heartbeat.interval.ms"):
        least, most = f"group.consumer.min.{name}", f"group.consumer.max.{name}"
        _ensure(config.int(most) >= config.int(least), config, most, f"at least {least}, {config.int(least)}")
        key = f"group.consumer.{name}"
        allowed = f"from {least}, {config.int(least)}, to {most}, {config.int(most)}"
        _ensure(config.int(least) <= config.int(key) <= config.int(most), config, key, allowed)
