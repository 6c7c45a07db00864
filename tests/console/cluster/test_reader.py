from typing import Any

import pytest

from tests.support.fake import Fake
from twisted_kafka.console.cluster import reader
from twisted_kafka.console.cluster.offsets import EARLIEST, LATEST
from twisted_kafka.console.cluster.problems import TryAgainError
from twisted_kafka.console.cluster.reader import Reader
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from twisted_kafka.protocol.topic_partition import TopicPartition

T = TopicPartition("t", 0)


class OutOfRange(Fake):
    """A leader that has no offset that it is asked for."""

    def by_leader(self, partitions: Any) -> Any:
        return {1: list(partitions)}

    def ask(self, *_: Any, **__: Any) -> FetchResponse:
        data = PartitionData(partition_index=0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=-1, records=None)
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])

    def retrying(self, step: Any) -> Any:
        return step()


def test_an_offset_that_should_be_there_is_asked_for_again_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """``Session.retrying`` makes the pauses, and ends the wait."""
    ends = {EARLIEST: {T: 0}, LATEST: {T: 9}}
    monkeypatch.setattr(reader, "offsets_at", lambda session, partitions, which: ends[which])
    session: Any = OutOfRange()
    with pytest.raises(TryAgainError, match="the offset 5 cannot be read yet"):
        list(Reader(session, {T: 5}, None, 0).fetch())


def test_deleted_records_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = {EARLIEST: {T: 7}, LATEST: {T: 9}}
    monkeypatch.setattr(reader, "offsets_at", lambda session, partitions, which: ends[which])
    session: Any = OutOfRange()
    found = Reader(session, {T: 5}, {T: 9}, 0)
    assert list(found.fetch()) == []
    assert found.positions == {T: 7}
