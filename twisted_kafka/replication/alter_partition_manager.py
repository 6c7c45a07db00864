"""In-sync replicas that grow and shrink: the leader proposes, the controller decides (KIP-497; Kafka: ``AlterPartitionManager``).

One request is in flight at a time. The next request has the changes that were proposed since, and unanswered changes.
"""

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, NamedTuple

from twisted.logger import Logger

from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.compiler.types import NO_UUID
from twisted_kafka.protocol.errors import ErrorCode, error_code_of
from twisted_kafka.protocol.messages.controller import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    BrokerState,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.interfaces import IControllerChannel
from twisted_kafka.replication.operations.purgatories import Purgatories
from twisted_kafka.replication.partition.isr_proposal import CommittedIsr, IsrProposal
from twisted_kafka.replication.partition.partition import Partition
from twisted_kafka.replication.partition.partition_table import PartitionTable
from twisted_kafka.system import machine
from twisted_kafka.timing.timer import Timer

RETRY_MS: Final = 50
"""The time after which a failed proposal is repeated; it doubles with each further failure in a row."""
RETRY_MAX_MS: Final = 400

_LAST_VERSION_WITH_NAMES: Final = 1
_LAST_VERSION_WITHOUT_EPOCHS: Final = 2
_FIRST_VERSION_WITH_EPOCHS: Final = 3

_log = Logger()

_Proposals = dict[TopicPartition, tuple[Partition, IsrProposal]]


class Proposer(NamedTuple):
    """The broker that proposes."""

    broker_id: int
    epoch: Callable[[], int]
    """Returns the broker's epoch."""
    knows_epochs: bool
    """Whether brokers know each other's epochs (KIP-903)."""
    channel: IControllerChannel
    """Leads to the controller."""


class AlterPartitionManager:
    """Proposes changes of in-sync replicas with AlterPartition. Methods may be called on any thread, without a partition's lock."""

    def __init__(
        self,
        proposer: Proposer,
        partitions: PartitionTable,
        purgatories: Purgatories,
        retries: Timer,
        max_lag_ms: int,
        metrics: MetricsRegistry,
        run: Callable[[Callable[[], None]], object],
    ) -> None:
        """``max_lag_ms`` is ``replica.lag.time.max.ms``. ``run`` calls an action on a thread that does not wait for disks."""
        self._proposer = proposer
        self._partitions = partitions
        self._purgatories = purgatories
        self._retries = retries
        self._run = run
        # A follower leaves after one and a half times the configured lag at the latest.
        self._check_ms = max(1, max_lag_ms // 2)
        self._lock = machine.Lock()
        self._unanswered: _Proposals = {}
        self._in_flight: _Proposals = {}
        self._failed_in_a_row = 0
        self._expands = metrics.meter("ReplicaManager", "IsrExpandsPerSec")
        self._shrinks = metrics.meter("ReplicaManager", "IsrShrinksPerSec")
        self._failures = metrics.meter("ReplicaManager", "FailedIsrUpdatesPerSec")
        self._look_after(0)

    def _look_after(self, delay_ms: int) -> None:
        def look() -> None:
            self._run(self.shrink_all)
            self._look_after(self._check_ms)

        self._retries.add(delay_ms, look)

    def watch(self, partition: Partition) -> None:
        pass  # all partitions that this broker leads are checked (``IInSyncReplicas``)

    def maybe_expand(self, partition: Partition, replica_id: int) -> None:
        """Propose that a follower joins, if it has all that is committed (``IInSyncReplicas``)."""
        proposal = partition.propose_expansion(replica_id, self._proposer.epoch())
        if proposal is not None:
            _log.info(
                "{partition}: broker {id} is to join the in-sync replicas {isr}",
                partition=str(partition.topic_partition),
                id=replica_id,
                isr=sorted(partition.isr),
            )
            self._submit(partition, proposal)

    def shrink_all(self) -> None:
        """Propose that followers that lag leave, of all partitions that this broker leads."""
        for partition in self._partitions:
            proposal = partition.propose_shrinking(self._proposer.epoch())
            if proposal is not None:
                _log.info(
                    "{partition}: the in-sync replicas {old} are to shrink to {new}",
                    partition=str(partition.topic_partition),
                    old=sorted(partition.isr),
                    new=sorted(proposal.isr),
                )
                self._submit(partition, proposal)

    def _submit(self, partition: Partition, proposal: IsrProposal) -> None:
        """Add it to the next request. An earlier proposal of the partition in flight has to be answered first."""
        topic_partition = partition.topic_partition
        with self._lock:
            is_free = topic_partition not in self._in_flight
            if is_free:
                self._unanswered[topic_partition] = (partition, proposal)
        if is_free:
            self._send()
        else:
            self._refuse(partition, proposal, ErrorCode.OPERATION_NOT_ATTEMPTED)

    def _send(self) -> None:
        """Send the waiting proposals, unless a request is in flight: its answer calls this again."""
        with self._lock:
            if self._in_flight or not self._unanswered:
                return
            sent = self._in_flight = dict(self._unanswered)
        try:
            request, version = self._request(sent)
            answer = self._proposer.channel.send(request, version)
        except Exception as error:  # noqa: BLE001 as if the controller had not answered: it is tried again
            answer = Future()
            answer.set_exception(error)
        answer.add_done_callback(partial(self._answered, sent))

    def _request(self, proposals: _Proposals) -> tuple[AlterPartitionRequest, int]:
        """Return a request, and its latest version."""
        has_ids = all(partition.topic_id != NO_UUID for partition, _ in proposals.values())
        knows_epochs = has_ids and self._proposer.knows_epochs
        topics: dict[str, AlterPartitionRequestTopicData] = {}
        for (name, index), (partition, proposal) in proposals.items():
            data = AlterPartitionRequestPartitionData(
                partition_index=index, leader_epoch=proposal.leader_epoch, partition_epoch=proposal.partition_epoch
            )
            if knows_epochs:
                epochs = proposal.broker_epochs.items()
                data.new_isr_with_epochs = [BrokerState(broker_id=each, broker_epoch=epoch) for each, epoch in epochs]
            else:
                data.new_isr = list(proposal.broker_epochs)
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = AlterPartitionRequestTopicData(topic_name=name, topic_id=partition.topic_id)
            topic.partitions.append(data)
        request = AlterPartitionRequest(
            broker_id=self._proposer.broker_id, broker_epoch=self._proposer.epoch(), topics=list(topics.values())
        )
        if knows_epochs:
            return request, _FIRST_VERSION_WITH_EPOCHS
        return request, _LAST_VERSION_WITHOUT_EPOCHS if has_ids else _LAST_VERSION_WITH_NAMES

    def _answered(self, sent: _Proposals, done: "Future[Any]") -> None:
        failure = done.exception()
        error: object = failure
        answers: dict[tuple[str | bytes, int], AlterPartitionResponsePartitionData] = {}
        if failure is None:
            response: AlterPartitionResponse = done.result()
            error = error_code_of(response.error_code) if response.error_code else None
            for topic in response.topics:
                for data in topic.partitions:
                    answers[topic.topic_name or topic.topic_id, data.partition_index] = data
        answered = []
        with self._lock:
            self._in_flight = {}
            for topic_partition, (partition, proposal) in sent.items():
                name, index = topic_partition
                answer = answers.get((name, index)) or answers.get((partition.topic_id, index))
                if answer is not None and error is None:
                    answered.append((partition, proposal, answer))
                    self._unanswered.pop(topic_partition, None)
        refused = [each for each in answered if self._take(*each)]
        if error is not None:
            _log.warn("Changes of in-sync replicas are proposed again: {error}", error=error)
        if error is not None or refused or len(answered) < len(sent):
            self._retries.add(min(RETRY_MS << min(self._failed_in_a_row, 16), RETRY_MAX_MS), self._send)
            self._failed_in_a_row += 1
        else:
            self._failed_in_a_row = 0
            self._send()

    def _take(self, partition: Partition, proposal: IsrProposal, answer: AlterPartitionResponsePartitionData) -> bool:
        """Apply an answer to its partition; return whether it has to be proposed again."""
        topic_partition = partition.topic_partition
        if answer.error_code:
            self._failures.mark()
            error = error_code_of(answer.error_code)
            _log.info(
                "{partition}: the controller refused {isr}: {error}",
                partition=str(topic_partition),
                isr=sorted(proposal.isr),
                error=error,
            )
            is_to_be_repeated = self._refuse(partition, proposal, error)
            if is_to_be_repeated:
                with self._lock:
                    self._unanswered.setdefault(topic_partition, (partition, proposal))
            return is_to_be_repeated
        committed = CommittedIsr(frozenset(answer.isr), answer.leader_epoch, answer.partition_epoch)
        is_applied, has_moved = partition.isr_committed(proposal, committed)
        if not is_applied:
            self._failures.mark()
        elif proposal.is_expansion:
            self._expands.mark()
        else:
            self._shrinks.mark()
        if has_moved:
            self._purgatories.check_all(topic_partition)
        return False

    def _refuse(self, partition: Partition, proposal: IsrProposal, error: ErrorCode) -> bool:
        """Inform the partition that its proposal was refused; return whether to propose it again."""
        is_to_be_repeated, has_moved = partition.isr_refused(proposal, error)
        if has_moved:
            self._purgatories.check_all(partition.topic_partition)
        return is_to_be_repeated
