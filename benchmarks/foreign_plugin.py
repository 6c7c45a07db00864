"""What kafka-python's functional tests need to run without its repository (``benchmarks.foreign_suites``).

A pytest plugin, loaded before their conftest. It stands for ``test/service.py``, which is not in the source distribution. Unless
``KAFKA_URI`` names a broker, those that the tests set up are embedded ones: what tests ask of a broker's fixture is theirs, how it
starts and stops is here.
"""

import os
import sys
from types import ModuleType
from typing import Any

from kafka import KafkaAdminClient
from kafka.admin import ScramMechanism, UserScramCredentialUpsertion

from twisted_kafka import Broker


class ExternalService:
    """A broker that runs already."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port

    def dump_logs(self) -> None:
        """Do nothing."""


service = ModuleType("test.service")
service.ExternalService = ExternalService  # type: ignore[attr-defined]
service.SpawnedService = None  # type: ignore[attr-defined]
sys.modules["test.service"] = service

from test.integration import fixtures  # type: ignore[import-not-found]  # noqa: E402  kafka-python's, which imports that

_INTERNAL = "INTERNAL"


class EmbeddedKafka(fixtures.KafkaFixture):  # type: ignore[misc]
    """Their fixture of a broker, with an embedded one behind it."""

    running: bool

    @classmethod
    def instance(cls, broker_id: int, **settings: Any) -> "EmbeddedKafka":
        """Start a broker; ``settings`` are theirs."""
        settings = {name: value for name, value in settings.items() if name not in ("zookeeper", "zk_chroot", "external")}
        host, port, partitions = settings.pop("host", "localhost"), settings.pop("port", 0), settings.pop("partitions", 4)
        fixture = cls(host, port, broker_id, partitions=partitions, **settings)
        fixture.start()
        return fixture

    def start(self) -> bool:
        """Start, unless it runs."""
        if not self.running:
            self.child = self
            self._broker = Broker(self._properties())
            self._broker.start()
            self.port = self._port_of(self.transport)
            self.running = True
            if self.sasl_mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                self._add_credentials()
        return True

    def close(self) -> None:
        """Stop."""
        if self.running:
            self.running = False
            self._broker.stop()

    stop = close

    def __del__(self) -> None:
        self.close()

    def dump_logs(self) -> None:
        """Do nothing: a failed test shows what was logged."""

    def get_topic_names(self) -> list[str]:
        """Return the names of all topics."""
        with KafkaAdminClient(bootstrap_servers=self._internal) as admin:
            return list(admin.list_topics())

    @property
    def _internal(self) -> str:
        return f"127.0.0.1:{self._port_of(_INTERNAL)}"

    def _port_of(self, listener_name: str) -> int:
        return next(each.port for each in self._broker.listeners if each.listener_name == listener_name)

    def _properties(self) -> dict[str, object]:
        properties: dict[str, object] = {
            "broker.id": self.broker_id,
            "listeners": f"{self.transport}://127.0.0.1:0,{_INTERNAL}://127.0.0.1:0",
            "listener.security.protocol.map": f"{self.transport}:{self.transport},{_INTERNAL}:PLAINTEXT",
            "inter.broker.listener.name": _INTERNAL,
            "num.partitions": self.partitions,
            "group.min.session.timeout.ms": 1_000,
            "default.replication.factor": self.replicas,
            "auto.create.topics.enable": self.auto_create_topic,
        }
        for line in f"{self._ssl_config()}\n{self._acl_config()}".split():
            name, _, value = line.partition("=")
            properties[name] = value
        if self.sasl_enabled:
            properties["sasl.enabled.mechanisms"] = self.sasl_mechanism
            name = f"listener.name.{self.transport.lower()}.{self.sasl_mechanism.lower()}.sasl.jaas.config"
            properties[name] = self._jaas_config().strip()
        return properties

    def _add_credentials(self) -> None:
        mechanism = ScramMechanism[self.sasl_mechanism.replace("-", "_")]
        with KafkaAdminClient(bootstrap_servers=self._internal) as admin:
            user = UserScramCredentialUpsertion(self.broker_user, mechanism, self.broker_password)
            admin.alter_user_scram_credentials([user])


class NoZooKeeper:
    """Their fixture of a ZooKeeper: there is none."""

    host = port = None

    @classmethod
    def instance(cls, **_: Any) -> "NoZooKeeper":
        """Return one."""
        return cls()

    def close(self) -> None:
        """Do nothing."""


if "KAFKA_URI" not in os.environ:
    fixtures.KafkaFixture = EmbeddedKafka
fixtures.ZookeeperFixture = NoZooKeeper
