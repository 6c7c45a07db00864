"""A finding: a title, its evidence, a filter that selects its lines, and advice."""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
import statistics
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

_T = TypeVar("_T")

MINUTE = datetime.timedelta(minutes=1)
_LONG_GAP = 6 * MINUTE
"""Unusual minutes with at most one usual minute between them belong to one span, unless more than this is between them."""


SEVERITIES = CRITICAL, WARNING, NOTICE = "critical", "warning", "notice"
"""Somebody cannot work, something will break or costs the others, something could be better."""
_SEVERITIES = {
    CRITICAL: (
        *("error-burst", "slow-disk", "slow-follower", "busy-threads", "busy-network", "hanging-transaction", "rebalance-storm"),
        *("stuck-transaction", "failed-logins", "unreadable-lines", "absent-broker", "silent-client"),
    ),
    NOTICE: (
        *("hot-topic", "hot-partition", "traffic-peak", "tiny-batches", "idle-poller", "cluster-change", "changed-client"),
        *("bulk-read", "bulk-write", "new-principal", "new-reader", "changed-load", "many-names", "new-topic"),
    ),
}


WHO = (
    *("client_id", "principal", "group_id", "transactional_id", "address", "network", "node", "topic", "partition", "error"),
    "api",
    *("service", "services", "networks"),
)
"""The evidence that says who or where it was. A finding's id consists of its name and of these. The last three are there if no
other one says who it was, and do not change while a finding goes on."""
STATES = OPEN, ONGOING, OVER = "open", "ongoing", "over"
"""Goes on at the end; went on during the whole period; has ended."""
_RECENT = 10 * MINUTE
"""A finding whose last minute is not longer ago goes on."""


MOST_NAMED = 3
"""Most names in the evidence of a finding about several."""


def the_only(names: Sequence[Any]) -> Any:
    """Return the name if there is exactly one, for evidence that says who or where it was; otherwise None."""
    return names[0] if len(names) == 1 else None


def several(names: Sequence[str]) -> str | None:
    """Return the number of names and the first of them, for evidence beside ``the_only``; None for at most one."""
    return f"{len(names)}: {', '.join(names[:MOST_NAMED])}" if names[1:] else None


def grouped(items: Iterable[_T], belongs: Callable[[list[_T], _T], bool]) -> list[list[_T]]:
    """Put each item into the first group that it belongs to, or into a new one."""
    groups: list[list[_T]] = []
    for one in items:
        group = next((each for each in groups if belongs(each, one)), None)
        if group is None:
            groups.append([one])
        else:
            group.append(one)
    return groups


def severity(name: str) -> str:
    """Return the severity of the findings with this name."""
    return next((each for each, names in _SEVERITIES.items() if name in names), WARNING)


@dataclass(slots=True)
class Finding:
    """A finding of the report. `name` is the name for `--fail-on`, `where` a condition for `--filter`."""

    name: str
    title: str
    evidence: dict[str, Any]
    where: str
    advice: str
    first: str | None = None
    last: str | None = None
    weight: float = 0.0
    explains: set[str] = field(default_factory=set)
    """The APIs whose unusual traffic in this span the finding explains."""
    impact: str = ""
    """The cost of the problem in a few words."""

    @property
    def id(self) -> str:
        """Return 12 digits that are the same for the same subject on any day; the API counts where it is the subject."""
        with_api = self.name == "traffic-peak"
        named = [f"{key}={self.evidence[key]}" for key in WHO if self.evidence.get(key) is not None and (with_api or key != "api")]
        return hashlib.sha256("\0".join([self.name, *named]).encode()).hexdigest()[:12]

    @property
    def span(self) -> Span | None:
        """The time that it is about; None if that is the whole period."""
        if self.first is None or self.last is None:
            return None
        return Span(datetime.datetime.fromisoformat(self.first), datetime.datetime.fromisoformat(self.last))

    def state(self, begin: datetime.datetime | None, end: datetime.datetime | None) -> str:
        """Return the state at the end of a period, whose end is its last minute."""
        if self.first is None or self.last is None or begin is None or end is None:
            return ONGOING
        if self.last < text(end - _RECENT):
            return OVER
        return ONGOING if self.first <= text(begin + _RECENT) else OPEN

    def as_values(self, begin: datetime.datetime | None = None, end: datetime.datetime | None = None) -> dict[str, Any]:
        """Return the values that the report shows, as plain data; `begin`, `end`: the first and the last minute of the period."""
        values = {"id": self.id, "severity": severity(self.name), "state": self.state(begin, end), **asdict(self)}
        del values["explains"], values["weight"]
        return values


@dataclass(frozen=True, slots=True)
class Span:
    """The minutes from the first to the last, inclusive, with the value of each minute that is unusual."""

    first: datetime.datetime
    last: datetime.datetime
    values: tuple[float, ...] = ()

    @property
    def unusual_minutes(self) -> int:
        """The number of minutes with a value."""
        return len(self.values)

    @property
    def length_minutes(self) -> int:
        """The number of minutes from the first to the last."""
        return (self.last - self.first) // MINUTE + 1

    def common_minutes(self, other: Span) -> int:
        """Return the number of minutes that another span has, too."""
        return max((min(self.last, other.last) - max(self.first, other.first)) // MINUTE + 1, 0)

    @property
    def where(self) -> str:
        """The condition that selects the lines of this span."""
        return f"time >= '{_prefix(self.first)}' AND time < '{_prefix(self.last + MINUTE)}'"


def apart(one: Span, other: Span) -> datetime.timedelta:
    """Return by how much the begins of two spans differ, or their ends, whichever is more."""
    return max(abs(one.first - other.first), abs(one.last - other.last))


def enclosing(spans: Iterable[Span]) -> Span:
    """Return the span from the first minute of any of some spans to the last one."""
    every = list(spans)
    return Span(min(each.first for each in every), max(each.last for each in every))


def _prefix(moment: datetime.datetime) -> str:
    """Return the prefix of the field `time` of all lines of a minute, which compares less than their times."""
    return moment.strftime("%Y-%m-%dT%H:%M")


def text(moment: datetime.datetime) -> str:
    """Return a minute as text for the report."""
    return _prefix(moment) + "Z"


def from_us(microseconds: int) -> str:
    """Return a time in microseconds since 1970 as text for the report."""
    return text(datetime.datetime.fromtimestamp(microseconds // 1_000_000, datetime.UTC))


def quoted(value: str | None) -> str:
    """Return a SQL literal of a text."""
    return "NULL" if value is None else "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def equal(**values: str | None) -> str:
    """Return the condition that columns have these values."""
    return " AND ".join(f"{name} IS NULL" if value is None else f"{name} = {quoted(value)}" for name, value in values.items())


def spans(
    minutes: Mapping[datetime.datetime, float], least: int, unknown: Container[datetime.datetime] = frozenset()
) -> list[Span]:
    """Join minutes that are close to each other into spans; spans of fewer than `least` minutes are dropped.

    `unknown`: minutes of which it is not known whether they are usual; a few of them do not end a span.
    """
    found: list[list[datetime.datetime]] = []
    for minute in sorted(minutes):
        if found and _is_close(found[-1][-1], minute, unknown):
            found[-1].append(minute)
        else:
            found.append([minute])
    return [Span(run[0], run[-1], tuple(minutes[at] for at in run)) for run in found if len(run) >= least]


def _is_close(before: datetime.datetime, after: datetime.datetime, unknown: Container[datetime.datetime]) -> bool:
    if after - before > _LONG_GAP:
        return False
    between = (after - before) // MINUTE - 1
    return sum(before + (at + 1) * MINUTE not in unknown for at in range(between)) <= 1


def unusual(values: Iterable[float], factor: float) -> float:
    """Return the limit above which a value is unusual: the median plus `factor` median absolute deviations.

    The deviation counts as at least a twentieth of the median: otherwise, when values hardly vary, nearly all would be unusual.
    """
    known: Sequence[float] = list(values)
    if not known:
        return 0.0
    median = statistics.median(known)
    deviation = statistics.median(abs(value - median) for value in known)
    return median + factor * max(deviation, median / 20)


def network_of(address: str | None, bits: tuple[int, int] = (24, 64)) -> str | None:
    """Return the network of an address, None if the text is no address; ``bits`` are those of IPv4 and of IPv6."""
    try:
        found = ipaddress.ip_address((address or "").strip("[]"))
    except ValueError:
        return None
    return str(ipaddress.ip_network(f"{found}/{bits[found.version == 6]}", strict=False))
