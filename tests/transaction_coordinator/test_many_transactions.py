"""A coordinator with very many transactional ids."""

import pytest

from tests.support.budget import share_of
from tests.support.transaction_bench import TransactionBench
from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.transaction_coordinator.transaction_store import TransactionStore

pytestmark = pytest.mark.medium

COUNT = 2 * share_of(6_000)


def names() -> list[str]:
    return [f"tx-{number}" for number in range(COUNT)]


def test_decided_transactions_of_very_many_producers_are_resumed() -> None:
    bench = TransactionBench(partitions=2)
    bench.brokers.holds = True
    for number, name in enumerate(names()):
        bench.transactions.init_producer_id(name, 60_000, None)
        producer = Producer(number, 0)
        assert bench.transactions.add_partitions(name, producer, [TopicPartition("t", number % 7)]) is ErrorCode.NONE
        assert bench.transactions.end_transaction(name, producer, number % 2 == 0).error is ErrorCode.NONE
    bench.brokers.holds, bench.brokers.held = False, []
    bench.restart()
    states = [each.state.label for each in bench.transactions.list_transactions((), (), -1).transactions]
    assert sorted(states) == ["CompleteAbort"] * (COUNT // 2) + ["CompleteCommit"] * (COUNT // 2)
    assert len(bench.brokers.written) == COUNT


def test_very_many_transactions_time_out_and_their_ids_expire() -> None:
    bench = TransactionBench(partitions=2, id_expiration_ms=20_000, removal_interval_ms=30_000)
    for number, name in enumerate(names()):
        bench.transactions.init_producer_id(name, 1_000, None)
        assert bench.transactions.add_partitions(name, Producer(number, 0), [TopicPartition("t", 0)]) is ErrorCode.NONE
    bench.advance(10_000)
    found = bench.transactions.list_transactions(["CompleteAbort"], (), -1).transactions
    assert {each.producer.epoch for each in found} == {1}
    assert len(found) == COUNT
    bench.advance(50_000)
    assert bench.transactions.list_transactions((), (), -1).transactions == []
    assert sum(record.value is None for record in bench.records()) == COUNT


def test_checks_look_at_open_transactions_and_unused_ids_only(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = 0
    is_pending = TransactionStore.is_pending

    def counting(store: TransactionStore, transactional_id: str) -> bool:
        nonlocal looked
        looked += 1
        return is_pending(store, transactional_id)

    bench = TransactionBench(id_expiration_ms=20_000)
    bench.clock.advance_ms(1_000_000)
    bench.transactions.init_producer_id("future", 1_000, None)
    bench.clock.advance_ms(-1_000_000)
    for name in ("unused", "busy"):
        bench.transactions.init_producer_id(name, 1_000, None)
    bench.clock.advance_ms(20_000)
    for number in range(100):
        bench.transactions.init_producer_id(f"tx-{number}", 1_000, None)
    bench.transactions.add_partitions("busy", Producer(2, 0), [TopicPartition("t", 0)])
    monkeypatch.setattr(TransactionStore, "is_pending", counting)
    bench.clock.advance_ms(1_001)
    bench.transactions.abort_timed_out_transactions()
    bench.transactions.remove_expired_ids()
    assert looked < 10
    states = {each.transactional_id: each.state.label for each in bench.transactions.list_transactions((), (), -1).transactions}
    assert states["busy"] == "CompleteAbort"
    assert "unused" not in states
    assert len(states) == 102


def test_metrics_of_loading_have_kafkas_names() -> None:
    bench = TransactionBench()
    bench.metrics.tick()
    for name in ("partition-load-time-avg", "partition-load-time-max"):
        assert bench.metrics.value("kafka.server:transaction-coordinator-metrics", name) is not None
