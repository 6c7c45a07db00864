"""The batches that were read for a share partition: their offsets, which transactions aborted them, and a part of them."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from twisted_kafka.log.batch_headers import BatchHeader, batches_in, scan_headers
from twisted_kafka.log.results import AbortedTransaction
from twisted_kafka.protocol.regions import Buffer, FileRegion
from twisted_kafka.share.in_flight_records import Acquired


class _Place(NamedTuple):
    """The offsets of a batch, and where it is, relative to the begin of the read."""

    first_offset: int
    last_offset: int
    position: int
    end: int


class ReadBatches:
    """The batches of one read, which are looked at one after the other: a read may have many more than a member acquires."""

    def __init__(self, records: Buffer | FileRegion, aborted: Sequence[AbortedTransaction] | None) -> None:
        """``aborted`` are the aborted transactions among them, for a group that reads committed records only."""
        self._records = records
        self._transactions: dict[int, list[AbortedTransaction]] = {}
        for each in aborted or ():
            self._transactions.setdefault(each.producer_id, []).append(each)
        self._places: list[_Place] = []
        self.aborted: list[tuple[int, int]] = []
        """First and last offsets of the aborted batches that were looked at."""

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield the first and the last offset of each batch."""
        records = self._records
        if isinstance(records, FileRegion):
            start = records.position
            headers = scan_headers(records.file, start, start + records.size_bytes)
        else:
            start = 0
            headers = batches_in(records)
        for header in headers:
            position = header.position - start
            self._places.append(_Place(header.base_offset, header.last_offset, position, position + header.size_bytes))
            if self._is_aborted(header):
                self.aborted.append((header.base_offset, header.last_offset))
            yield header.base_offset, header.last_offset

    def _is_aborted(self, header: BatchHeader) -> bool:
        if not header.is_transactional or header.is_control:
            return False
        of_producer = self._transactions.get(header.producer_id, ())
        return any(each.first_offset <= header.base_offset <= each.last_offset for each in of_producer)

    def part(self, acquired: Sequence[Acquired]) -> Buffer | FileRegion:
        """Return the batches from the first acquired record to the last one."""
        if not acquired:
            return b""
        first, last = acquired[0].first_offset, acquired[-1].last_offset
        within = [each for each in self._places if each.last_offset >= first and each.first_offset <= last]
        if not within:
            return b""
        position, end = within[0].position, within[-1].end
        records = self._records
        return records.slice(position, end - position) if isinstance(records, FileRegion) else memoryview(records)[position:end]
