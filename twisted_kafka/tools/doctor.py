"""``twisted-kafka doctor``: sends any Kafka broker the first requests of a client, and reports problems with advice."""

import argparse
import socket
import ssl
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from twisted_kafka.client.broker_connection import PeerRefusedError
from twisted_kafka.client.one_request import NotAResponseError, ask
from twisted_kafka.config.properties import load_properties
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.compiler.wire import MalformedMessageError
from twisted_kafka.protocol.messages.api_versions import ApiVersionsRequest
from twisted_kafka.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from twisted_kafka.protocol.messages.groups import ListGroupsRequest
from twisted_kafka.protocol.messages.metadata import MetadataRequest, MetadataResponse
from twisted_kafka.protocol.messages.sasl import SaslHandshakeRequest
from twisted_kafka.timing.clock import SystemClock

if TYPE_CHECKING:
    from twisted_kafka.tools.secured import Secured

OK: Final = "ok"
NOTE: Final = "note"
WARNING: Final = "warning"
PROBLEM: Final = "problem"

_TIMEOUT_S: Final = 5.0
_CLIENT_ID: Final = "twisted-kafka-doctor"
_MAX_BROKERS: Final = 100
_MAX_NAMES: Final = 5
_METADATA_VERSION: Final = 2
"""Any Kafka since 0.10.1 serves it, and it is the first with the cluster's id."""
_HANDSHAKE_VERSION: Final = 1
_CONFIGS_VERSION: Final = 1
_GROUPS_VERSION: Final = 4
"""The first version that selects groups by state."""
_FETCH_OF_2_1: Final = 10
_BROKER: Final = 4
"""The resource type of a broker's settings."""
_CREATION_KEY: Final = "auto.create.topics.enable"
_REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance")
_TLS_ALERT: Final = b"\x15\x03"
_HTTP: Final = b"HTTP"

_ADVICE: Final = (
    ("does not speak TLS", "set security.protocol=PLAINTEXT or SASL_PLAINTEXT"),
    ("has no SASL", "set security.protocol=PLAINTEXT, or SSL"),
    ("does not have the mechanism", "set sasl.mechanism to one of these"),
    ("is not valid for", "connect with a name in the certificate, or set ssl.endpoint.identification.algorithm to nothing"),
    ("is rejected", "set ssl.truststore.location to a store with the authority that signed it"),
    ("certificate", "set ssl.keystore.location to a certificate that the broker trusts"),
    ("TLS", "compare ssl.enabled.protocols and ssl.cipher.suites with the broker's"),
)
"""Advice when one side refuses the other, by a part of the reason."""
_LOG_IN: Final = "check the user name and the password in sasl.jaas.config"


class Finding(NamedTuple):
    """One line of the report."""

    kind: str
    text: str


class NoAnswerError(Exception):
    """The other side does not answer like a Kafka broker. The text describes its behaviour and gives advice."""


def add_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``doctor`` to a parser's commands, like ``inspection.add_commands``."""
    text = "find out why clients cannot work with a Kafka broker, this one or Apache Kafka"
    command = commands.add_parser("doctor", help=text, description=f"{text[0].upper()}{text[1:]}.")
    command.add_argument("address", metavar="HOST:PORT")
    what = "a client's settings for TLS and SASL (security.protocol, ssl.*, sasl.*), a file as for Kafka's tools"
    command.add_argument("--command-config", metavar="FILE", type=Path, help=what)
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    host, _, port = options.address.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"{options.address!r} is not an address: expected HOST:PORT, as in 127.0.0.1:9092")
    settings = {} if options.command_config is None else load_properties(options.command_config)
    findings = []
    for finding in examine(host.strip("[]"), int(port), settings):
        findings.append(finding)
        print(f"{finding.kind}: {finding.text}")
    return 1 if any(finding.kind == PROBLEM for finding in findings) else 0


def examine(host: str, port: int, settings: Mapping[str, str] | None = None) -> Iterator[Finding]:
    """Examine the broker at this address; yield the findings. Each answer has 5 seconds.

    ``settings`` are a client's, by Kafka's names. Raises ConfigError for invalid ones.
    """
    client = _Client(settings or {})
    try:
        versions = client.ask(host, port, ApiVersionsRequest(), 0)
        served = {each.api_key: (each.min_version, each.max_version) for each in versions.api_keys}
        yield Finding(OK, f"{host}:{port} is a Kafka broker with {len(served)} APIs")
        metadata = client.ask_after_log_in(host, port, MetadataRequest(topics=None), _METADATA_VERSION)
    except NoAnswerError as error:
        yield Finding(PROBLEM, str(error))
        return
    yield from _age(served)
    if metadata.controller_id < 0:
        yield Finding(PROBLEM, "the cluster has no controller: check the brokers' logs, and ZooKeeper or the quorum")
    reached = yield from _advertised(metadata, client)
    yield from _partitions(metadata)
    try:
        for broker in reached:
            yield from _groups(broker, served, client)
        yield from _creation(reached, served, client)
    except NoAnswerError as error:
        yield Finding(PROBLEM, str(error))


def _age(served: dict[int, tuple[int, int]]) -> Iterator[Finding]:
    oldest, latest = served.get(ApiKey.FETCH, (0, _FETCH_OF_2_1))
    if latest < _FETCH_OF_2_1:
        yield Finding(
            WARNING, "the broker is older than Kafka 2.1: Java clients 4.0 and newer reject it; update it, or keep 3.x clients"
        )
    if oldest > 0:
        yield Finding(NOTE, "the broker is Kafka 4.0 or newer: clients older than 2.1 do not work with it; update these clients")


def _groups(broker: Any, served: dict[int, tuple[int, int]], client: "_Client") -> Iterator[Finding]:
    if served.get(ApiKey.LIST_GROUPS, (0, 0))[1] < _GROUPS_VERSION:
        return
    answer = client.ask(broker.host, broker.port, ListGroupsRequest(states_filter=list(_REBALANCING)), _GROUPS_VERSION)
    names = [group.group_id for group in answer.groups]
    if names:
        shown = ", ".join(names[:_MAX_NAMES]) + (f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else "")
        advice = (
            "run doctor again; if the group still rebalances, its members keep joining and leaving, "
            "or handle records for longer than max.poll.interval.ms"
        )
        yield Finding(WARNING, f"rebalancing now: {shown}; {advice}")


def _creation(brokers: list[Any], served: dict[int, tuple[int, int]], client: "_Client") -> Iterator[Finding]:
    """Report if topics must be created first. Reports nothing if the client may not read the broker's settings."""
    if not brokers or served.get(ApiKey.DESCRIBE_CONFIGS, (0, 0))[1] < _CONFIGS_VERSION:
        return
    asked = DescribeConfigsResource(
        resource_type=_BROKER, resource_name=str(brokers[0].node_id), configuration_keys=[_CREATION_KEY]
    )
    answer = client.ask(brokers[0].host, brokers[0].port, DescribeConfigsRequest(resources=[asked]), _CONFIGS_VERSION)
    if any(config.value == "false" for result in answer.results for config in result.configs or ()):
        yield Finding(
            NOTE, f"the broker does not create topics when clients ask for them ({_CREATION_KEY}=false): create them first"
        )


def _advertised(metadata: MetadataResponse, client: "_Client") -> Generator[Finding, None, list[Any]]:
    """Yield findings about the advertised addresses; return the brokers that answered."""
    reached = []
    for broker in metadata.brokers[:_MAX_BROKERS]:
        where = f"broker {broker.node_id} advertises {broker.host}:{broker.port}"
        try:
            answer = client.ask(broker.host, broker.port, MetadataRequest(topics=[]), _METADATA_VERSION)
        except NoAnswerError as error:
            advice = "set advertised.listeners to an address that clients can reach"
            yield Finding(PROBLEM, f"{where}, and clients connect there next, but {error}; {advice}")
            continue
        if answer.cluster_id != metadata.cluster_id:
            yield Finding(PROBLEM, f"{where}, but another cluster answers there: {answer.cluster_id}, not {metadata.cluster_id}")
        else:
            reached.append(broker)
            yield Finding(OK, where)
    if len(metadata.brokers) > _MAX_BROKERS:
        yield Finding(
            WARNING,
            f"{len(metadata.brokers) - _MAX_BROKERS} more brokers were not examined: run doctor with one of their addresses",
        )
    return reached


def _partitions(metadata: MetadataResponse) -> Iterator[Finding]:
    partitions = [partition for topic in metadata.topics for partition in topic.partitions]
    offline = sum(partition.leader_id < 0 for partition in partitions)
    behind = sum(len(partition.isr_nodes) < len(partition.replica_nodes) for partition in partitions)
    if offline:
        yield Finding(PROBLEM, f"{offline} of {len(partitions)} partitions have no leader: start the brokers with their replicas")
    if behind:
        yield Finding(WARNING, f"{behind} of {len(partitions)} partitions are under-replicated: a broker is down or slow")
    if not offline and not behind:
        yield Finding(OK, f"{len(partitions)} partitions have a leader and all of their replicas")


class _Client:
    """Asks brokers with one client's settings."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        """Raises ConfigError."""
        self._secured = _secured(settings) if settings else None

    def ask_after_log_in(self, host: str, port: int, request: Message, version: int) -> Any:
        """Return the answer to a request that may need a login first; raise NoAnswerError."""
        try:
            return self.ask(host, port, request, version)
        except NoAnswerError as error:
            mechanisms = self._mechanisms(host, port)
            if not mechanisms:
                raise
            advice = f"set security.protocol=SASL_{'SSL' if self._has_tls else 'PLAINTEXT'}, sasl.mechanism and sasl.jaas.config"
            raise NoAnswerError(f"{host}:{port} requires a login with {', '.join(mechanisms)}: {advice}") from error

    @property
    def _has_tls(self) -> bool:
        return self._secured is not None and self._secured.protocol.endswith("SSL")

    def _mechanisms(self, host: str, port: int) -> list[str]:
        if self._secured is not None and self._secured.protocol.startswith("SASL_"):
            return []
        try:
            mechanisms: list[str] = self.ask(host, port, SaslHandshakeRequest(mechanism="-"), _HANDSHAKE_VERSION).mechanisms
        except NoAnswerError:  # the earlier error says more
            return []
        return mechanisms

    def ask(self, host: str, port: int, request: Message, version: int) -> Any:
        """Return the answer of a broker; raise NoAnswerError."""
        address = host, port
        try:
            if self._secured is None:
                return ask(address, request, version, _CLIENT_ID, _TIMEOUT_S)
            return self._secured.ask(address, request, version, _TIMEOUT_S)
        except PeerRefusedError as error:
            advice = next((what for words, what in _ADVICE if words in str(error)), _LOG_IN)
            raise NoAnswerError(f"cannot connect to {host}:{port}: {str(error).rstrip('.')}; {advice}") from None
        except socket.gaierror:
            raise NoAnswerError(f"{host} has no address: check the name and DNS") from None
        except TimeoutError:
            raise NoAnswerError(
                f"{host}:{port} does not answer within {_TIMEOUT_S:g} s: check for a firewall, and that this is a Kafka listener"
            ) from None
        except OSError as error:
            what = "start the broker, or check the address"
            raise NoAnswerError(f"{host}:{port} cannot be reached: {error.strerror or error}; {what}") from None
        except MalformedMessageError as error:
            raise NoAnswerError(f"{host}:{port} is not a Kafka broker ({error}): use the port of a Kafka listener") from None
        except NotAResponseError as error:
            raise NoAnswerError(f"{host}:{port} {self._reason(address, error.received)}") from None

    def _reason(self, address: tuple[str, int], received: bytes) -> str:
        if received == _HTTP:
            return "is a web server: use the port of a Kafka listener"
        if self._has_tls:
            return "closes the connection: if the listener has no TLS, set security.protocol=PLAINTEXT or SASL_PLAINTEXT"
        if received.startswith(_TLS_ALERT) or (not received and _speaks_tls(address)):
            return "requires TLS: set security.protocol=SSL or SASL_SSL in clients, and here in a --command-config file"
        if received:
            return "does not answer like a Kafka broker: use the port of a Kafka listener"
        return "closes the connection: it requires a SASL login (security.protocol), or it is not a Kafka broker"


def _secured(settings: Mapping[str, str]) -> "Secured":
    from twisted_kafka.tools.secured import Secured  # imports a reactor, TLS and SASL, which few runs need

    return Secured(settings, _CLIENT_ID, SystemClock())


def _speaks_tls(address: tuple[str, int]) -> bool:
    """Whether the listener answers a TLS handshake. Nothing is sent over it, so the peer is not verified."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with socket.create_connection(address, _TIMEOUT_S) as connection, context.wrap_socket(connection):
            return True
    except ssl.SSLEOFError:
        return False
    except ssl.SSLError as error:  # an alert, for example from a listener that requires another version
        return "ALERT" in (error.reason or "")
    except OSError:
        return False
