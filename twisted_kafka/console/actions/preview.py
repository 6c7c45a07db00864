"""A preview of an action."""

from dataclasses import dataclass
from typing import Final

MOST_ROWS: Final = 500
"""Most rows of a preview."""


@dataclass(frozen=True, slots=True)
class Preview:
    """What an action will do."""

    summary: str
    """In the imperative: ``delete topic orders with 12 records``."""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    warnings: tuple[str, ...] = ()
    """What a user may not expect, a sentence each."""
