"""``twisted-kafka mcp``: serves an agent over standard input and output."""

import argparse
import asyncio
from pathlib import Path

from twisted_kafka import __version__
from twisted_kafka.console.cluster.problems import CommandError
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.system.installation import install_command
from twisted_kafka.system.threads import make_pool
from twisted_kafka.timing.clock import SystemClock
from twisted_kafka.tools.admin.arguments import complete
from twisted_kafka.tools.admin.output import Output
from twisted_kafka.tools.agent.reading import READING
from twisted_kafka.tools.agent.tool import Context
from twisted_kafka.tools.agent.writing import WRITING


def add_command(parser: argparse.ArgumentParser) -> None:
    """Add the options (``commands.Command``)."""
    parser.description = (
        f"{parser.description} It works with this broker and with Apache Kafka, with the rights of the user of --command-config. "
        "It changes nothing unless --allow-writes is given."
    )
    parser.add_argument("--allow-writes", action="store_true", help="also offer tools that create, change, delete and produce")
    parser.add_argument("--access-log", type=Path, metavar="DIR", help="this broker's access.log.dir, for the tool find_requests")
    complete(parser, _serve)


def _serve(options: argparse.Namespace, session: Session, _output: Output) -> None:
    try:
        from twisted_kafka.tools.agent.server import make_server, serve
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise CommandError(f"the command needs the package mcp: {install_command('mcp')}") from None
    if options.access_log is not None and not options.access_log.is_dir():
        raise ValueError(f"--access-log {options.access_log}: there is no such directory")
    tools = (*READING, *WRITING) if options.allow_writes else READING
    context = Context(session, SystemClock(), options.access_log)
    with make_pool(1, "kafka-agent") as executor:
        asyncio.run(serve(make_server(tools, context, executor, __version__)))
