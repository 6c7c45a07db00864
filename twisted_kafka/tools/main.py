"""The command ``twisted-kafka``: runs, prepares and inspects brokers, works with clusters, or reports on an access log."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from twisted_kafka.tools import report
from twisted_kafka.tools.commands import COMMANDS, add_commands

if TYPE_CHECKING:
    import argparse

    from twisted_kafka.tools.parser import Parser

EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
"""After ctrl-C, as shells report it."""
SERVE = "serve"
CLUSTER = "cluster"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the status: 0, 1 for errors in files or of brokers, 2 for a wrong command line, 130 after ctrl-C.

    ``serve`` exits like ``twistd kafka``, and the commands for the access log exit like ``python -m twisted_kafka_spark``.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    _open_closed_streams()
    if given[:1] == [SERVE]:
        # Before other imports, for a fast start. twistd parses the options.
        from twisted_kafka.tools.serve import serve

        return serve(given[1:])
    if given[:1] == [CLUSTER]:
        from twisted_kafka.tools.serve import cluster

        return cluster(given[1:])
    if given and given[0] in report.COMMANDS:
        return report.run(given)
    return _run(given)


def make_parser(only: str | None = None) -> "Parser":
    """Return the parser of all commands, in which only the command ``only`` has its options, or each one if it is None."""
    from twisted_kafka import __version__
    from twisted_kafka.tools.parser import Parser

    parser = Parser(
        prog="twisted-kafka",
        description="Run and prepare a Kafka broker, inspect its files, work with a cluster, and report on its requests. Many "
        "commands also work with Apache Kafka.",
    )
    parser.add_argument("--version", action="version", version=f"twisted_kafka {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    commands.add_parser(SERVE, help="run a broker in the foreground; see twisted-kafka serve --help")
    commands.add_parser(CLUSTER, help="run several brokers for development; see twisted-kafka cluster --help")
    for name, text in report.COMMANDS.items():
        commands.add_parser(name, help=text)
    add_commands(commands, only)
    return parser


def parse(arguments: Sequence[str]) -> "argparse.Namespace":
    """Return the options of a command of ``commands.COMMANDS``. Raises SystemExit."""
    parser = make_parser(_command(arguments))
    if arguments and arguments[0].startswith("-") and _command(arguments):
        parser.error("options follow the command, as in twisted-kafka topics list -b HOST:PORT")
    options, rest = parser.parse_known_args(arguments)
    if rest:
        if not hasattr(options, "rest") or any(each.startswith("-") for each in rest):
            parser.refuse(rest, arguments)
        getattr(options, options.rest).extend(rest)  # argparse gives a list only what stands together
    return options


def _command(arguments: Sequence[str]) -> str:
    return next((each for each in arguments if not each.startswith("-")), "")


def _text(error: Exception) -> str:
    if isinstance(error, FileExistsError):
        return f"{error.filename} exists already: name a new file"
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"  # without the number
    return str(error)


def _open_closed_streams() -> None:
    """Open standard streams that are closed, and discard output to them: other files would get their numbers."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115 it stays open
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)


def _discard_output() -> None:
    """Send buffered output nowhere: the interpreter writes it at its end, and the reader of the pipe has gone."""
    sys.stderr.close()
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _run(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        return 0
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as error:
        if not isinstance(error, COMMANDS[_command(arguments)].errors()):
            raise
        print(f"twisted-kafka: {' '.join(_text(error).split())}", file=sys.stderr)
        return EXIT_USAGE
    return status


if __name__ == "__main__":
    sys.exit(main())
