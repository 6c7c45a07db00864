"""The declaration of a configuration key: its type, default, allowed values, and update mode.

Declarations are plain tuples, because the broker creates all of them before it does anything else.
"""

import re
from typing import Final, NamedTuple, Protocol

from twisted_kafka.system.numbers import INT32_MAX, decimal

# Types, by Kafka's names (ConfigDef.Type).
BOOLEAN: Final = "BOOLEAN"
STRING: Final = "STRING"
INT: Final = "INT"
SHORT: Final = "SHORT"
LONG: Final = "LONG"
DOUBLE: Final = "DOUBLE"
LIST: Final = "LIST"
CLASS: Final = "CLASS"
PASSWORD: Final = "PASSWORD"

# Importance.
HIGH: Final = "HIGH"
MEDIUM: Final = "MEDIUM"
LOW: Final = "LOW"

# Update modes: whether and how a broker key may be changed while the broker runs (KIP-226).
READ_ONLY: Final = "read-only"
PER_BROKER: Final = "per-broker"
CLUSTER_WIDE: Final = "cluster-wide"

# Scopes: the prefixes with which a key may be set.
BROKER: Final = "broker"
"""Without a prefix only."""
LISTENER: Final = "listener"
"""Also with the prefix of a listener."""
MECHANISM: Final = "mechanism"
"""Also with the prefixes of a listener, a SASL mechanism, or both."""

MAX_INT: Final = (1 << 31) - 1
MAX_LONG: Final = (1 << 63) - 1
MAX_DOUBLE: Final = 1.7976931348623157e308

_LABEL: Final = "[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST_NAME: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?")
_MOST_HOST_CHARACTERS: Final = 253

Value = bool | int | float | str | tuple[str, ...] | None
"""A parsed value: LIST is a tuple, PASSWORD a str, None is Kafka's null."""


class Valid(Protocol):
    """The rule for the values of a key."""

    @property
    def allowed(self) -> str:
        """The rule as a phrase that follows "must be"."""

    def accepts(self, value: Value) -> bool:
        """Return whether a parsed, non-null value is allowed."""


class Between(NamedTuple):
    """A number from `low` to `high`, inclusive; None leaves an end open. `or_else` is a further allowed value."""

    low: float | None = None
    high: float | None = None
    or_else: float | None = None

    @property
    def allowed(self) -> str:
        """The range as a phrase."""
        if self.high is None:
            return f"at least {self.low}"
        text = f"from {self.low} to {self.high}"
        return text if self.or_else is None else f"{text}, or {self.or_else}"

    def accepts(self, value: Value) -> bool:
        """Return whether the number is in the range."""
        assert isinstance(value, (int, float))
        if value == self.or_else and self.or_else is not None:
            return True
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)


class OneOf(NamedTuple):
    """One of the given words."""

    words: tuple[str, ...]
    ignore_case: bool = False

    @property
    def allowed(self) -> str:
        """The words."""
        return "one of " + ", ".join(self.words)

    def accepts(self, value: Value) -> bool:
        """Return whether the value is one of the words."""
        assert isinstance(value, str)
        return value in self.words or (self.ignore_case and value.lower() in map(str.lower, self.words))


class EachOf(NamedTuple):
    """A list whose items are all among the given words."""

    words: tuple[str, ...]

    @property
    def allowed(self) -> str:
        """The words."""
        return "a list of " + ", ".join(self.words)

    def accepts(self, value: Value) -> bool:
        """Return whether every item is one of the words."""
        assert isinstance(value, tuple)
        return all(word in self.words for word in value)


class NotEmpty(NamedTuple):
    """A non-empty string; the key may also be unset."""

    @property
    def allowed(self) -> str:
        """The rule as a phrase."""
        return "a non-empty string"

    def accepts(self, value: Value) -> bool:
        """Return whether the value is not empty."""
        return value != ""


class HostNames(NamedTuple):
    """A list of host names as in a URL: those of RFC 1123, and with underscores."""

    @property
    def allowed(self) -> str:
        """The rule as a phrase."""
        return "a list of host names, without schemes, ports and wildcards"

    def accepts(self, value: Value) -> bool:
        """Return whether every item is a host name."""
        assert isinstance(value, tuple)
        return all(len(str(each)) <= _MOST_HOST_CHARACTERS and _HOST_NAME.fullmatch(str(each)) for each in value)


class ReplicaList(NamedTuple):
    """Throttled replicas: `partition:broker,...`, `*` for all, or nothing."""

    @property
    def allowed(self) -> str:
        """The rule as a phrase."""
        return "*, or a list of partition:broker"

    def accepts(self, value: Value) -> bool:
        """Return whether every entry is a pair of numbers."""
        assert isinstance(value, tuple)
        return value in ((), ("*",)) or all(_is_number_pair(entry) for entry in value)


def _is_number_pair(entry: str) -> bool:
    left, colon, right = entry.partition(":")
    return bool(colon) and None not in (decimal(left, INT32_MAX), decimal(right, INT32_MAX))


class MetadataVersion(NamedTuple):
    """A Kafka version as in inter.broker.protocol.version: 2.8, 2.8-IV1, 2.8.1."""

    versions: tuple[str, ...]

    @property
    def allowed(self) -> str:
        """The first and the last version."""
        return f"a Kafka version from {self.versions[0]} to {self.versions[-1]}"

    def accepts(self, value: Value) -> bool:
        """Return whether the version, or its release, is known."""
        assert isinstance(value, str)
        numbers = value.split(".")
        release = ".".join(numbers[: 3 if numbers[0] == "0" else 2])
        return any(version == release or version.startswith(release + "-") for version in self.versions)


class OffsetReset(NamedTuple):
    """Where a share group starts: latest, earliest, or by_duration: with a duration of ISO 8601 (KIP-932)."""

    @property
    def allowed(self) -> str:
        """The forms."""
        return "latest, earliest, or by_duration:PnDTnHnMn.nS"

    def accepts(self, value: Value) -> bool:
        """Return whether the value has one of the forms."""
        assert isinstance(value, str)
        return value in ("latest", "earliest") or reset_duration_ms(value) is not None


def reset_duration_ms(value: str) -> int | None:
    """Return the duration of ``by_duration:...`` in milliseconds; None for any other text, and for a negative duration."""
    import re  # the other declarations of a starting broker do not need it

    match = re.fullmatch(_BY_DURATION, value, re.ASCII | re.IGNORECASE)
    if match is None or not any(match.group("days", "hours", "minutes", "seconds")) or value[-1:] in "tT":
        return None
    days, hours, minutes = (int(match[name] or 0) for name in ("days", "hours", "minutes"))
    seconds = float((match["seconds"] or "0").replace(",", "."))
    duration_ms = ((days * 24 + hours) * 60 + minutes) * 60_000 + int(seconds * 1000)
    return duration_ms if 0 <= duration_ms <= MAX_LONG else None


_BY_DURATION: Final = (
    r"by_duration:P(?:(?P<days>\d{1,12})D)?(?:T(?:(?P<hours>\d{1,12})H)?(?:(?P<minutes>\d{1,12})M)?"
    r"(?:(?P<seconds>\d{1,12}(?:[.,]\d{0,9})?)S)?)?"
)


def at_least(low: float) -> Between:
    """Return the rule for numbers that are not less than `low`."""
    return Between(low)


class ConfigKey(NamedTuple):
    """A broker key: its name, type, parsed default, rule, importance, update mode, documentation and scope."""

    name: str
    type: str
    default: Value
    valid: Valid | None
    importance: str
    update_mode: str
    doc: str
    scope: str = BROKER
    internal: bool = False


class TopicKey(NamedTuple):
    """A topic key; `synonyms` are the broker keys of its default, in order of precedence, with conversion factors."""

    name: str
    type: str
    default: Value
    valid: Valid | None
    importance: str
    synonyms: tuple[tuple[str, int], ...]
    doc: str
