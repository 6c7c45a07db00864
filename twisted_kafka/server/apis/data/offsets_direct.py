"""ListOffsets of one partition, as nearly all are, read and answered without making messages of it.

The messages of such a request and its answer cost as much as looking up the end of a log. What is said here of their layout is
tested against the messages themselves, for every version.
"""

import struct
from typing import Final

from twisted_kafka.log.results import TimestampAndOffset
from twisted_kafka.protocol.regions import Buffer, Part
from twisted_kafka.protocol.wire import LONGEST_COMPACT_TEXT
from twisted_kafka.server.dispatch import ReadyResponse

FIRST_VERSION: Final = 1
"""Before it the answer is a list of offsets."""

_FIRST_WITH_ISOLATION: Final = 2
_FIRST_WITH_EPOCHS: Final = 4
_FIRST_FLEXIBLE: Final = 6
_NOT_FOUND: Final = TimestampAndOffset(-1, -1, -1)

# The reader's replica id, the isolation level, one topic, the length of its name; one partition, its index, epoch and time.
_HEAD_1: Final = struct.Struct(">iih")
_HEAD_2: Final = struct.Struct(">ibih")
_PARTITION_1: Final = struct.Struct(">iiq")
_PARTITION_4: Final = struct.Struct(">iiiq")
_COMPACT_HEAD: Final = struct.Struct(">ibBB")
_COMPACT_PARTITION: Final = struct.Struct(">Biiq3s")
_NO_TAGS: Final = bytes(3)

# Throttle time, one topic, its name; one partition, its index, no error, time, offset and epoch.
_ANSWER_HEAD_1: Final = struct.Struct(">ih").pack
_ANSWER_HEAD_2: Final = struct.Struct(">iih").pack
_ANSWER_1: Final = struct.Struct(">ii2xqq").pack
_ANSWER_4: Final = struct.Struct(">ii2xqqi").pack
_COMPACT_ANSWER_HEAD: Final = struct.Struct(">iBB").pack
_COMPACT_ANSWER: Final = struct.Struct(">Bi2xqqi3x").pack


class OneQuestion:
    """What such a request says."""

    __slots__ = ("index", "isolation_level", "leader_epoch", "replica_id", "timestamp", "topic")

    def __init__(self, reader: tuple[int, int], topic: str, index: int, leader_epoch: int, timestamp: int) -> None:
        """``reader``: the replica id and the isolation level."""
        self.replica_id, self.isolation_level = reader
        self.topic = topic
        self.index = index
        self.leader_epoch = leader_epoch
        self.timestamp = timestamp


def read_one(frame: Buffer, version: int, offset: int) -> OneQuestion | None:
    """Read the request that begins at ``offset``; None when it is any other, or broken: then its decoder says what it is."""
    try:
        return _read_compact(frame, offset) if version >= _FIRST_FLEXIBLE else _read_plain(frame, version, offset)
    except (struct.error, IndexError, UnicodeDecodeError):
        return None


def _read_plain(frame: Buffer, version: int, offset: int) -> OneQuestion | None:
    isolation_level, leader_epoch = 0, -1
    if version >= _FIRST_WITH_ISOLATION:
        replica_id, isolation_level, topics, length = _HEAD_2.unpack_from(frame, offset)
        start = offset + _HEAD_2.size
    else:
        replica_id, topics, length = _HEAD_1.unpack_from(frame, offset)
        start = offset + _HEAD_1.size
    end = start + length
    if topics != 1 or length <= 0:
        return None
    if version >= _FIRST_WITH_EPOCHS:
        partitions, index, leader_epoch, timestamp = _PARTITION_4.unpack_from(frame, end)
        after = end + _PARTITION_4.size
    else:
        partitions, index, timestamp = _PARTITION_1.unpack_from(frame, end)
        after = end + _PARTITION_1.size
    if partitions != 1 or after != len(frame):
        return None
    return OneQuestion((replica_id, isolation_level), str(frame[start:end], "utf-8"), index, leader_epoch, timestamp)


def _read_compact(frame: Buffer, offset: int) -> OneQuestion | None:
    replica_id, isolation_level, topics, length = _COMPACT_HEAD.unpack_from(frame, offset)
    if topics != 2 or not 2 <= length <= LONGEST_COMPACT_TEXT + 1:
        return None
    start = offset + _COMPACT_HEAD.size
    end = start + length - 1
    partitions, index, leader_epoch, timestamp, tags = _COMPACT_PARTITION.unpack_from(frame, end)
    if partitions != 2 or tags != _NO_TAGS or end + _COMPACT_PARTITION.size != len(frame):
        return None
    return OneQuestion((replica_id, isolation_level), str(frame[start:end], "utf-8"), index, leader_epoch, timestamp)


class FoundResponse(ReadyResponse):
    """The answer to such a request, without an error."""

    __slots__ = ("_found", "_index", "_throttle_time_ms", "_topic")

    def __init__(self, topic: str, index: int, found: TimestampAndOffset | None, throttle_time_ms: int = 0) -> None:
        self._topic = topic
        self._index = index
        self._found = _NOT_FOUND if found is None else found
        self._throttle_time_ms = throttle_time_ms

    def throttled(self, throttle_time_ms: int) -> "FoundResponse":
        """Return the answer with a throttle time."""
        return FoundResponse(self._topic, self._index, self._found, throttle_time_ms)

    def encode_parts(self, version: int, prefix: bytes = b"") -> list[Part]:
        """Return ``prefix`` and the answer as one part; the version is 1 at least."""
        name = self._topic.encode()
        timestamp, offset, leader_epoch = self._found
        throttled_ms = self._throttle_time_ms
        if version >= _FIRST_FLEXIBLE:
            head = _COMPACT_ANSWER_HEAD(throttled_ms, 2, len(name) + 1)
            return [prefix + head + name + _COMPACT_ANSWER(2, self._index, timestamp, offset, leader_epoch)]
        if version >= _FIRST_WITH_EPOCHS:
            head = prefix + _ANSWER_HEAD_2(throttled_ms, 1, len(name))
            return [head + name + _ANSWER_4(1, self._index, timestamp, offset, leader_epoch)]
        head = _ANSWER_HEAD_2(throttled_ms, 1, len(name)) if version >= _FIRST_WITH_ISOLATION else _ANSWER_HEAD_1(1, len(name))
        return [prefix + head + name + _ANSWER_1(1, self._index, timestamp, offset)]
