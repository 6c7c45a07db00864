"""A snapshot as lines of a given width and number."""

from collections.abc import Sequence
from typing import Any, Final

from twisted_kafka.console.cluster.texts import counted
from twisted_kafka.tools.top.snapshot import Snapshot, TopicRate, rates, total_rate

LEAST_COLUMNS: Final = 20
_HEADINGS: Final = 2
_FEWEST_ROWS: Final = 3


def lines(
    now: Snapshot, before: Snapshot | None, columns: int, rows: int | None, *, topics_by: str = "rate", groups_by: str = "lag"
) -> list[str]:
    """Return the lines of a picture, each at most ``columns`` wide, and at most ``rows`` of them, all if it is None."""
    columns = max(columns, LEAST_COLUMNS)
    found = rates(now, before)
    head = _head(now, found, is_first=before is None)
    brokers = [
        f"{'*' if each.is_controller else ' '}{each.id:>5}  {now.leaders.get(each.id, 0):>6,} leaders  {each.host}:{each.port}"
        for each in now.brokers
    ]
    by_name = topics_by == "name"
    topics = sorted(found, key=lambda each: each.name) if by_name else found
    if topics_by == "records":
        topics = sorted(found, key=lambda each: (-each.records, each.name))
    topic_lines = [_line(each.name, (_rate(each.per_s), f"{each.records:,}"), columns) for each in topics]
    groups = sorted(now.groups.items(), key=lambda each: each[0] if groups_by == "name" else (-(each[1][1] or 0), each[0]))
    group_lines = [_line(name, (state or "-", "-" if lag is None else f"{lag:,}"), columns) for name, (state, lag) in groups]
    parts = [
        ("BROKER", brokers),
        (_line("TOPIC", ("RECORDS/S", "RECORDS"), columns), topic_lines),
        (_line("GROUP", ("STATE", "LAG"), columns), group_lines),
    ]
    body = _fitted(parts, None if rows is None else rows - len(head) - len(now.notes))
    return [_cut(each, columns) for each in (*head, *body, *now.notes)][:rows]


def _head(now: Snapshot, found: Sequence[TopicRate], *, is_first: bool) -> list[str]:
    topics, internal, partitions, offline, behind = now.totals
    rate = "waiting for the first interval" if is_first else f"{total_rate(found):,.0f} records/s"
    trouble = "; ".join(
        text for count, text in ((offline, f"{offline:,} WITHOUT LEADER"), (behind, f"{behind:,} under-replicated")) if count
    )
    return [
        f"cluster {now.cluster_id or '-'}  {counted(len(now.brokers), 'broker')}  {rate}",
        f"{counted(topics - internal, 'topic')}  {counted(partitions, 'partition')}  {counted(now.group_count, 'group')}"
        + (f"  {trouble}" if trouble else ""),
    ]


def _fitted(parts: Sequence[tuple[str, Sequence[str]]], room: int | None) -> list[str]:
    """Return headings and lines; each part gives up its last lines for the room."""
    found: list[str] = []
    shown = [list(rows) for _, rows in parts]
    if room is not None:
        while sum(map(len, shown)) + _HEADINGS * len(parts) > room:
            longest = max(shown, key=len)
            if not longest:
                break
            longest.pop()
    for (heading, all_rows), rows in zip(parts, shown, strict=True):
        found += ["", heading, *rows]
        if room is None and not all_rows:
            found.append("  none")
    return found


def _line(name: str, values: Sequence[str], columns: int) -> str:
    """Return a name, cut if need be, with values at the right."""
    widths = (11, 14) if columns >= 60 else (9, 10)
    right = "".join(value.rjust(width) for value, width in zip(values, widths, strict=True))
    left = max(1, columns - len(right))
    shown = _printable(name)
    return (shown if len(shown) < left else f"{shown[: max(0, left - 2)]}~").ljust(left) + right


def _rate(per_s: float | None) -> str:
    return "-" if per_s is None else f"{per_s:,.0f}" if per_s >= 10 or per_s == 0 else f"{per_s:.1f}"


def _cut(line: str, columns: int) -> str:
    shown = _printable(line)
    return shown if len(shown) <= columns else f"{shown[: columns - 1]}~"


def _printable(text: str) -> str:
    """Return a text without characters that control a terminal or change the direction of text."""
    return text if text.isprintable() else "".join(each if each.isprintable() else "?" for each in text)


def as_json(now: Snapshot, before: Snapshot | None) -> dict[str, Any]:
    """Return a snapshot for ``--output json``."""
    found = rates(now, before)
    topics, internal, partitions, offline, behind = now.totals
    return {
        "cluster": now.cluster_id,
        "brokers": [
            {
                "id": each.id,
                "host": each.host,
                "port": each.port,
                "controller": each.is_controller,
                "leaders": now.leaders.get(each.id, 0),
            }
            for each in now.brokers
        ],
        "topics": topics - internal,
        "partitions": partitions,
        "without_leader": offline,
        "under_replicated": behind,
        "records_per_s": total_rate(found),
        "topic_rates": [{"topic": each.name, "records_per_s": each.per_s, "records": each.records} for each in found],
        "groups": [{"group": name, "state": state, "lag": lag} for name, (state, lag) in sorted(now.groups.items())],
        "notes": list(now.notes),
    }
