"""The version to use with a node."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twisted_kafka.client.node_api_versions import NodeApiVersions, parse_response
from twisted_kafka.protocol.compiler.wire import MalformedMessageError
from twisted_kafka.protocol.errors import UnsupportedVersionError
from twisted_kafka.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from twisted_kafka.protocol.messages.coordinators.groups import HeartbeatRequest

FIRST, LAST = HeartbeatRequest.VERSIONS


@given(st.integers(-1, 6), st.integers(-1, 6), st.none() | st.integers(-1, 6))
def test_the_newest_version_that_both_have(low: int, high: int, latest: int | None) -> None:
    versions = NodeApiVersions([ApiVersion(api_key=HeartbeatRequest.KEY, min_version=low, max_version=high)])
    common = [version for version in range(FIRST, LAST + 1) if low <= version <= high and (latest is None or version <= latest)]
    if common:
        assert versions.usable(HeartbeatRequest, latest) == max(common)
    else:
        with pytest.raises(UnsupportedVersionError, match=f"Heartbeat versions {low} to {high}, this broker {FIRST} to"):
            versions.usable(HeartbeatRequest, latest)


def test_an_api_that_the_node_does_not_have() -> None:
    with pytest.raises(UnsupportedVersionError, match="does not support Heartbeat"):
        NodeApiVersions([ApiVersion(api_key=HeartbeatRequest.KEY + 1, min_version=0, max_version=9)]).usable(HeartbeatRequest)


def answer(error: int, ranges: dict[int, tuple[int, int]], version: int = 0) -> bytes:
    versions = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in ranges.items()]
    return b"head" + ApiVersionsResponse(error_code=error, api_keys=versions).encode(version)


@pytest.mark.parametrize(
    ("ranges", "again"),
    [({18: (0, 3)}, 3), ({18: (0, 2), 1: (0, 1)}, 2), ({1: (0, 1)}, 0), ({}, 0), ({18: (0, 4)}, 0), ({18: (0, 0)}, 0)],
)
def test_the_version_to_ask_again_with(ranges: dict[int, tuple[int, int]], again: int) -> None:
    assert parse_response(answer(35, ranges), 4, 4) == again


def test_the_answer() -> None:
    for version in (0, 3, 4):
        found = parse_response(answer(0, {18: (0, 4), 1: (2, 3)}, version), 4, version)
        assert isinstance(found, ApiVersionsResponse)
        assert [(one.api_key, one.min_version, one.max_version) for one in found.api_keys] == [(18, 0, 4), (1, 2, 3)]
    for error, version in ((35, 0), (41, 4), (-1, 4)):
        with pytest.raises(MalformedMessageError, match=f"error code {error}"):
            parse_response(answer(error, {}), 4, version)
