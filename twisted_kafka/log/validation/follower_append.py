"""A follower's checks of batches from its leader, whose offsets and epochs it keeps."""

from twisted_kafka.log.batch_headers import BatchHeader, batches_in, crc_matches
from twisted_kafka.protocol.errors import CorruptRecordError
from twisted_kafka.protocol.regions import Buffer


def check_replicated(records: Buffer, log_end_offset: int, topic_partition: object) -> list[BatchHeader]:
    """Return the complete batches in the fetched records; an incomplete one at the end is left to the next fetch.

    Raises CorruptRecordError for a wrong CRC, and for offsets below the log end or out of order.
    """
    view = memoryview(records)
    headers = []
    expected = log_end_offset
    for header in batches_in(view):
        if not crc_matches(view[header.position : header.position + header.size_bytes]):
            raise CorruptRecordError(f"{topic_partition}: the batch at offset {header.base_offset} has a wrong CRC")
        if header.last_offset < header.base_offset or header.base_offset < expected:
            raise CorruptRecordError(
                f"{topic_partition}: a batch with offsets {header.base_offset} to {header.last_offset} "
                f"is out of order: at least {expected} was expected"
            )
        expected = header.last_offset + 1
        headers.append(header)
    return headers
