"""In-sync replicas that leaders write to the metadata store themselves, and tell the controller of later."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.replication.harness import BROKER, OTHER, TOPIC, TP, Harness
from tests.replication.test_append import follower_fetches
from tests.replication.test_in_sync_replicas import BOTH, BROKER_EPOCH, MAX_LAG_MS, meters
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.embedded import SqliteStore
from twisted_kafka.metadata.store import StoreClosedError, children_of
from twisted_kafka.metadata.znodes import PartitionStateNode
from twisted_kafka.metadata.znodes_admin import PartitionsNode
from twisted_kafka.protocol.messages.controller import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
)
from twisted_kafka.replication.alter_partition_manager import RETRY_MS, AlterPartitionManager, Proposer
from twisted_kafka.replication.partition.partition import Partition
from twisted_kafka.replication.store_alter_partitions import CHECK_MS, LINGER_MS, MAX_DELAY_MS, StoreAlterPartitions

PATH = znodes.state_path(TP)


class Led(Harness):
    """A leader whose partition has the state that the controller has written."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, replica_lag_time_max_ms=MAX_LAG_MS)
        self.advance_ms(10 * MAX_LAG_MS)
        self.store = SqliteStore(":memory:", self.clock, threaded=False)
        self.channel = StoreAlterPartitions(self.store, self.clock, self.scheduler)
        manager = AlterPartitionManager(
            Proposer(BROKER, lambda: BROKER_EPOCH, False),
            self.channel,
            self.replicas.partitions,
            self.replicas.purgatories,
            self.scheduler,
            MAX_LAG_MS,
            self.metrics,
        )
        self.replicas.set_in_sync_replicas(manager)

    def begin(self, isr: tuple[int, ...]) -> Partition:
        self.store.create(PATH, PartitionStateNode(BROKER, 0, list(isr), 7).encode(), make_parents=True)
        return self.lead(replicas=BOTH, isr=isr)

    @property
    def state(self) -> PartitionStateNode:
        found = self.store.get(PATH)
        assert found is not None
        return PartitionStateNode.decode(found[0])

    def told(self) -> list[list[object]]:
        """Return of which partitions the controller was told, each time."""
        paths = [f"{znodes.ISR_CHANGES}/{name}" for name in children_of(self.store, znodes.ISR_CHANGES)]
        return [list(PartitionsNode.decode(found[0]).partitions) for found in self.store.get_many(paths) if found is not None]


@pytest.fixture
def h(tmp_path: Path) -> Iterator[Led]:
    led = Led(tmp_path)
    yield led
    led.store.close()


def lag(h: Led) -> None:
    """Let a follower be late that has not all."""
    h.append(b"a")
    for _ in range(3):
        h.advance_ms(MAX_LAG_MS // 2)
    h.scheduler.run_due()


def test_a_follower_that_catches_up_is_written(h: Led) -> None:
    partition = h.begin((BROKER,))
    h.append(b"a")
    follower_fetches(h, 1)
    h.scheduler.run_due()
    assert h.state == PartitionStateNode(BROKER, 0, [BROKER, OTHER], 7), "the controller's epoch stays"
    assert (partition.isr, partition.partition_epoch) == (frozenset(BOTH), 1)
    assert meters(h) == (1, 0, 0)


def test_one_that_lags_is_written_and_told_when_all_is_quiet(h: Led) -> None:
    partition = h.begin(BOTH)
    lag(h)
    assert (h.state.isr, partition.isr) == ([BROKER], frozenset({BROKER}))
    assert h.told() == []
    for _ in range(2 * LINGER_MS // CHECK_MS):
        h.advance_ms(CHECK_MS)
    assert h.told() == [[TP]]
    assert h.told() == [[TP]], "once"
    follower_fetches(h, 1)
    h.advance_ms(CHECK_MS)
    assert partition.isr == frozenset(BOTH)
    assert h.told() == [[TP]], "more may follow"
    for _ in range(2 * LINGER_MS // CHECK_MS):
        h.advance_ms(CHECK_MS)
    assert h.told() == [[TP], [TP]]


def test_changes_that_do_not_end_are_told_after_a_minute(h: Led) -> None:
    h.begin((BROKER,))
    h.advance_ms(MAX_DELAY_MS + CHECK_MS)
    follower_fetches(h, 0)
    h.scheduler.run_due()
    h.channel.tell_if_due()
    assert h.told() == [[TP]]


def test_a_state_that_another_has_changed_stays(h: Led) -> None:
    partition = h.begin((BROKER,))
    h.store.set(PATH, PartitionStateNode(OTHER, 1, [OTHER], 8).encode())
    follower_fetches(h, 0)
    h.scheduler.run_due()
    assert h.state == PartitionStateNode(OTHER, 1, [OTHER], 8)
    assert partition.isr == frozenset({BROKER})
    assert meters(h) == (0, 0, 1)


def test_a_version_that_another_has_written_is_refused(h: Led) -> None:
    partition = h.begin((BROKER,))
    h.store.set(PATH, h.state.encode())
    follower_fetches(h, 0)
    h.scheduler.run_due()
    assert (h.state.isr, partition.isr) == ([BROKER], frozenset({BROKER}))
    assert meters(h) == (0, 0, 1)


def test_what_was_written_and_not_confirmed_is_confirmed(h: Led) -> None:
    partition = h.begin((BROKER,))
    h.store.set(PATH, PartitionStateNode(BROKER, 0, [BROKER, OTHER], 7).encode())
    follower_fetches(h, 0)
    h.scheduler.run_due()
    assert (partition.isr, partition.partition_epoch) == (frozenset(BOTH), 1)


def test_a_partition_that_is_gone_is_no_more_asked_for(h: Led) -> None:
    h.lead(replicas=BOTH, isr=(BROKER,))
    follower_fetches(h, 0)
    h.advance_ms(RETRY_MS)
    assert meters(h) == (0, 0, 1)


def test_a_store_that_cannot_be_asked_fails_the_proposal(h: Led) -> None:
    h.store.close()
    data = AlterPartitionRequestPartitionData(partition_index=0, new_isr=[BROKER])
    topic = AlterPartitionRequestTopicData(topic_name=TOPIC, partitions=[data])
    asked = h.channel.send(AlterPartitionRequest(broker_id=BROKER, topics=[topic]))
    h.scheduler.run_due()
    with pytest.raises(StoreClosedError):
        asked.result(0)
