"""Records of a topic: a page of them, one of them, and a live tail."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.queries.records.messages import NEWEST, MessagesAsked, message, messages
from twisted_kafka.console.queries.records.tail import tail
from twisted_kafka.console.queries.records.values import FORMS, JSON, Shown
from twisted_kafka.console.web import rendering
from twisted_kafka.console.web.call import Call, Page
from twisted_kafka.console.web.context import ConsoleContext
from twisted_kafka.console.web.pages.lists import needed
from twisted_kafka.protocol.topic_partition import MAX_PARTITION
from twisted_kafka.system.numbers import decimal

COUNTS: Final = (25, 50, 100, 250)
_USUAL_COUNT: Final = 50
_AT: Final = "at"
"""The value of ``from`` for a position in another field."""
STARTS: Final = ((NEWEST, "the newest"), ("earliest", "the oldest"), (_AT, "offset or time"))
_MOST_FORMATTED: Final = 1_000_000
"""Most characters of JSON that is indented."""


def show_list(call: Call) -> Page:
    """Show a page of records."""
    name = needed(call, "topic")
    places = call.context.places
    asked = _asked(name, call.query)
    asked = replace(asked, cursor=places.cursor(asked.cursor))
    found = messages(call.session, call.context.clock, asked)
    found = replace(found, following=places.named(found.following))
    partitions = [each.partition_index for each in call.session.topics([name])[0].partitions]
    values = {"title": f"Messages of {name}", "topic": name, "found": found, "asked": asked, "partitions": sorted(partitions)}
    return Page("messages.html", {**values, "starts": STARTS, "forms": FORMS, "counts": COUNTS})


def show(call: Call) -> Page:
    """Show one record."""
    topic = needed(call, "topic")
    partition, offset = call.number("partition", 0), call.number("offset", 0)
    found = message(call.session, topic, partition, offset, call.choice("form", FORMS), call.text("schema"))
    values = {"title": f"Message {offset}", "topic": topic, "each": found, "value": _indented(found.value), "forms": FORMS}
    is_letter = any(name.startswith(("__dlq.errors.", "__connect.errors.")) for name, _ in found.headers)
    return Page("message.html", {**values, "is_letter": is_letter})


def show_tail(call: Call) -> Page:
    """Show new records as they arrive."""
    name = needed(call, "topic")
    partitions = [each.partition_index for each in call.session.topics([name])[0].partitions]
    asked = _asked(name, call.query)
    values = {"title": f"New messages of {name}", "topic": name, "asked": asked, "partitions": sorted(partitions), "forms": FORMS}
    return Page("tail.html", values, is_live=True)


class Tail:
    """New records for one browser. Rendered on the pool, one part after the other."""

    def __init__(self, query: Mapping[str, str], context: ConsoleContext, cursor: str) -> None:
        """``cursor`` is where an earlier stream of the same browser has ended; empty: at the end of the topic."""
        self._clock = context.clock
        self._asked = _asked(query.get("topic", ""), query)
        self._places = context.places
        self.cursor = cursor

    def render(self, session: Session) -> str | None:
        """Return rows for the records since the last call, the newest first; None without any."""
        part = tail(session, self._clock, self._asked, self._places.cursor(self.cursor))
        self.cursor = self._places.named(part.cursor)
        if not part.items and not part.skipped:
            return None
        items = tuple(sorted(part.items, key=lambda each: (-each.timestamp_ms, each.partition, -each.offset)))
        return rendering.page("tail_rows.html", {"items": items, "skipped": part.skipped, "schema": self._asked.schema}).decode()


def _asked(topic: str, query: Mapping[str, str]) -> MessagesAsked:
    """Return which records an address asks for. Raises ValueError for a condition or key that cannot be read, later."""

    def text(name: str) -> str:
        return query.get(name, "").strip()

    start = text("from") or NEWEST
    if start == _AT:
        start = text("at") or NEWEST
    partition, count, form = decimal(text("partition"), MAX_PARTITION), text("count"), text("form")
    asked = MessagesAsked(
        topic,
        () if partition is None else (partition,),
        start,
        text("cursor"),
        int(count) if count in map(str, COUNTS) else _USUAL_COUNT,
        search=query.get("search", ""),
        where=tuple(filter(None, (each.strip() for each in query.get("where", "").split(";")))),
        form=form if form in FORMS else FORMS[0],
        schema=text("schema"),
        is_committed=text("open") != "1",
    )
    return replace(asked, key=query["key"]) if query.get("key") else asked


def _indented(value: Shown) -> str:
    """Return JSON with a line for each field, other texts as they are."""
    if value.form != JSON or value.is_cut or len(value.text) > _MOST_FORMATTED:
        return value.text
    try:
        return json.dumps(json.loads(value.text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return value.text
