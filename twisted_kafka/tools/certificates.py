"""``twisted-kafka certificates``: makes certificates for development."""

import argparse
import socket
from pathlib import Path


def add_command(parser: argparse.ArgumentParser) -> None:
    """Add the options (``commands.Command``)."""
    parser.description = (
        "Make a certificate authority, and certificates of a broker and of a client, as PEM, PKCS12 and JKS, with the "
        "settings that use them. If DIR has an authority, it signs new certificates: running brokers read them within seconds."
    )
    parser.add_argument("directory", type=Path, metavar="DIR")
    parser.add_argument(
        "--host",
        action="append",
        metavar="NAME",
        help="a name or an address of the broker, may be repeated (default: localhost, 127.0.0.1, ::1 and this machine's name)",
    )
    parser.add_argument("--days", type=int, default=365, help="how long the certificates are valid (default: 365)")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from twisted_kafka.timing.clock import SystemClock
    from twisted_kafka.tools.development_certificates import DevelopmentCertificates  # other commands need no cryptography

    hosts = options.host or list(dict.fromkeys(["localhost", "127.0.0.1", "::1", socket.gethostname()]))
    made = DevelopmentCertificates(options.directory, SystemClock().wall_ms())
    for path in made.make(hosts, options.days):
        print(path)
    return 0
