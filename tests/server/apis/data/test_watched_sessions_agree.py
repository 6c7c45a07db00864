"""Watched sessions tell a consumer of every change of its partitions, as fetches without a session do."""

import random
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.budget import share_of
from tests.support.replica_apis import Apis
from tests.support.replication_harness import BROKER, OTHER, end_marker
from twisted_kafka.log.results import FetchIsolation
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.log.validation.log_validator import AppendOrigin
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from twisted_kafka.protocol.messages.inter_broker import StopReplicaPartitionState, StopReplicaRequest, StopReplicaTopicState
from twisted_kafka.protocol.records.batch import batches
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.partition.fetch_data import FetchParams, PartitionFetch
from twisted_kafka.server.fetch_session import LEAST_WATCHED

TOPIC: Final = "many"
PARTITIONS: Final = LEAST_WATCHED + 4
BUSY: Final = 8
"""How many of the partitions change."""
OF_TWO: Final = frozenset({1, 3, 5})
"""Partitions with a replica on the other broker."""
DELETED_LEADER: Final = -2


class World:
    """A broker whose partitions change, and a consumer's session of them."""

    def __init__(self, directory: Path) -> None:
        settings: dict[str, Any] = {"transaction.partition.verification.enable": False}
        self.apis = Apis(directory, **settings)
        self.epochs = dict.fromkeys(range(PARTITIONS), 0)
        self.generation = dict.fromkeys(range(PARTITIONS), 0)
        self.open: set[int] = set()
        self.sequences: dict[int, int] = {}
        for partition in range(PARTITIONS):
            self.apis.lead(TOPIC, partition, replicas=self.replicas(partition), isr=self.replicas(partition))
        self.offsets = dict.fromkeys(range(PARTITIONS), 0)
        self.session, self.epoch = 0, 0
        self.changed = set(self.offsets)
        self.seen: dict[int, tuple[int, int, int]] = {}
        """The error, the high watermark and the log start offset that the consumer was told last."""

    @staticmethod
    def replicas(partition: int) -> tuple[int, ...]:
        return (BROKER, OTHER) if partition in OF_TWO else (BROKER,)

    def lead(self, partition: int, leader: int = BROKER, isr: Any = None) -> None:
        self.epochs[partition] += 1
        how: Any = {"epoch": self.epochs[partition], "replicas": self.replicas(partition), "leader": leader}
        self.apis.order(TOPIC, partition, isr=isr, **how)
        self.apis.announce(TOPIC, partition, **how)

    def delete(self, partition: int) -> None:
        state = StopReplicaPartitionState(partition_index=partition, leader_epoch=-2, delete_partition=True)
        topic = StopReplicaTopicState(topic_name=TOPIC, partition_states=[state])
        self.apis.announce(TOPIC, partition, leader=DELETED_LEADER)
        self.apis.control.stop_replica(StopReplicaRequest(controller_epoch=1, topic_states=[topic]))
        self.open.discard(partition)
        self.sequences.pop(partition, None)

    def append(self, partition: int, *, in_transaction: bool = False) -> None:
        options: dict[str, Any] = {}
        if in_transaction:
            sequence = self.sequences.get(partition, 0)
            options = {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence, "is_transactional": True}
        result = self.apis.append(b"a", topic_partition=TopicPartition(TOPIC, partition), batch_options=options)
        if in_transaction and not result.error:
            self.sequences[partition] = self.sequences.get(partition, 0) + 1
            self.open.add(partition)

    def end_transaction(self, partition: int, commit: bool) -> None:
        entries = {TopicPartition(TOPIC, partition): end_marker(commit, 7)}
        self.apis.replicas.appender.append(0, 1, entries, AppendOrigin.COORDINATOR)

    def follow(self, partition: int) -> None:
        found = self.apis.replicas.get_partition(TopicPartition(TOPIC, partition))
        if found is None:
            return
        params = FetchParams(OTHER, 0, 1, 1 << 20, FetchIsolation.LOG_END, 12)
        fetch = PartitionFetch(found.topic_partition, bytes(16), partition, found.log.log_end_offset, 1 << 20)
        fetch.log_start_offset = 0
        self.apis.replicas.reader.fetch(params, [fetch])

    def delete_records(self, partition: int) -> None:
        self.apis.replicas.offsets.delete_records(0, {TopicPartition(TOPIC, partition): -1})

    def change(self, chance: random.Random) -> None:
        partition = chance.randrange(BUSY)
        commit = chance.random() < 0.5
        what = chance.randrange(11)
        if what < 3:
            self.append(partition)
        elif what == 3:
            self.append(partition, in_transaction=True)
        elif what == 4:
            self.end_transaction(partition, commit)
        elif what == 5:
            self.follow(partition)
        elif what == 6:
            self.delete_records(partition)
        elif what == 7:
            self.lead(partition, isr=(BROKER,) if commit else None)
        elif what == 8 and partition in OF_TWO:
            self.lead(partition, OTHER)
        elif what == 9:
            self.delete(partition)
        elif what == 10:
            self.lead(partition)

    def request(self, partitions: Any, isolation_level: int, **fields: Any) -> FetchRequest:
        asked = [
            FetchPartition(partition=each, fetch_offset=self.offsets[each], partition_max_bytes=1 << 20) for each in partitions
        ]
        topics = [FetchTopic(topic=TOPIC, partitions=asked)] if asked else []
        return FetchRequest(min_bytes=1, isolation_level=isolation_level, topics=topics, **fields)

    def next(self, isolation_level: int, **fields: Any) -> FetchRequest:
        return self.request(sorted(self.changed), isolation_level, session_id=self.session, session_epoch=self.epoch, **fields)

    def take(self, response: Any) -> None:
        """Note what the session's response says, and go on as a client does."""
        assert response.error_code == 0
        self.session, self.epoch = response.session_id, self.epoch + 1
        self.changed = set()
        for data in (data for topic in response.responses for data in topic.partitions):
            partition = data.partition_index
            self.seen[partition] = (data.error_code, data.high_watermark, data.log_start_offset)
            offset = self.offsets[partition]
            for batch in batches(data.records or b""):
                offset = batch.last_offset + 1
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                found = self.apis.replicas.get_partition(TopicPartition(TOPIC, partition))
                offset = 0 if found is None else found.log.log_start_offset
            if offset != self.offsets[partition]:
                self.offsets[partition] = offset
                self.changed.add(partition)

    def poll(self, isolation_level: int) -> None:
        self.take(self.apis.call(self.next(isolation_level), 12))

    def check(self, isolation_level: int) -> None:
        """Compare what the consumer knows with a fetch of all partitions without a session."""
        everything = self.request(range(PARTITIONS), isolation_level, session_epoch=-1)
        response = self.apis.call(everything, 12)
        for data in response.responses[0].partitions:
            now = (data.error_code, data.high_watermark, data.log_start_offset)
            assert self.seen[data.partition_index] == now, data.partition_index
            assert not data.records


@pytest.mark.parametrize("seed", range(share_of(40)))
def test_a_session_knows_what_a_fetch_of_everything_knows(tmp_path: Path, seed: int) -> None:
    chance, world = random.Random(seed), World(tmp_path)
    isolation_level = seed % 2
    for _ in range(30):
        for _ in range(chance.randrange(1, 4)):
            world.change(chance)
        if chance.random() < 0.3 and world.session:  # changes while a fetch waits
            waiting = world.apis.start(world.next(isolation_level, max_wait_ms=500), 12)
            world.change(chance)
            if hasattr(waiting, "done"):
                world.apis.advance_ms(500)
                waiting = waiting.result(0)
            world.take(world.apis.decoded(FetchRequest, waiting, 12))
        for _ in range(12):  # an offset that is out of range, then several batches
            world.poll(isolation_level)
            if not world.changed:
                break
        world.check(isolation_level)


def test_a_deleted_partition_ends_no_wait_but_the_first(tmp_path: Path) -> None:
    world = World(tmp_path)
    for _ in range(3):
        world.poll(0)
    waiting = world.apis.start(world.next(0, max_wait_ms=500), 12)
    world.delete(6)
    world.take(world.apis.decoded(FetchRequest, waiting.result(0), 12))
    assert world.seen[6][0] in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    for _ in range(2):
        waiting = world.apis.start(world.next(0, max_wait_ms=500), 12)
        assert not waiting.done(), "an unknown partition does not end the wait"
        world.append(2)
        world.take(world.apis.decoded(FetchRequest, waiting.result(0), 12))
        assert world.seen[6][0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_partition_whose_log_fails_is_reported_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path)
    for _ in range(3):
        world.poll(0)
    waiting = world.apis.start(world.next(0, max_wait_ms=500), 12)

    def fail(*_: object) -> None:
        raise OSError("the disk is broken")

    monkeypatch.setattr(UnifiedLog, "assign_epoch_start_offset", fail)
    world.lead(19)
    assert waiting.done()
    world.take(world.apis.decoded(FetchRequest, waiting.result(0), 12))
    assert world.seen[19][0] == ErrorCode.KAFKA_STORAGE_ERROR
