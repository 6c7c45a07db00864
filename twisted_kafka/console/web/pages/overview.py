"""The first page: the cluster at a glance."""

from twisted_kafka.console.queries.overview import overview
from twisted_kafka.console.web.call import Call, Page


def show(call: Call) -> Page:
    """Show the overview."""
    return Page("overview.html", {"title": "Overview", "overview": overview(call.session)}, is_live=True)
