"""Clients that expect another broker than this one (KIP-1242)."""

from typing import Any

import pytest

from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.metadata.features import FeatureCache
from twisted_kafka.network.requests.request_context import ConnectionInfo, RequestContext
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.compiler.wire import join
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from twisted_kafka.server.apis.brokers.api_versions import VersionsApis
from twisted_kafka.server.dispatch import ApiRegistry

ERROR, WRONG = ErrorCode.INVALID_REQUEST, ErrorCode.REBOOTSTRAP_REQUIRED


def asked(
    version: int,
    software: str = "test",
    connection: ConnectionInfo | None = None,
    client_id: str | None = "client",
    **expected: Any,
) -> tuple[ApiVersionsResponse, int]:
    """Return the response of broker 7 of the cluster "ours", and the error in the access log."""
    connection = connection or ConnectionInfo("c", "PLAINTEXT", "PLAINTEXT", "10.0.0.1")
    family = VersionsApis(lambda: {18: (0, 5)}, FeatureCache(store=None), MetadataCache(7, "ours"))
    request = ApiVersionsRequest(client_software_name=software, client_software_version="1", **expected)
    api = ApiRegistry([family]).apis[ApiKey.API_VERSIONS]
    context = RequestContext(api.key, version, 1, client_id, connection)
    response: Any = api.handler(context, ApiVersionsRequest.decode(request.encode(version), version))
    return ApiVersionsResponse.decode(join(response.encode_parts(version)), version), context.error


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "error"),
    [
        (None, -1, 0),
        ("ours", 7, 0),
        ("ours", 8, WRONG),
        ("theirs", 7, WRONG),
        ("OURS", 7, WRONG),
        ("", 7, WRONG),
        ("ours", -2, WRONG),
        ("ours", -1, ERROR),
        (None, 7, ERROR),
    ],
)
def test_a_client_names_the_cluster_and_the_broker_or_none(cluster_id: str | None, node_id: int, error: int) -> None:
    response, logged = asked(5, cluster_id=cluster_id, node_id=node_id)
    assert (response.error_code, logged) == (error, error)
    assert [each.api_key for each in response.api_keys] == ([] if error else [18])


def test_older_versions_do_not_name_it() -> None:
    assert asked(4, cluster_id="theirs", node_id=8)[0].error_code == ErrorCode.NONE


def test_invalid_software_is_reported_first() -> None:
    assert asked(5, "", cluster_id="theirs", node_id=8)[0].error_code == ERROR


def test_a_connection_keeps_short_texts() -> None:
    connection = ConnectionInfo("c", "PLAINTEXT", "PLAINTEXT", "10.0.0.1")
    asked(3, "s" * 10_000, connection, "c" * 30_000)
    kept = connection.client_id, connection.software_name
    assert [each[:3] for each in kept if each] == ["ccc", "sss"]
    assert all(len(each or "") < 300 for each in kept)
    asked(3, "s", connection, None)
    assert connection.client_id is None
