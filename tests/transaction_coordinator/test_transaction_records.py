"""Records of ``__transaction_state`` that Apache Kafka wrote: read, and written again to the same bytes."""

import json
from pathlib import Path

import pytest

from twisted_kafka.coordinator.coordinator_record import CoordinatorRecord, Producer, decode_record
from twisted_kafka.transaction_coordinator.transaction_metadata import NO_PARTITIONS, TransactionMetadata
from twisted_kafka.transaction_coordinator.transaction_records import (
    TRANSACTION_RECORD_KINDS,
    transaction_metadata,
    transaction_record,
)
from twisted_kafka.transaction_coordinator.transaction_state import TransactionState

RECORDS = Path(__file__).parent.parent / "data" / "coordinator" / "transaction_records.jsonl"


def again(record: CoordinatorRecord) -> TransactionMetadata | None:
    value = record.encode_value()
    return transaction_metadata(decode_record(TRANSACTION_RECORD_KINDS, record.encode_key(), value))


@pytest.mark.parametrize(("kafka", "level"), [("3.9.2-zookeeper", 0), ("4.4.0-kraft", 1)])
def test_each_record_is_read_and_written_as_kafka_does(kafka: str, level: int) -> None:
    states = set()
    compared = 0
    for line in RECORDS.read_text().splitlines():
        record = json.loads(line)
        if record["kafka"] != kafka:
            continue
        key, value = bytes.fromhex(record["key"]), bytes.fromhex(record["value"])
        metadata = transaction_metadata(decode_record(TRANSACTION_RECORD_KINDS, key, value))
        assert metadata is not None
        states.add(metadata.state)
        written = transaction_record(metadata, level)
        assert again(written) == metadata
        if len(metadata.partitions_by_topic()) < 2:  # Kafka has them in the order of a hash table
            assert (written.encode_key(), written.encode_value()) == (key, value)
            compared += 1
    assert compared > 10
    assert states >= {TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.COMPLETE_COMMIT}


@pytest.mark.parametrize(
    ("changed", "version"),
    [
        ({}, 0),
        ({"client_version": 1}, 1),
        ({"client_version": 2}, 1),
        *((({name: producer_id}, 1)) for name in ("next_producer_id", "previous_producer_id") for producer_id in (6, 0)),
    ],
)
def test_nothing_is_lost_after_a_downgrade(changed: dict[str, int], version: int) -> None:
    metadata = TransactionMetadata("tx", Producer(7, 3), 1000, TransactionState.PREPARE_ABORT, NO_PARTITIONS, 5, 6)
    metadata = metadata._replace(**changed)  # type: ignore[arg-type]
    record = transaction_record(metadata, 0)
    assert record.value_version == version
    assert again(record) == again(transaction_record(metadata, 2)) == metadata
