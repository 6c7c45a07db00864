"""A file of rules for findings: thresholds of this site, findings that are known and muted, and who owns what.

    [thresholds]
    rebalances_a_minute = 80

    [[mute]]
    name = "old-client"
    client_id = "legacy-*"
    until = 2027-01-31
    reason = "is replaced in January"

    [[owner]]
    team = "payments"
    principal = "User:payments-*"

Texts are patterns as of a shell (`*`, `?`). All of a rule must fit the finding: its name, its id, or what its evidence has.
"""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from twisted_kafka_spark import thresholds
from twisted_kafka_spark.findings.find import NAMES
from twisted_kafka_spark.findings.finding import WHO

_KEYS = ("name", "id", *WHO)
"""What a rule may ask for."""
_OF_MUTE, _OF_OWNER = ("until", "reason"), ("team",)


@dataclass(frozen=True, slots=True)
class Rules:
    """The contents of a file of rules; without a file, nothing is muted or owned."""

    thresholds: Mapping[str, float] = field(default_factory=dict)
    mutes: Sequence[Mapping[str, Any]] = ()
    owners: Sequence[Mapping[str, str]] = ()

    def applied(self, found: Sequence[dict[str, Any]], today: datetime.date) -> tuple[list[dict[str, Any]], int]:
        """Return the findings that are not muted, each with its owner, and the number of muted ones."""
        heard = [each for each in found if not any(_fits(mute, each) for mute in self.mutes if _is_valid(mute, today))]
        owned = [{**each, "owner": next((rule["team"] for rule in self.owners if _fits(rule, each)), None)} for each in heard]
        return owned, len(found) - len(heard)


def read(path: Path) -> Rules:
    """Read a file of rules; raise ValueError that names the first mistake."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: {error}") from None
    for name in content:
        if name not in ("thresholds", "mute", "owner"):
            raise ValueError(f"{path}: unknown table {name}; expected thresholds, mute and owner")
    mutes, owners = content.get("mute", []), content.get("owner", [])
    for kind, rules, more, needed in (("mute", mutes, _OF_MUTE, None), ("owner", owners, _OF_OWNER, "team")):
        if not isinstance(rules, list):
            raise ValueError(f"{path}: write [[{kind}]], with two brackets")
        for number, rule in enumerate(rules, 1):
            _check(f"{path}: {kind} {number}", rule, more, needed)
    return Rules(_thresholds(path, content.get("thresholds", {})), mutes, owners)


def _check(where: str, rule: Mapping[str, Any], more: Sequence[str], needed: str | None) -> None:
    unknown = [name for name in rule if name not in (*_KEYS, *more)]
    if unknown:
        raise ValueError(f"{where}: unknown key {unknown[0]}; expected {', '.join((*_KEYS, *more))}")
    if not any(name in _KEYS for name in rule):
        raise ValueError(f"{where}: names nothing; it needs at least one of {', '.join(_KEYS)}")
    if needed is not None and not isinstance(rule.get(needed), str):
        raise ValueError(f"{where}: needs a text {needed}")
    if "name" in rule and not any(fnmatchcase(name, str(rule["name"])) for name in NAMES):
        raise ValueError(f"{where}: no finding is called {rule['name']}")
    if "until" in rule and type(rule["until"]) is not datetime.date:
        raise ValueError(f"{where}: until must be a date without quotes, such as 2027-01-31")


def _thresholds(path: Path, values: Mapping[str, Any]) -> dict[str, float]:
    found = {}
    for name, value in values.items():
        if name.upper() not in thresholds.CHANGEABLE:
            raise ValueError(
                f"{path}: unknown threshold {name}; expected one of {', '.join(map(str.lower, thresholds.CHANGEABLE))}"
            )
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise ValueError(f"{path}: threshold {name} must be a number above 0, not {value!r}")
        found[name.upper()] = value
    return found


def _fits(rule: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    values = {"name": found["name"], "id": found["id"], **found["evidence"]}
    return all(values.get(key) is not None and fnmatchcase(str(values[key]), str(rule[key])) for key in rule if key in _KEYS)


def _is_valid(mute: Mapping[str, Any], today: datetime.date) -> bool:
    return "until" not in mute or bool(today <= mute["until"])
