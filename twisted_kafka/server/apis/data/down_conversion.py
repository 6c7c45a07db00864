"""Old formats for old consumers: Fetch 0 and 1 get format 0, Fetch 2 and 3 format 1."""

import struct
from typing import Final

from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.errors import ErrorCode, UnsupportedCompressionTypeError
from twisted_kafka.protocol.records.conversion import down_convert
from twisted_kafka.protocol.regions import Buffer, FileRegion
from twisted_kafka.replication.fetch_data import FetchParams, PartitionFetch, PartitionRead
from twisted_kafka.replication.replica_manager import ReplicaManager
from twisted_kafka.replication.topic_stats import FETCH_CONVERSIONS
from twisted_kafka.timing.clock import IClock

_FIRST_VERSION_OF_BATCHES: Final = 4
_FIRST_VERSION_WITH_ZSTD: Final = 10
_LAST_VERSION_OF_FORMAT_0: Final = 1

CONVERTED_BYTES: Final = 1 << 20
"""So much of a partition is converted for an answer, or the first batch if that is larger: the consumer asks again for the rest."""

_OVERHEAD: Final = 12
_MAGIC_AT: Final = 16
_MOST_OFFSET_AND_SIZE: Final = struct.Struct(">qi")


class DownConversion:
    """Converts what was read for consumers that cannot read it as it is."""

    __slots__ = ("_now_ns", "_replicas")

    def __init__(self, replicas: ReplicaManager, clock: IClock) -> None:
        self._replicas = replicas
        self._now_ns = clock.monotonic_ns

    @staticmethod
    def concerns(version: int) -> bool:
        """Tell whether there is anything to look at for a Fetch of that version."""
        return version < _FIRST_VERSION_WITH_ZSTD

    def convert(self, context: RequestContext, fetch: PartitionFetch, read: PartitionRead, params: FetchParams) -> None:
        """Convert the records in place, or put an error in their place; note in ``context`` what it took.

        UNSUPPORTED_COMPRESSION_TYPE: the topic is compressed with zstd.
        UNSUPPORTED_VERSION: ``message.downconversion.enable`` is off.
        """
        if read.error or fetch.topic_partition is None:
            return
        partition = self._replicas.get_partition(fetch.topic_partition)
        if partition is None:
            return
        config = partition.log.config
        if config.compression_type == "zstd":
            _refuse(read, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
            return
        if params.version >= _FIRST_VERSION_OF_BATCHES or not read.size_bytes:
            return
        started_ns = self._now_ns()
        to_magic = 0 if params.version <= _LAST_VERSION_OF_FORMAT_0 else 1
        data = _beginning(read.records)
        if not _needs(data, to_magic):
            if isinstance(read.records, FileRegion) and len(data) < read.size_bytes:
                read.records = read.records.slice(0, len(_whole_batches(data)))  # what follows may be newer
                read.size_bytes = len(read.records)
            return
        if not params.is_from_follower and not config.message_downconversion_enable:
            _refuse(read, ErrorCode.UNSUPPORTED_VERSION)
            return
        try:
            converted = _converted(read.records, data, to_magic, fetch.fetch_offset)
        except UnsupportedCompressionTypeError as error:
            _refuse(read, error.code)
            return
        if not converted and len(_whole_batches(data)):
            # A consumer that gets nothing of what there is must find out: a message that is cut off says that the limit is low.
            converted = _MOST_OFFSET_AND_SIZE.pack(-1, read.size_bytes + 1)
        read.records = converted
        read.size_bytes = len(read.records)
        context.note_conversion(self._now_ns() - started_ns, len(data) + len(converted))
        topic = fetch.topic_partition.topic
        self._replicas.stats.mark(topic, FETCH_CONVERSIONS, 1)


def _refuse(read: PartitionRead, error: int) -> None:
    read.error = error
    read.records = b""
    read.size_bytes = 0
    read.high_watermark = read.last_stable_offset = read.log_start_offset = -1


def _beginning(records: Buffer | FileRegion) -> Buffer:
    """Return CONVERTED_BYTES of the records, more where the first batch is larger, or all when there are no more."""
    if not isinstance(records, FileRegion):
        return records
    data = records.slice(0, CONVERTED_BYTES).read()
    if len(data) == CONVERTED_BYTES < len(records):
        first = _OVERHEAD + int.from_bytes(data[8:_OVERHEAD], "big")
        if first > CONVERTED_BYTES:
            data = records.slice(0, first).read()
    return data


def _converted(records: Buffer | FileRegion, data: Buffer, to_magic: int, first_offset: int) -> bytes:
    """Convert ``data``, with which the records begin, or what comes later as long as there are control batches only."""
    while True:
        whole = _whole_batches(data)
        found = down_convert(whole, to_magic, first_offset, limit_bytes=len(data))
        if found or not len(whole) or not isinstance(records, FileRegion) or len(whole) == len(records):
            return found
        records = records.slice(len(whole), len(records))
        data = _beginning(records)


def _needs(data: Buffer, to_magic: int) -> bool:
    """Tell whether any batch, also one that is cut off, is of a newer format."""
    position = 0
    while position + _MAGIC_AT < len(data):
        if data[position + _MAGIC_AT] > to_magic:
            return True
        position += _OVERHEAD + int.from_bytes(data[position + 8 : position + 12], "big")
    return False


def _whole_batches(data: Buffer) -> memoryview:
    """Return the data without a last batch that is cut off."""
    end = position = 0
    while position + _OVERHEAD <= len(data):
        position += _OVERHEAD + int.from_bytes(data[position + 8 : position + 12], "big")
        if position <= len(data):
            end = position
    return memoryview(data)[:end]
