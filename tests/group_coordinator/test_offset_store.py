"""What an offset costs beside open transactions of others."""

import pytest
from typing_extensions import override

from twisted_kafka.group_coordinator.state.offset_store import OffsetStore
from twisted_kafka.protocol.messages.coordinators.coordinator_records import OffsetCommitValue
from twisted_kafka.protocol.topic_partition import TopicPartition

PARTITION = TopicPartition("orders", 0)


class Counted(str):
    """A group id that counts how often it is looked up."""

    lookups = 0

    @override
    def __hash__(self) -> int:
        Counted.lookups += 1
        return super().__hash__()

    @override
    def __eq__(self, other: object) -> bool:
        return super().__eq__(other)


@pytest.mark.parametrize("is_deleted", [False, True])
def test_an_offset_costs_the_same_beside_any_number_of_open_transactions(is_deleted: bool) -> None:
    value = OffsetCommitValue(offset=1, metadata="", commit_timestamp=1)
    lookups = []
    for others in (10, 1_000):
        store = OffsetStore()
        for producer_id in range(others):
            store.put_pending(producer_id, f"group-{producer_id}", PARTITION, value, producer_id)
        group_id = Counted("group")
        store.put_pending(7, group_id, PARTITION, value, others)
        Counted.lookups = 0
        store.put(group_id, PARTITION, None if is_deleted else value, others + 1)
        lookups.append(Counted.lookups)
        assert store.has_pending("group", PARTITION) is not is_deleted
    assert lookups[0] == lookups[1]
