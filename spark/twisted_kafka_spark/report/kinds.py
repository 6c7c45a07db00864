"""Findings by kind, in the order of the report, with a limit for each kind: a hundred of one kind would hide the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

MOST_SHOWN = 5
"""Findings of a kind that are shown whole, the heaviest ones; of the others, there is the title or the number."""


def by_kind(findings: Iterable[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return the findings of each kind, the kinds in the order in which they come first."""
    found: dict[str, list[dict[str, Any]]] = {}
    for each in findings:
        found.setdefault(each["name"], []).append(each)
    return list(found.values())
