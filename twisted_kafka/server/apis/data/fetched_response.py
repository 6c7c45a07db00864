"""Responses to fetches without errors, written without a message, which would cost more than the read.

They have any number of partitions and the regions of files between them, so no flat form fits. What is said here of their layout is
tested against the message itself, for every version.
"""

import struct
from collections.abc import Sequence
from typing import Final

from typing_extensions import override

from twisted_kafka.protocol.compiler.wire import coalesce, varint_bytes
from twisted_kafka.protocol.regions import Part
from twisted_kafka.replication.partition.fetch_data import PartitionFetch, PartitionRead
from twisted_kafka.server.dispatch import ReadyResponse
from twisted_kafka.server.fetch_session import FetchedPartitions

FIRST_VERSION: Final = 4
"""Before it records are converted."""
LAST_VERSION: Final = 18

_FIRST_WITH_START: Final = 5
_FIRST_WITH_SESSIONS: Final = 7
_FIRST_WITH_RACKS: Final = 11
_FIRST_FLEXIBLE: Final = 12
_FIRST_WITH_TOPIC_IDS: Final = 13

_UUID_BYTES: Final = 16

_PACK_LENGTH: Final = struct.Struct(">h").pack
_LENGTH_BYTES: Final = 2
_PACK_COUNT: Final = struct.Struct(">i").pack
_COUNT_BYTES: Final = 4

# Throttled 0, no error, the session, topics.
_ANSWER_HEAD_4: Final = struct.Struct(">4xi").pack
_ANSWER_HEAD_7: Final = struct.Struct(">6xii").pack
_COMPACT_ANSWER_HEAD: Final = struct.Struct(">6xi").pack

# Index, no error, high watermark, last stable offset, the log's start, aborted transactions, no other replica, bytes of records.
_LAYOUT_4: Final = struct.Struct(">i2xqqii")
_LAYOUT_5: Final = struct.Struct(">i2xqqqii")
_LAYOUT_11: Final = struct.Struct(">i2xqqqiii")
_COMPACT_LAYOUT: Final = struct.Struct(">i2xqqqBi")
_ANSWER_4: Final = _LAYOUT_4.pack
_ANSWER_5: Final = _LAYOUT_5.pack
_ANSWER_11: Final = _LAYOUT_11.pack
_COMPACT_ANSWER: Final = _COMPACT_LAYOUT.pack


def _layout_bytes(version: int) -> tuple[int, int, int]:
    """Return how many bytes of an answer are its own, each topic's and each partition's, without names and records.

    The size prefix counts too, as in Kafka (FetchResponse.sizeOf).
    """
    if version >= _FIRST_FLEXIBLE:
        return 16, _UUID_BYTES + 2 if version >= _FIRST_WITH_TOPIC_IDS else 3, _COMPACT_LAYOUT.size + 2
    layout = _LAYOUT_11 if version >= _FIRST_WITH_RACKS else _LAYOUT_5 if version >= _FIRST_WITH_START else _LAYOUT_4
    return 18 if version >= _FIRST_WITH_SESSIONS else 12, _LENGTH_BYTES + _COUNT_BYTES, layout.size


_LAYOUT_BYTES: Final = tuple(map(_layout_bytes, range(LAST_VERSION + 1)))


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
    size, topic_bytes, partition_bytes = _LAYOUT_BYTES[version]
    for fetched in topics:
        size += topic_bytes + len(fetched) * partition_bytes
        if version < _FIRST_WITH_TOPIC_IDS:
            partition = fetched[0][0].topic_partition
            if partition is not None:
                size += len(partition.topic.encode())
        for _, read in fetched:
            read_bytes = read.size_bytes
            if read_bytes:
                size += read_bytes
                if version >= _FIRST_FLEXIBLE:
                    while read_bytes >= 127:  # the length is a varint of one more than it
                        size += 1
                        read_bytes = (read_bytes + 1 >> 7) - 1
    return size


class FetchedResponse(ReadyResponse):
    """The answer to a fetch of version 4 or later, without errors, diverging epochs and aborted transactions."""

    __slots__ = ("_session_id", "_topics")

    def __init__(self, session_id: int, topics: Sequence[FetchedPartitions]) -> None:
        """``topics`` is what ``by_topic`` returns."""
        self._session_id = session_id
        self._topics = topics

    @override
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
