"""The command line of ``twistd kafka-cluster`` and ``twisted-kafka cluster``, and their service."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from twisted.logger import Logger
from twisted.python import usage
from typing_extensions import override

from twisted_kafka.config.broker_config import parse_overrides
from twisted_kafka.config.command_line import with_advice
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.config.properties import load_properties
from twisted_kafka.system.numbers import INT32_MAX, decimal
from twisted_kafka.system.start_up import CLUSTER_COMMAND
from twisted_kafka.tap import EXIT_STATUS_BAD_START, stop_cleanly_on_signals
from twisted_kafka.tools.cluster.plan import MOST_BROKERS, plan_brokers
from twisted_kafka.tools.cluster.service import ClusterService, ClusterSettings

_log = Logger()

_HIGHEST_PORT: Final = 65_535
_PLANNED: Final = "127.0.0.1:2181"
"""A ``zookeeper.connect`` for checking settings before a ZooKeeper runs."""


class Options(usage.Options):
    """The options of the service ``kafka-cluster``."""

    synopsis = "[N] [options]"
    longdesc = (
        "Runs N brokers (default 3) for development on this machine, each a process with its own directory. Without --zookeeper it "
        "also starts a ZooKeeper: Debian's package, an unpacked one, or one that Maven has downloaded. Topics have 3 replicas, and "
        "2 must be in sync, unless settings say otherwise. The log has the brokers' addresses and says when they are ready. "
        "SIGTERM, SIGINT (ctrl-C) and SIGHUP stop all processes; if this program is killed, they end, too."
    )
    optParameters = [  # noqa: N815, RUF012  (the form that usage.Options reads)
        ["data-dir", "d", "kafka-cluster", "Directory for all data, settings and output."],
        ["port", "p", 9092, "Port of the first broker; the others use the next ones. 0 means free ports.", int],
        ["zookeeper", "z", None, "A running ZooKeeper, in the form of zookeeper.connect: HOST:PORT,.../PATH"],
        ["zookeeper-port", None, 2181, "Port of the ZooKeeper to start; 0 means a free port.", int],
        ["zookeeper-home", None, None, "Directory of an unpacked Apache ZooKeeper, or of an Apache Kafka up to 3.9."],
        ["config", "c", None, "Settings of all brokers in the form of Kafka's server.properties; not listeners and directories."],
    ]

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.overrides: list[str] = []
        self.brokers = 3
        self.settings: ClusterSettings | None = None

    def opt_override(self, setting: str) -> None:
        """KEY=VALUE: a setting of all brokers that overrides the file's; may be repeated."""
        self.overrides.append(setting)

    opt_o = opt_override

    @override
    def getSynopsis(self) -> str:
        """Return the usage line, which names the command that was run."""
        return f"Usage: {CLUSTER_COMMAND} [N] [options]" if sys.argv[0] == CLUSTER_COMMAND else super().getSynopsis()

    @override
    def parseArgs(self, count: str = "3") -> None:
        """Take the number of brokers."""
        brokers = decimal(count, MOST_BROKERS)
        if not brokers:
            raise usage.UsageError(f"the number of brokers must be from 1 to {MOST_BROKERS}, not {count}")
        self.brokers = brokers

    @override
    def parseOptions(self, options: Sequence[str] | None = None) -> None:
        """Parse the command line. An error ends the program with one line and status 1."""
        words = list(options or [])
        if words and decimal(words[0], INT32_MAX) is not None:
            words = [*words[1:], words[0]]  # an argument ends the options, but users write it before them
        try:
            super().parseOptions(words)  # type: ignore[no-untyped-call]
        except (usage.UsageError, ConfigError) as error:
            _refuse(with_advice(str(error), self.longOpt))

    @override
    def postOptions(self) -> None:
        """Check everything that can be checked before the start."""
        for name in ("data-dir", "zookeeper", "zookeeper-home", "config"):
            if self[name] == "":
                raise usage.UsageError(f"option --{name} must not be empty")
        for name, count in (("port", self.brokers), ("zookeeper-port", 1)):
            if not 0 <= self[name] <= _HIGHEST_PORT - count + 1:
                raise usage.UsageError(f"option --{name} is out of range: {self[name]}")
        properties = load_properties(self["config"]) if self["config"] else {}
        properties.update(parse_overrides(self.overrides))
        home = self["zookeeper-home"]
        self.settings = ClusterSettings(
            brokers=self.brokers,
            directory=Path(self["data-dir"]).absolute(),
            first_port=self["port"],
            zookeeper=self["zookeeper"],
            zookeeper_port=self["zookeeper-port"],
            zookeeper_home=None if home is None else Path(home).absolute(),
            properties=properties,
        )
        plan_brokers([0], self.settings.directory, self.settings.zookeeper or _PLANNED, properties)


def makeService(options: Options, reactor: Any) -> ClusterService:
    """Return the cluster's service on this reactor."""
    assert options.settings is not None, "the options have been parsed"
    return make_cluster_service(options.settings, reactor)


def make_application_service(properties: Mapping[str, str], reactor: Any, **settings: Any) -> ClusterService:
    """Return a cluster's service for a Twisted application file; ``settings`` are those of ``ClusterSettings``.

    An invalid setting ends the program with one line and status 1.
    """
    made = ClusterSettings(properties=properties, **settings)
    try:
        plan_brokers([0], made.directory, made.zookeeper or _PLANNED, properties)
    except ConfigError as error:
        _refuse(str(error))
    return make_cluster_service(made, reactor)


def make_cluster_service(settings: ClusterSettings, reactor: Any) -> ClusterService:
    """Return the only service of a program: signals stop it, and a failed start ends the program with status 1."""
    reactor.callWhenRunning(stop_cleanly_on_signals, reactor, [])

    def failed(why: str) -> None:
        _log.critical("{why}", why=why)
        _print_error(why)
        # twistd has no other way to exit with a given status.
        reactor.addSystemEventTrigger("after", "shutdown", os._exit, EXIT_STATUS_BAD_START)
        reactor.stop()

    return ClusterService(settings, reactor, failed)


def _refuse(message: str) -> NoReturn:
    _print_error(message)
    sys.exit(EXIT_STATUS_BAD_START)


def _print_error(message: str) -> None:
    command = CLUSTER_COMMAND if sys.argv[0] == CLUSTER_COMMAND else "twistd kafka-cluster"
    print(f"{command}: {' '.join(message.split())}", file=sys.__stderr__)
