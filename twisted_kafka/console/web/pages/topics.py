"""The list of topics, and one topic."""

from typing import Final

from twisted_kafka.console.queries.topics.topic import topic
from twisted_kafka.console.queries.topics.topics import topics
from twisted_kafka.console.web.call import Call, Page
from twisted_kafka.console.web.pages.lists import asked, needed

_COLUMNS: Final = ("name", "partitions", "replication_factor", "problems", "size_bytes")


def show_list(call: Call) -> Page:
    """Show a page of the list."""
    rows, internal = asked(call, _COLUMNS), call.text("internal") == "1"
    page = topics(call.session, rows, with_internal=internal)
    return Page("topics.html", {"title": "Topics", "page": page, "sort": rows.sort, "internal": internal}, is_live=True)


def show(call: Call) -> Page:
    """Show one topic."""
    name = needed(call, "name")
    found = topic(call.session, name, call.context.live.readers(name))
    all_settings = call.text("settings") == "all"
    settings = [each for each in found.settings if all_settings or not each.is_default]
    hidden = len(found.settings) - len(settings)
    highest = max((each.records or 0 for each in found.partitions), default=0)
    values = {"title": name, "topic": found, "settings": settings, "hidden": hidden, "highest": highest}
    return Page("topic.html", values, is_live=True)
