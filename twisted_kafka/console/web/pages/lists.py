"""What the pages of lists have in common: search, order and page number, as the address has them."""

from twisted_kafka.console.queries.paging import PAGE_SIZE, Asked
from twisted_kafka.console.web.call import Call

MOST_PAGE: int = 1_000_000


def asked(call: Call, columns: tuple[str, ...], first: str = "") -> Asked:
    """Return which rows the address asks for. ``columns`` can be sorted by; ``first`` is the usual order."""
    usual = first or columns[0]
    sort = call.text("sort", usual)
    if sort.removeprefix("-") not in columns:
        sort = usual
    return Asked(call.text("search")[:256], sort, call.number("page", 1, 1, MOST_PAGE), PAGE_SIZE)
