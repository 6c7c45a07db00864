"""Produces of several connections that a handler finds in the queue: answered as if it had taken one after the other."""

import random
from pathlib import Path
from typing import Any

import pytest

from tests.server.queued_requests import QueuedRequests
from tests.support.budget import share_of
from tests.support.replica_apis import Apis
from tests.support.replication_harness import TOPIC, batch_of
from twisted_kafka.network.requests.memory_pool import MemoryPool
from twisted_kafka.network.requests.request_channel import MAX_BUNDLE_BYTES
from twisted_kafka.protocol.messages.list_offsets import ListOffsetsRequest
from twisted_kafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

PARTITIONS = 3


class Broker(QueuedRequests):
    def __init__(self, directory: Path, *, is_together: bool = True, pool: MemoryPool | None = None) -> None:
        directory.mkdir()
        self.apis = Apis(directory)
        for partition in range(PARTITIONS):
            self.apis.lead(partition=partition)
        super().__init__(self.apis.registry, self.apis.clock, is_together=is_together, pool=pool)

    def contents(self) -> list[bytes]:
        found = []
        for partition in range(PARTITIONS):
            log = self.apis.replicas.get_partition((TOPIC, partition)).log  # type: ignore[arg-type]
            found.append(log._active.path.read_bytes()[: log._active.size_bytes])
        return found


def request(
    *records: bytes | bytearray | None, acks: int = 1, partition: int = 0, topic: str = TOPIC, **fields: Any
) -> ProduceRequest:
    data = [
        PartitionProduceData(index=partition + each, records=None if some is None else bytes(some))
        for each, some in enumerate(records)
    ]
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, partition_data=data)], **fields)


def test_those_to_one_partition_are_handled_in_one_step(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "broker")
    answers = broker.send_each([(request(batch_of(b"%d" % number), partition=number % 2), 9) for number in range(6)])
    assert broker.steps == [3, 3]
    responses = [ProduceResponse.decode(each.written[9:], 9) for each in answers]
    assert [each.responses[0].partition_responses[0].base_offset for each in responses] == [0, 0, 1, 1, 2, 2]


def test_requests_of_other_apis_stay_between_them(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "broker")
    produce, other = (request(batch_of(b"a")), 9), (ListOffsetsRequest(), 1)
    broker.send_each([produce, produce, other, produce, produce, produce])
    assert broker.steps == [2, 1, 3]


def test_no_more_are_taken_at_once_than_a_round_has(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "broker")
    broker.send_each([(request(batch_of(b"a")), 9)] * 70)
    assert broker.steps == [32, 32, 6]


def test_no_more_bytes_are_taken_at_once_than_are_joined(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "broker")
    broker.send_each([(request(batch_of(b"a" * (MAX_BUNDLE_BYTES // 3 - 200))), 9)] * 7)
    assert broker.steps == [3, 3, 1]


def test_memory_is_given_back(tmp_path: Path) -> None:
    pool = MemoryPool(100_000, Apis(tmp_path / "other").clock)
    broker = Broker(tmp_path / "broker", pool=pool)
    broker.send_each([(request(batch_of(b"a"), partition=number % 3), 9) for number in range(9)])
    assert pool.available_bytes == 100_000
    assert all(not each.frame for each in broker.layer.observer.completed)


def one_of(rng: random.Random, sequences: dict[int, int]) -> tuple[ProduceRequest | ListOffsetsRequest, int]:
    kind = rng.randrange(30)
    version = rng.randrange(3, 12)
    partition = rng.randrange(PARTITIONS)
    acks = -1 if partition == 2 else 1  # the same for a partition: those with other acks are another bundle
    records: bytes | bytearray = batch_of(*[rng.randbytes(rng.choice((0, 9, 200))) for _ in range(rng.randrange(1, 4))])
    if kind == 0:
        records[-1] ^= 1
    elif kind == 1:
        return request(records, acks=0, partition=partition), version
    elif kind == 2:
        return request(records, records, acks=acks, partition=0), version
    elif kind == 3:
        return request(None, acks=acks, partition=partition), version
    elif kind == 4:
        return request(records, acks=acks, topic="nowhere"), version
    elif kind == 5:
        return request(records, acks=5, partition=partition), version
    elif kind == 6:
        return request(bytes(records)[:-1], acks=acks, partition=partition), version
    elif kind == 7:
        return request(records, acks=acks, partition=partition, transactional_id="transaction"), version
    elif kind == 8:
        return ListOffsetsRequest(), 1
    elif kind == 9:
        return request(batch_of(b"a", magic=1), acks=1, partition=partition), rng.choice((2, 7))
    elif kind < 20:
        producer = rng.randrange(4)
        sequence = sequences[producer] + rng.choices((0, 1), (9, 1))[0]
        sequences[producer] = sequence + 1
        records = batch_of(b"x", producer_id=producer, producer_epoch=0, base_sequence=sequence)
        partition = producer % PARTITIONS
        acks = -1 if partition == 2 else 1
    return request(records, acks=acks, partition=partition), version


@pytest.mark.parametrize("seed", range(share_of(40)))
def test_the_answers_are_those_of_one_after_the_other(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    brokers = [Broker(tmp_path / "together"), Broker(tmp_path / "one-by-one", is_together=False)]
    sequences = dict.fromkeys(range(4), 0)
    for _ in range(4):
        requests = [one_of(rng, sequences) for _ in range(rng.randrange(20, 40))]
        together, plain = (broker.send_each(requests) for broker in brokers)
        for (request, version), one, other in zip(requests, together, plain, strict=True):
            assert (one.written, one.is_closed) == (other.written, other.is_closed), f"{request} v{version}"
    assert brokers[0].contents() == brokers[1].contents()
    assert sorted(map(str, brokers[0].topics())) == sorted(map(str, brokers[1].topics()))
    assert any(count > 1 for count in brokers[0].steps)
    assert set(brokers[1].steps) == {1}
