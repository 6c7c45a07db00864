"""What a follower checks of batches that its leader sent: offsets and epochs are taken as they are."""

from twisted_kafka.log.batch_headers import BatchHeader, batches_in, crc_matches
from twisted_kafka.protocol.errors import CorruptRecordError
from twisted_kafka.protocol.regions import Buffer


def check_replicated(records: Buffer, log_end_offset: int, topic_partition: object) -> list[BatchHeader]:
    """Return the whole batches of a fetched piece of a log; what follows the last whole one is left for the next fetch.

    Raises CorruptRecordError for a CRC that does not match, and for offsets below the log's end or out of order.
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
                f"came where at least {expected} was expected"
            )
        expected = header.last_offset + 1
        headers.append(header)
    return headers
