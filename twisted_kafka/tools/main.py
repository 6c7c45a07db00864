"""The command ``twisted-kafka``: runs, prepares and inspects a broker, or reports on its access log."""

import sys
from collections.abc import Sequence

from twisted_kafka.tools import report

EXIT_USAGE = 2
SERVE = "serve"
CLUSTER = "cluster"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status: 0, 1 for errors in the files, 2 for errors in the command line.

    ``serve`` exits like ``twistd kafka``, and the commands for the access log exit like ``python -m twisted_kafka_spark``.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given[:1] == [SERVE]:
        # Before other imports, for a fast start. twistd parses the options.
        from twisted_kafka.tools.serve import serve

        return serve(given[1:])
    if given[:1] == [CLUSTER]:
        from twisted_kafka.tools.serve import cluster

        return cluster(given[1:])
    if given and given[0] in report.COMMANDS:
        return report.run(given)
    return _inspect(given)


def _inspect(arguments: Sequence[str]) -> int:
    import argparse

    from twisted_kafka import __version__
    from twisted_kafka.log.directories.log_directory import LogDirectoryError
    from twisted_kafka.metadata.store import StoreError
    from twisted_kafka.tools import certificates, doctor, inspection, metadata, passwords, recordings, test_server

    parser = argparse.ArgumentParser(
        prog="twisted-kafka",
        description="Run and prepare a Kafka broker, inspect its files, and report on its requests. Many commands also work "
        "with Apache Kafka.",
    )
    parser.add_argument("--version", action="version", version=f"twisted_kafka {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    commands.add_parser(SERVE, help="run a broker in the foreground; see twisted-kafka serve --help")
    commands.add_parser(CLUSTER, help="run several brokers for development; see twisted-kafka cluster --help")
    for name, text in report.COMMANDS.items():
        commands.add_parser(name, help=text)
    inspection.add_commands(commands)
    passwords.add_commands(commands)
    certificates.add_command(commands)
    metadata.add_command(commands)
    doctor.add_command(commands)
    recordings.add_commands(commands)
    test_server.add_command(commands)
    options = parser.parse_args(arguments)
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stderr.close()  # the reader of a pipe has closed it
        return 0
    except (OSError, ValueError, LogDirectoryError, StoreError) as error:
        print(f"twisted-kafka: {' '.join(str(error).split())}", file=sys.stderr)
        return EXIT_USAGE
    return status


if __name__ == "__main__":
    sys.exit(main())
