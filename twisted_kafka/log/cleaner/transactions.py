"""Finds the transactional batches that the cleaner can discard: data of aborted transactions, and markers without remaining data.

Kafka: CleanedTransactionMetadata.
"""

import heapq
from collections.abc import Iterable

from twisted_kafka.log.cleaner.blocks import Batch, Block
from twisted_kafka.log.results import AbortedTransaction
from twisted_kafka.log.segment.transaction_index import TransactionIndex
from twisted_kafka.protocol.records.record import ControlRecordType, control_record_type


class CleanedTransactions:
    """Tracks transactions, given their batches in the order of the log."""

    def __init__(self) -> None:
        self._aborted: list[tuple[int, AbortedTransaction]] = []
        self._ongoing_aborted: dict[int, AbortedTransaction] = {}
        self._with_data_aborted: set[int] = set()
        self._committed_with_data: set[int] = set()
        self.index: TransactionIndex | None = None
        """The index for aborted transactions that still have data."""

    def add_aborted(self, transactions: Iterable[AbortedTransaction]) -> None:
        """Add the aborted transactions with records in the next batches."""
        for transaction in transactions:
            heapq.heappush(self._aborted, (transaction.first_offset, transaction))

    def is_batch_aborted(self, batch: Batch) -> bool:
        """Track a batch of transactional data; returns whether its transaction was aborted."""
        self._begin_up_to(batch.last_offset)
        if batch.producer_id in self._ongoing_aborted:
            self._with_data_aborted.add(batch.producer_id)
            return True
        self._committed_with_data.add(batch.producer_id)
        return False

    def is_marker_discardable(self, batch: Batch, block: Block) -> bool:
        """Track a control batch; returns whether its transaction has no data left, so the marker is not needed."""
        self._begin_up_to(batch.last_offset)
        if not batch.record_count:
            return True
        kind = control_record_type(next(block.parsed(batch).records()).key)
        producer_id = batch.producer_id
        if kind == ControlRecordType.ABORT:
            aborted = self._ongoing_aborted.pop(producer_id, None)
            if aborted is None or producer_id not in self._with_data_aborted:
                return True
            self._with_data_aborted.discard(producer_id)
            if self.index is not None:
                self.index.append(aborted)
            return False
        if kind == ControlRecordType.COMMIT:
            had_data = producer_id in self._committed_with_data
            self._committed_with_data.discard(producer_id)
            return not had_data
        return False

    def _begin_up_to(self, offset: int) -> None:
        while self._aborted and self._aborted[0][0] <= offset:
            transaction = heapq.heappop(self._aborted)[1]
            if transaction.producer_id not in self._ongoing_aborted:
                self._ongoing_aborted[transaction.producer_id] = transaction
