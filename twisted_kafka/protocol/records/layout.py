"""The layout of a batch of records: where each field of its header is, in bytes from the start of the batch.

Every format begins with the offset and the size. Format 2 goes on with the header below. Formats 0 and 1 have a CRC, the magic,
the attributes and, in format 1, a timestamp; the magic is at the same place in all formats. (Kafka: ``DefaultRecordBatch``,
``Records``, ``LegacyRecord``.)
"""

import struct
from typing import Final

from twisted_kafka.protocol.regions import Buffer

LATEST_MAGIC: Final = 2

SIZE_AT: Final = 8
LOG_OVERHEAD: Final = 12
"""Bytes of the offset and the size, which the size does not include."""
MAGIC_AT: Final = 16
SMALLEST_SIZE: Final = 14
"""The smallest size that a batch of any format may state: that of a record of format 0 without key and value."""

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
"""Format 2: offset, size, leader epoch, magic, CRC, attributes, last offset delta, base timestamp, largest timestamp, producer id,
producer epoch, base sequence, number of records."""
HEADER_SIZE: Final = HEADER.size
PREFIX: Final = struct.Struct(">qii")
"""The part of the header that a broker sets: offset, size, leader epoch. The CRC does not cover it."""
CRC_AT: Final = 17
CRC_START: Final = 21
"""The CRC of format 2 covers everything from the attributes on."""
ATTRIBUTES_AT: Final = 22
"""The lower byte of the attributes, which has all flags but the delete horizon's reserve."""
BASE_TIMESTAMP_AT: Final = 27
MAX_TIMESTAMP_AT: Final = 35
PRODUCER_ID_AT: Final = 43
PRODUCER_EPOCH_AT: Final = 51
SEQUENCE_AT: Final = 53

LEGACY_HEADER: Final = struct.Struct(">qiIbb")
"""Formats 0 and 1: offset, size, CRC, magic, attributes."""
LEGACY_CRC_AT: Final = 12
LEGACY_CRC_START: Final = 16
"""The CRC of formats 0 and 1 covers everything from the magic on."""

INT16: Final = struct.Struct(">h")
INT32: Final = struct.Struct(">i")
UINT32: Final = struct.Struct(">I")
INT64: Final = struct.Struct(">q")


def stated_end(data: Buffer, position: int) -> int:
    """Return where the batch at ``position`` ends by its size. The data may end before; it must have the ``LOG_OVERHEAD``."""
    return position + LOG_OVERHEAD + int.from_bytes(data[position + SIZE_AT : position + LOG_OVERHEAD])
