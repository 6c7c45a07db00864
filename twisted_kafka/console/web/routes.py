"""All paths of the console, and the sections of its navigation."""

from typing import Any, Final

from twisted_kafka.console.web.call import Handler
from twisted_kafka.console.web.pages import login, overview, topics

LIVE: Final = "/live"
"""The stream of a page's live part: ``/live?at=/topics?search=pay``."""

OPEN: Final = frozenset({"/login", "/logout"})
"""Pages for users who have not logged in."""

GETS: Final[dict[str, Handler]] = {
    "/": overview.show,
    "/login": login.show,
    "/topics": topics.show,
}
POSTS: Final[dict[str, Handler]] = {
    "/login": login.log_in,
    "/logout": login.log_out,
}
TAILS: Final[dict[str, Any]] = {}

SECTIONS: Final = (
    ("/", "Overview"),
    ("/topics", "Topics"),
)
_PARENTS: Final = {"/topic": "/topics"}


def section_of(path: str) -> str:
    """Return the section of the navigation to which a page belongs."""
    return _PARENTS.get(path, path)
