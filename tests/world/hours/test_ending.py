"""What is wrong in the end is found in the logs, and named."""

from pathlib import Path

import pytest
from twisted.logger import Logger

from tests.world.hours.ending import Ending, Place, failures
from tests.world.hours.members import entry
from twisted_kafka.protocol.records.builder import build_batch, end_transaction_marker
from twisted_kafka.protocol.records.record import SimpleRecord

PRODUCER = 7


class Logs:
    """Two replicas of partitions, as files."""

    def __init__(self, root: Path) -> None:
        self.directories = {1: root / "1", 2: root / "2"}
        self._end = 0

    def _append(self, partition: str, batch: bytes, brokers: tuple[int, ...]) -> None:
        for broker in brokers:
            directory = self.directories[broker] / partition
            directory.mkdir(parents=True, exist_ok=True)
            with (directory / f"{0:020d}.log").open("ab") as file:
                file.write(self._end.to_bytes(8, "big") + batch[8:])
        self._end += 1

    def transfer(self, *offsets: int, brokers: tuple[int, ...] = (1, 2)) -> None:
        """Write records to the ledger in a transaction, made of these offsets of a partition."""
        records = [SimpleRecord(1, None, entry((3, offset), b"x:y")) for offset in offsets]
        batch = build_batch(records, producer_id=PRODUCER, producer_epoch=0, base_sequence=0, is_transactional=True)
        self._append("ledger-0", batch, brokers)

    def mark(self, *, committed: bool) -> None:
        """End the transaction."""
        marker = end_transaction_marker(
            commit=committed, coordinator_epoch=0, timestamp_ms=1, producer_id=PRODUCER, producer_epoch=0
        )
        self._append("ledger-0", bytes(marker), (1, 2))

    def wrong(self, *seen: Place) -> list[str]:
        return Ending(self.directories, lambda _: [2, 1], seen).wrong()


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path)


def test_nothing_is_wrong_with_records_that_count_once(logs: Logs) -> None:
    logs.transfer(4)
    logs.mark(committed=False)
    logs.transfer(4)
    logs.mark(committed=True)
    logs.transfer(5)
    logs.mark(committed=True)
    assert logs.wrong() == []


def test_records_that_count_twice_or_not_are_named(logs: Logs) -> None:
    for offset in (4, 4, 7):
        logs.transfer(offset)
        logs.mark(committed=True)
    assert logs.wrong() == [
        "plain-3 offset 4 is 2 times in the ledger",
        "plain-3 offsets [5, 6] are not in the ledger, but later ones",
    ]


def test_an_aborted_record_that_was_read_as_committed_is_named(logs: Logs) -> None:
    logs.transfer(4)
    logs.mark(committed=False)
    logs.transfer(4)
    logs.mark(committed=True)
    assert logs.wrong((0, 0), (0, 2)) == ["ledger-0 offset 0 was read as committed"]


def test_an_open_transaction_and_a_replica_that_differs_are_named(logs: Logs) -> None:
    logs.transfer(4, brokers=(2,))
    assert logs.wrong() == [
        "ledger-0 differs between kafka-2 and kafka-1",
        "ledger-0 has an open transaction of producer 7",
    ]


def test_failures_of_the_log_are_collected() -> None:
    with failures() as found:
        try:
            raise ValueError("unexpected")
        except ValueError:
            Logger().failure("A part has failed")
        Logger().error("expected")
    assert len(found) == 1
    assert "A part has failed" in found[0]
