"""What an OffsetFetch may return after commits that were acknowledged, refused, or neither."""

from collections.abc import Callable

import pytest

from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.coordinators.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from twisted_kafka.world.checking.broken import Broken
from twisted_kafka.world.checking.offsets import MOST_POSSIBLE, Offsets


class Bench:
    """Commits and fetches the offset of one partition."""

    def __init__(self) -> None:
        self.broken: list[Broken] = []
        self.offsets = Offsets(self.broken.append)

    def commit(self, offset: int) -> Callable[..., None]:
        """Let a commit arrive; return the function that answers it."""
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
        noted = self.offsets.asked("shop", OffsetCommitRequest(group_id="books", topics=[topic]))

        def answer(code: ErrorCode = ErrorCode.NONE) -> None:
            done = OffsetCommitResponsePartition(partition_index=0, error_code=code)
            response = OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="orders", partitions=[done])])
            self.offsets.answered(noted, response)

        return answer

    def fetch(self) -> Callable[[int], list[str]]:
        topic = OffsetFetchRequestTopic(name="orders", partition_indexes=[0])
        noted = self.offsets.asked("shop", OffsetFetchRequest(group_id="books", topics=[topic]))

        def answer(offset: int) -> list[str]:
            self.broken.clear()
            found = OffsetFetchResponsePartition(partition_index=0, committed_offset=offset)
            topics = [OffsetFetchResponseTopic(name="orders", partitions=[found])]
            self.offsets.answered(noted, OffsetFetchResponse(topics=topics))
            return [each.where for each in self.broken]

        return answer


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_an_acknowledged_commit_is_found(bench: Bench) -> None:
    bench.commit(5)()
    assert bench.fetch()(5) == []
    assert bench.fetch()(-1) == ["the offset of group books in orders-0 was committed as 5, and is -1 for shop"]
    bench.commit(7)()
    assert bench.fetch()(7) == []
    assert len(bench.fetch()(5)) == 1


def test_a_commit_without_an_answer_may_be_found_or_not(bench: Bench) -> None:
    bench.commit(5)()
    bench.commit(6)
    assert bench.fetch()(5) == bench.fetch()(6) == []
    bench.commit(7)()
    # Nobody knows whether the commit of 6 comes later.
    assert bench.fetch()(6) == bench.fetch()(7) == []
    assert len(bench.fetch()(5)) == 1


def test_a_refused_commit_is_not_found(bench: Bench) -> None:
    bench.commit(5)()
    bench.commit(6)(ErrorCode.ILLEGAL_GENERATION)
    assert len(bench.fetch()(6)) == 1
    bench.commit(8)(ErrorCode.REQUEST_TIMED_OUT)
    assert bench.fetch()(8) == []


def test_commits_at_the_same_time_have_no_order(bench: Bench) -> None:
    first, second = bench.commit(5), bench.commit(6)
    second()
    first()
    assert bench.fetch()(5) == bench.fetch()(6) == []


def test_a_fetch_sees_what_was_there_while_it_was_on_its_way(bench: Bench) -> None:
    bench.commit(5)()
    fetched = bench.fetch()
    bench.commit(6)()
    assert fetched(5) == fetched(6) == []
    assert len(fetched(4)) == 1


def test_without_an_acknowledged_commit_nothing_is_promised(bench: Bench) -> None:
    assert bench.fetch()(-1) == []
    bench.commit(5)
    assert bench.fetch()(-1) == []
    bench.commit(6)()
    bench.offsets.forget(group="books")
    assert bench.fetch()(-1) == []


def test_with_too_many_unanswered_commits_nothing_is_said(bench: Bench) -> None:
    bench.commit(5)()
    for number in range(MOST_POSSIBLE):
        bench.commit(100 + number)
    assert bench.fetch()(5) == []


def test_a_commit_that_goes_back_is_noted(bench: Bench) -> None:
    for offset in (5, 6, 6):
        bench.commit(offset)()
    assert not bench.offsets.went_back
    bench.commit(3)()
    assert [each.where for each in bench.offsets.went_back] == [
        "the offset of group books in orders-0 was 6, and shop has committed 3"
    ]
