"""Deletes topics: brokers forget them, replicas stop and delete their logs, then the nodes go (Kafka: ``TopicDeletionManager``).

A topic with a replica on a dead broker waits until that broker is back.
"""

from collections.abc import Callable, Collection, Iterable

from twisted.logger import Logger

from twisted_kafka.controller.context.context import Replica
from twisted_kafka.controller.context.states import PartitionStatus, ReplicaStatus
from twisted_kafka.controller.machines.machinery import Machinery
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.store import Delete, Operation, StoreError

_log = Logger()


class TopicDeletion:
    """The topics to delete, and their progress. Used on the controller's event thread only."""

    def __init__(self, machinery: Machinery, *, deleted: Callable[[Collection[str]], None]) -> None:
        """``deleted`` is called with topics whose deletion is complete."""
        self._context = machinery.context
        self._store = machinery.store
        self._requests = machinery.requests
        self._partitions = machinery.partitions
        self._replicas = machinery.replicas
        self._deleted = deleted

    def enqueue(self, topics: Iterable[str]) -> None:
        """Add existing topics to those to delete."""
        self._context.topics_to_delete.update(topics)
        self.resume()

    def make_ineligible(self, topics: Collection[str], reason: str) -> None:
        """Suspend the deletion of topics that cannot be deleted now."""
        halted = self._context.topics_to_delete & set(topics)
        if halted:
            self._context.ineligible_for_deletion |= halted
            _log.info("Deletion of {topics} is suspended: {reason}", topics=", ".join(sorted(halted)), reason=reason)

    def retry(self, topics: Iterable[str]) -> None:
        """Resume suspended deletions, as a broker is back."""
        again = self._context.topics_to_delete.intersection(topics)
        if again:
            self._context.ineligible_for_deletion -= again
            self.resume()

    def replicas_deleted(self, replicas: Iterable[Replica]) -> None:
        """Note that brokers deleted these replicas."""
        self._replicas.handle(self._started(replicas), ReplicaStatus.DELETION_SUCCESSFUL)
        self.resume()

    def replicas_failed(self, replicas: Iterable[Replica]) -> None:
        """Note that brokers failed to delete these replicas."""
        failed = self._started(replicas)
        if failed:
            self._replicas.handle(failed, ReplicaStatus.DELETION_INELIGIBLE)
            self.make_ineligible({partition.topic for partition, _ in failed}, "a replica could not be deleted")
            self.resume()

    def _started(self, replicas: Iterable[Replica]) -> list[Replica]:
        states = self._context.replica_states
        return [replica for replica in replicas if states.get(replica) is ReplicaStatus.DELETION_STARTED]

    def resume(self) -> None:
        """Take the next possible step for every topic to delete."""
        context = self._context
        finished, again, ready = [], [], []
        for topic in sorted(context.topics_to_delete):
            states = {context.replica_states.get(replica) for replica in context.replicas(context.partitions(topic))}
            if states <= {ReplicaStatus.DELETION_SUCCESSFUL}:
                finished.append(topic)
                continue
            if ReplicaStatus.DELETION_STARTED in states or topic in context.ineligible_for_deletion:
                continue
            if ReplicaStatus.DELETION_INELIGIBLE in states:
                again.append(topic)
            ready.append(topic)
        if finished:
            self._complete(finished)
        for topic in again:
            self._replicas.handle(context.replicas_in(topic, ReplicaStatus.DELETION_INELIGIBLE), ReplicaStatus.OFFLINE)
        if ready:
            self._begin(ready)

    def _begin(self, topics: list[str]) -> None:
        context = self._context
        unseen = [
            partition for topic in topics if topic not in context.topics_being_deleted for partition in context.partitions(topic)
        ]
        self._partitions.handle(unseen, PartitionStatus.OFFLINE)
        self._partitions.handle(unseen, PartitionStatus.NON_EXISTENT)
        context.topics_being_deleted.update(topics)
        partitions = [partition for topic in topics for partition in context.partitions(topic)]
        self._requests.new_batch()
        self._requests.add_update_metadata(context.brokers, partitions)
        self._requests.send()
        alive: list[Replica] = []
        dead: list[Replica] = []
        for replica in context.replicas(partitions):
            if context.replica_states.get(replica) is not ReplicaStatus.DELETION_SUCCESSFUL:
                (alive if context.is_online(*replica) else dead).append(replica)
        # First offline without deletion, so that no follower fetches from a leader that has deleted its log.
        self._replicas.handle(dead, ReplicaStatus.OFFLINE)
        self._replicas.handle(dead, ReplicaStatus.DELETION_INELIGIBLE)
        self._replicas.handle(alive, ReplicaStatus.OFFLINE)
        self._replicas.handle(alive, ReplicaStatus.DELETION_STARTED)
        self.make_ineligible({partition.topic for partition, _ in dead}, "a replica's broker is not alive")

    def _complete(self, topics: list[str]) -> None:
        results = self._store.batch([self._node_deletions(topic) for topic in topics])
        for topic, result in zip(topics, results, strict=True):
            if isinstance(result, StoreError):
                self._delete_whatever_there_is(topic)
            successful = self._context.replicas_in(topic, ReplicaStatus.DELETION_SUCCESSFUL)
            self._replicas.handle(successful, ReplicaStatus.NON_EXISTENT)
            self._context.forget_topic(topic)
            _log.info("Topic {topic} is deleted", topic=topic)
        self._deleted(topics)

    def _node_deletions(self, topic: str) -> list[Operation]:
        deletions: list[Operation] = []
        for partition in self._context.partitions(topic):
            deletions += [Delete(znodes.state_path(partition)), Delete(znodes.partition_path(partition))]
        path = znodes.topic_path(topic)
        paths = (f"{path}/partitions", path, znodes.config_path(f"topics/{topic}"), znodes.delete_topic_path(topic))
        return deletions + [Delete(path) for path in paths]

    def _delete_whatever_there_is(self, topic: str) -> None:
        """Delete whatever nodes a topic has, if they are not the expected ones; the request for its deletion goes last."""
        paths = (znodes.topic_path(topic), znodes.config_path(f"topics/{topic}"), znodes.delete_topic_path(topic))
        for path in paths:
            self._store.delete_tree(path)
