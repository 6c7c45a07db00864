"""Results on standard output: a table, or one JSON object a line. Questions, progress and errors are on standard error."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from twisted_kafka.console.cluster.problems import CommandError
from twisted_kafka.console.cluster.texts import size_text
from twisted_kafka.timing.clock import IClock

TEXT: Final = "text"
JSON: Final = "json"
FAILED: Final = 1
PROGRESS_MS: Final = 200

Row = Mapping[str, Any]


class Output:
    """The output of one command, and its exit status."""

    def __init__(self, form: str, *, assumes_yes: bool = False) -> None:
        self.form = form
        self.status = 0
        """0, or 1 after a problem."""
        self._assumes_yes = assumes_yes

    def rows(self, columns: Sequence[str], rows: Iterable[Row]) -> None:
        """Write rows: the columns of a table, or all fields as JSON."""
        if self.form == JSON:
            for row in rows:
                self.json(row)
            return
        for line in table(columns, rows):
            sys.stdout.write(f"{line}\n")

    def json(self, row: Row) -> None:
        """Write a JSON object on a line."""
        sys.stdout.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")

    def done(self, text: str, **fields: object) -> None:
        """Report a change: as a sentence, or the fields as JSON."""
        if self.form == JSON:
            self.json(fields)
        else:
            sys.stdout.write(f"{text}\n")

    def problem(self, error: Exception) -> None:
        """Report an error, and go on; the exit status will be 1."""
        sys.stdout.flush()
        sys.stderr.write(f"twisted-kafka: {' '.join(str(error).split())}\n")
        self.status = FAILED

    def confirm(self, summary: str, columns: Sequence[str], rows: Sequence[Row], *, only_shows: bool = False) -> bool:
        """Show what a change would do; return whether to do it.

        Without --yes the user is asked. ``only_shows``: the answer is no. Raises CommandError if there is no terminal to ask at.
        """
        if only_shows:
            self.rows(columns, rows)
            return False
        if self._assumes_yes:
            return True
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise CommandError(f"this would {summary}; nothing has changed: add --yes to do it, or --dry-run to see the details")
        for line in table(columns, rows):
            sys.stderr.write(f"{line}\n")
        sys.stderr.write(f"{summary[:1].upper()}{summary[1:]}? [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return True
        raise CommandError("nothing has changed")


class Progress:
    """Counts records on a terminal, on standard error, and nowhere else."""

    def __init__(self, clock: IClock, what: str, total: int | None = None) -> None:
        self._clock = clock
        self._what = what
        self._total = total
        self._is_shown = sys.stderr.isatty() and not sys.stdout.isatty()
        self._began_ns = self._drawn_ns = clock.monotonic_ns()
        self._has_drawn = False
        self.records = 0
        self.size_bytes = 0

    def add(self, records: int, size_bytes: int) -> None:
        """Count records."""
        self.records += records
        self.size_bytes += size_bytes
        now_ns = self._clock.monotonic_ns()
        if self._is_shown and now_ns - self._drawn_ns >= PROGRESS_MS * 1_000_000:
            self._drawn_ns = now_ns
            self._has_drawn = True
            part = f", {100 * self.records // self._total} %" if self._total else ""
            rate = self.records / ((now_ns - self._began_ns) / 1e9)
            sys.stderr.write(
                f"\r{self._what} {self.records:,} records, {size_text(self.size_bytes)}, {rate:,.0f} a second{part}\x1b[K"
            )
            sys.stderr.flush()

    def end(self) -> None:
        """Remove the line."""
        if self._has_drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def table(columns: Sequence[str], rows: Iterable[Row]) -> list[str]:
    """Return the lines of a table with a header. Numbers are at the right of their columns."""
    found = list(rows)
    cells = [[_shown(row.get(column)) for column in columns] for row in found]
    header = [column.replace("_", " ").upper() for column in columns]
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    is_number = [bool(found) and all(_is_number(row.get(column)) for row in found) for column in columns]
    return [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width) for cell, width, right in zip(line, widths, is_number, strict=True)
        ).rstrip()
        for line in (header, *cells)
    ]


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _shown(value: object) -> str:
    match value:
        case None | "":
            return "-"
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return ",".join(map(str, value)) or "-"
        case float():
            return f"{value:.15g}"
        case _:
            return "".join(character if character.isprintable() else "?" for character in str(value))
