"""The parts of a cluster for development before its start: directories, addresses and settings."""

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from twisted_kafka.config.broker_config import KafkaConfig

HOST: Final = "127.0.0.1"
MOST_BROKERS: Final = 100
_MOST_COPIES: Final = 3
_FEWEST_IN_SYNC: Final = 2
_OWN_KEYS: Final = ("broker.id", "node.id", "listeners", "advertised.listeners", "log.dir", "log.dirs", "access.log.dir")


class ClusterError(Exception):
    """The cluster cannot be started; the text is one line for the operator."""


class BrokerPlan(NamedTuple):
    """One broker."""

    id: int
    port: int
    directory: Path
    properties: Mapping[str, str]

    @property
    def address(self) -> str:
        """Its address for clients."""
        return f"{HOST}:{self.port}"

    @property
    def settings_file(self) -> Path:
        """The file with its settings."""
        return self.directory / "server.properties"

    def write_settings(self) -> None:
        """Write the file with the settings. Each start does this again."""
        self.directory.mkdir(parents=True, exist_ok=True)
        lines = ["# Written by twisted-kafka cluster at each start."]
        lines += [f"{key}={_escaped(value)}" for key, value in self.properties.items()]
        self.settings_file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        self.settings_file.chmod(0o600)  # passwords may be among them


def plan_brokers(ports: list[int], directory: Path, zookeeper: str, common: Mapping[str, str]) -> list[BrokerPlan]:
    """Return the brokers 1 to N, one on each port, with ``common`` settings; raise ConfigError for one that is wrong."""
    plans = []
    defaults = _defaults(len(ports))
    for broker_id, port in enumerate(ports, 1):
        home = directory / f"broker-{broker_id}"
        properties = {
            **defaults,
            **{key: value for key, value in common.items() if key not in _OWN_KEYS},
            "broker.id": str(broker_id),
            "listeners": f"PLAINTEXT://{HOST}:{port}",
            "log.dirs": str(home / "log"),
            "access.log.dir": str(home / "access"),
            "zookeeper.connect": zookeeper,
        }
        KafkaConfig.from_properties(properties)
        plans.append(BrokerPlan(broker_id, port, home, properties))
    return plans


def _defaults(brokers: int) -> dict[str, str]:
    copies, in_sync = str(min(_MOST_COPIES, brokers)), str(min(_FEWEST_IN_SYNC, brokers))
    return {
        "default.replication.factor": copies,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": in_sync,
        # On one machine nothing is far away.
        "zookeeper.session.timeout.ms": "6000",
        "controlled.shutdown.retry.backoff.ms": "500",
        "group.initial.rebalance.delay.ms": "0",
    }


def choose_ports(first: int, count: int) -> list[int]:
    """Return ``count`` ports from ``first`` on, or any free ones for 0; raise ClusterError if one is taken."""
    wanted = [0] * count if first == 0 else range(first, first + count)
    sockets = []
    try:
        for port in wanted:
            probe = socket.socket()
            sockets.append(probe)
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except (OSError, OverflowError) as error:
                raise ClusterError(f"port {port} of {HOST} cannot be used: {error}") from None
        return [int(probe.getsockname()[1]) for probe in sockets]
    finally:
        for probe in sockets:
            probe.close()


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
