"""Remember the reported findings while a log is followed: each is reported when it is found, and when it is over."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from twisted_kafka_spark.findings.find import in_order
from twisted_kafka_spark.findings.finding import MINUTE, OPEN, OVER, Finding, text

Values = dict[str, Any]
_APART = 30 * MINUTE
"""A finding about the same subject that begins so long after the end of the last one is another one."""
_MISSED = 10 * MINUTE
"""A finding that was not found for so long is over; a limit that is hardly exceeded is not found in each search."""
_REMEMBERED = datetime.timedelta(days=1)
"""How long a finding that lasts, or comes back, is not reported again."""
_MOST_REMEMBERED = 5_000


@dataclass(slots=True)
class _Known:
    seen: str
    is_open: bool
    values: Values


@dataclass(slots=True)
class Memory:
    """The reported findings, by id."""

    known: dict[str, _Known] = field(default_factory=dict)

    @classmethod
    def of(cls, stored: dict[str, Any]) -> Memory:
        """Return what `stored` gave."""
        return cls({key: _Known(**each) for key, each in stored.items()})

    def stored(self) -> dict[str, Any]:
        """Return the memory as plain data."""
        return {key: asdict(each) for key, each in self.known.items()}

    def news(self, findings: Sequence[Finding], begin: datetime.datetime, at: datetime.datetime) -> list[Values]:
        """Return the findings of a search from `begin` to `at` that are new (open, or already over) or have ended (over)."""
        news = []
        for finding in sorted(in_order(findings), key=lambda each: each.first or ""):
            values = finding.as_values(begin, at)
            goes_on = values["state"] != OVER
            known = self.known.get(finding.id)
            if known is None or _is_another(finding, known):
                values["state"] = OPEN if goes_on else OVER
                news.append(values)
            elif known.is_open and not goes_on:
                news.append(values)
            self.known[finding.id] = _Known(at.isoformat(), goes_on, values)
        news += self._missed(at)
        return news

    def _missed(self, at: datetime.datetime) -> list[Values]:
        over = []
        for known in self.known.values():
            if known.is_open and at - datetime.datetime.fromisoformat(known.seen) >= _MISSED:
                known.is_open = False
                known.values = {**known.values, "state": OVER}
                over.append(known.values)
        kept = {key: each for key, each in self.known.items() if at - datetime.datetime.fromisoformat(each.seen) < _REMEMBERED}
        newest = set(sorted(kept, key=lambda key: kept[key].seen, reverse=True)[:_MOST_REMEMBERED])
        self.known = {key: each for key, each in kept.items() if key in newest}
        return over


def _is_another(finding: Finding, known: _Known) -> bool:
    last = known.values.get("last")
    if finding.first is None or last is None:
        return False
    return finding.first > text(datetime.datetime.fromisoformat(last.replace("Z", "+00:00")) + _APART)
