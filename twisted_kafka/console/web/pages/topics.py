"""The list of topics."""

from typing import Final

from twisted_kafka.console.queries.topics import topics
from twisted_kafka.console.web.call import Call, Page
from twisted_kafka.console.web.pages.lists import asked

_COLUMNS: Final = ("name", "partitions", "replication_factor", "problems", "size_bytes")


def show(call: Call) -> Page:
    """Show a page of the list."""
    rows, internal = asked(call, _COLUMNS), call.text("internal") == "1"
    page = topics(call.session, rows, with_internal=internal)
    return Page("topics.html", {"title": "Topics", "page": page, "sort": rows.sort, "internal": internal}, is_live=True)
