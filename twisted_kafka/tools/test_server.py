"""``twisted-kafka test-server``: a broker under test, or a cluster, with its control API, for tests in any language."""

import argparse
import contextlib
import json
import os
import signal
import stat
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from twisted_kafka.client.connections.addresses import parse_address
from twisted_kafka.config.broker_config import parse_overrides
from twisted_kafka.system.threads import make_thread

if TYPE_CHECKING:
    from twisted_kafka.testing import Broker, Cluster, SchemaRegistry

TOKEN_VARIABLE: Final = "TWISTED_KAFKA_TOKEN"
_LOOK_S: Final = 0.2
"""The interval of checks whether the parent is alive."""
_READ_BYTES: Final = 4096
_HIGHEST_PORT: Final = 65_535


def add_command(parser: argparse.ArgumentParser) -> None:
    """Add the options (``commands.Command``)."""
    parser.description = (
        f"{parser.description} It prints one line of JSON: bootstrap_servers, control_url, token, pid. It ends "
        "when the program that started it ends, when its stdin is a pipe and is closed, or on SIGINT or SIGTERM, and leaves no "
        f"files. The environment variable {TOKEN_VARIABLE} sets the token. docs/test-server.md describes the control API."
    )
    parser.add_argument("--brokers", metavar="N", type=int, default=1, help="number of brokers in the cluster (%(default)s)")
    parser.add_argument("--port", metavar="PORT", type=int, default=0, help="port of the first broker (default: free ports)")
    parser.add_argument(
        "--control", metavar="HOST:PORT", default="127.0.0.1:0", help="address of the control API (default: a free port)"
    )
    parser.add_argument(
        "--schema-registry",
        metavar="HOST:PORT",
        nargs="?",
        const="127.0.0.1:0",
        help="serve a schema registry, too (without an address: a free port); it needs the extra schema-registry",
    )
    parser.add_argument("--persona", metavar="VERSION", help="answer as another version of Kafka: 0.11, 2.8, 3.9, 4.1, 4.2 or 4.4")
    parser.add_argument("--override", "-o", metavar="KEY=VALUE", action="append", default=[], help="a setting; may be repeated")
    parser.add_argument("--rules", metavar="FILE", help="fault rules, in YAML or JSON")
    parser.add_argument("--stay", action="store_true", help="do not end with the parent or stdin")
    parser.add_argument("--verbose", action="store_true", help="log everything to stderr, not only warnings")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    parent = None if options.stay else _parent()  # first, because it may end during the imports
    # Imported now: a broker takes a third of a second.
    from twisted_kafka.broker.errors import StartError
    from twisted_kafka.testing.control.server import ControlServer

    host, port = parse_address(options.control, least_port=0)
    make_registry = _registry_maker(options)  # now: it may be that a package is missing
    served = _made(options)
    ending = Ending(parent)
    _log_to_stderr("info" if options.verbose else "warn")
    try:
        served.start()
    except StartError as error:
        raise ValueError(str(error)) from None
    token = os.environ.get(TOKEN_VARIABLE) or None
    try:
        with contextlib.ExitStack() as running:
            registry = None if make_registry is None else running.enter_context(make_registry(served))
            control = running.enter_context(ControlServer(served, host=host, port=port, token=token, registry=registry))
            line = {"bootstrap_servers": served.bootstrap_servers, "control_url": control.url, "token": control.token}
            more = {} if registry is None else {"schema_registry_url": registry.url}
            print(json.dumps({**line, **more, "pid": os.getpid()}), flush=True)
            ending.wait()
    finally:
        served.close()
    return 0


def _registry_maker(options: argparse.Namespace) -> "Callable[[Broker | Cluster], SchemaRegistry] | None":
    """Return a function that makes the schema registry of a broker. Raises ValueError, one line, if it cannot be made."""
    if options.schema_registry is None:
        return None
    host, port = parse_address(options.schema_registry, least_port=0)
    from twisted_kafka.schema_registry.formats import check_installed
    from twisted_kafka.testing import SchemaRegistry

    try:
        check_installed()
    except ImportError as error:
        raise ValueError(str(error)) from None
    return lambda served: SchemaRegistry(served, host=host, port=port)


def _parent() -> int:
    """Return the process id of the parent. Raises ValueError if the parent has ended and another process is the parent now.

    A process is in its parent's session, or leads its own session. In the second case, a new parent cannot be detected.
    """
    parent, session = os.getppid(), os.getsid(0)
    with contextlib.suppress(ProcessLookupError):
        if session in (os.getpid(), os.getsid(parent)):
            return parent
    raise ValueError("the program that started test-server has already ended; use --stay to run without it")


def _made(options: argparse.Namespace) -> "Broker | Cluster":
    from twisted_kafka.testing import Broker, Cluster

    highest_port = max(_HIGHEST_PORT - options.brokers, 0)
    if not 0 <= options.port <= highest_port:
        raise ValueError(f"--port {options.port}: expected 0 to {highest_port}")
    properties: dict[str, Any] = dict(parse_overrides(options.override))
    if options.brokers == 1:
        if options.port:
            properties.setdefault("listeners", f"PLAINTEXT://127.0.0.1:{options.port}")
        return Broker(properties, persona=options.persona, rules=options.rules)
    if options.persona is not None:
        raise ValueError("--persona works with one broker only: leave out --brokers")
    return Cluster(options.brokers, properties, rules=options.rules, port=options.port)


class Ending:
    """Waits for the end of the program: a signal, its parent's end, or the end of a stdin that is a pipe or a socket.

    Other kinds of stdin do not count: /dev/null ends at once, and a terminal belongs to its user.
    """

    def __init__(self, parent: int | None) -> None:
        """``parent`` is the process id of the parent; without it, only signals count."""
        self._parent = parent
        self._ended = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: self._ended.set())
        if parent is not None and _is_piped(sys.stdin):
            make_thread(self._read_stdin, "stdin").start()

    def wait(self) -> None:
        """Wait until the program has to end."""
        # Linux can report a parent's death (PR_SET_PDEATHSIG), but it means the thread that started this program.
        while not self._ended.wait(_LOOK_S) and self._parent in (None, os.getppid()):
            pass

    def _read_stdin(self) -> None:
        while os.read(sys.stdin.fileno(), _READ_BYTES):
            pass
        self._ended.set()


def _is_piped(stream: Any) -> bool:
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (AttributeError, OSError, ValueError):  # closed at the start
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _log_to_stderr(level: str) -> None:
    from twisted.logger import FilteringLogObserver, LogLevel, LogLevelFilterPredicate, globalLogBeginner, textFileLogObserver

    wanted = LogLevelFilterPredicate(LogLevel.lookupByName(level))
    globalLogBeginner.beginLoggingTo([FilteringLogObserver(textFileLogObserver(sys.stderr), [wanted])], redirectStandardIO=False)
