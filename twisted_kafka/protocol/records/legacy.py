"""Message sets of formats 0 and 1: a message is a record, or contains a compressed set of messages.

Inner offsets of a compressed message are absolute in format 0. In format 1 they are relative to the first one, and the outer offset
is that of the last inner message.
"""

import struct
import sys
import zlib
from collections.abc import Iterator

from typing_extensions import override

from twisted_kafka.protocol.errors import CorruptRecordError, InvalidRecordError, RecordTooLargeError
from twisted_kafka.protocol.records.compression import Compression, decompress
from twisted_kafka.protocol.records.layout import (
    INT32,
    INT64,
    LEGACY_CRC_START,
    LEGACY_HEADER,
    LOG_OVERHEAD,
    SIZE_AT,
    SMALLEST_SIZE,
)
from twisted_kafka.protocol.records.record import (
    DEFAULT_DECOMPRESSION_LIMIT_BYTES,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    Record,
    RecordBatch,
)


class LegacyBatch(RecordBatch):
    """One message of format 0 or 1, compressed or not."""

    __slots__ = ("_base_offset", "_payload_start")

    def __init__(self, data: memoryview, position: int = 0) -> None:
        """Parse the header of the message in ``data``, which must hold exactly this message.

        Raises CorruptRecordError when it is too short.
        """
        self.data = data
        self.position = position
        self._base_offset: int | None = None
        self.partition_leader_epoch = NO_PARTITION_LEADER_EPOCH
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.base_sequence = NO_SEQUENCE
        self._payload_start = LEGACY_HEADER.size
        self.max_timestamp_ms = NO_TIMESTAMP
        try:
            self.last_offset, size, self.crc, self.magic, self.attributes = LEGACY_HEADER.unpack_from(data)
            if self.magic > 0:
                (self.max_timestamp_ms,) = INT64.unpack_from(data, LEGACY_HEADER.size)
                self._payload_start += INT64.size
        except struct.error:
            raise CorruptRecordError(f"a message of {len(data)} bytes is too short") from None
        self.base_timestamp_ms = self.max_timestamp_ms
        self.size_bytes = size + LOG_OVERHEAD

    @property
    @override
    def base_offset(self) -> int:
        """The first record's offset; a compressed message has to be decompressed for it, once."""
        if self._base_offset is None:
            if self.compression == Compression.NONE:
                self._base_offset = self.last_offset
            else:
                self._base_offset = next(self.records()).offset
        return self._base_offset

    @property
    @override
    def count(self) -> None:
        """None: these formats do not declare it."""
        return

    @override
    def is_valid(self) -> bool:
        """Whether the CRC-32 is correct."""
        return zlib.crc32(self.data[LEGACY_CRC_START:]) == self.crc

    def key_and_value(self) -> tuple[bytes | None, bytes | None]:
        """Return the message's own key and value; raises InvalidRecordError when their lengths do not fit the message."""
        key, position = self._read_bytes(self._payload_start)
        # Kafka ignores bytes after the value.
        return key, self._read_bytes(position)[0]

    def _read_bytes(self, position: int) -> tuple[bytes | None, int]:
        try:
            (size,) = INT32.unpack_from(self.data, position)
        except struct.error:
            raise InvalidRecordError("a message ends within a length") from None
        position += INT32.size
        if size < 0:
            return None, position
        end = position + size
        if end > self.size_bytes:
            raise InvalidRecordError(f"a field declares a size of {size} bytes, but {self.size_bytes - position} remain")
        return bytes(self.data[position:end]), end

    @override
    def records(self, limit_bytes: int = DEFAULT_DECOMPRESSION_LIMIT_BYTES) -> Iterator[Record]:
        """Parse the records; raises the errors of the base class."""
        if self.compression == Compression.NONE:
            key, value = self.key_and_value()
            yield Record(self.last_offset, self.max_timestamp_ms, key, value)
            return
        inner = self.inner_messages(limit_bytes)
        base = self._inner_base(inner[-1].last_offset)
        append_time = self.attributes & TIMESTAMP_TYPE_MASK and self.magic > 0
        for message in inner:
            key, value = message.key_and_value()
            timestamp = self.max_timestamp_ms if append_time else message.max_timestamp_ms
            yield Record(base + message.last_offset, timestamp, key, value)

    def _inner_base(self, last_inner_offset: int) -> int:
        """Return the offset to add to the inner offsets. Old versions of librdkafka send an outer offset of 0."""
        if self.magic == 0 or self.last_offset == 0:
            return 0
        if last_inner_offset > self.last_offset:
            raise InvalidRecordError(
                f"the offset {self.last_offset} of a compressed message is less than its last record's, {last_inner_offset}"
            )
        return self.last_offset - last_inner_offset

    def inner_messages(
        self, limit_bytes: int = DEFAULT_DECOMPRESSION_LIMIT_BYTES, max_messages: int = sys.maxsize
    ) -> list["LegacyBatch"]:
        """Return the messages in a compressed one, at least one.

        Raises the errors of ``records``, InvalidRecordError when their format differs from the outer one, RecordTooLargeError when
        there are more than ``max_messages``.
        """
        _, value = self.key_and_value()
        if value is None:
            raise InvalidRecordError("a compressed message has no value")
        data = memoryview(decompress(self.compression, value, limit_bytes=limit_bytes, magic=self.magic))
        messages = []
        position = 0
        while position + LOG_OVERHEAD <= len(data):
            (size,) = INT32.unpack_from(data, position + SIZE_AT)
            if size < SMALLEST_SIZE:
                raise CorruptRecordError(f"the inner message size {size} is less than the minimum of {SMALLEST_SIZE}")
            end = position + LOG_OVERHEAD + size
            if end > len(data):
                raise InvalidRecordError(f"an inner message declares a size of {size} bytes, but {len(data) - position} remain")
            message = LegacyBatch(data[position:end], position)
            if message.magic != self.magic:
                raise InvalidRecordError(f"an inner message has magic {message.magic}, its outer message {self.magic}")
            messages.append(message)
            if len(messages) > max_messages:
                raise RecordTooLargeError(f"a compressed message contains more than {max_messages} messages")
            position = end
        if position != len(data):
            raise InvalidRecordError(f"{len(data) - position} bytes remain after the inner messages")
        if not messages:
            raise InvalidRecordError("a compressed message contains no messages")
        return messages
