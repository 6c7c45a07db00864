"""Markers and questions for other brokers from many threads at once: each is answered once, and one request is in flight."""

import queue
import random
import threading
from collections import Counter
from concurrent.futures import Future
from typing import Any, cast

import pytest

from tests.support.broker_network import LISTENER, cluster
from tests.support.eventually import join
from tests.transaction_coordinator.coordinators import LEADERS, Coordinator
from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.metadata.cache import MetadataCache, Node
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.coordinators.transactions import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.timing.clock import SystemClock
from twisted_kafka.transaction_coordinator import add_partitions_manager
from twisted_kafka.transaction_coordinator.add_partitions_manager import AddPartitionsToTxnManager
from twisted_kafka.transaction_coordinator.markers import marker_channels
from twisted_kafka.transaction_coordinator.markers.marker_channels import MarkerChannels
from twisted_kafka.transaction_coordinator.markers.transaction_marker import TransactionMarker
from twisted_kafka.transaction_coordinator.transaction_coordinator import TransactionCoordinator

pytestmark = pytest.mark.medium

THREADS = 4
EACH = 500
WAIT_S = 30
PARTITION = TopicPartition("t", 0)


class ThreadedBrokers:
    """Answer on a thread of their own; some requests fail, some fail on the thread that sends."""

    def __init__(self) -> None:
        self.in_flight: Counter[int] = Counter()
        self.most = 0
        self.sizes: list[int] = []
        self._lock = threading.Lock()
        self._random = random.Random(1)
        self._work: queue.SimpleQueue[tuple[int, Any, Future[Any]] | None] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._run, name="brokers")
        self.thread.start()

    def send(self, node: Node, request: Message) -> "Future[Any]":
        future: Future[Any] = Future()
        with self._lock:
            fails = self._random.random() < 0.1
            self.in_flight[node.id] += 1
            self.most = max(self.most, self.in_flight[node.id])
        if fails:
            self._end(node.id)
            future.set_exception(ConnectionError("refused"))
        else:
            self._work.put((node.id, request, future))
        return future

    def disconnect(self, broker_id: int) -> None:
        raise AssertionError("no broker goes away")

    def stop(self) -> None:
        self._work.put(None)
        join([self.thread])

    def _end(self, broker_id: int) -> None:
        with self._lock:
            self.in_flight[broker_id] -= 1

    def _run(self) -> None:
        while (taken := self._work.get()) is not None:
            broker_id, request, future = taken
            response = _marked(request) if hasattr(request, "markers") else _verified(request)
            self.sizes.append(len(getattr(request, "markers", None) or request.transactions))
            self._end(broker_id)
            future.set_result(response)


def _marked(request: Any) -> WriteTxnMarkersResponse:
    written = [WritableTxnMarkerTopicResult(name="t", partitions=[WritableTxnMarkerPartitionResult(partition_index=0)])]
    return WriteTxnMarkersResponse(
        markers=[WritableTxnMarkerResult(producer_id=each.producer_id, topics=written) for each in request.markers]
    )


def _verified(request: Any) -> AddPartitionsToTxnResponse:
    partitions = [AddPartitionsToTxnPartitionResult(partition_index=0)]
    results = [AddPartitionsToTxnTopicResult(name="t", results_by_partition=partitions)]
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(transactional_id=each.transactional_id, topic_results=results) for each in request.transactions
        ]
    )


def run(ask: Any, brokers: ThreadedBrokers) -> Counter[ErrorCode]:
    """Ask from several threads; return the answers."""
    answers: list[Any] = []

    def work(number: int) -> None:
        answers.extend([ask(number * EACH + count) for count in range(EACH)])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    join(threads)
    errors = Counter(future.result(WAIT_S)[PARTITION] for future in answers)
    brokers.stop()
    assert brokers.most == 1
    assert sum(errors.values()) == THREADS * EACH
    assert errors.keys() <= {ErrorCode.NONE, ErrorCode.NETWORK_EXCEPTION}
    assert errors[ErrorCode.NONE] == sum(brokers.sizes)
    return errors


def metadata() -> MetadataCache:
    cache = MetadataCache(1)
    cache.apply(cluster({PARTITION: 2, **LEADERS}, 1, 2, 3))
    return cache


def test_markers_from_many_threads() -> None:
    brokers = ThreadedBrokers()
    channels = MarkerChannels(brokers, metadata(), LISTENER, SystemClock())

    def ask(number: int) -> Any:
        return channels.write(2 + number % 2, TransactionMarker(Producer(number, 0), 1, True, frozenset((PARTITION,))))

    assert run(ask, brokers)[ErrorCode.NONE]


def test_questions_from_many_threads() -> None:
    brokers = ThreadedBrokers()
    here = cast("TransactionCoordinator", Coordinator())
    manager = AddPartitionsToTxnManager(here, metadata(), LISTENER, brokers, SystemClock(), lambda resume: resume())

    def ask(number: int) -> Any:
        return manager.verify_partitions(f"tx-{number}", Producer(number, 0), (PARTITION,))

    assert run(ask, brokers)[ErrorCode.NONE]


class StoppedBrokers:
    """No answer to the first request, and an immediate failure of all others."""

    def __init__(self) -> None:
        self.first: Future[Any] | None = None

    def send(self, node: Node, request: Message) -> "Future[Any]":
        future: Future[Any] = Future()
        if self.first is None:
            self.first = future
        else:
            future.set_exception(ConnectionError("stopped"))
        return future

    def disconnect(self, broker_id: int) -> None:
        raise AssertionError("no broker goes away")


def fail_all(ask: Any, brokers: StoppedBrokers) -> None:
    answers = [ask(number) for number in range(1000)]
    assert brokers.first is not None
    brokers.first.set_exception(ConnectionError("lost"))
    assert Counter(future.result(0)[PARTITION] for future in answers) == {ErrorCode.NETWORK_EXCEPTION: 1000}


def test_any_number_of_requests_with_markers_may_fail_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marker_channels, "MAX_MARKERS", 1)
    brokers = StoppedBrokers()
    channels = MarkerChannels(brokers, metadata(), LISTENER, SystemClock())

    def ask(number: int) -> Any:
        return channels.write(2, TransactionMarker(Producer(number, 0), 1, True, frozenset((PARTITION,))))

    fail_all(ask, brokers)


def test_any_number_of_questions_may_fail_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(add_partitions_manager, "MAX_TRANSACTIONS", 1)
    brokers = StoppedBrokers()
    here = cast("TransactionCoordinator", Coordinator())
    manager = AddPartitionsToTxnManager(here, metadata(), LISTENER, brokers, SystemClock(), lambda resume: resume())
    fail_all(lambda number: manager.verify_partitions(f"tx-{number}", Producer(number, 0), (PARTITION,)), brokers)
