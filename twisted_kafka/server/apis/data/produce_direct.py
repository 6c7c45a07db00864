"""The produce request that nearly all are, one batch for one partition, read and answered without making messages of it.

The messages of such a request and its answer cost as much as the append. What is said here of their layout is tested against the
messages themselves, for every version.
"""

import struct
from typing import Final

from twisted_kafka.protocol.regions import Buffer, Part
from twisted_kafka.protocol.wire import LONGEST_COMPACT_TEXT, MalformedMessageError, unsigned_varint
from twisted_kafka.server.dispatch import ReadyResponse

FIRST_VERSION: Final = 3
"""Before it there are no batches."""

_FIRST_WITH_START: Final = 5
_FIRST_WITH_REASONS: Final = 8
_FIRST_FLEXIBLE: Final = 9

# No transactional id, acks, timeout, one topic, the length of its name; one partition, its index, the length of its records.
_HEAD: Final = struct.Struct(">hhiih")
_PARTITION: Final = struct.Struct(">iii")
_COMPACT_HEAD: Final = struct.Struct(">BhiBB")
_COMPACT_PARTITION: Final = struct.Struct(">Bi")

# One topic, its name; one partition, its index, no error, offset, time, log start, no record errors, no message; throttle time.
_ANSWER_HEAD: Final = struct.Struct(">ih").pack
_ANSWER_3: Final = struct.Struct(">iihqqi").pack
_ANSWER_5: Final = struct.Struct(">iihqqqi").pack
_ANSWER_8: Final = struct.Struct(">iihqqq4xhi").pack
_COMPACT_ANSWER_HEAD: Final = struct.Struct("BB").pack
_COMPACT_ANSWER: Final = struct.Struct(">BihqqqB3xix").pack


class OneBatch:
    """What such a request says."""

    __slots__ = ("acks", "index", "records", "size_bytes", "timeout_ms", "topic")

    def __init__(self, acks: int, timeout_ms: int, topic: str, index: int, records: Buffer) -> None:
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topic = topic
        self.index = index
        self.records = records
        self.size_bytes = len(records)


def read_one(frame: Buffer, version: int, offset: int) -> OneBatch | None:
    """Read the request that begins at ``offset``; None when it is any other, or broken: then its decoder says what it is."""
    try:
        return _read_compact(frame, offset) if version >= _FIRST_FLEXIBLE else _read_plain(frame, offset)
    except (struct.error, IndexError, UnicodeDecodeError, MalformedMessageError):
        return None


def _read_plain(frame: Buffer, offset: int) -> OneBatch | None:
    transactional_id, acks, timeout_ms, topics, length = _HEAD.unpack_from(frame, offset)
    if transactional_id != -1 or topics != 1 or length <= 0:
        return None
    start = offset + _HEAD.size
    position = start + length
    partitions, index, size = _PARTITION.unpack_from(frame, position)
    position += _PARTITION.size
    if partitions != 1 or size < 0 or position + size != len(frame):
        return None
    return OneBatch(acks, timeout_ms, str(frame[start : start + length], "utf-8"), index, memoryview(frame)[position:])


def _read_compact(frame: Buffer, offset: int) -> OneBatch | None:
    transactional_id, acks, timeout_ms, topics, length = _COMPACT_HEAD.unpack_from(frame, offset)
    if transactional_id or topics != 2 or not 2 <= length <= LONGEST_COMPACT_TEXT + 1:
        return None
    start = offset + _COMPACT_HEAD.size
    end = start + length - 1
    partitions, index = _COMPACT_PARTITION.unpack_from(frame, end)
    size, position = unsigned_varint(frame, end + _COMPACT_PARTITION.size)
    after = position + size - 1
    # Three sections of tagged fields follow, which are empty.
    if partitions != 2 or not size or after + 3 != len(frame) or frame[after] or frame[after + 1] or frame[after + 2]:
        return None
    return OneBatch(acks, timeout_ms, str(frame[start:end], "utf-8"), index, memoryview(frame)[position:after])


class AppendedResponse(ReadyResponse):
    """The answer to such a request whose batch was appended."""

    __slots__ = ("_base_offset", "_index", "_log_append_time_ms", "_log_start_offset", "_throttle_time_ms", "_topic")

    def __init__(
        self, topic: str, index: int, base_offset: int, log_append_time_ms: int, log_start_offset: int, throttle_time_ms: int = 0
    ) -> None:
        self._topic = topic
        self._index = index
        self._base_offset = base_offset
        self._log_append_time_ms = log_append_time_ms
        self._log_start_offset = log_start_offset
        self._throttle_time_ms = throttle_time_ms

    def throttled(self, throttle_time_ms: int) -> "AppendedResponse":
        """Return the answer with a throttle time."""
        return AppendedResponse(
            self._topic, self._index, self._base_offset, self._log_append_time_ms, self._log_start_offset, throttle_time_ms
        )

    def encode_parts(self, version: int, prefix: bytes = b"") -> list[Part]:
        """Return ``prefix`` and the answer as one part; the version is 3 at least."""
        name = self._topic.encode()
        index, offset, time_ms, start = self._index, self._base_offset, self._log_append_time_ms, self._log_start_offset
        throttled_ms = self._throttle_time_ms
        if version >= _FIRST_FLEXIBLE:
            head = _COMPACT_ANSWER_HEAD(2, len(name) + 1)
            return [prefix + head + name + _COMPACT_ANSWER(2, index, 0, offset, time_ms, start, 1, throttled_ms)]
        head = prefix + _ANSWER_HEAD(1, len(name)) + name
        if version >= _FIRST_WITH_REASONS:
            return [head + _ANSWER_8(1, index, 0, offset, time_ms, start, -1, throttled_ms)]
        if version >= _FIRST_WITH_START:
            return [head + _ANSWER_5(1, index, 0, offset, time_ms, start, throttled_ms)]
        return [head + _ANSWER_3(1, index, 0, offset, time_ms, throttled_ms)]
