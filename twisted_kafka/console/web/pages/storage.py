"""The log directories."""

from twisted_kafka.console.queries.directories import directories
from twisted_kafka.console.web.call import Call, Page


def show(call: Call) -> Page:
    """Show the directories of all brokers."""
    return Page("storage.html", {"title": "Storage", "found": directories(call.session)}, is_live=True)
