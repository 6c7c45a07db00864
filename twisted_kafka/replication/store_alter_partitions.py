"""In-sync replicas written by their leaders, below ``inter.broker.protocol.version`` 2.7-IV2 (Kafka: ``ZkAlterPartitionManager``).

A controller of those versions knows no AlterPartition. The leader writes the partition's state itself, by compare and set. Some
seconds later it tells the controller, of many partitions at once, with a node below ``/isr_change_notification``.
"""

import threading
from concurrent.futures import Future
from functools import partial
from typing import Any, Final

from twisted.logger import Logger
from zope.interface import implementer

from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.store import BadVersionError, IMetadataStore, NoNodeError, StoreError
from twisted_kafka.metadata.znode_json import BadNodeError
from twisted_kafka.metadata.znodes import PartitionStateNode
from twisted_kafka.metadata.znodes_admin import PartitionsNode
from twisted_kafka.protocol.codec import Message
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.controller import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.interfaces import IControllerChannel
from twisted_kafka.timing.clock import IClock
from twisted_kafka.timing.scheduler import IScheduler

CHECK_MS: Final = 2_500
"""How often it is looked whether the controller is to be told."""
LINGER_MS: Final = 5_000
"""How long after the last change the controller is told of all..."""
MAX_DELAY_MS: Final = 60_000
"""...and how long after it was last told at the latest. (Kafka: ``IsrChangePropagationConfig``, for all three.)"""

_log = Logger()


@implementer(IControllerChannel)
class StoreAlterPartitions:
    """Answers AlterPartition in the place of the controller. Methods may be called on any thread."""

    def __init__(self, store: IMetadataStore, clock: IClock, scheduler: IScheduler) -> None:
        self._store = store
        self._clock = clock
        self._scheduler = scheduler
        self._lock = threading.Lock()
        self._changed: dict[TopicPartition, None] = {}
        self._last_change_ns = 0
        self._last_told_ns = 0
        scheduler.schedule("isr-change-propagation", self.tell_if_due, CHECK_MS, CHECK_MS)

    def send(self, request: Message, latest_version: int | None = None) -> "Future[Any]":
        """Write what an AlterPartition asks for, on one of the scheduler's threads (``IControllerChannel``).

        The future raises StoreError if the store cannot be asked.
        """
        if not isinstance(request, AlterPartitionRequest):
            raise TypeError(f"only AlterPartition can be answered here, not {type(request).__name__}")
        answer: Future[Any] = Future()
        answer.set_running_or_notify_cancel()  # nobody cancels it
        self._scheduler.schedule_once("write-in-sync-replicas", partial(self._write_all, request, answer))
        return answer

    def _write_all(self, request: AlterPartitionRequest, answer: "Future[Any]") -> None:
        try:
            topics = [
                AlterPartitionResponseTopicData(
                    topic_name=topic.topic_name,
                    topic_id=topic.topic_id,
                    partitions=[self._write(request.broker_id, topic.topic_name, each) for each in topic.partitions],
                )
                for topic in request.topics
            ]
        except Exception as error:  # noqa: BLE001 the future has it: the manager proposes it again
            answer.set_exception(error)
        else:
            answer.set_result(AlterPartitionResponse(topics=topics))

    def _write(self, leader: int, topic: str, wanted: AlterPartitionRequestPartitionData) -> AlterPartitionResponsePartitionData:
        """Write one partition's in-sync replicas unless its state is another than its leader knows."""
        partition = TopicPartition(topic, wanted.partition_index)
        path = znodes.state_path(partition)
        isr = [each.broker_id for each in wanted.new_isr_with_epochs] or list(wanted.new_isr)
        answer = AlterPartitionResponsePartitionData(partition_index=partition.partition)
        try:
            found = self._store.get(path)
            if found is None:
                raise NoNodeError(f"{path} does not exist")
            node, version = PartitionStateNode.decode(found[0]), found[1].version
            if (node.leader, node.leader_epoch) != (leader, wanted.leader_epoch):
                answer.error_code = ErrorCode.FENCED_LEADER_EPOCH
                return answer
            if set(node.isr) != set(isr):  # else it was written before, and the store's answer was lost
                version = self._store.set(path, node._replace(isr=isr).encode(), wanted.partition_epoch).version
                self._note(partition)
        except NoNodeError:
            answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        except BadVersionError:
            answer.error_code = ErrorCode.INVALID_UPDATE_VERSION
        except BadNodeError as error:
            _log.error("{partition}: {path} cannot be read: {error}", partition=str(partition), path=path, error=error)
            answer.error_code = ErrorCode.INVALID_REQUEST
        else:
            answer.leader_id, answer.leader_epoch = leader, wanted.leader_epoch
            answer.isr, answer.partition_epoch = isr, version
        return answer

    def _note(self, partition: TopicPartition) -> None:
        with self._lock:
            self._changed[partition] = None
            self._last_change_ns = self._clock.monotonic_ns()

    def tell_if_due(self) -> None:
        """Tell the controller of changes, unless some may follow soon."""
        now_ns = self._clock.monotonic_ns()
        with self._lock:
            is_quiet = now_ns - self._last_change_ns > LINGER_MS * 1_000_000
            is_late = now_ns - self._last_told_ns > MAX_DELAY_MS * 1_000_000
            if not self._changed or not (is_quiet or is_late):
                return
            changed, self._changed = self._changed, {}
            self._last_told_ns = now_ns
        try:
            self._store.create(znodes.ISR_CHANGE_PREFIX, PartitionsNode(list(changed)).encode(), sequence=True, make_parents=True)
        except StoreError as error:
            _log.warn("The controller is told of in-sync replicas later: {error}", error=error)
            with self._lock:
                self._changed = changed | self._changed
