"""``twisted-kafka certificates``: makes certificates for development."""

import argparse
import socket
from pathlib import Path


def add_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``certificates`` to a parser's commands, like ``inspection.add_commands``."""
    make = commands.add_parser(
        "certificates",
        help="make certificates for development",
        description="Make a certificate authority, and certificates of a broker and of a client, as PEM, PKCS12 and JKS, with the "
        "settings that use them. If DIR has an authority, it signs new certificates: running brokers read them within seconds.",
    )
    make.add_argument("directory", type=Path, metavar="DIR")
    make.add_argument(
        "--host",
        action="append",
        metavar="NAME",
        help="a name or an address of the broker, may be repeated (default: localhost, 127.0.0.1, ::1 and this machine's name)",
    )
    make.add_argument("--days", type=int, default=365, help="how long the certificates are valid (default: 365)")
    make.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from twisted_kafka.timing.clock import SystemClock
    from twisted_kafka.tools.development_certificates import DevelopmentCertificates  # other commands need no cryptography

    hosts = options.host or list(dict.fromkeys(["localhost", "127.0.0.1", "::1", socket.gethostname()]))
    made = DevelopmentCertificates(options.directory, SystemClock().wall_ms())
    for path in made.make(hosts, options.days):
        print(path)
    return 0
