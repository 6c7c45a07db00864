"""``twisted-kafka top``: a live picture of a cluster, without curses."""

import argparse
import os
import select
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from twisted_kafka.console.cluster.problems import CommandError
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.timing.clock import SystemClock
from twisted_kafka.tools.admin.arguments import complete
from twisted_kafka.tools.admin.output import JSON, Output
from twisted_kafka.tools.top.picture import as_json, lines
from twisted_kafka.tools.top.snapshot import Snapshot, take

INTERVAL_S: Final = 2.0
SHORTEST_S: Final = 0.2
LONGEST_S: Final = 3600.0
MOST_TOPICS: Final = 200
MOST_GROUPS: Final = 200

_CLEAR: Final = "\x1b[H\x1b[2J"
_OTHER_SCREEN, _OWN_SCREEN = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_QUIT: Final = ("q", "Q", "\x03", "\x04", "")
_TOPICS_BY: Final = {"rate": "records", "records": "name", "name": "rate"}
_GROUPS_BY: Final = {"lag": "name", "name": "lag"}


def add_command(parser: argparse.ArgumentParser) -> None:
    """Add the options (``commands.Command``)."""
    parser.description = (
        f"{parser.description} It works with any Kafka. q or ctrl-C ends it; t changes the order of topics, g that of groups. "
        "If the output is no terminal, it prints one picture after one interval."
    )
    parser.add_argument("--once", action="store_true", help="print one picture after one interval, and end")
    parser.add_argument("-i", "--interval", type=float, default=INTERVAL_S, metavar="SECONDS", help="[default: %(default)g]")
    parser.add_argument(
        "--topics", type=int, default=MOST_TOPICS, metavar="N", help="look at most at this number of topics [default: %(default)s]"
    )
    parser.add_argument(
        "--groups", type=int, default=MOST_GROUPS, metavar="N", help="look at most at this number of groups [default: %(default)s]"
    )
    complete(parser, _top)


def _top(options: argparse.Namespace, session: Session, output: Output) -> None:
    if not SHORTEST_S <= options.interval <= LONGEST_S:
        raise ValueError(f"--interval {options.interval:g}: expected {SHORTEST_S:g} to {LONGEST_S:g} seconds")
    if options.topics < 0 or options.groups < 0:
        raise ValueError("--topics and --groups cannot be negative")
    clock = SystemClock()

    def look() -> Snapshot:
        return take(session, clock, most_topics=options.topics, most_groups=options.groups)

    if options.once or output.form == JSON or not sys.stdout.isatty():
        before = look()
        session.pause(options.interval)
        now = look()
        if output.form == JSON:
            output.json(as_json(now, before))
            return
        columns = shutil.get_terminal_size().columns if sys.stdout.isatty() or "COLUMNS" in os.environ else 100
        sys.stdout.write("\n".join(lines(now, before, columns, None)) + "\n")
        return
    with _screen(sys.stdout), _keys(sys.stdin) as read_key:
        _show(look, options.interval, read_key)


def _show(look: Callable[[], Snapshot], interval_s: float, read_key: Callable[[float], str | None]) -> None:
    """Draw pictures until a key ends it. A cluster that does not answer is shown, and asked again."""
    topics_by, groups_by = "rate", "lag"
    before: Snapshot | None = None
    now: Snapshot | None = None
    trouble = ""
    while True:
        try:
            before, now, trouble = now, look(), ""
        except CommandError as error:
            if now is None:
                raise
            trouble = str(error)
        key: str | None = "redraw"
        while key is not None:
            size = shutil.get_terminal_size()
            room = size.lines - 2
            shown = lines(now, before, size.columns, room, topics_by=topics_by, groups_by=groups_by)
            last = trouble or f"q ends  t topics by {_TOPICS_BY[topics_by]}  g groups by {_GROUPS_BY[groups_by]}"
            sys.stdout.write(_CLEAR + "\r\n".join([*shown, last[: size.columns]]))
            sys.stdout.flush()
            key = read_key(interval_s)
            if key in _QUIT and key is not None:
                return
            if key in ("t", "T"):
                topics_by = _TOPICS_BY[topics_by]
            elif key in ("g", "G"):
                groups_by = _GROUPS_BY[groups_by]


@contextmanager
def _screen(out: TextIO) -> Iterator[None]:
    out.write(_OTHER_SCREEN)
    try:
        yield
    finally:
        out.write(_OWN_SCREEN)
        out.flush()


@contextmanager
def _keys(source: TextIO) -> Iterator[Callable[[float], str | None]]:
    """Yield a function that waits for a key and returns it, None after the time, or an empty text at the end of the input."""
    if not source.isatty() or sys.platform == "win32":
        yield _no_keys
        return
    import termios
    import tty

    descriptor = source.fileno()
    settings = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield lambda seconds: _read_key(descriptor, seconds)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, settings)


def _read_key(descriptor: int, seconds: float) -> str | None:
    ready, _, _ = select.select([descriptor], [], [], seconds)
    return os.read(descriptor, 1).decode("latin-1") if ready else None


def _no_keys(seconds: float) -> None:
    threading.Event().wait(seconds)
