"""Which batches of transactions the cleaner takes for aborted, and which markers for needed no more."""

from pathlib import Path

from tests.support.logs import NOW_MS, batch
from twisted_kafka.log.cleaner.blocks import Block, read_blocks
from twisted_kafka.log.cleaner.transactions import CleanedTransactions
from twisted_kafka.log.results import AbortedTransaction
from twisted_kafka.log.segment.transaction_index import TransactionIndex
from twisted_kafka.protocol.records.builder import assemble_batch, control_batch, end_transaction_marker
from twisted_kafka.protocol.records.record import CONTROL_FLAG, TRANSACTIONAL_FLAG, ControlRecordType


def data(offset: int, producer_id: int = 7) -> bytes:
    options = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    return bytes(batch(b"x", base_offset=offset, **options))


def marker(offset: int, *, commit: bool, producer_id: int = 7) -> bytes:
    return bytes(
        end_transaction_marker(
            commit=commit, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp_ms=NOW_MS, base_offset=offset
        )
    )


def block_of(tmp_path: Path, *written: bytes) -> Block:
    path = tmp_path / "segment"
    path.write_bytes(b"".join(written))
    with open(path, "rb") as file:
        (block,) = read_blocks(file, 0, path.stat().st_size, 1 << 20)
    return block


def walk(transactions: CleanedTransactions, block: Block) -> list[bool]:
    """Whether each batch is aborted, or each marker needed no more."""
    return [
        transactions.is_marker_discardable(each, block) if each.is_control else transactions.is_batch_aborted(each)
        for each in block.batches
    ]


def test_a_marker_is_needed_as_long_as_there_is_data_before_it(tmp_path: Path) -> None:
    aborted = [AbortedTransaction(7, 0, 1, 2), AbortedTransaction(7, 2, 2, 3), AbortedTransaction(7, 6, 7, 8)]
    index = TransactionIndex(tmp_path / "x.txnindex")
    transactions = CleanedTransactions()
    transactions.index = index
    transactions.add_aborted(aborted)
    block = block_of(
        tmp_path,
        *(data(0), marker(1, commit=False)),
        *(marker(2, commit=False), marker(3, commit=True)),
        *(data(4), marker(5, commit=True)),
        *(data(6), marker(7, commit=False)),
        *(marker(8, commit=True), marker(9, commit=False)),
    )
    assert walk(transactions, block) == [True, False, True, True, False, False, True, False, True, True]
    assert index.entries == (aborted[0], aborted[2])


def test_transactions_of_producers_are_apart(tmp_path: Path) -> None:
    transactions = CleanedTransactions()
    transactions.add_aborted([AbortedTransaction(8, 1, 3, 4)])
    block = block_of(
        tmp_path, data(0), data(1, 8), marker(2, commit=True), marker(3, commit=False, producer_id=8), marker(4, commit=True)
    )
    assert walk(transactions, block) == [False, True, False, False, True]


def test_what_is_a_control_batch_and_no_marker(tmp_path: Path) -> None:
    leader_change = control_batch(ControlRecordType.LEADER_CHANGE, b"", timestamp_ms=NOW_MS, base_offset=0)
    without_records = assemble_batch(b"", (1, 0, CONTROL_FLAG | TRANSACTIONAL_FLAG, 0, -1, -1, 7, 0, -1, 0))
    block = block_of(tmp_path, bytes(leader_change), bytes(without_records))
    assert walk(CleanedTransactions(), block) == [False, True]
