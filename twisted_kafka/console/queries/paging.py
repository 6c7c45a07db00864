"""Pages of lists: search, order, and the rows of one page."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

PAGE_SIZE: Final = 50
MOST_ROWS: Final = 500
"""Most rows of a page."""

_Row = TypeVar("_Row")
_New = TypeVar("_New")


@dataclass(frozen=True, slots=True)
class Asked:
    """Which rows a caller asks for. The form of an address: every field is a text or a number."""

    search: str = ""
    """Rows with this text in their name; letters' case does not count."""
    sort: str = "name"
    """A column; with ``-`` before it, from the largest to the smallest."""
    page: int = 1
    """From 1."""
    page_size: int = PAGE_SIZE

    def __post_init__(self) -> None:
        """Raise ValueError for a page that cannot be."""
        if self.page < 1 or not 1 <= self.page_size <= MOST_ROWS:
            raise ValueError(f"page {self.page} with {self.page_size} rows: pages begin with 1 and have at most {MOST_ROWS} rows")

    def finds(self, name: str) -> bool:
        """Whether a name has the text that is searched."""
        return not self.search or self.search.casefold() in name.casefold()


@dataclass(frozen=True, slots=True)
class Page(Generic[_Row]):
    """The rows of one page."""

    items: tuple[_Row, ...]
    total: int
    """How many rows were found, on all pages."""
    page: int
    page_size: int
    stopped: str = ""
    """Why the rows are not complete; empty if they are."""

    @property
    def pages(self) -> int:
        """The number of pages, at least 1."""
        return max(1, -(-self.total // self.page_size))

    def of(self, items: "Sequence[_New]", stopped: str = "") -> "Page[_New]":
        """Return the page with other rows."""
        return Page(tuple(items), self.total, self.page, self.page_size, stopped or self.stopped)


def paged(found: Iterable[_Row], asked: Asked, orders: Mapping[str, Callable[[_Row], Any]], stopped: str = "") -> Page[_Row]:
    """Return one page of the rows that were found. ``orders`` has a key function for each column.

    Raises ValueError for a column that has none.
    """
    column = asked.sort.removeprefix("-")
    if column not in orders:
        raise ValueError(f"cannot sort by {column!r}: choose one of {', '.join(orders)}")
    rows = sorted(found, key=orders[column], reverse=asked.sort.startswith("-"))
    first = (asked.page - 1) * asked.page_size
    return Page(tuple(rows[first : first + asked.page_size]), len(rows), asked.page, asked.page_size, stopped)
