from typing import Any

import pytest

from tests.support.fake import Fake
from tests.support.logs import batch
from twisted_kafka.console.cluster import reader
from twisted_kafka.console.cluster.offsets import EARLIEST, LATEST
from twisted_kafka.console.cluster.problems import TryAgainError
from twisted_kafka.console.cluster.reader import Reader
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
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


class Narrow(Fake):
    """A leader whose responses have room for the records of one partition."""

    def by_leader(self, partitions: Any) -> Any:
        return {1: sorted(partitions)}

    def ask(self, request: FetchRequest, *_: Any, **__: Any) -> FetchResponse:
        answers, has_room = [PartitionData(partition_index=99, records=batch(b"not asked for"))], True
        for each in request.topics[0].partitions:
            records = None
            if has_room and each.fetch_offset < 2:
                records, has_room = batch(b"v", base_offset=each.fetch_offset), False
            answers.append(PartitionData(partition_index=each.partition, high_watermark=2, records=records))
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=answers)])

    def retrying(self, step: Any) -> Any:
        return step()


def test_partitions_for_which_a_response_has_no_room_are_read_later() -> None:
    partitions = [TopicPartition("t", index) for index in range(3)]
    session: Any = Narrow()
    found = Reader(session, dict.fromkeys(partitions, 0), dict.fromkeys(partitions, 2), 0)
    seen = []
    while found.positions:
        seen += [(each.partition, each.offset) for each in found.fetch()]
    assert seen == [(index, offset) for index in range(3) for offset in range(2)]


def test_a_partition_that_ends_before_its_end_is_left() -> None:
    partitions = [TopicPartition("t", index) for index in range(2)]
    session: Any = Narrow()
    found = Reader(session, dict.fromkeys(partitions, 0), dict.fromkeys(partitions, 5), 0)
    count = 0
    while found.positions:
        count += len(list(found.fetch()))
    assert count == 4
