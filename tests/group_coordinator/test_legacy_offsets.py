"""Offsets of OffsetCommit v0: nodes that Kafka's first consumers and tools read."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from twisted_kafka.group_coordinator.offsets.legacy_offsets import LegacyOffsets
from twisted_kafka.metadata.embedded import SqliteStore
from twisted_kafka.metadata.store import NoNodeError
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.topic_partition import TopicPartition

PARTITION = TopicPartition("t", 3)
PATH = "/consumers/g/offsets/t/3"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Any]:
    store = SqliteStore(tmp_path / "metadata.sqlite", threaded=False)
    yield store
    store.close()


def test_an_offset_is_the_text_of_its_node(store: Any) -> None:
    offsets = LegacyOffsets(store)
    assert offsets.fetch("g", PARTITION) is None
    for offset in (7, 2**63 - 1):
        assert offsets.commit("g", PARTITION, offset) == ErrorCode.NONE
        assert store.get(PATH)[0] == str(offset).encode()
        assert offsets.fetch("g", PARTITION) == offset
    assert offsets.fetch("g", TopicPartition("t", 4)) is None


def test_a_node_that_is_no_offset_is_none(store: Any) -> None:
    store.create(PATH, b"what", make_parents=True)
    assert LegacyOffsets(store).fetch("g", PARTITION) is None


def test_a_group_without_a_name_is_refused_by_the_store(store: Any) -> None:
    offsets = LegacyOffsets(store)
    assert offsets.commit("", PARTITION, 1) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert offsets.fetch("", PARTITION) is None


def test_the_last_of_two_first_commits_wins(store: Any) -> None:
    """Both requests find no node; the other one creates it first."""

    class Racing:
        def set(self, path: str, data: bytes) -> None:
            if store.exists(path) is None:
                store.create(path, b"1", make_parents=True)
                raise NoNodeError(path)
            store.set(path, data)

        create, get = store.create, store.get

    offsets = LegacyOffsets(Racing())  # type: ignore[arg-type]
    assert offsets.commit("g", PARTITION, 2) == ErrorCode.NONE
    assert offsets.fetch("g", PARTITION) == 2
