import errno
import os
import resource
from pathlib import Path
from typing import Any

import pytest

from twisted_kafka.log.checkpoints import MalformedCheckpointError, OffsetCheckpoint
from twisted_kafka.log.files import parse_partition_directory, write_atomically
from twisted_kafka.log.leader_epoch import LeaderEpochCache
from twisted_kafka.log.partition_metadata import read_topic_id, write_topic_id
from twisted_kafka.protocol.topic_partition import TopicPartition


def test_offsets_are_written_as_kafka_does(tmp_path: Path) -> None:
    checkpoint = OffsetCheckpoint(tmp_path / "recovery-point-offset-checkpoint")
    assert checkpoint.read() == {}
    offsets = {TopicPartition("orders.eu", 2): 2**40, TopicPartition("a", 0): 0}
    checkpoint.write(offsets)
    assert checkpoint.path.read_text() == "0\n2\norders.eu 2 1099511627776\na 0 0\n"
    assert checkpoint.read() == offsets
    checkpoint.write({})
    assert checkpoint.path.read_text() == "0\n0\n"
    assert [path.name for path in tmp_path.iterdir()] == ["recovery-point-offset-checkpoint"]


def test_a_file_of_no_bytes_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "cleaner-offset-checkpoint"
    path.write_bytes(b"")
    assert OffsetCheckpoint(path).read() == {}


@pytest.mark.parametrize("offset", ["-1", "+1", "1_0", "\N{ARABIC-INDIC DIGIT THREE}", str(2**63)])
def test_a_number_that_no_broker_writes_is_damage(tmp_path: Path, offset: str) -> None:
    for line in (f"one 0 {offset}", f"one {offset} 0"):
        (tmp_path / "checkpoint").write_text(f"0\n1\n{line}\n")
        with pytest.raises(MalformedCheckpointError, match="line 3"):
            OffsetCheckpoint(tmp_path / "checkpoint").read()


@pytest.mark.parametrize("text", ["1\n0\n", "0\n", "0\n2\na 0 1\n", "0\n1\na 0\n", "0\n1\na b c\n", "x", "0\n1\n\xff"])
def test_damage_is_told_with_the_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(MalformedCheckpointError, match="checkpoint"):
        OffsetCheckpoint(path).read()


def test_a_half_written_replacement_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    write_atomically(path, b"0\n0\n")
    (tmp_path / "checkpoint.tmp").write_bytes(b"0\n5")
    assert OffsetCheckpoint(path).read() == {}


@pytest.mark.parametrize(
    ("name", "topic", "partition"),
    [
        ("topic-0", "topic", 0),
        ("a-b-12", "a-b", 12),
        ("x-3.0123456789abcdef-delete", "x", 3),
        ("with.dots-1.abc-future", "with.dots", 1),
    ],
)
def test_directory_names(name: str, topic: str, partition: int) -> None:
    assert parse_partition_directory(name) == (topic, partition)


@pytest.mark.parametrize(
    "name", ["topic", "topic-", "-1", "topic-x", "lost+found", "topic-00", "topic-2147483648", "a b-0", "x" * 250 + "-0"]
)
def test_other_directories(name: str) -> None:
    with pytest.raises(ValueError):
        parse_partition_directory(name)


def test_topic_ids(tmp_path: Path) -> None:
    assert read_topic_id(tmp_path) is None
    topic_id = bytes(range(1, 17))
    write_topic_id(tmp_path, topic_id)
    assert (tmp_path / "partition.metadata").read_text() == "version: 0\ntopic_id: AQIDBAUGBwgJCgsMDQ4PEA"
    assert read_topic_id(tmp_path) == topic_id
    (tmp_path / "partition.metadata").write_text("")
    assert read_topic_id(tmp_path) is None
    for text in (
        "version: 9\n",
        "version: 0\n",
        "version: 1\ntopic_id: AQIDBAUGBwgJCgsMDQ4PEA",
        "topic_id: AQIDBAUGBwgJCgsMDQ4PEA",
    ):
        (tmp_path / "partition.metadata").write_text(text)
        with pytest.raises(ValueError, match="must have version: 0 and topic_id"):
            read_topic_id(tmp_path)
    for text in ("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "\0" * 40, "\n"):
        (tmp_path / "partition.metadata").write_text(text)
        assert read_topic_id(tmp_path) is None
    (tmp_path / "partition.metadata").write_text("a remark\nversion: 0\ntopic_id: AQIDBAUGBwgJCgsMDQ4PEA\n")
    assert read_topic_id(tmp_path) == topic_id


# Leader epochs.


@pytest.fixture
def cache(tmp_path: Path) -> LeaderEpochCache:
    cache = LeaderEpochCache(tmp_path, pytest.fail)  # type: ignore[arg-type]
    for epoch, offset in ((1, 0), (3, 10), (7, 30)):
        cache.assign(epoch, offset)
    return cache


def test_ends_of_epochs(cache: LeaderEpochCache) -> None:
    ends = {epoch: tuple(cache.end_offset_for(epoch, 50)) for epoch in range(-1, 9)}
    assert ends == {
        -1: (-1, -1),
        0: (0, 0),
        1: (1, 10),
        2: (1, 10),
        3: (3, 30),
        4: (3, 30),
        5: (3, 30),
        6: (3, 30),
        7: (7, 50),
        8: (-1, -1),
    }


def test_an_assignment_drops_what_contradicts_it(cache: LeaderEpochCache) -> None:
    cache.assign(5, 20)
    assert cache.entries == ((1, 0), (3, 10), (5, 20))
    cache.assign(6, 5)
    assert cache.entries == ((1, 0), (6, 5))  # type: ignore[comparison-overlap]
    cache.assign(6, 9)
    assert cache.entries == ((1, 0), (6, 5))  # type: ignore[comparison-overlap]


def test_cutting_epochs(cache: LeaderEpochCache) -> None:
    cache.truncate_from_end(30)
    assert cache.entries == ((1, 0), (3, 10))
    cache.truncate_from_start(12)
    assert cache.entries == ((3, 12),)  # type: ignore[comparison-overlap]
    assert cache.path.read_text() == "0\n1\n3 12\n"
    cache.truncate_from_end(12)
    assert cache.entries == ()  # type: ignore[comparison-overlap]
    assert cache.latest_epoch == -1


def test_epochs_are_read_again(cache: LeaderEpochCache, tmp_path: Path) -> None:
    again = LeaderEpochCache(tmp_path, pytest.fail)  # type: ignore[arg-type]
    again.load()
    assert again.entries == cache.entries
    assert [again.epoch_for_offset(offset) for offset in (0, 9, 10, 29, 30, 99)] == [1, 1, 3, 3, 7, 7]


def test_epochs_before_the_start_are_forgotten_where_one_begins_there(tmp_path: Path) -> None:
    cache = LeaderEpochCache(tmp_path, pytest.fail)  # type: ignore[arg-type]
    for epoch, offset in ((0, 0), (1, 5), (2, 9)):
        cache.assign(epoch, offset)
    cache.truncate_from_start(5)
    assert cache.entries == ((1, 5), (2, 9))
    cache.truncate_from_start(7)
    assert cache.entries == ((1, 7), (2, 9))


def test_an_epoch_may_turn_out_to_have_begun_earlier(tmp_path: Path) -> None:
    cache = LeaderEpochCache(tmp_path, pytest.fail)  # type: ignore[arg-type]
    cache.assign(3, 9)
    cache.assign(3, 12)
    assert cache.entries == ((3, 9),)
    cache.assign(3, 7)
    assert cache.entries == ((3, 7),)


def many_offsets(first: int) -> dict[TopicPartition, int]:
    return {TopicPartition("topic", number): first + number for number in range(200)}


@pytest.mark.whole_transfers
@pytest.mark.parametrize("room_bytes", [0, 1, 100, 2000])
def test_a_full_disk_keeps_the_old_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room_bytes: int) -> None:
    checkpoint = OffsetCheckpoint(tmp_path / "checkpoint")
    checkpoint.write(many_offsets(0))
    pwrite = os.pwrite

    def full(fd: int, data: Any, position: int) -> int:
        room = room_bytes - position
        if room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return pwrite(fd, data[:room], position)

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        with pytest.raises(OSError, match="No space left"):
            checkpoint.write(many_offsets(5))
    assert checkpoint.read() == many_offsets(0)
    assert os.listdir(tmp_path) == ["checkpoint"], "what is left would take the room of others"
    checkpoint.write(many_offsets(7))
    assert checkpoint.read() == many_offsets(7)


def test_a_limit_of_the_system_keeps_the_old_checkpoint(tmp_path: Path) -> None:
    checkpoint = OffsetCheckpoint(tmp_path / "checkpoint")
    checkpoint.write(many_offsets(0))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))  # the kernel writes so much, and refuses the rest
    try:
        with pytest.raises(OSError, match="File too large"):
            checkpoint.write(many_offsets(5))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert checkpoint.read() == many_offsets(0)
