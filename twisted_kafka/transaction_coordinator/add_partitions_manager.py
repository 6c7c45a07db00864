"""Asks transactions' coordinators, wherever they are, on behalf of the leaders of partitions (Kafka: AddPartitionsToTxnManager).

This broker's coordinator is asked in process. Every other broker has at most one AddPartitionsToTxn request in flight. Questions
that arrive meanwhile go with the next request, which may contain many transactions, but each of them once.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Final

from twisted.logger import Logger

from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.coordinator.interfaces import IBrokerClient
from twisted_kafka.metadata.cache import MetadataCache, Node
from twisted_kafka.network.log_rate_limit import LogRateLimit
from twisted_kafka.protocol.compiler.wire import EncodeError
from twisted_kafka.protocol.errors import ErrorCode, UnsupportedVersionError, error_code_of
from twisted_kafka.protocol.messages.coordinators.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from twisted_kafka.protocol.topic_partition import TRANSACTION_TOPIC, TopicPartition
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock
from twisted_kafka.transaction_coordinator.transaction_coordinator import TransactionCoordinator
from twisted_kafka.waiting.futures import and_then

_log = Logger()

MAX_WAITING: Final = 10_000
"""Transactions that wait to be asked about to one broker. Each holds a request of a producer; more are refused."""

MAX_TRANSACTIONS: Final = 1_000
"""Transactions in a request."""

PartitionErrors = Mapping[TopicPartition, ErrorCode]
_Done = Future[AddPartitionsToTxnResponse]
Resume = Callable[[Callable[[], None]], None]
"""Runs a function on a thread that may append to logs."""


class _Question:
    """A question about one transaction, and the futures that wait for its answer."""

    __slots__ = ("partitions", "producer", "transactional_id", "verify_only", "waiting")

    def __init__(self, transactional_id: str, producer: Producer, verify_only: bool) -> None:
        self.transactional_id = transactional_id
        self.producer = producer
        self.verify_only = verify_only
        self.partitions: set[TopicPartition] = set()
        self.waiting: list[tuple[Collection[TopicPartition], Future[PartitionErrors]]] = []

    def add(self, partitions: Collection[TopicPartition]) -> "Future[PartitionErrors]":
        self.partitions.update(partitions)
        answer: Future[PartitionErrors] = Future()
        self.waiting.append((partitions, answer))
        return answer

    def encode(self) -> AddPartitionsToTxnTransaction:
        topics: dict[str, list[int]] = {}
        for topic, index in sorted(self.partitions):
            topics.setdefault(topic, []).append(index)
        return AddPartitionsToTxnTransaction(
            transactional_id=self.transactional_id,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            verify_only=self.verify_only,
            topics=[AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()],
        )


class _Destination:
    """The questions for one broker, by transactional id."""

    __slots__ = ("is_busy", "left", "node", "questions")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.is_busy = False
        """Whether a request is in flight."""
        self.left: list[_Question] = []
        """Questions that waited when the request was sent, and did not fit into it."""
        self.questions: dict[str, _Question] = {}

    def take(self) -> list[_Question]:
        waiting = list(self.questions.values())
        taken, self.left = waiting[:MAX_TRANSACTIONS], waiting[MAX_TRANSACTIONS:]
        for each in taken:
            del self.questions[each.transactional_id]
        return taken

    def take_left(self) -> list[_Question]:
        """Remove the questions that waited for the whole duration of the last request, and return them."""
        left, self.left = self.left, []
        still = [each for each in left if self.questions.get(each.transactional_id) is each]
        for each in still:
            del self.questions[each.transactional_id]
        return still


class AddPartitionsToTxnManager:
    """Verifies that partitions belong to transactions, or adds them. Methods may be called on any thread, and do not block."""

    def __init__(
        self,
        transactions: TransactionCoordinator,
        metadata: MetadataCache,
        listener_name: str,
        client: IBrokerClient,
        clock: IClock,
        resume: Resume,
    ) -> None:
        """``client`` sends to the brokers' end points of this listener. ``resume`` runs what waits for their answers."""
        self._transactions = transactions
        self._metadata = metadata
        self._listener_name = listener_name
        self._client = client
        self._resume = resume
        self._lock = machine.Lock()
        self._destinations: dict[int, _Destination] = {}
        self._failures = LogRateLimit(clock.monotonic_ns)

    def verify_partitions(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition]
    ) -> "PartitionErrors | Future[PartitionErrors]":
        """Return for each partition whether it is part of the producer's transaction: NONE or the error."""
        errors = self._transactions.verify_partitions(transactional_id, producer, partitions)
        if ErrorCode.NOT_COORDINATOR not in errors.values():
            return errors
        return self._ask_elsewhere(_Question(transactional_id, producer, True), partitions)

    def add_partitions(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition], client_version: int
    ) -> "PartitionErrors | Future[PartitionErrors]":
        """Add partitions to the producer's transaction, or begin it; all or none."""

        def added(error: ErrorCode) -> "PartitionErrors | Future[PartitionErrors]":
            if error is not ErrorCode.NOT_COORDINATOR:
                return dict.fromkeys(partitions, error)
            return self._ask_elsewhere(_Question(transactional_id, producer, False), partitions)

        return and_then(self._transactions.add_partitions(transactional_id, producer, partitions, client_version), added)

    def _ask_elsewhere(
        self, question: _Question, partitions: Collection[TopicPartition]
    ) -> "PartitionErrors | Future[PartitionErrors]":
        """Add a question to the next request to the coordinator's broker."""
        log_partition = self._transactions.partition_for(question.transactional_id)
        state = self._metadata.partition((TRANSACTION_TOPIC, log_partition))
        if state is None or state.leader == self._metadata.broker_id:
            return dict.fromkeys(partitions, ErrorCode.NOT_COORDINATOR)
        node = self._metadata.node(state.leader, self._listener_name)
        if node is None:
            return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        refused: _Question | None = None
        error = ErrorCode.NONE
        with self._lock:
            destination = self._destinations.setdefault(node.id, _Destination(node))
            destination.node = node
            before = destination.questions.get(question.transactional_id)
            if before is None and len(destination.questions) >= MAX_WAITING:
                return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            if before is not None:
                if _is_older(question.producer, before.producer):
                    return dict.fromkeys(partitions, ErrorCode.INVALID_PRODUCER_EPOCH)
                if (before.producer, before.verify_only) == (question.producer, question.verify_only):
                    question = before
                else:
                    refused = before
                    is_fenced = _is_older(before.producer, question.producer)
                    error = ErrorCode.INVALID_PRODUCER_EPOCH if is_fenced else ErrorCode.NETWORK_EXCEPTION
            destination.questions[question.transactional_id] = question
            answer = question.add(partitions)
        if refused is not None:
            self._answer(refused, {}, error)
        self._send_next(destination)
        return answer

    def _send_next(self, destination: _Destination) -> None:
        """Send the waiting questions to a broker, unless a request is in flight: its answer causes the next call."""
        while True:  # no recursion: requests fail at once while this broker stops
            with self._lock:
                if destination.is_busy or not destination.questions:
                    return
                asked = destination.take()
                destination.is_busy = True
            request = AddPartitionsToTxnRequest(transactions=[each.encode() for each in asked])
            done = self._client.send(destination.node, request)
            if not done.done():
                done.add_done_callback(partial(self._answered, destination, asked))
                return
            self._answer_all(destination, [*asked, *self._end(destination, done)], done)

    def _answered(self, destination: _Destination, asked: Sequence[_Question], done: _Done) -> None:
        left = self._end(destination, done)
        self._send_next(destination)
        self._answer_all(destination, [*asked, *left], done)

    def _end(self, destination: _Destination, done: _Done) -> list[_Question]:
        """Let the next request be sent. If this one got no answer, return the questions that waited for it, too."""
        with self._lock:
            destination.is_busy = False
            return [] if done.exception() is None else destination.take_left()

    def _answer_all(self, destination: _Destination, asked: Sequence[_Question], done: _Done) -> None:
        """Complete the questions of a request."""
        failure = done.exception()
        if failure is not None:
            for each in asked:
                self._answer(each, {}, _error_of(failure, each.verify_only))
            self._log_failure(destination.node, f"{type(failure).__name__}: {failure}")
            return
        response = done.result()
        error = error_code_of(response.error_code)
        if error:
            self._log_failure(destination.node, error.name)
            # A producer must not learn that this broker is not authorized.
            shown = ErrorCode.INVALID_TXN_STATE if error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED else error
            for each in asked:
                self._answer(each, {}, shown)
            return
        answers = _errors(response)
        for each in asked:
            self._answer(each, answers.get(each.transactional_id, {}), ErrorCode.NETWORK_EXCEPTION)

    def _answer(self, question: _Question, errors: PartitionErrors, default: ErrorCode) -> None:
        """Complete a question's futures; ``default`` is the error of partitions without an answer."""
        for partitions, answer in question.waiting:
            found = {partition: errors.get(partition, default) for partition in partitions}
            self._resume(partial(answer.set_result, found))

    def _log_failure(self, node: Node, why: str) -> None:
        if self._failures.allow():
            _log.warn(
                "Broker {id} was asked about transactions and did not answer: {why}{more}",
                id=node.id,
                why=why,
                more=self._failures.take_suppressed(),
            )


def _is_older(producer: Producer, than: Producer) -> bool:
    """Return whether a producer is certainly fenced by another with the same transactional id."""
    return producer.producer_id == than.producer_id and producer.epoch < than.epoch


def _error_of(failure: BaseException, verify_only: bool) -> ErrorCode:
    """Return the error of a question without an answer.

    A broker that is too old for these questions verifies nothing, so the append continues. But such a broker does not add
    partitions either.
    """
    from twisted_kafka.client.errors import AuthenticationError  # loaded when there are other brokers

    if isinstance(failure, UnsupportedVersionError | EncodeError):
        return ErrorCode.NONE if verify_only else ErrorCode.COORDINATOR_NOT_AVAILABLE
    return ErrorCode.UNKNOWN_SERVER_ERROR if isinstance(failure, AuthenticationError) else ErrorCode.NETWORK_EXCEPTION


def _errors(response: AddPartitionsToTxnResponse) -> dict[str, dict[TopicPartition, ErrorCode]]:
    """Return the partitions' errors by transactional id."""
    return {
        result.transactional_id: {
            TopicPartition(topic.name, each.partition_index): error_code_of(each.partition_error_code)
            for topic in result.topic_results
            for each in topic.results_by_partition
        }
        for result in response.results_by_transaction
    }
