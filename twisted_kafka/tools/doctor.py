"""``twisted-kafka doctor``: asks any Kafka broker what its clients need to know, and says what is wrong and what to do."""

import argparse
import socket
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from twisted_kafka.network.client.one_request import NotAResponseError, ask
from twisted_kafka.protocol.codec import Message
from twisted_kafka.protocol.messages.api_versions import ApiVersionsRequest
from twisted_kafka.protocol.messages.metadata import MetadataRequest, MetadataResponse
from twisted_kafka.protocol.wire import MalformedMessageError

OK: Final = "ok"
WARNING: Final = "warning"
PROBLEM: Final = "problem"

_TIMEOUT_S: Final = 5.0
_CLIENT_ID: Final = "twisted-kafka-doctor"
_MAX_BROKERS: Final = 100
_METADATA_VERSION: Final = 2
"""Old enough for any Kafka since 0.10.1, and the first with the cluster's id."""
_TLS_ALERT: Final = b"\x15\x03"
_HTTP: Final = b"HTTP"


class Finding(NamedTuple):
    """One line of the report."""

    kind: str
    text: str


class NoAnswerError(Exception):
    """The other side does not answer as a Kafka broker does. The text says what it did and what to do."""


def add_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``doctor`` to a parser's commands; see ``inspection.add_commands`` for what it sets."""
    text = "say what keeps clients from working with a Kafka broker, any Kafka's"
    command = commands.add_parser("doctor", help=text, description=f"{text[0].upper()}{text[1:]}. Plain-text listeners only.")
    command.add_argument("address", metavar="HOST:PORT")
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    host, _, port = options.address.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"{options.address!r} is not an address: expected HOST:PORT, as in 127.0.0.1:9092")
    findings = []
    for finding in examine(host.strip("[]"), int(port)):
        findings.append(finding)
        print(f"{finding.kind}: {finding.text}")
    return 1 if any(finding.kind == PROBLEM for finding in findings) else 0


def examine(host: str, port: int) -> Iterator[Finding]:
    """Ask the broker at this address; yield what is found. Each answer is waited for 5 seconds."""
    try:
        versions = _ask(host, port, ApiVersionsRequest(), 0)
        yield Finding(OK, f"{host}:{port} is a Kafka broker with {len(versions.api_keys)} APIs")
        metadata = _ask(host, port, MetadataRequest(topics=None), _METADATA_VERSION)
    except NoAnswerError as error:
        yield Finding(PROBLEM, str(error))
        return
    if metadata.controller_id < 0:
        yield Finding(PROBLEM, "no controller is known: look at the brokers' logs, and at ZooKeeper or the quorum")
    yield from _advertised(metadata)
    yield from _partitions(metadata)


def _advertised(metadata: MetadataResponse) -> Iterator[Finding]:
    for broker in metadata.brokers[:_MAX_BROKERS]:
        where = f"broker {broker.node_id} advertises {broker.host}:{broker.port}"
        try:
            answer = _ask(broker.host, broker.port, MetadataRequest(topics=[]), _METADATA_VERSION)
        except NoAnswerError as error:
            yield Finding(PROBLEM, f"{where}, where clients go next, but {error}; set advertised.listeners to what clients reach")
            continue
        if answer.cluster_id != metadata.cluster_id:
            yield Finding(PROBLEM, f"{where}, where another cluster answers: {answer.cluster_id}, not {metadata.cluster_id}")
        else:
            yield Finding(OK, where)
    if len(metadata.brokers) > _MAX_BROKERS:
        yield Finding(WARNING, f"{len(metadata.brokers) - _MAX_BROKERS} more brokers were not asked: ask one of them")


def _partitions(metadata: MetadataResponse) -> Iterator[Finding]:
    partitions = [partition for topic in metadata.topics for partition in topic.partitions]
    offline = sum(partition.leader_id < 0 for partition in partitions)
    behind = sum(len(partition.isr_nodes) < len(partition.replica_nodes) for partition in partitions)
    if offline:
        yield Finding(PROBLEM, f"{offline} of {len(partitions)} partitions have no leader: start the brokers that have them")
    if behind:
        yield Finding(WARNING, f"{behind} of {len(partitions)} partitions are under-replicated: a broker is down or slow")
    if not offline and not behind:
        yield Finding(OK, f"{len(partitions)} partitions have a leader and all of their replicas")


def _ask(host: str, port: int, request: Message, version: int) -> Any:
    """Return the answer of a broker; raise NoAnswerError."""
    try:
        return ask((host, port), request, version, _CLIENT_ID, _TIMEOUT_S)
    except socket.gaierror:
        raise NoAnswerError(f"{host} has no address: check the name, or DNS") from None
    except TimeoutError:
        raise NoAnswerError(f"{host}:{port} does not answer within {_TIMEOUT_S:g} s: a firewall, or a TLS listener") from None
    except OSError as error:
        raise NoAnswerError(f"{host}:{port} cannot be talked to: {error.strerror or error}") from None
    except MalformedMessageError as error:
        raise NoAnswerError(f"{host}:{port} answers as no Kafka broker does ({error}): take the port of a Kafka listener") from None
    except NotAResponseError as error:
        raise NoAnswerError(f"{host}:{port} {_reason(error.received)}") from None


def _reason(received: bytes) -> str:
    if received.startswith(_TLS_ALERT):
        return "wants TLS: set security.protocol=SSL or SASL_SSL in clients"
    if received == _HTTP:
        return "is a web server: take the port of a Kafka listener"
    if received:
        return "does not answer as a Kafka broker: take the port of a Kafka listener"
    return "closes the connection: it wants TLS or SASL (security.protocol in clients), or it is no Kafka broker"
