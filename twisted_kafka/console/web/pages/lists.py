"""Fields of addresses that many pages have: search, order, page number, and the name of the thing that a page shows."""

from collections.abc import Iterable
from typing import Final

from twisted_kafka.console.queries.paging import PAGE_SIZE, Asked
from twisted_kafka.console.web.call import BadFormError, Call

MOST_PAGE: Final = 1_000_000
MOST_SEARCHED: Final = 256


def asked(call: Call, columns: tuple[str, ...], first: str = "") -> Asked:
    """Return which rows the address asks for. ``columns`` can be sorted by; ``first`` is the usual order."""
    usual = first or columns[0]
    sort = call.text("sort", usual)
    if sort.removeprefix("-") not in columns:
        sort = usual
    return Asked(call.text("search")[:MOST_SEARCHED], sort, call.number("page", 1, 1, MOST_PAGE), PAGE_SIZE)


def needed(call: Call, name: str) -> str:
    """Return a field that the page cannot do without. Names keep their spaces. Raises BadFormError."""
    value = call.query.get(name, "")
    if not value:
        raise BadFormError(f"The address has no {name}. Choose one in the list.")
    return value


def twice(names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return the values and texts of a choice."""
    return tuple((name, name) for name in names)
