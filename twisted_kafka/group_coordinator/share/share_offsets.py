"""Changes of share groups' start offsets by administrators, and deletion of share groups (KIP-932).

Each writes down first the request to the share coordinators, then sends it, and then writes down its results. So a
request that fails on the way can be repeated.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from twisted_kafka.coordinator.append_errors import consumer_group_error, group_store_error
from twisted_kafka.coordinator.effects import Effects, Write
from twisted_kafka.group_coordinator.share.persister_requests import SharePartitionId, delete_request, errors_of, initialize_request
from twisted_kafka.group_coordinator.share.share_partition_manager import SharePartitionManager
from twisted_kafka.group_coordinator.shared.environment import GroupEnvironment
from twisted_kafka.group_coordinator.state.consumer.consumer_group_member import Partitions
from twisted_kafka.group_coordinator.state.group_store import GroupStore
from twisted_kafka.group_coordinator.state.share.share_group import ShareGroup
from twisted_kafka.group_coordinator.state.share.share_group_records import group_removed, share_partitions
from twisted_kafka.group_coordinator.state.share.share_partitions import SharePartitions, difference, union
from twisted_kafka.metadata.cache import MetadataSnapshot
from twisted_kafka.protocol.errors import ErrorCode, GroupIdNotFoundError, KafkaError, NotCoordinatorError, error_class
from twisted_kafka.protocol.messages.share.share_state import InitializeShareGroupStateResponse

T = TypeVar("T")

SharePartitionErrors = Mapping[SharePartitionId, ErrorCode]
TopicErrors = Mapping[bytes, ErrorCode]


class ShareOffsets:
    """Alters and deletes the states of one shard's share partitions."""

    def __init__(
        self, store: GroupStore, environment: GroupEnvironment, effects: Effects, partitions: SharePartitionManager
    ) -> None:
        self._store = store
        self._environment = environment
        self._effects = effects
        self._partitions = partitions
        self._parked: dict[int, Callable[[KafkaError], None]] = {}
        """How to fail the requests that wait for the share coordinators, by the id of their future."""

    def unloaded(self) -> None:
        """Answer the requests that wait."""
        parked, self._parked = self._parked, {}
        for fail in parked.values():
            fail(NotCoordinatorError("This broker no longer leads the group's partition."))

    @property
    def _snapshot(self) -> MetadataSnapshot:
        snapshot: MetadataSnapshot = self._environment.topics.snapshot
        return snapshot

    # altering

    def alter(self, group_id: str, offsets: Mapping[SharePartitionId, int]) -> SharePartitionErrors | Write[SharePartitionErrors]:
        """Set start offsets of existing partitions, and create the group if need be; return the errors by partition.

        Raises GroupIdNotFoundError for a group of another type, NON_EMPTY_GROUP if it has members.
        """
        group = self._empty(group_id) if group_id in self._store.groups else ShareGroup(group_id)
        if not offsets:
            return {}
        wanted = _partitions(offsets)
        following = (group.partitions or SharePartitions()).initialize(wanted, self._snapshot.topic_names)
        request = initialize_request(group_id, group.epoch, wanted, offsets)

        def ask() -> "Future[SharePartitionErrors]":
            answer: Future[SharePartitionErrors] = self._park()

            def done(asked: "Future[InitializeShareGroupStateResponse]") -> None:
                errors = errors_of(wanted, asked)
                failed = _partitions(errors)
                change = partial(_settled, wanted=wanted, failed=failed)
                self._partitions.note(group_id, change, lambda error: self._answer(answer, errors, error))

            self._effects.send(lambda: self._environment.persister.initialize_state(request), done)
            return answer

        return self._write(group_id, following, ask)

    # deleting

    def delete_topics(self, group_id: str, topics: Collection[bytes]) -> TopicErrors | Write[TopicErrors]:
        """Delete a group's states of topics that exist; return the errors by topic id.

        Raises GroupIdNotFoundError if there is no such share group, NON_EMPTY_GROUP if it has members.
        """
        group = self._empty(group_id)
        known = group.partitions or SharePartitions()
        snapshot = self._snapshot
        going: dict[bytes, frozenset[int]] = {}
        for topic_id in topics:
            if topic_id in known.initialized:
                going[topic_id] = known.initialized[topic_id]
            elif topic_id in known.deleting:
                going[topic_id] = frozenset(snapshot.topics[snapshot.topic_names[topic_id]])
        unknown = {topic_id: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for topic_id in topics if topic_id not in going}
        if not going:
            return unknown

        def deleted(errors: SharePartitionErrors, answer: "Future[TopicErrors]") -> None:
            failed = {topic_id: error for (topic_id, _), error in errors.items()}
            done = going.keys() - failed.keys()
            self._partitions.note(
                group_id, lambda present: present.deleted(done), lambda error: self._answer(answer, {**unknown, **failed}, error)
            )

        return self._write(group_id, known.delete(going), lambda: self._delete(group_id, going, deleted))

    def delete_group(self, group_id: str) -> ErrorCode | Write[ErrorCode]:
        """Delete a group with the states of its partitions.

        Raises GroupIdNotFoundError if there is no such share group, NON_EMPTY_GROUP if it has members.
        """
        group = self._empty(group_id)
        known, snapshot = group.partitions, self._snapshot
        if known is None:
            return Write(group_removed(group), group_store_error)
        again = {
            topic_id: frozenset(snapshot.topics[snapshot.topic_names[topic_id]])
            for topic_id in known.deleting
            if topic_id in snapshot.topic_names
        }
        # A topic may have gone while nobody coordinated the group: the share coordinators delete its states themselves.
        going = {
            topic_id: indexes
            for topic_id, indexes in union(union(known.initialized, known.initializing), again).items()
            if topic_id in snapshot.topic_names
        }
        if not going:
            return Write([share_partitions(group_id, known.delete_all(again)), *group_removed(group)], group_store_error)

        def deleted(errors: SharePartitionErrors, answer: "Future[ErrorCode]") -> None:
            error = next(iter(errors.values()), ErrorCode.NONE)
            present = self._store.share(group_id)
            if error or present is None or present.members:
                self._answer(answer, error or (ErrorCode.NONE if present is None else ErrorCode.NON_EMPTY_GROUP))
                return
            self._effects.write(group_removed(present), lambda outcome: self._answer(answer, group_store_error(outcome)))

        return self._write(group_id, known.delete_all(again), lambda: self._delete(group_id, going, deleted))

    def _delete(
        self, group_id: str, going: Partitions, deleted: "Callable[[SharePartitionErrors, Future[T]], None]"
    ) -> "Future[T]":
        """Ask the share coordinators to delete states; ``deleted`` takes their errors, and answers the future."""
        answer: Future[T] = self._park()
        request = delete_request(group_id, going)
        self._effects.send(
            lambda: self._environment.persister.delete_state(request), lambda asked: deleted(errors_of(going, asked), answer)
        )
        return answer

    # parts of all

    def initialized(self, group_id: str) -> Partitions:
        """Return the partitions whose offsets the group has; empty for a group that does not exist."""
        group = self._store.share(group_id)
        return {} if group is None else group.initialized

    def _empty(self, group_id: str) -> ShareGroup:
        """Return a share group without members. Raises GroupIdNotFoundError, or NON_EMPTY_GROUP."""
        group = self._store.share(group_id)
        if group is None:
            is_other = group_id in self._store.groups
            raise GroupIdNotFoundError(f"Group {group_id} is not a share group." if is_other else f"Group {group_id} not found.")
        if group.members:
            raise error_class(ErrorCode.NON_EMPTY_GROUP)("The group is not empty.")
        return group

    def _write(self, group_id: str, following: SharePartitions, ask: "Callable[[], Future[T]]") -> Write[T]:
        """Write down what the share coordinators are asked for, and then ask them."""

        def completed(error: ErrorCode) -> "Future[T]":
            if error:
                raise _not_written(error)
            return ask()

        return Write([share_partitions(group_id, following)], completed)

    def _park(self) -> "Future[T]":
        answer: Future[T] = Future()
        self._parked[id(answer)] = partial(self._effects.fail, answer)
        return answer

    def _answer(self, answer: "Future[T]", result: T, error: ErrorCode = ErrorCode.NONE) -> None:
        """Answer a request that waits, unless it was failed meanwhile; ``error`` is that of the last write."""
        if self._parked.pop(id(answer), None) is None:
            return
        if error:
            self._effects.fail(answer, _not_written(error))
        else:
            self._effects.reply(answer, result)


def _settled(known: SharePartitions, wanted: Partitions, failed: Partitions) -> SharePartitions:
    """Return the group's partitions after some of those wanted could not be initialized."""
    return known.withdraw(failed).confirm(difference(wanted, failed))


def _partitions(listed: Iterable[SharePartitionId]) -> Partitions:
    found: dict[bytes, set[int]] = {}
    for topic_id, index in listed:
        found.setdefault(topic_id, set()).add(index)
    return {topic_id: frozenset(indexes) for topic_id, indexes in found.items()}


def _not_written(error: ErrorCode) -> KafkaError:
    return error_class(consumer_group_error(error))("The change of the group could not be written.")
