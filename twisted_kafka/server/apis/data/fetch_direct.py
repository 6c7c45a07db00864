"""Fetches of one partition or none, as most are, read without a message; and answers without errors, written without one.

Consumers that follow a session and have nothing to change name no partition; those without a session that have one name one. The
messages of such a request and its answer cost more than the read. What is said here of their layout is tested against the
messages themselves, for every version.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Final

from twisted_kafka.protocol.regions import Buffer, Part
from twisted_kafka.protocol.topic_partition import topic_partition_of
from twisted_kafka.protocol.types import NO_UUID
from twisted_kafka.protocol.wire import LONGEST_COMPACT_TEXT, MalformedMessageError, coalesce, unsigned_varint, varint_bytes
from twisted_kafka.replication.partition.fetch_data import CONSUMER_REPLICA_ID, PartitionFetch, PartitionRead
from twisted_kafka.server.dispatch import ReadyResponse
from twisted_kafka.server.fetch_context import NO_FETCHES
from twisted_kafka.server.fetch_session import FetchedPartitions

FIRST_VERSION: Final = 4
"""Before it records are converted."""

_FIRST_WITH_START: Final = 5
_FIRST_WITH_SESSIONS: Final = 7
_FIRST_WITH_EPOCHS: Final = 9
_FIRST_WITH_RACKS: Final = 11
_FIRST_FLEXIBLE: Final = 12
_FIRST_WITH_TOPIC_IDS: Final = 13
_FIRST_WITHOUT_REPLICA: Final = 15

_UUID_BYTES: Final = 16
_NO_SESSION: Final = (0, -1)

# The reader's replica id, the longest wait, the least and the most bytes, the isolation level, session and epoch; topics.
_HEAD_4: Final = struct.Struct(">iiiibi")
_HEAD_7: Final = struct.Struct(">iiiibiii")
_COMPACT_HEAD_12: Final = struct.Struct(">iiiibiiB")
_COMPACT_HEAD_15: Final = struct.Struct(">iiibiiB")
_LENGTH: Final = struct.Struct(">h")
_COUNT: Final = struct.Struct(">i")

# Partitions, then of one of them: index, the leader's epoch, offset, the epoch last fetched, the log's start, the most bytes.
_PARTITION_4: Final = struct.Struct(">iiqi")
_PARTITION_5: Final = struct.Struct(">iiqqi")
_PARTITION_9: Final = struct.Struct(">iiiqqi")
_COMPACT_PARTITION: Final = struct.Struct(">Biiqiqi")

# Throttled 0, no error, the session, topics.
_ANSWER_HEAD_4: Final = struct.Struct(">4xi").pack
_ANSWER_HEAD_7: Final = struct.Struct(">6xii").pack
_COMPACT_ANSWER_HEAD: Final = struct.Struct(">6xi").pack
_PACK_LENGTH: Final = _LENGTH.pack
_PACK_COUNT: Final = _COUNT.pack

# Index, no error, high watermark, last stable offset, the log's start, aborted transactions, no other replica, bytes of records.
_LAYOUT_4: Final = struct.Struct(">i2xqqii")
_LAYOUT_5: Final = struct.Struct(">i2xqqqii")
_LAYOUT_11: Final = struct.Struct(">i2xqqqiii")
_COMPACT_LAYOUT: Final = struct.Struct(">i2xqqqBi")
_ANSWER_4: Final = _LAYOUT_4.pack
_ANSWER_5: Final = _LAYOUT_5.pack
_ANSWER_11: Final = _LAYOUT_11.pack
_COMPACT_ANSWER: Final = _COMPACT_LAYOUT.pack

# The size prefix counts too, as in Kafka (FetchResponse.sizeOf).
_HEAD_4_BYTES: Final = 12
_HEAD_7_BYTES: Final = 18
_COMPACT_HEAD_BYTES: Final = 16
_COMPACT_PARTITION_BYTES: Final = _COMPACT_LAYOUT.size + 2


class OneFetch:
    """What such a request says; ``fetches`` are one or none."""

    __slots__ = ("fetches", "isolation_level", "max_bytes", "max_wait_ms", "min_bytes", "replica_id", "session_epoch", "session_id")

    def __init__(self, replica_id: int, max_wait_ms: int, min_bytes: int, max_bytes: int, isolation_level: int) -> None:
        self.replica_id = replica_id
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation_level = isolation_level
        self.session_id, self.session_epoch = _NO_SESSION
        self.fetches: Sequence[PartitionFetch] = NO_FETCHES


def read_one(frame: Buffer, version: int, offset: int, topic_name: Callable[[bytes], str | None]) -> OneFetch | None:
    """Read the request that begins at ``offset``; None when it is any other, or broken: then its decoder says what it is."""
    try:
        return (
            _read_compact(frame, version, offset, topic_name) if version >= _FIRST_FLEXIBLE else _read_plain(frame, version, offset)
        )
    except (struct.error, IndexError, UnicodeDecodeError, MalformedMessageError):
        return None


def _read_plain(frame: Buffer, version: int, offset: int) -> OneFetch | None:
    if version >= _FIRST_WITH_SESSIONS:
        replica_id, wait_ms, least, most, isolation, session_id, epoch, topics = _HEAD_7.unpack_from(frame, offset)
        position = offset + _HEAD_7.size
    else:
        replica_id, wait_ms, least, most, isolation, topics = _HEAD_4.unpack_from(frame, offset)
        session_id, epoch = _NO_SESSION
        position = offset + _HEAD_4.size
    one = OneFetch(replica_id, wait_ms, least, most, isolation)
    one.session_id, one.session_epoch = session_id, epoch
    if topics == 1:
        length = _LENGTH.unpack_from(frame, position)[0]
        start = position + _LENGTH.size
        position = start + length
        if length <= 0:
            return None
        leader_epoch = log_start = -1
        if version >= _FIRST_WITH_EPOCHS:
            partitions, index, leader_epoch, fetch_offset, log_start, max_bytes = _PARTITION_9.unpack_from(frame, position)
            position += _PARTITION_9.size
        elif version >= _FIRST_WITH_START:
            partitions, index, fetch_offset, log_start, max_bytes = _PARTITION_5.unpack_from(frame, position)
            position += _PARTITION_5.size
        else:
            partitions, index, fetch_offset, max_bytes = _PARTITION_4.unpack_from(frame, position)
            position += _PARTITION_4.size
        if partitions != 1:
            return None
        topic_partition = topic_partition_of((str(frame[start : start + length], "utf-8"), index))
        one.fetches = (PartitionFetch(topic_partition, NO_UUID, index, fetch_offset, max_bytes, log_start, leader_epoch),)
    elif topics:
        return None
    if version >= _FIRST_WITH_SESSIONS:
        if _COUNT.unpack_from(frame, position)[0]:
            return None
        position += _COUNT.size
    if version >= _FIRST_WITH_RACKS:
        length = _LENGTH.unpack_from(frame, position)[0]
        if length < 0:
            return None
        str(frame[position + _LENGTH.size : position + _LENGTH.size + length], "utf-8")
        position += _LENGTH.size + length
    return one if position == len(frame) else None


def _read_compact(frame: Buffer, version: int, offset: int, topic_name: Callable[[bytes], str | None]) -> OneFetch | None:
    if version >= _FIRST_WITHOUT_REPLICA:
        wait_ms, least, most, isolation, session_id, epoch, topics = _COMPACT_HEAD_15.unpack_from(frame, offset)
        replica_id = CONSUMER_REPLICA_ID
        position = offset + _COMPACT_HEAD_15.size
    else:
        replica_id, wait_ms, least, most, isolation, session_id, epoch, topics = _COMPACT_HEAD_12.unpack_from(frame, offset)
        position = offset + _COMPACT_HEAD_12.size
    one = OneFetch(replica_id, wait_ms, least, most, isolation)
    one.session_id, one.session_epoch = session_id, epoch
    if topics == 2:
        name: str | None
        if version >= _FIRST_WITH_TOPIC_IDS:
            topic_id = bytes(frame[position : position + _UUID_BYTES])
            position += _UUID_BYTES
            name = topic_name(topic_id)
        else:
            length = frame[position]
            if not 2 <= length <= LONGEST_COMPACT_TEXT + 1:
                return None
            topic_id = NO_UUID
            name = str(frame[position + 1 : position + length], "utf-8")
            position += length
        partitions, index, leader_epoch, fetch_offset, last_epoch, log_start, max_bytes = _COMPACT_PARTITION.unpack_from(
            frame, position
        )
        position += _COMPACT_PARTITION.size
        if partitions != 2 or frame[position] or frame[position + 1]:  # the tagged fields of the partition and the topic
            return None
        position += 2
        topic_partition = None if name is None else topic_partition_of((name, index))
        fetch = PartitionFetch(topic_partition, topic_id, index, fetch_offset, max_bytes, log_start, leader_epoch, last_epoch)
        one.fetches = (fetch,)
    elif topics != 1:
        return None
    if frame[position] != 1:
        return None
    length, position = unsigned_varint(frame, position + 1)
    if not length:
        return None
    str(frame[position : position + length - 1], "utf-8")
    position += length - 1
    # The cluster's id and a follower's state are tagged fields: with them it is none of these.
    return one if position + 1 == len(frame) and not frame[position] else None


def by_topic(fetched: FetchedPartitions) -> Sequence[FetchedPartitions]:
    """Put partitions of one topic that follow each other together."""
    if len(fetched) == 1:
        return (fetched,)
    topics: list[list[tuple[PartitionFetch, PartitionRead]]] = []
    for each in fetched:
        fetch = each[0]
        if topics:
            last = topics[-1][0][0]
            if fetch.topic_id == last.topic_id and topic_of(fetch) == topic_of(last):
                topics[-1].append(each)
                continue
        topics.append([each])
    return topics


def topic_of(fetch: PartitionFetch) -> str:
    """Return the topic's name; empty when its id is not known."""
    return fetch.topic_partition.topic if fetch.topic_partition is not None else ""


def size_of(version: int, topics: Sequence[FetchedPartitions]) -> int:
    """Return the size of an answer with these partitions, before it is made; without their errors, which hardly change it."""
    if version >= _FIRST_FLEXIBLE:
        size = _COMPACT_HEAD_BYTES
        for fetched in topics:
            size += _UUID_BYTES + 2 if version >= _FIRST_WITH_TOPIC_IDS else 3 + len(topic_of(fetched[0][0]).encode())
            for _, read in fetched:
                read_bytes = read.size_bytes
                size += _COMPACT_PARTITION_BYTES + read_bytes
                while read_bytes >= 127:  # the length is a varint of one more than it
                    size += 1
                    read_bytes = (read_bytes + 1 >> 7) - 1
        return size
    size = _HEAD_7_BYTES if version >= _FIRST_WITH_SESSIONS else _HEAD_4_BYTES
    layout = _LAYOUT_11 if version >= _FIRST_WITH_RACKS else _LAYOUT_5 if version >= _FIRST_WITH_START else _LAYOUT_4
    for fetched in topics:
        size += _LENGTH.size + len(topic_of(fetched[0][0]).encode()) + _COUNT.size
        size += sum([layout.size + read.size_bytes for _, read in fetched])
    return size


class FetchedResponse(ReadyResponse):
    """The answer to a fetch of version 4 or later, without errors, diverging epochs and aborted transactions."""

    __slots__ = ("_session_id", "_topics")

    def __init__(self, session_id: int, topics: Sequence[FetchedPartitions]) -> None:
        """``topics`` is what ``by_topic`` returns."""
        self._session_id = session_id
        self._topics = topics

    def encode_parts(self, version: int, prefix: bytes = b"") -> list[Part]:
        """Return ``prefix`` and the answer, the records' file regions as parts of their own."""
        count = len(self._topics)
        if version >= _FIRST_FLEXIBLE:
            head = prefix + _COMPACT_ANSWER_HEAD(self._session_id) + varint_bytes(count + 1)
            if not count:
                return [head + b"\0"]
            return self._encode_compact(version, head)
        if version >= _FIRST_WITH_SESSIONS:
            head = prefix + _ANSWER_HEAD_7(self._session_id, count)
        else:
            head = prefix + _ANSWER_HEAD_4(count)
        return self._encode_plain(version, head) if count else [head]

    def _encode_plain(self, version: int, head: bytes) -> list[Part]:
        out: list[Part] = [head]
        for fetched in self._topics:
            name = topic_of(fetched[0][0]).encode()
            out.append(_PACK_LENGTH(len(name)) + name + _PACK_COUNT(len(fetched)))
            for fetch, read in fetched:
                index, high_watermark, stable, records = fetch.partition, read.high_watermark, read.last_stable_offset, read.records
                aborted = -1 if read.aborted_transactions is None else 0
                size = len(records)
                if version >= _FIRST_WITH_RACKS:
                    out.append(_ANSWER_11(index, high_watermark, stable, read.log_start_offset, aborted, -1, size))
                elif version >= _FIRST_WITH_START:
                    out.append(_ANSWER_5(index, high_watermark, stable, read.log_start_offset, aborted, size))
                else:
                    out.append(_ANSWER_4(index, high_watermark, stable, aborted, size))
                if size:
                    out.append(records)
        return coalesce(out)

    def _encode_compact(self, version: int, head: bytes) -> list[Part]:
        out: list[Part] = [head]
        for fetched in self._topics:
            first = fetched[0][0]
            if version >= _FIRST_WITH_TOPIC_IDS:
                out.append(first.topic_id + varint_bytes(len(fetched) + 1))
            else:
                name = topic_of(first).encode()
                out.append(varint_bytes(len(name) + 1) + name + varint_bytes(len(fetched) + 1))
            for fetch, read in fetched:
                records = read.records
                aborted = 0 if read.aborted_transactions is None else 1
                size = len(records)
                answer = _COMPACT_ANSWER(
                    fetch.partition, read.high_watermark, read.last_stable_offset, read.log_start_offset, aborted, -1
                )
                if size:
                    out.append(answer + varint_bytes(size + 1))
                    out.append(records)
                    out.append(b"\0")
                else:
                    out.append(answer + b"\1\0")
            out.append(b"\0")
        out.append(b"\0")
        return coalesce(out)
