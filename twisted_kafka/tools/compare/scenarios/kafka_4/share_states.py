"""The share coordinator: states of share partitions are initialized, read, written and deleted (KIP-932)."""

from typing import Any

from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.compiler.types import NO_UUID
from twisted_kafka.protocol.messages.share import share_state as wire
from twisted_kafka.protocol.topic_partition import SHARE_TOPIC
from twisted_kafka.share_coordinator.share_state import SHARE_RECORD_KINDS
from twisted_kafka.tools.compare.scenarios.kafka_4.share_members import await_share_coordinator, newer, topic_of
from twisted_kafka.tools.compare.scenarios.kafka_4.written_records import written_records
from twisted_kafka.tools.compare.talk import Talk

UNKNOWN = b"u" * 16
AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = 0, 1, 2, 4

Batch = tuple[int, int, int, int]
"""First and last offset, delivery state and delivery count."""


class States:
    """Requests about the state of one share partition."""

    def __init__(self, talk: Talk, name: str = "t") -> None:
        self._talk = talk
        self.group = talk.topic("group")
        self.topic_id = topic_of(talk, name)
        await_share_coordinator(talk, self.group, self.topic_id)

    def initialize(self, state_epoch: int = 0, start_offset: int = 0, **place: Any) -> None:
        partition = wire.InitializeShareGroupStateRequestPartitionData(state_epoch=state_epoch, start_offset=start_offset)
        self._ask(wire.InitializeShareGroupStateRequest, wire.InitializeStateData, partition, **place)

    def read(self, leader_epoch: int = 0, **place: Any) -> None:
        partition = wire.ReadShareGroupStateRequestPartitionData(leader_epoch=leader_epoch)
        self._ask(wire.ReadShareGroupStateRequest, wire.ReadStateData, partition, **place)

    def write(
        self, *batches: Batch, state_epoch: int = 0, leader_epoch: int = 0, start_offset: int = -1, complete: int = 0, **place: Any
    ) -> None:
        partition = wire.WriteShareGroupStateRequestPartitionData(
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=complete,
            state_batches=[
                wire.WriteShareGroupStateRequestStateBatch(
                    first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
                )
                for first, last, state, count in batches
            ],
        )
        self._ask(wire.WriteShareGroupStateRequest, wire.WriteStateData, partition, **place)

    def delete(self, **place: Any) -> None:
        self._ask(
            wire.DeleteShareGroupStateRequest, wire.DeleteStateData, wire.DeleteShareGroupStateRequestPartitionData(), **place
        )

    def summary(self, leader_epoch: int = 0, **place: Any) -> None:
        partition = wire.ReadShareGroupStateSummaryRequestPartitionData(leader_epoch=leader_epoch)
        self._ask(wire.ReadShareGroupStateSummaryRequest, wire.ReadStateSummaryData, partition, **place)

    def _ask(
        self,
        cls: type[Message],
        topic: Any,
        data: Any,
        *,
        version: int = 0,
        partition: int = 0,
        topic_id: bytes | None = None,
        group: str | None = None,
    ) -> None:
        data.partition = partition
        asked = topic(topic_id=self.topic_id if topic_id is None else topic_id, partitions=[data])
        request: Any = cls(group_id=self.group if group is None else group, topics=[asked])  # type: ignore[call-arg]
        self._talk.ask(request, version)


BAD_PLACES: tuple[dict[str, Any], ...] = (
    {"topic_id": UNKNOWN},
    {"topic_id": NO_UUID},
    {"partition": 9},
    {"partition": -1},
    {"group": ""},
)


@newer(wire.InitializeShareGroupStateRequest)
def share_state_initialize(talk: Talk, version: int) -> None:
    states = States(talk)
    states.read()
    for epoch, offset in ((0, 0), (1, 5), (1, 7), (0, 9), (3, -1), (-1, 3)):
        states.initialize(epoch, offset, version=version)
        states.summary(version=1)
    for place in BAD_PLACES:
        states.initialize(version=version, **place)
    talk.ask(wire.InitializeShareGroupStateRequest(group_id=states.group, topics=[]), version)


@newer(wire.ReadShareGroupStateRequest)
def share_state_read(talk: Talk, version: int) -> None:
    states = States(talk)
    states.read(version=version)
    states.initialize(1, 4)
    for leader_epoch in (0, 5, 5, 3, -1, 6):
        states.read(leader_epoch, version=version)
    states.write((4, 6, ACKNOWLEDGED, 1), (7, 8, AVAILABLE, 2), (9, 9, ARCHIVED, 5), state_epoch=1, leader_epoch=6)
    states.read(6, version=version)
    states.write((4, 8, ACKNOWLEDGED, 2), state_epoch=1, leader_epoch=6, start_offset=9)
    states.read(6, version=version)
    for place in BAD_PLACES:
        states.read(version=version, **place)
    talk.ask(wire.ReadShareGroupStateRequest(group_id=states.group, topics=[]), version)


@newer(wire.WriteShareGroupStateRequest)
def share_state_write(talk: Talk, version: int) -> None:
    """Epochs of the state and of the leader, and batches of each kind.

    A read sets the leader's epoch first: Apache Kafka does not take it from writes.
    """
    states = States(talk)
    states.write((0, 3, ACKNOWLEDGED, 1), version=version)
    states.initialize(2, 0)
    states.read(3)
    for state_epoch, leader_epoch in ((2, 3), (2, 2), (1, 3), (2, -1), (-1, 3), (2, 4), (1, 1)):
        states.write((0, 3, ACKNOWLEDGED, 1), state_epoch=state_epoch, leader_epoch=leader_epoch, version=version)
    for batches in (
        [(4, 9, AVAILABLE, 1)],
        [(6, 7, ARCHIVED, 2)],
        [(5, 5, ACKNOWLEDGED, 1), (5, 6, AVAILABLE, 3)],
        [(12, 14, AVAILABLE, 1), (10, 11, AVAILABLE, 1)],
        [],
    ):
        states.write(*batches, state_epoch=2, leader_epoch=4, complete=3, version=version)
        states.read(4)
    for offset in (5, 3, -1, 20):
        states.write(state_epoch=2, leader_epoch=4, start_offset=offset, version=version)
        states.read(4)
        states.summary(4, version=1)
    for place in BAD_PLACES:
        states.write((0, 3, ACKNOWLEDGED, 1), version=version, **place)
    talk.ask(wire.WriteShareGroupStateRequest(group_id=states.group, topics=[]), version)


@newer(wire.DeleteShareGroupStateRequest)
def share_state_delete(talk: Talk, version: int) -> None:
    states = States(talk)
    states.delete(version=version)
    states.initialize(1, 4)
    states.write((4, 6, ACKNOWLEDGED, 1), state_epoch=1)
    for _ in range(2):
        states.delete(version=version)
        states.read()
        states.summary(version=1)
    states.write((4, 6, ACKNOWLEDGED, 1), state_epoch=1)
    states.initialize(0, 2)
    states.read()
    for place in BAD_PLACES:
        states.delete(version=version, **place)
    talk.ask(wire.DeleteShareGroupStateRequest(group_id=states.group, topics=[]), version)


@newer(wire.ReadShareGroupStateSummaryRequest)
def share_state_summary(talk: Talk, version: int) -> None:
    states = States(talk)
    states.summary(version=version)
    states.initialize(1, 4)
    for leader_epoch in (0, 5, 3, -1):
        states.summary(leader_epoch, version=version)
    states.read(5)
    states.summary(3, version=version)
    states.write((4, 6, ACKNOWLEDGED, 1), state_epoch=1, leader_epoch=5, start_offset=4, complete=3, version=1)
    states.summary(5, version=version)
    for place in BAD_PLACES:
        states.summary(version=version, **place)
    talk.ask(wire.ReadShareGroupStateSummaryRequest(group_id=states.group, topics=[]), version)


@newer(wire.WriteShareGroupStateRequest)
def share_state_records(talk: Talk, version: int) -> None:
    """The records in ``__share_group_state``: snapshots and updates of two states, and what deletes one."""
    states = States(talk)
    states.initialize(1, 4)
    for leader_epoch in (0, 5):
        states.read(leader_epoch)
    states.write((4, 6, ACKNOWLEDGED, 1), (7, 8, AVAILABLE, 2), state_epoch=1, leader_epoch=5, complete=3, version=version)
    states.write((4, 9, ARCHIVED, 3), state_epoch=1, leader_epoch=5, start_offset=9, version=version)
    states.initialize(2, -1)
    states.delete()
    states.initialize(0, 2)
    talk.answers.extend(("record", each) for each in written_records(talk, SHARE_TOPIC, SHARE_RECORD_KINDS, states.group))
