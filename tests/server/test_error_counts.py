"""Which error codes of a response count, and how often (AbstractResponse.errorCounts)."""

from typing import Any

import pytest

from twisted_kafka.network.requests.request_context import ConnectionInfo, RequestContext
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.administration.log_dirs import DescribeLogDirsResponse, DescribeLogDirsResult
from twisted_kafka.protocol.messages.administration.partitions import ElectLeadersResponse
from twisted_kafka.protocol.messages.administration.scram import (
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from twisted_kafka.protocol.messages.coordinators.groups import Coordinator, FindCoordinatorResponse
from twisted_kafka.protocol.messages.coordinators.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from twisted_kafka.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from twisted_kafka.protocol.messages.metadata import MetadataResponse
from twisted_kafka.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from twisted_kafka.server.error_counts import note_errors
from twisted_kafka.server.error_responses import error_response

NONE, NOT_FOUND, NOT_LEADER, UNKNOWN_TOPIC = (
    int(ErrorCode.NONE),
    int(ErrorCode.RESOURCE_NOT_FOUND),
    int(ErrorCode.NOT_LEADER_OR_FOLLOWER),
    int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
)


def produced(*codes: int) -> Any:
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name="t", partition_responses=[PartitionProduceResponse(index=i, error_code=code) for i, code in enumerate(codes)]
            )
        ]
    )


def fetched(*codes: int) -> Any:
    partitions = [PartitionData(partition_index=i, error_code=code) for i, code in enumerate(codes)]
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])


def offsets_fetched() -> Any:
    return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id=name) for name in "ab"])


def counted(response: Any, version: int) -> tuple[int, Any]:
    context = RequestContext(response.KEY, version, 1, None, ConnectionInfo("c", "L", "PLAINTEXT", "-"))
    note_errors(context, response)
    return context.error, context.error_counts


def test_every_error_code_of_a_response_counts() -> None:
    assert counted(produced(NOT_LEADER, NONE, NOT_LEADER, NOT_LEADER, UNKNOWN_TOPIC), 9) == (
        NOT_LEADER,
        {NOT_LEADER: 3, NONE: 1, UNKNOWN_TOPIC: 1},
    )
    assert counted(produced(NONE, NONE), 9) == (NONE, {NONE: 2})
    assert counted(produced(), 9) == (NONE, {})


def test_one_error_code_needs_no_counts() -> None:
    assert counted(produced(NONE), 9) == (NONE, None)
    assert counted(produced(NOT_LEADER), 9) == (NOT_LEADER, None)


def test_codes_that_a_version_has_no_field_for_count_where_kafka_counts_them() -> None:
    assert counted(fetched(NONE), 12) == counted(fetched(NONE), 4) == (NONE, {NONE: 2})
    assert counted(offsets_fetched(), 8) == (NONE, {NONE: 2})  # its own error code went with version 7
    assert counted(offsets_fetched(), 1) == (NONE, None)
    assert counted(ElectLeadersResponse(), 0) == (NONE, None)
    assert counted(DescribeLogDirsResponse(results=[DescribeLogDirsResult()]), 0) == (NONE, {NONE: 2})
    assert counted(MetadataResponse(), 12) == (NONE, {})


def test_the_error_of_described_scram_credentials_as_a_whole_does_not_count() -> None:
    results = [DescribeUserScramCredentialsResult(error_code=code) for code in (NONE, NOT_FOUND, NOT_FOUND)]
    assert counted(DescribeUserScramCredentialsResponse(results=results), 0) == (NOT_FOUND, {NONE: 1, NOT_FOUND: 2})
    assert counted(DescribeUserScramCredentialsResponse(error_code=NOT_LEADER), 0)[1] == {}


def test_a_search_for_no_coordinator_counts_once() -> None:
    assert counted(FindCoordinatorResponse(), 3) == counted(FindCoordinatorResponse(), 4) == (NONE, None)
    assert counted(FindCoordinatorResponse(coordinators=[Coordinator(), Coordinator()]), 4) == (NONE, {NONE: 2})


@pytest.mark.parametrize(("version", "count"), [(4, 2), (6, 2), (7, 2), (12, 2), (13, 1)])
def test_a_fetch_that_failed_says_it_as_a_whole_too(version: int, count: int) -> None:
    request = FetchRequest(topics=[FetchTopic(topic="t", partitions=[FetchPartition()])])
    response = error_response(request, FetchResponse, version, NOT_LEADER, None)
    assert response is not None
    assert counted(response, version) == (NOT_LEADER, {NOT_LEADER: 2} if count == 2 else None)
    response.encode(version)


@pytest.mark.parametrize("version", [0, 1])
def test_an_old_offset_fetch_that_failed_says_it_as_a_whole_too(version: int) -> None:
    request = OffsetFetchRequest(topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])])
    response = error_response(request, OffsetFetchResponse, version, NOT_LEADER, None)
    assert response is not None
    assert counted(response, version) == (NOT_LEADER, {NOT_LEADER: 2})
    response.encode(version)


def test_a_group_that_an_offset_fetch_names_twice_counts_once_with_its_last_error() -> None:
    def group(name: str, code: int) -> OffsetFetchResponseGroup:
        partitions = [OffsetFetchResponsePartitions(), OffsetFetchResponsePartitions(error_code=UNKNOWN_TOPIC)]
        return OffsetFetchResponseGroup(group_id=name, error_code=code, topics=[OffsetFetchResponseTopics(partitions=partitions)])

    response = OffsetFetchResponse(groups=[group("a", NONE), group("b", NONE), group("a", NONE)])
    assert counted(response, 8) == (UNKNOWN_TOPIC, {NONE: 5, UNKNOWN_TOPIC: 3})
    response = OffsetFetchResponse(groups=[group("a", NOT_LEADER), group("a", NONE)])
    assert counted(response, 8)[1] == {NONE: 3, UNKNOWN_TOPIC: 2}
