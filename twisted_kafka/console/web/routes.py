"""All paths of the console, and the sections of its navigation."""

from typing import Final

from twisted_kafka.console.web.call import Handler
from twisted_kafka.console.web.pages import (
    access,
    broker,
    changes,
    cluster,
    groups,
    login,
    messages,
    overview,
    report,
    storage,
    topics,
    transactions,
)

LIVE: Final = "/live"
"""The stream of a page's live part: ``/live?at=/topics?search=pay``."""

OPEN: Final = frozenset({"/login", "/logout"})
"""Pages for users who have not logged in."""

HARMLESS: Final = OPEN | {"/report"}
"""Forms that change nothing of the broker's."""

GETS: Final[dict[str, Handler]] = {
    "/": overview.show,
    "/acls": access.show_acls,
    "/broker": cluster.show_broker,
    "/change": changes.show,
    "/check": access.show_check,
    "/clients": broker.show_clients,
    "/cluster": cluster.show,
    "/group": groups.show,
    "/groups": groups.show_list,
    "/hanging": transactions.show_hanging,
    "/login": login.show,
    "/logged": report.show_logged,
    "/message": messages.show,
    "/messages": messages.show_list,
    "/quotas": access.show_quotas,
    "/report": report.show,
    "/report-page": report.show_page,
    "/request": broker.show_request,
    "/requests": broker.show_requests,
    "/storage": storage.show,
    "/tail": messages.show_tail,
    "/threads": broker.show_threads,
    "/topic": topics.show,
    "/topics": topics.show_list,
    "/transaction": transactions.show,
    "/transactions": transactions.show_list,
    "/users": access.show_users,
}
POSTS: Final[dict[str, Handler]] = {
    "/change": changes.change,
    "/login": login.log_in,
    "/logout": login.log_out,
    "/report": report.make,
}
TAILS: Final = {"/tail": messages.Tail}
"""Pages whose live part is a sequence, for one browser alone."""

SECTIONS: Final = (
    ("/", "Overview"),
    ("/topics", "Topics"),
    ("/groups", "Groups"),
    ("/requests", "Requests"),
    ("/clients", "Clients"),
    ("/transactions", "Transactions"),
    ("/storage", "Storage"),
    ("/users", "Access"),
    ("/cluster", "Cluster"),
    ("/report", "Report"),
)
_PARENTS: Final = {
    "/acls": "/users",
    "/broker": "/cluster",
    "/check": "/users",
    "/group": "/groups",
    "/hanging": "/transactions",
    "/logged": "/requests",
    "/message": "/topics",
    "/messages": "/topics",
    "/quotas": "/users",
    "/request": "/requests",
    "/threads": "/",
    "/tail": "/topics",
    "/topic": "/topics",
    "/transaction": "/transactions",
}


def section_of(path: str) -> str:
    """Return the section of the navigation to which a page belongs."""
    return _PARENTS.get(path, path)
