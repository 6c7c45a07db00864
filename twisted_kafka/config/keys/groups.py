"""The keys of groups (resource type GROUP), as in Apache Kafka 4.4 (GroupConfig).

A group without a value of its own has the broker's: that of the key with the prefix ``group.``, if there is one. The broker's keys
also limit what a group may have.
"""

from typing import Final, NamedTuple

from twisted_kafka.config.keys.declare import (
    BOOLEAN,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    STRING,
    OffsetReset,
    OneOf,
    Valid,
    Value,
    at_least,
)


class GroupKey(NamedTuple):
    """A group key; ``low`` and ``high`` are the broker keys with its limits, ``synonym`` the one with its default."""

    name: str
    type: str
    default: Value
    valid: Valid | None
    importance: str
    doc: str
    synonym: str | None = None
    low: str | None = None
    high: str | None = None
    internal: bool = False


def _bounded(kind: str, name: str, default: int, valid: Valid, doc: str) -> GroupKey:
    """Return a number that the broker bounds from both sides."""
    names = (f"group.{kind}.{name}", f"group.{kind}.min.{name}", f"group.{kind}.max.{name}")
    return GroupKey(f"{kind}.{name}", INT, default, valid, MEDIUM, doc, *names)


def _simple(name: str, type_: str, default: Value, doc: str, high: str | None = None, internal: bool = False) -> GroupKey:
    """Return a value with a default of the broker's, whose numbers are at least 0."""
    valid = at_least(0) if type_ in (INT, LONG) else None
    return GroupKey(name, type_, default, valid, MEDIUM, doc, f"group.{name}", None, high, internal)


_OFFLOAD: Final = "Compute target assignments outside of the coordinator's threads; neither Kafka 4.4 nor this broker does it."

GROUP_KEYS: Final[dict[str, GroupKey]] = {
    key.name: key
    for key in (
        _bounded("consumer", "session.timeout.ms", 45_000, at_least(1), "Session timeout of the group's members."),
        _bounded("consumer", "heartbeat.interval.ms", 5_000, at_least(1), "Heartbeat interval of the group's members."),
        _bounded("consumer", "assignment.interval.ms", 1_000, at_least(0), "Interval between two target assignments of the group."),
        _simple("consumer.assignor.offload.enable", BOOLEAN, True, _OFFLOAD, internal=True),
        _bounded("share", "session.timeout.ms", 45_000, at_least(1), "Session timeout of the group's members."),
        _bounded("share", "heartbeat.interval.ms", 5_000, at_least(1), "Heartbeat interval of the group's members."),
        _bounded("share", "record.lock.duration.ms", 30_000, at_least(1_000), "How long a record stays locked for its consumer."),
        _bounded("share", "delivery.count.limit", 5, at_least(2), "Maximum number of deliveries of a record."),
        _bounded("share", "partition.max.record.locks", 2_000, at_least(100), "Maximum number of locked records of a partition."),
        _bounded("share", "assignment.interval.ms", 1_000, at_least(0), "Interval between two target assignments of the group."),
        _simple("share.assignor.offload.enable", BOOLEAN, True, _OFFLOAD, internal=True),
        GroupKey("share.auto.offset.reset", STRING, "latest", OffsetReset(), MEDIUM, "Where the group starts in a partition."),
        GroupKey(
            "share.isolation.level",
            STRING,
            "read_uncommitted",
            OneOf(("read_committed", "read_uncommitted")),
            MEDIUM,
            "Whether the group reads records of transactions before these are committed.",
        ),
        GroupKey("share.renew.acknowledge.enable", BOOLEAN, True, None, MEDIUM, "Whether members may renew the locks of records."),
        GroupKey("errors.deadletterqueue.topic.name", STRING, "", None, MEDIUM, "Topic for records that no consumer has accepted."),
        GroupKey(
            "errors.deadletterqueue.copy.record.enable",
            BOOLEAN,
            False,
            None,
            MEDIUM,
            "Whether the dead-letter queue gets the records' keys and values.",
        ),
        _bounded("streams", "session.timeout.ms", 45_000, at_least(1), "Session timeout of the group's members."),
        _bounded("streams", "heartbeat.interval.ms", 5_000, at_least(1), "Heartbeat interval of the group's members."),
        _bounded("streams", "assignment.interval.ms", 1_000, at_least(0), "Interval between two target assignments of the group."),
        _simple("streams.assignor.offload.enable", BOOLEAN, True, _OFFLOAD, internal=True),
        GroupKey("streams.assignor.name", STRING, None, None, MEDIUM, "Assignor of the group's tasks.", "group.streams.assignors"),
        _simple("streams.initial.rebalance.delay.ms", INT, 3_000, "Delay of the first assignment of a new group."),
        _simple(
            "streams.num.standby.replicas",
            INT,
            0,
            "Number of standby tasks for each task with a state.",
            "group.streams.max.standby.replicas",
        ),
        _simple(
            "streams.num.warmup.replicas",
            INT,
            2,
            "Number of warm-up tasks of the group at a time.",
            "group.streams.max.warmup.replicas",
            internal=True,
        ),
        _simple(
            "streams.acceptable.recovery.lag", LONG, 10_000, "Lag up to which a client counts as having caught up.", internal=True
        ),
        GroupKey(
            "streams.task.offset.interval.ms",
            INT,
            60_000,
            at_least(1),
            MEDIUM,
            "Interval at which members report the offsets of their tasks.",
            "group.streams.task.offset.interval.ms",
            "group.streams.min.task.offset.interval.ms",
            internal=True,
        ),
        GroupKey(
            "streams.rack.aware.assignment.tags",
            LIST,
            (),
            None,
            LOW,
            "Client tags over which standby tasks are distributed.",
            "group.streams.rack.aware.assignment.tags",
        ),
    )
}
"""Every group key by name."""
