"""A share group gets no record again that a member has finished."""

from collections.abc import Sequence

import pytest

from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.share import share_fetch as messages
from twisted_kafka.world.checking.broken import Broken
from twisted_kafka.world.checking.deliveries import MOST_RECORDS, Deliveries

TOPIC = bytes(range(16))
ACCEPT, RELEASE, REJECT = 1, 2, 3

Run = tuple[int, int, list[int]]
"""The first and last offset, and the types of acknowledgement."""


class Bench:
    def __init__(self) -> None:
        self.broken: list[Broken] = []
        self.deliveries = Deliveries(self.broken.append)

    def fetch(self, member: str, *got: tuple[int, int], finishes: Sequence[Run] = (), code: int = 0) -> list[str]:
        self.broken.clear()
        partition = messages.FetchPartition(acknowledgement_batches=_batches(finishes))
        topic = messages.FetchTopic(topic_id=TOPIC, partitions=[partition])
        acquired = [messages.AcquiredRecords(first_offset=first, last_offset=last) for first, last in got]
        answer = messages.ShareFetchResponsePartitionData(acknowledge_error_code=code, acquired_records=acquired)
        self.deliveries.fetched(
            messages.ShareFetchRequest(group_id="workers", member_id=member, topics=[topic]),
            messages.ShareFetchResponse(responses=[messages.ShareFetchableTopicResponse(topic_id=TOPIC, partitions=[answer])]),
        )
        return [each.where for each in self.broken]

    def acknowledge(self, member: str, run: Run, *, code: int = 0, whole: int = 0) -> None:
        partition = messages.AcknowledgePartition(acknowledgement_batches=_batches([run]))
        topic = messages.AcknowledgeTopic(topic_id=TOPIC, partitions=[partition])
        answer = messages.ShareAcknowledgeResponsePartitionData(error_code=code)
        self.deliveries.acknowledged(
            messages.ShareAcknowledgeRequest(group_id="workers", member_id=member, topics=[topic]),
            messages.ShareAcknowledgeResponse(
                error_code=whole, responses=[messages.ShareAcknowledgeTopicResponse(topic_id=TOPIC, partitions=[answer])]
            ),
        )


def _batches(runs: Sequence[Run]) -> list[messages.AcknowledgementBatch]:
    return [
        messages.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types) for first, last, types in runs
    ]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_finished_record_is_not_delivered_again(bench: Bench) -> None:
    assert bench.fetch("a", (0, 4)) == []
    bench.acknowledge("a", (0, 4, [ACCEPT, RELEASE, REJECT, 0, ACCEPT]))
    assert bench.fetch("b", (1, 1), (3, 3)) == []
    where = f"group workers: {TOPIC.hex()}-0 offset"
    assert bench.fetch("b", (2, 5)) == [f"{where} {offset} is delivered to b, and a has finished it" for offset in (2, 4)]


def test_one_type_counts_for_a_whole_run(bench: Bench) -> None:
    assert bench.fetch("a", (2, 3), finishes=[(0, 1, [ACCEPT])]) == []
    assert len(bench.fetch("b", (0, 9))) == 2


def test_what_was_not_confirmed_or_is_reset_may_come_again(bench: Bench) -> None:
    bench.acknowledge("a", (0, 0, [ACCEPT]), code=ErrorCode.INVALID_RECORD_STATE)
    bench.acknowledge("a", (1, 1, [ACCEPT]), whole=ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    assert bench.fetch("a", (0, 1), finishes=[(0, 1, [ACCEPT])], code=ErrorCode.INVALID_RECORD_STATE) == []
    bench.acknowledge("a", (2, 2, [ACCEPT]))
    bench.deliveries.forget("others")
    assert len(bench.fetch("b", (2, 2))) == 1
    bench.deliveries.forget("workers")
    assert bench.fetch("b", (2, 2)) == []


@pytest.mark.medium
def test_old_records_are_forgotten(bench: Bench) -> None:
    bench.acknowledge("a", (0, MOST_RECORDS, [ACCEPT]))
    assert bench.fetch("b", (0, 0)) == []
    assert len(bench.fetch("b", (1, 1))) == 1
