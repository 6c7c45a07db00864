"""The first page: the cluster at a glance, the broker's rates and times, and findings."""

from contextlib import suppress
from itertools import pairwise
from typing import Final

from twisted_kafka.console.cluster.problems import CommandError
from twisted_kafka.console.queries.directories import directories
from twisted_kafka.console.queries.findings import OK
from twisted_kafka.console.queries.overview import overview
from twisted_kafka.console.web.call import Call, Page

_LINES: Final = (
    ("requests", "Requests", "count"),
    ("messages_in", "Records in", "count"),
    ("bytes_in", "Bytes in", "size"),
    ("bytes_out", "Bytes out", "size"),
    ("errors", "Failed writes and reads", "count"),
)
"""Counters of the broker: name, label, and the form of a number."""


def show(call: Call) -> Page:
    """Show the overview. Rates are for users with Describe on the cluster."""
    found = overview(call.session)
    findings = [each for each in call.context.findings(call.viewer.principal, call.session) if each.kind != OK]
    fullest = None
    with suppress(CommandError):  # not for this viewer
        disks = [each for each in directories(call.session, with_replicas=False).items if each.used_share is not None]
        fullest = max(disks, key=lambda each: each.used_share or 0, default=None)
    try:
        counts = call.context.counts(call.session)
    except CommandError:
        counts = []
    pairs = list(pairwise(counts))
    lines = [(label, form, [after.per_second(before, name) for before, after in pairs]) for name, label, form in _LINES]
    latest = counts[-1] if counts else None
    values = {
        "title": "Overview",
        "overview": found,
        "findings": findings,
        "lines": lines,
        "latest": latest,
        "fullest": fullest,
        "others": call.consoles if counts else (),
    }
    return Page("overview.html", values, is_live=True)
