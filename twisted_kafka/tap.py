"""The command line of `twistd kafka` and `twisted-kafka serve`, and the service that it makes."""

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from twisted.logger import FileLogObserver, Logger
from twisted.python import usage
from typing_extensions import override

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.command_line import make_config, with_advice
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.config.properties import load_properties
from twisted_kafka.system.files.log_file import log_file_observer
from twisted_kafka.system.files.open_files import allow_open_files
from twisted_kafka.system.start_up import (
    SERVE_COMMAND,
    compile_loops,
    keep_long_collections_rare,
    restart_interpreter,
    without_collector,
)
from twisted_kafka.timing.clock import SystemClock

if TYPE_CHECKING:
    from twisted_kafka.service import BrokerService

__all__ = ["Options", "load_properties", "makeService", "make_application_service"]

_log = Logger()

EXIT_STATUS_BAD_START = 1
EXIT_STATUS_FATAL = 1
EXIT_STATUS_STOPPED = 0
"""Of an orderly stop on a signal. twistd itself would end as if the signal had killed it (143 for SIGTERM)."""

DAEMON_LOG = "twistd.log"
"""Where twistd logs as a daemon without --logfile."""

_EXAMPLES = """
Examples:
  {command}
  {command} --listeners PLAINTEXT://127.0.0.1:9192 --data-dir /var/lib/kafka
  {command} --config server.properties --override num.partitions=3 --override log.retention.hours=24
"""


class Options(usage.Options):
    """The options of the service ``kafka``."""

    synopsis = "[options]"
    longdesc = (
        "A Kafka broker. Without options it listens on port 9092 of every interface and stores its data in ./kafka-data: records "
        "in log/, one line per request in access/. Settings have Apache Kafka's names, and --config reads Kafka's "
        "server.properties. --listeners, --data-dir and --broker-id override --override, which overrides --environment, "
        "which overrides --config, which overrides the defaults. SIGTERM, SIGINT (ctrl-C) and SIGHUP stop the broker cleanly."
    )
    optParameters = [  # noqa: N815, RUF012  (the form that usage.Options reads)
        ["config", "c", None, "Settings in the form of Kafka's server.properties."],
        ["listeners", "l", None, "Addresses to listen on, NAME://host:port, separated by commas; port 0 takes a free one."],
        ["data-dir", "d", None, "Directory for all data, in log/ and access/. [default: ./kafka-data]"],
        ["broker-id", "b", None, "This broker's id in its cluster."],
    ]
    optFlags = [  # noqa: N815, RUF012
        [
            "environment",
            "e",
            "Read settings from the environment, as Kafka's image does: KAFKA_LOG_RETENTION_HOURS is log.retention.hours.",
        ],
        ["console", None, "Serve the web console, at http://127.0.0.1:8080/ unless console.listener is set."],
    ]

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.overrides: list[str] = []
        self.config: KafkaConfig | None = None

    def opt_override(self, setting: str) -> None:
        """KEY=VALUE: a setting that overrides the file's; may be repeated."""
        self.overrides.append(setting)

    opt_o = opt_override

    @override
    def opt_version(self) -> None:
        """Show the version and exit."""
        from twisted_kafka import __version__

        print(f"twisted_kafka {__version__}")  # noqa: T201  (the output of this option)
        sys.exit(0)

    @override
    def getSynopsis(self) -> str:
        """Return the usage line, which names the command that was run."""
        return f"Usage: {SERVE_COMMAND} [options]" if _is_serve_command() else super().getSynopsis()

    @override
    def getUsage(self, width: int | None = None) -> str:
        """Return the help: the options and some examples."""
        command = SERVE_COMMAND if _is_serve_command() else "twistd -n kafka"
        return f"{super().getUsage(width)}{_EXAMPLES.format(command=command)}"

    @override
    def parseArgs(self, *args: str) -> None:
        """Reject positional arguments."""
        if args:
            raise usage.UsageError(f"Unexpected argument: {args[0]}")

    @override
    def parseOptions(self, options: Sequence[str] | None = None) -> None:
        """Parse the command line. An error ends the program with one line and status 1."""
        try:
            super().parseOptions(options)  # type: ignore[no-untyped-call]
        except (usage.UsageError, ConfigError) as error:
            refuse(with_advice(str(error), self.longOpt))

    @override
    def postOptions(self) -> None:
        """Build the configuration from the options. Empty values, usually from an unset shell variable, are rejected."""
        for name in ("config", "listeners", "data-dir", "broker-id"):
            if self[name] == "":
                raise usage.UsageError(f"option --{name} must not be empty")
        self.config = make_config(self, self.overrides, os.environ if self["environment"] else {})
        self._log_to_a_file_that_may_be_rotated()

    def _log_to_a_file_that_may_be_rotated(self) -> None:
        """Replace the file to which twistd would log, as it is not safe to rotate; a log to stdout, syslog or a --logger stays."""
        twistd = self.parent
        if twistd is None or twistd.get("logger") or twistd.get("syslog"):
            return
        path = twistd.get("logfile") or ("" if twistd.get("nodaemon") else DAEMON_LOG)
        if path not in ("", "-"):
            _daemon_log.path = Path(path).absolute()
            twistd["logger"] = f"{__name__}.{_daemon_log_observer.__name__}"  # it wants a name, before it makes the service


class _DaemonLog:
    """The path of the log of this process, which twistd passes on to no logger."""

    path = Path(DAEMON_LOG)


_daemon_log = _DaemonLog()


def _daemon_log_observer() -> FileLogObserver:
    try:
        return log_file_observer(_daemon_log.path)
    except OSError as error:
        refuse(f"Cannot write the log {_daemon_log.path}: {error.strerror}")


def makeService(options: Options, reactor: Any) -> "BrokerService":
    """Return a broker's service on this reactor. It starts with the application, after twistd has daemonized."""
    assert options.config is not None, "the options have been parsed"
    # A daemon has no stderr: log instead.
    report = _print_error if options.parent is None or options.parent["nodaemon"] else _log_why
    return _make_service(options.config, reactor, report)


def make_application_service(properties: Mapping[str, str], reactor: Any) -> "BrokerService":
    """Return a broker's service for a Twisted application file, with the errors, signals and exit statuses of `twistd kafka`.

    A bad setting ends the program with one line and status 1.
    """
    restart_interpreter()

    def report(why: str) -> None:
        # An application file cannot know whether twistd has daemonized and has no stderr.
        _log_why(why)
        _print_error(why)

    try:
        config = KafkaConfig.from_properties(properties)
    except ConfigError as error:
        refuse(str(error))
    return _make_service(config, reactor, report)


def _make_service(config: KafkaConfig, reactor: Any, report: Callable[[str], object]) -> "BrokerService":
    from twisted_kafka.broker.broker import StartError, StartInterruptedError
    from twisted_kafka.network.loop.reactors import use_steady_time
    from twisted_kafka.service import BrokerService

    _report_in_one_line(StartError, report)
    allow_open_files()
    use_steady_time(reactor)
    received: list[str] = []
    reactor.callWhenRunning(stop_cleanly_on_signals, reactor, received)

    class Service(BrokerService):
        @override
        def startService(self) -> None:
            """Start. A signal meanwhile, for example while logs are being loaded, ends the program cleanly."""
            _interrupt_on_signals(self, received)
            keep_long_collections_rare(SystemClock.steady_ns)
            compile_loops()  # with many partitions, most of the start is still to come
            try:
                with without_collector():
                    super().startService()
            except StartInterruptedError as error:
                report(f"{received[0]} received: {error}")
                sys.exit(EXIT_STATUS_STOPPED)

    return Service(config, reactor, lambda why: reactor.callFromThread(_stop_after_fatal_error, reactor, why))


def needs_tls(options: Options) -> bool:
    """Return whether a listener, the console's included, needs OpenSSL."""
    config = options.config
    if config is None or any("SSL" in end_point.security_protocol for end_point in config.listeners):
        return True
    return config.console_listener is not None and config.console_listener.is_tls


def refuse(message: str) -> NoReturn:
    """Write one line to stderr and end the program with status 1."""
    _print_error(message)
    sys.exit(EXIT_STATUS_BAD_START)


def _print_error(message: str) -> None:
    one_line = " ".join(message.split())
    command = SERVE_COMMAND if _is_serve_command() else "twistd kafka"
    print(f"{command}: {one_line}", file=sys.__stderr__)


def _is_serve_command() -> bool:
    return sys.argv[0] == SERVE_COMMAND


def _log_why(message: str) -> None:
    _log.critical("{why}", why=message)


def _report_in_one_line(expected: type[Exception], report: Callable[[str], object]) -> None:
    # twistd prints a traceback when startService raises. For an error that the operator can correct, the message is enough.
    default = sys.excepthook

    def show(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        if issubclass(kind, expected):
            report(str(error))
        else:
            default(kind, error, traceback)

    sys.excepthook = show


def _stopping_signals() -> list[int]:
    """Return the signals that stop a broker, the same as for a JVM: SIGHUP is left out if it is ignored, as under nohup.

    Windows has SIGBREAK (Ctrl-Break) in its place.
    """
    present = [getattr(signal, name) for name in ("SIGHUP", "SIGBREAK") if hasattr(signal, name)]
    return [signal.SIGTERM, signal.SIGINT, *(each for each in present if signal.getsignal(each) is not signal.SIG_IGN)]


def _interrupt_on_signals(service: "BrokerService", received: list[str]) -> None:
    def interrupt(number: int, _: FrameType | None) -> None:
        if not received:
            received.append(signal.Signals(number).name)
            service.broker.interrupt_start()

    for number in _stopping_signals():
        signal.signal(number, interrupt)


def stop_cleanly_on_signals(reactor: Any, received: list[str]) -> None:
    """Let SIGTERM, SIGINT and SIGHUP stop a running reactor.

    ``received`` has the name of an earlier signal, and gets later ones.
    """

    # With the reactor's own handlers, twistd exits as if killed by the signal. A clean stop should exit with status 0.
    def stop(number: int, _: FrameType | None) -> None:
        if not received:
            received.append(signal.Signals(number).name)
            reactor.callFromThread(_stop, reactor, received[0])

    for number in _stopping_signals():
        signal.signal(number, stop)
    exit_signal = getattr(reactor, "_exitSignal", None)
    if exit_signal is not None:
        # It came after the reactor had installed its handlers and before these: the reactor is about to stop.
        received.append(signal.Signals(exit_signal).name)
        reactor._exitSignal = None
    elif received:
        # The signal came too late to interrupt the start.
        _stop(reactor, received[0])


def _stop_after_fatal_error(reactor: Any, why: str) -> None:
    """Stop the broker as cleanly as possible and end the program with status 1."""
    _log.critical("{why}", why=why)
    _print_error(why)
    # twistd has no other way to exit with a given status.
    reactor.addSystemEventTrigger("after", "shutdown", os._exit, EXIT_STATUS_FATAL)
    reactor.stop()


def _stop(reactor: Any, signal_name: str) -> None:
    _log.info("{signal} received: stopping", signal=signal_name)
    reactor.stop()
