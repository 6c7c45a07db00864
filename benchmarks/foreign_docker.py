"""What aiokafka's functional tests need to run without Docker (``benchmarks.foreign_suites``).

A pytest plugin, loaded before their conftest. It stands for the package ``docker``: the container that they start is an embedded
broker, or an Apache Kafka if ``FOREIGN_BROKER`` is "apache". Kafka's tools, which they run in the container, are requests of an
admin client's to either. There is no KDC, hence no GSSAPI.
"""

import argparse
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.support.oracle.apache_kafka import ApacheKafka
from twisted_kafka import Broker

PORTS = {
    "PLAINTEXT": "ADVERTISED_PORT",
    "SSL": "ADVERTISED_SSL_PORT",
    "SASL_PLAINTEXT": "ADVERTISED_SASL_PLAINTEXT_PORT",
    "SASL_SSL": "ADVERTISED_SASL_SSL_PORT",
}
"""The variables that tell a container its ports."""
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PASSWORD = "abcdefgh"
"""Of their key stores."""
PLAIN_JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="admin" password="admin" user_admin="admin" user_test="test" user_test2="test2";'
)
SCRAM_JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
CREDENTIAL_S = 0.5
"""How long a new credential may take: Kafka hears of it after it has answered, and their tool ends later still."""
RESOURCES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
    "cluster": ResourceType.CLUSTER,
}

start_s = 0.0


def settings_of(environment: Mapping[str, Any], certificates: str) -> dict[str, object]:
    """Return the settings that their image starts Kafka with. The tools connect by PLAINTEXT, hence its super user."""
    settings: dict[str, object] = {
        "broker.id": 0,
        "listeners": ",".join(f"{protocol}://127.0.0.1:{environment[port]}" for protocol, port in PORTS.items()),
        "num.partitions": environment["NUM_PARTITIONS"],
        "group.initial.rebalance.delay.ms": 0,
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "super.users": "User:admin;User:ANONYMOUS",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "ssl.enabled.protocols": "TLSv1.2,TLSv1.1,TLSv1",
        "ssl.keystore.type": "JKS",
        "ssl.keystore.location": f"{certificates}/br_server.keystore.jks",
        "ssl.keystore.password": PASSWORD,
        "ssl.key.password": PASSWORD,
        "ssl.truststore.type": "JKS",
        "ssl.truststore.location": f"{certificates}/br_server.truststore.jks",
        "ssl.truststore.password": PASSWORD,
        "ssl.client.auth": "required",
    }
    for listener in ("sasl_plaintext", "sasl_ssl"):
        for mechanism in MECHANISMS:
            jaas = PLAIN_JAAS if mechanism == "PLAIN" else SCRAM_JAAS
            settings[f"listener.name.{listener}.{mechanism.lower()}.sasl.jaas.config"] = jaas
    return settings


class Container:
    """Of their image."""

    def __init__(self, environment: Mapping[str, Any], certificates: str) -> None:
        global start_s
        settings = settings_of(environment, certificates)
        port = int(environment[PORTS["PLAINTEXT"]])
        self._bootstrap = f"127.0.0.1:{port}"
        self._data = tempfile.TemporaryDirectory()
        started = time.perf_counter()
        self._broker = _apache_kafka(Path(self._data.name), port, settings) if _is_apache() else Broker(settings)
        self._broker.start()
        start_s = time.perf_counter() - started

    def exec_run(self, command: str) -> tuple[int, bytes]:
        """Run a tool of Kafka's; return its exit code and what it printed."""
        words = shlex.split(command)
        tool = {"kafka-acls.sh": self._acls, "kafka-configs.sh": self._configs}.get(Path(words[0]).name)
        if tool is None:
            return 127, f"{words[0]}: not found".encode()
        with KafkaAdminClient(bootstrap_servers=self._bootstrap) as admin:
            return 0, str(tool(admin, words[1:])).encode()

    def stop(self) -> None:
        """Stop the broker, and remove its data."""
        if isinstance(self._broker, ApacheKafka):
            self._broker.kill()
        else:
            self._broker.stop()
        self._data.cleanup()

    def _acls(self, admin: KafkaAdminClient, words: list[str]) -> object:
        asked = _acl_options(words)
        if asked.list:
            any_resource = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
            return admin.describe_acls(ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, any_resource))
        principal = asked.allow_principal or asked.deny_principal
        permission = ACLPermissionType.ALLOW if asked.allow_principal else ACLPermissionType.DENY
        operation = ACLOperation[asked.operation.upper()]
        ((kind, name),) = ((kind, getattr(asked, name)) for name, kind in RESOURCES.items() if getattr(asked, name))
        pattern = ResourcePattern(kind, "kafka-cluster" if kind is ResourceType.CLUSTER else name)
        change = admin.create_acls if asked.add else admin.delete_acls
        return change([ACL(principal, "*", operation, permission, pattern)])

    def _configs(self, admin: KafkaAdminClient, words: list[str]) -> object:
        parser = argparse.ArgumentParser()
        parser.add_argument("--alter", action="store_true", required=True)
        parser.add_argument("--entity-type", choices=["users"], required=True)
        for option in ("--zookeeper", "--add-config", "--entity-name"):
            parser.add_argument(option, required=True)
        asked = parser.parse_args(words)
        upsertions = []
        for each in asked.add_config.split(","):
            mechanism, _, password = each.partition("=[password=")
            name = ScramMechanism[mechanism.replace("-", "_")]
            upsertions.append(UserScramCredentialUpsertion(asked.entity_name, name, password.removesuffix("]")))
        done = admin.alter_user_scram_credentials(upsertions)
        time.sleep(CREDENTIAL_S)
        return done


def _acl_options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for flag in ("--force", "--add", "--remove", "--list", "--cluster"):
        parser.add_argument(flag, action="store_true")
    for option in ("--authorizer-properties", "--topic", "--group", "--transactional-id"):
        parser.add_argument(option)
    for option in ("--principal", "--allow-principal", "--deny-principal", "--operation"):
        parser.add_argument(option)
    return parser.parse_args(words)


def _is_apache() -> bool:
    return os.environ.get("FOREIGN_BROKER") == "apache"


def _apache_kafka(directory: Path, port: int, settings: dict[str, object]) -> ApacheKafka:
    kafka = ApacheKafka(directory, **settings)  # type: ignore[arg-type]
    kafka.port = port
    return kafka


class Containers:
    """What a client of Docker's calls ``containers``."""

    @staticmethod
    def run(*, volumes: Mapping[str, Any], environment: Mapping[str, Any], **_: Any) -> Container:
        """Start a container; ``volumes`` has the directory of certificates alone."""
        (certificates,) = volumes
        return Container(environment, certificates)


class Client:
    """Docker's, as far as they use it."""

    containers = Containers()
    images = SimpleNamespace(pull=lambda image: image)

    def close(self) -> None:
        """Do nothing."""


docker = ModuleType("docker")
docker.from_env = Client  # type: ignore[attr-defined]
docker.models = SimpleNamespace(containers=SimpleNamespace(Container=Container))  # type: ignore[attr-defined]
sys.modules["docker"] = docker


def pytest_collection_finish() -> None:
    """Make no key tab, which needs krb5-user: there is no KDC."""
    sys.modules["aiokafka_tests._testutil"].KerberosUtils.create_keytab = lambda _: None


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Tell how long the broker took to start."""
    terminalreporter.write_line(f"the broker started in {start_s:.2f} s")
