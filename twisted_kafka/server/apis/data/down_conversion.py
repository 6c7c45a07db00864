"""Down-conversion of records for old consumers: Fetch v0 and v1 get message format 0, v2 and v3 format 1."""

import struct
from typing import Final

from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.errors import ErrorCode, UnsupportedCompressionTypeError
from twisted_kafka.protocol.records.conversion import down_convert
from twisted_kafka.protocol.records.layout import LOG_OVERHEAD, MAGIC_AT, stated_end
from twisted_kafka.protocol.regions import Buffer, FileRegion
from twisted_kafka.replication.partition.fetch_data import FetchParams, PartitionFetch, PartitionRead
from twisted_kafka.replication.partition.topic_stats import FETCH_CONVERSIONS
from twisted_kafka.replication.replica_manager import ReplicaManager
from twisted_kafka.timing.clock import IClock

_FIRST_VERSION_OF_BATCHES: Final = 4
_FIRST_VERSION_WITH_ZSTD: Final = 10
_LAST_VERSION_OF_FORMAT_0: Final = 1

CONVERTED_BYTES: Final = 1 << 20
"""Maximum bytes of a partition converted for one response, or the first batch if larger; the consumer fetches the rest later."""

_MOST_OFFSET_AND_SIZE: Final = struct.Struct(">qi")


class DownConversion:
    """Converts records to the format that a consumer understands."""

    __slots__ = ("_clock", "_replicas")

    def __init__(self, replicas: ReplicaManager, clock: IClock) -> None:
        self._replicas = replicas
        self._clock = clock

    @staticmethod
    def concerns(version: int) -> bool:
        """Return whether a fetch of that version may need conversion or has to be refused."""
        return version < _FIRST_VERSION_WITH_ZSTD

    def convert(self, context: RequestContext, fetch: PartitionFetch, read: PartitionRead, params: FetchParams) -> None:
        """Replace the records of ``read`` by converted ones or by an error; note time and memory of the conversion in ``context``.

        UNSUPPORTED_COMPRESSION_TYPE: the topic is compressed with zstd.
        UNSUPPORTED_VERSION: ``message.downconversion.enable`` is false.
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
        started_ns = self._clock.monotonic_ns()
        to_magic = 0 if params.version <= _LAST_VERSION_OF_FORMAT_0 else 1
        data = _beginning(read.records)
        if not _needs(data, to_magic):
            if isinstance(read.records, FileRegion) and len(data) < read.size_bytes:
                read.records = read.records.slice(0, len(_whole_batches(data)))  # later batches may have a newer format
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
            # A truncated message shows the consumer that its fetch size is too small; an empty set would look like the log's end.
            converted = _MOST_OFFSET_AND_SIZE.pack(-1, read.size_bytes + 1)
        read.records = converted
        read.size_bytes = len(read.records)
        context.note_conversion(self._clock.monotonic_ns() - started_ns, len(data) + len(converted))
        topic = fetch.topic_partition.topic
        self._replicas.stats.mark(topic, FETCH_CONVERSIONS, 1)


def _refuse(read: PartitionRead, error: int) -> None:
    read.error = error
    read.records = b""
    read.size_bytes = 0
    read.high_watermark = read.last_stable_offset = read.log_start_offset = -1


def _beginning(records: Buffer | FileRegion) -> Buffer:
    """Return the first CONVERTED_BYTES of the records, or the whole first batch if it is larger."""
    if not isinstance(records, FileRegion):
        return records
    data = records.slice(0, CONVERTED_BYTES).read()
    if len(data) == CONVERTED_BYTES < len(records):
        first = stated_end(data, 0)
        if first > CONVERTED_BYTES:
            data = records.slice(0, first).read()
    return data


def _converted(records: Buffer | FileRegion, data: Buffer, to_magic: int, first_offset: int) -> bytes:
    """Convert ``data``, the beginning of the records; if it has only control batches, convert what follows instead."""
    while True:
        whole = _whole_batches(data)
        found = down_convert(whole, to_magic, first_offset, limit_bytes=len(data))
        if found or not len(whole) or not isinstance(records, FileRegion) or len(whole) == len(records):
            return found
        records = records.slice(len(whole), len(records))
        data = _beginning(records)


def _needs(data: Buffer, to_magic: int) -> bool:
    """Return whether any batch, even a truncated one, has a newer format."""
    position = 0
    while position + MAGIC_AT < len(data):
        if data[position + MAGIC_AT] > to_magic:
            return True
        position = stated_end(data, position)
    return False


def _whole_batches(data: Buffer) -> memoryview:
    """Return the data without a truncated last batch."""
    end = position = 0
    while position + LOG_OVERHEAD <= len(data):
        position = stated_end(data, position)
        if position <= len(data):
            end = position
    return memoryview(data)[:end]
