"""``twisted-kafka doctor``: sends any Kafka broker the first requests of a client, and reports problems with advice."""

import argparse
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from twisted_kafka.client.connections.addresses import parse_address
from twisted_kafka.config.properties import load_properties
from twisted_kafka.console.cluster.reach import NoAnswerError, Reach
from twisted_kafka.console.queries.findings import NOTE, OK, PROBLEM, WARNING, Finding, of_groups, of_partitions
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.administration.configs import DescribeConfigsRequest, DescribeConfigsResource
from twisted_kafka.protocol.messages.api_versions import ApiVersionsRequest
from twisted_kafka.protocol.messages.coordinators.groups import ListGroupsRequest
from twisted_kafka.protocol.messages.metadata import MetadataRequest, MetadataResponse

_TIMEOUT_S: Final = 5.0
_CLIENT_ID: Final = "twisted-kafka-doctor"
_MAX_BROKERS: Final = 100
_METADATA_VERSION: Final = 2
"""Any Kafka since 0.10.1 serves it, and it is the first with the cluster's id."""
_CONFIGS_VERSION: Final = 1
_IDENTITY_VERSION: Final = 5
"""The first version of ApiVersions that names the broker that a client expects (KIP-1242)."""
_GROUPS_VERSION: Final = 4
"""The first version that selects groups by state."""
_FETCH_OF_2_1: Final = 10
_BROKER: Final = 4
"""The resource type of a broker's settings."""
_CREATION_KEY: Final = "auto.create.topics.enable"
_REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance")


def add_command(parser: argparse.ArgumentParser) -> None:
    """Add the options (``commands.Command``)."""
    parser.add_argument("address", metavar="HOST:PORT", help="the broker, as clients address it")
    what = "a client's settings for TLS and SASL (security.protocol, ssl.*, sasl.*), a file as for Kafka's tools"
    parser.add_argument("--command-config", metavar="FILE", type=Path, help=what)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    host, port = parse_address(options.address.strip())
    settings = {} if options.command_config is None else load_properties(options.command_config)
    findings = []
    for finding in examine(host, port, settings):
        findings.append(finding)
        print(f"{finding.kind}: {finding.text}")
    return 1 if any(finding.kind == PROBLEM for finding in findings) else 0


def examine(host: str, port: int, settings: Mapping[str, str] | None = None) -> Iterator[Finding]:
    """Examine the broker at this address; yield the findings. Each answer has 5 seconds.

    ``settings`` are a client's, by Kafka's names. Raises ConfigError for invalid ones.
    """
    client = Reach(settings or {}, _CLIENT_ID, _TIMEOUT_S)
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
    reached = yield from _advertised(metadata, served, client)
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


def _groups(broker: Any, served: dict[int, tuple[int, int]], client: Reach) -> Iterator[Finding]:
    if served.get(ApiKey.LIST_GROUPS, (0, 0))[1] < _GROUPS_VERSION:
        return
    answer = client.ask(broker.host, broker.port, ListGroupsRequest(states_filter=list(_REBALANCING)), _GROUPS_VERSION)
    yield from of_groups([group.group_id for group in answer.groups])


def _creation(brokers: list[Any], served: dict[int, tuple[int, int]], client: Reach) -> Iterator[Finding]:
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


def _advertised(
    metadata: MetadataResponse, served: dict[int, tuple[int, int]], client: Reach
) -> Generator[Finding, None, list[Any]]:
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
        elif not _is_itself(broker, metadata.cluster_id, served, client):
            advice = "give each broker an address of its own in advertised.listeners"
            yield Finding(PROBLEM, f"{where}, but another broker of the cluster answers there; {advice}")
        else:
            reached.append(broker)
            yield Finding(OK, where)
    if len(metadata.brokers) > _MAX_BROKERS:
        yield Finding(
            WARNING,
            f"{len(metadata.brokers) - _MAX_BROKERS} more brokers were not examined: run doctor with one of their addresses",
        )
    return reached


def _is_itself(broker: Any, cluster_id: str | None, served: dict[int, tuple[int, int]], client: Reach) -> bool:
    """Return whether the broker's address leads to it; True for a Kafka that cannot say."""
    if served.get(ApiKey.API_VERSIONS, (0, 0))[1] < _IDENTITY_VERSION:
        return True
    expected = ApiVersionsRequest(
        client_software_name=_CLIENT_ID, client_software_version="1", cluster_id=cluster_id, node_id=broker.node_id
    )
    try:
        return bool(client.ask(broker.host, broker.port, expected, _IDENTITY_VERSION).error_code != ErrorCode.REBOOTSTRAP_REQUIRED)
    except NoAnswerError:
        return True  # another address of an older broker


def _partitions(metadata: MetadataResponse) -> Iterator[Finding]:
    partitions = [partition for topic in metadata.topics for partition in topic.partitions]
    offline = sum(partition.leader_id < 0 for partition in partitions)
    behind = sum(len(partition.isr_nodes) < len(partition.replica_nodes) for partition in partitions)
    yield from of_partitions(len(partitions), offline, behind)
