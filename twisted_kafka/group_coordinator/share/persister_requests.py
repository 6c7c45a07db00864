"""Requests to the persister of share partitions' states, and the errors in its answers."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import TypeVar

from twisted_kafka.group_coordinator.state.consumer.consumer_group_member import Partitions
from twisted_kafka.protocol.errors import ErrorCode, error_code_of, error_of
from twisted_kafka.protocol.messages.share.share_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateRequestPartitionData,
    DeleteShareGroupStateResponse,
    DeleteStateData,
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateRequestPartitionData,
    InitializeShareGroupStateResponse,
    InitializeStateData,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryRequestPartitionData,
    ReadStateSummaryData,
)

_Answer = TypeVar("_Answer", InitializeShareGroupStateResponse, DeleteShareGroupStateResponse)

SharePartitionId = tuple[bytes, int]
"""The id of a topic, and the index of one of its partitions."""

NO_OFFSET = -1
"""The start offset of a share partition whose leader has not chosen one yet."""


def initialize_request(
    group_id: str, epoch: int, partitions: Partitions, offsets: Mapping[SharePartitionId, int]
) -> InitializeShareGroupStateRequest:
    """Return the request to initialize states, with a start offset where ``offsets`` has one."""
    return InitializeShareGroupStateRequest(
        group_id=group_id,
        topics=[
            InitializeStateData(
                topic_id=topic_id,
                partitions=[
                    InitializeShareGroupStateRequestPartitionData(
                        partition=index, state_epoch=epoch, start_offset=offsets.get((topic_id, index), NO_OFFSET)
                    )
                    for index in sorted(indexes)
                ],
            )
            for topic_id, indexes in partitions.items()
        ],
    )


def delete_request(group_id: str, partitions: Partitions) -> DeleteShareGroupStateRequest:
    """Return the request to delete states."""
    return DeleteShareGroupStateRequest(
        group_id=group_id,
        topics=[
            DeleteStateData(
                topic_id=topic_id,
                partitions=[DeleteShareGroupStateRequestPartitionData(partition=index) for index in sorted(indexes)],
            )
            for topic_id, indexes in partitions.items()
        ],
    )


def summary_request(group_id: str, partitions: Mapping[bytes, Sequence[int]]) -> ReadShareGroupStateSummaryRequest:
    """Return the request for start offsets and epochs."""
    return ReadShareGroupStateSummaryRequest(
        group_id=group_id,
        topics=[
            ReadStateSummaryData(
                topic_id=topic_id,
                partitions=[ReadShareGroupStateSummaryRequestPartitionData(partition=index, leader_epoch=-1) for index in indexes],
            )
            for topic_id, indexes in partitions.items()
        ],
    )


def errors_of(asked: Partitions, answer: "Future[_Answer]") -> dict[SharePartitionId, ErrorCode]:
    """Return the errors of the partitions that were asked for and failed. One without a result has failed."""
    failure = answer.exception()
    if failure is not None:
        return {(topic_id, index): error_of(failure) for topic_id, indexes in asked.items() for index in indexes}
    results: dict[SharePartitionId, int] = {}
    for topic in answer.result().results:
        for each in topic.partitions:
            results[topic.topic_id, each.partition] = each.error_code
    found = {
        (topic_id, index): error_code_of(results.get((topic_id, index), ErrorCode.UNKNOWN_SERVER_ERROR))
        for topic_id, indexes in asked.items()
        for index in indexes
    }
    return {partition: error for partition, error in found.items() if error}
