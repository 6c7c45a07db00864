"""The options that all commands for clusters share, and their run: a session, an output, and errors of one line."""

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from twisted_kafka.client.connections.addresses import parse_address
from twisted_kafka.config.properties import load_properties
from twisted_kafka.console.cluster.connections import Connections
from twisted_kafka.console.cluster.problems import CommandError
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.system.numbers import INT32_MAX
from twisted_kafka.timing.clock import SystemClock
from twisted_kafka.tools.admin.output import FAILED, JSON, TEXT, Output

DEFAULT_SERVER: Final = "127.0.0.1:9092"
DEFAULT_TIMEOUT_S: Final = 30.0
LONGEST_TIMEOUT_S: Final = 86_400
_LONGEST_AGE: Final = 1_000_000_000
INTERRUPTED: Final = 130
"""The exit status after ctrl-C, as shells report it."""

Run = Callable[[argparse.Namespace, Session, Output], None]
Commands = "argparse._SubParsersAction[argparse.ArgumentParser]"


def action(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, text: str, run: Run
) -> argparse.ArgumentParser:
    """Add an action such as ``list`` to a command. ``run`` gets the options, a session, and the output."""
    parser = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    complete(parser, run)
    return parser


def complete(parser: argparse.ArgumentParser, run: Run) -> None:
    """Add the options that all commands share, and set what the command does."""
    group = parser.add_argument_group("connection and output")
    group.add_argument(
        "-b",
        "--bootstrap-server",
        metavar="HOST:PORT[,...]",
        default=DEFAULT_SERVER,
        help="brokers to connect to first [default: %(default)s]",
    )
    what = "a client's settings for TLS and SASL (security.protocol, ssl.*, sasl.*), a file as for Kafka's tools"
    group.add_argument("--command-config", metavar="FILE", type=Path, help=what)
    group.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=float,
        default=DEFAULT_TIMEOUT_S,
        help="how long to retry an operation [default: %(default)g]",
    )
    group.add_argument(
        "-o", "--output", choices=(TEXT, JSON), default=TEXT, help="a table, or one JSON object a line [default: %(default)s]"
    )
    parser.set_defaults(run=lambda options: _run(options, run))


def whole(least: int, most: int = INT32_MAX) -> Callable[[str], int]:
    """Return the type of an option that is a whole number from ``least`` to ``most``."""

    def number(text: str) -> int:
        try:
            found = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"invalid int value: {text!r}") from None
        if not least <= found <= most:
            raise argparse.ArgumentTypeError(f"{text} is out of range: expected {least} to {most}")
        return found

    return number


def age(text: str) -> float:
    """The type of an option that is a duration; for ``argparse``."""
    try:
        found = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"invalid float value: {text!r}") from None
    if not 0 <= found <= _LONGEST_AGE:
        raise argparse.ArgumentTypeError(f"{text} is out of range: expected 0 to {_LONGEST_AGE:,}")
    return found


def several(parser: argparse.ArgumentParser, name: str, metavar: str, text: str | None = None, *, least: int = 0) -> None:
    """Add the last positional argument, a list. Its items may also follow options."""
    parser.add_argument(name, nargs="+" if least else "*", metavar=metavar, help=text)
    parser.set_defaults(rest=name)


def with_preview(parser: argparse.ArgumentParser) -> None:
    """Add the options of a command that asks before it changes something."""
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="show what would be done, and do nothing")


def pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """Return the keys and values of KEY=VALUE texts; raise ValueError."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise ValueError(f"{option} {text}: expected KEY=VALUE, as in {option} retention.ms=60000")
        found[key] = value
    return found


def _run(options: argparse.Namespace, run: Run) -> int:
    if not 0 < options.timeout <= LONGEST_TIMEOUT_S:
        raise ValueError(f"--timeout {options.timeout:g}: expected a number of seconds above 0, at most {LONGEST_TIMEOUT_S:,}")
    addresses = [parse_address(each.strip()) for each in options.bootstrap_server.split(",")]
    settings = {} if options.command_config is None else load_properties(options.command_config)
    output = Output(options.output, assumes_yes=getattr(options, "yes", False))
    try:
        with Session(Connections(addresses, settings, options.timeout), SystemClock(), options.timeout) as session:
            run(options, session, output)
    except CommandError as error:
        output.problem(error)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    return output.status
