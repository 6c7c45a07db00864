"""OffsetCommits of several connections that a handler finds in the queue: answered as one after the other, written together."""

import itertools
from typing import Any

import pytest

from tests.server.apis.group_handlers import Handlers, codes, commit_request
from tests.server.queued_requests import QueuedRequests
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.coordinators.offsets import OffsetCommitRequest, OffsetCommitResponse
from twisted_kafka.protocol.records.batch import batches
from twisted_kafka.server.dispatch import ApiRegistry

VERSION = 8
NONE, UNKNOWN_PARTITION = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class Broker(QueuedRequests):
    def __init__(self, *, is_together: bool = True, **settings: Any) -> None:
        self.handlers = Handlers(**settings)
        self.log = self.handlers.bench.log
        super().__init__(
            ApiRegistry([self.handlers.offsets, self.handlers.groups]), self.handlers.bench.clock, is_together=is_together
        )

    def commit_each(self, *requests: OffsetCommitRequest, version: int = VERSION) -> list[Any]:
        """Return the error codes by partition of each; None for a request that waits."""
        return [answer_of(each.written, version) for each in self.send_each([(request, version) for request in requests])]

    def batches(self) -> list[list[tuple[str, int]]]:
        """Group and offset of each commit, by batch."""
        written = iter(self.handlers.bench.written())
        found = []
        for partition in self.log.batches.values():
            for data in partition:
                records = [next(written) for batch in batches(data) for _ in batch.records()]
                found.append([(record.key.group, record.value.offset) for record in records])
        return found


def answer_of(written: bytes, version: int = VERSION) -> Any:
    return codes(OffsetCommitResponse.decode(written[9 if version >= 8 else 8 :], version)) if written else None


def test_they_are_one_batch() -> None:
    broker = Broker()
    answers = broker.commit_each(*[commit_request({0: number}, group_id=f"group{number % 2}") for number in range(4)])
    assert answers == [{0: NONE}] * 4
    assert broker.steps == [4]
    assert broker.batches() == [[("group0", 0), ("group1", 1), ("group0", 2), ("group1", 3)]]
    assert [topics[0][0] for topics in broker.topics()] == ["orders"] * 4


def test_those_that_name_topics_by_id_are_one_batch() -> None:
    broker = Broker()
    gone = commit_request({0: 3}, topic="gone")
    requests = [commit_request({0: 1}), commit_request({0: 2}), gone]
    assert broker.commit_each(*requests, version=10) == [{0: NONE}, {0: NONE}, {0: ErrorCode.UNKNOWN_TOPIC_ID}]
    assert broker.batches() == [[("g", 1), ("g", 2)]]


def test_groups_of_other_partitions_are_other_batches() -> None:
    broker = Broker(partitions=2)
    partition_for = broker.handlers.bench.groups.partition_for
    names = [next(f"g{n}" for n in range(99) if partition_for(f"g{n}") == partition) for partition in (0, 1)]
    broker.commit_each(*[commit_request({0: number}, group_id=names[number % 2]) for number in range(4)])
    assert broker.steps == [2, 2]
    assert broker.log.batches.keys() == {("__consumer_offsets", 0), ("__consumer_offsets", 1)}
    assert [len(each) for each in broker.log.batches.values()] == [1, 1]


def test_each_has_its_own_errors() -> None:
    broker = Broker(offset_metadata_max_bytes=10)
    requests = [
        commit_request({0: 1}),
        commit_request({0: 2}, group_id="h", member_id="nobody", generation_id_or_member_epoch=3),
        commit_request({0: 3, 9: 3}),
        commit_request({0: 4, 1: 4}, metadata="x" * 11),
        commit_request({7: 5}),
        commit_request({0: 6}),
    ]
    alone = Broker(is_together=False, offset_metadata_max_bytes=10)
    answers = broker.commit_each(*requests)
    assert answers == alone.commit_each(*requests)
    assert answers[1] == {0: ErrorCode.ILLEGAL_GENERATION}
    assert answers[2] == {0: NONE, 9: UNKNOWN_PARTITION}
    for each in (broker, alone):
        assert list(itertools.chain(*each.batches())) == [("g", 1), ("g", 3), ("g", 6)]
    assert broker.steps == [3, 1, 1, 1], "those with nothing to commit are alone, and none overtakes them"


def test_without_a_valid_one_nothing_is_written() -> None:
    broker = Broker()
    refused = commit_request({0: 2}, member_id="nobody", generation_id_or_member_epoch=3)
    assert broker.commit_each(refused, refused) == [{0: ErrorCode.ILLEGAL_GENERATION}] * 2
    assert broker.batches() == []


def test_all_wait_for_the_replicas() -> None:
    for error, code in ((NONE, NONE), (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE)):
        broker = Broker()
        broker.log.holds = True
        transports = broker.send_each([(commit_request({0: number}), VERSION) for number in range(3)])
        assert [each.written for each in transports] == [b""] * 3
        broker.log.release(error)
        broker.layer.reactor.run_asked()
        assert [answer_of(each.written) for each in transports] == [{0: code}] * 3


def test_a_batch_that_is_refused_is_written_in_parts() -> None:
    broker = Broker()
    broker.log.fail_next = [ErrorCode.MESSAGE_TOO_LARGE, NONE, ErrorCode.MESSAGE_TOO_LARGE]
    answers = broker.commit_each(commit_request({0: 1}), commit_request({0: 2}), commit_request({0: 3}))
    assert answers == [{0: NONE}, {0: ErrorCode.INVALID_COMMIT_OFFSET_SIZE}, {0: NONE}]


@pytest.mark.parametrize("version", range(10))
def test_every_version(version: int) -> None:
    broker = Broker()
    assert broker.commit_each(commit_request({0: 1}), commit_request({1: 2}), version=version) == [{0: NONE}, {1: NONE}]
    assert len(broker.batches()) == (1 if version else 0)


def test_a_coordinator_elsewhere_is_named_to_each() -> None:
    broker = Broker()
    broker.handlers.bench.groups.runtime.on_leadership_change([], [(0, 1)])
    assert broker.commit_each(commit_request({0: 1}), commit_request({0: 2})) == [{0: ErrorCode.NOT_COORDINATOR}] * 2
