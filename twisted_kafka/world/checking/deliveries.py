"""What share groups have finished with: a record that was accepted or rejected is never delivered to its group again (KIP-932)."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.share.share_fetch import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from twisted_kafka.world.checking.broken import Broken

MOST_RECORDS: Final = 100_000
_FINISHING: Final = frozenset({1, 3})
"""The types of acknowledgements that finish a record: accept, reject."""

Partition = tuple[str, bytes, int]
"""A group, a topic's id and an index."""


class Deliveries:
    """The finished records of a world's share groups."""

    def __init__(self, report: Callable[[Broken], object]) -> None:
        self._report = report
        self._finished: dict[tuple[Partition, int], str] = {}
        """The member that has finished a record: by partition and offset."""

    def forget(self, group: str) -> None:
        """Forget a group whose offsets may change."""
        self._finished = {key: member for key, member in self._finished.items() if key[0][0] != group}

    def acknowledged(self, request: ShareAcknowledgeRequest, response: ShareAcknowledgeResponse) -> None:
        """Note the records that a ShareAcknowledge has finished."""
        if response.error_code == ErrorCode.NONE:
            self._finish(request, {key: each.error_code for key, each in _answers(request, response)})

    def fetched(self, request: ShareFetchRequest, response: ShareFetchResponse) -> None:
        """Note the records that a ShareFetch has finished, and look at the delivered ones."""
        if response.error_code != ErrorCode.NONE:
            return
        answers = list(_answers(request, response))
        self._finish(request, {key: each.acknowledge_error_code for key, each in answers})
        for partition, answer in answers:
            for run in answer.acquired_records:
                self._delivered(partition, run.first_offset, run.last_offset, request.member_id or "")

    def _finish(self, request: Any, codes: dict[Partition, int]) -> None:
        for topic in request.topics:
            for each in topic.partitions:
                partition = request.group_id or "", topic.topic_id, each.partition_index
                if codes.get(partition) == ErrorCode.NONE:
                    for offset in _finished_in(each.acknowledgement_batches):
                        self._finished[partition, offset] = request.member_id or ""
        while len(self._finished) > MOST_RECORDS:
            del self._finished[next(iter(self._finished))]

    def _delivered(self, partition: Partition, first: int, last: int, member: str) -> None:
        for offset in range(first, last + 1):
            finisher = self._finished.get((partition, offset))
            if finisher is not None:
                group, topic, index = partition
                where = f"group {group}: {topic.hex()}-{index} offset {offset} is delivered to {member}"
                self._report(Broken("redelivered", f"{where}, and {finisher} has finished it"))


def _answers(request: Any, response: Any) -> Iterator[tuple[Partition, Any]]:
    for topic in response.responses:
        for each in topic.partitions:
            yield (request.group_id or "", topic.topic_id, each.partition_index), each


def _finished_in(batches: Any) -> Iterator[int]:
    """Yield the finished offsets. A batch has one type for each offset, or one for all."""
    for batch in batches:
        types = batch.acknowledge_types
        for offset in range(batch.first_offset, batch.last_offset + 1):
            if types[offset - batch.first_offset if len(types) > 1 else 0] in _FINISHING:
                yield offset
