"""Asks the share coordinators to initialize and delete the states of share partitions, and writes down the results."""

from collections.abc import Callable, Set
from concurrent.futures import Future
from functools import partial

from twisted.logger import Logger

from twisted_kafka.coordinator.coordinator_record import CoordinatorRecord
from twisted_kafka.coordinator.effects import Effects
from twisted_kafka.group_coordinator.share.persister_requests import errors_of, initialize_request
from twisted_kafka.group_coordinator.shared.environment import GroupEnvironment
from twisted_kafka.group_coordinator.state.consumer.consumer_group_member import Partitions
from twisted_kafka.group_coordinator.state.group_store import GroupStore
from twisted_kafka.group_coordinator.state.share.share_group import ShareGroup
from twisted_kafka.group_coordinator.state.share.share_group_records import share_partitions
from twisted_kafka.group_coordinator.state.share.share_partitions import SharePartitions
from twisted_kafka.metadata.cache import MetadataSnapshot
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.share.share_state import InitializeShareGroupStateResponse

_log = Logger()


class SharePartitionManager:
    """The states of one shard's share partitions."""

    def __init__(self, store: GroupStore, environment: GroupEnvironment, effects: Effects) -> None:
        self._store = store
        self._environment = environment
        self._effects = effects
        self._asked_ms: dict[tuple[str, bytes], int] = {}
        """When a topic's partitions were last asked for, by group and topic; only while they are being initialized."""

    # initializing

    def wanted(self, group: ShareGroup, topics: Set[str], snapshot: MetadataSnapshot) -> Partitions:
        """Return the partitions of ``topics`` that the share coordinators have to be asked for.

        They are asked again if they have not answered within ``group.share.initialize.retry.interval.ms``.
        """
        now_ms = self._environment.clock.monotonic_ns() // 1_000_000
        retry_ms = self._environment.config.share_initialize_retry_interval_ms
        known = group.partitions or SharePartitions()
        found: dict[bytes, frozenset[int]] = {}
        for name in topics:
            topic_id = snapshot.topic_ids.get(name)
            if topic_id is None or name not in snapshot.topics:
                continue
            initialized = known.initialized.get(topic_id, frozenset())
            if len(initialized) >= len(snapshot.topics[name]):
                continue  # every heartbeat of every member comes here: without looking at each partition
            missing = snapshot.topics[name].keys() - initialized
            asked_ms = self._asked_ms.get((group.group_id, topic_id))
            if missing and asked_ms is not None and now_ms - asked_ms < retry_ms:
                missing -= known.initializing.get(topic_id, frozenset())
            if missing:
                found[topic_id] = frozenset(missing)
                self._asked_ms[group.group_id, topic_id] = now_ms
        return found

    def asking(self, group: ShareGroup, wanted: Partitions, snapshot: MetadataSnapshot) -> list[CoordinatorRecord]:
        """Return the record that notes that the share coordinators are asked for partitions."""
        if not wanted:
            return []
        following = (group.partitions or SharePartitions()).initialize(wanted, snapshot.topic_names)
        return [share_partitions(group.group_id, following)]

    def initialize(self, group_id: str, wanted: Partitions, epoch: int) -> None:
        """Ask the share coordinators for partitions, and note their answer."""
        if not wanted:
            return
        request = initialize_request(group_id, epoch, wanted, {})
        self._effects.send(lambda: self._environment.persister.initialize_state(request), partial(self._answered, group_id, wanted))

    def _answered(self, group_id: str, wanted: Partitions, answer: "Future[InitializeShareGroupStateResponse]") -> None:
        errors = errors_of(wanted, answer)
        if errors:
            _log.warn(
                "Group {group}: {count} share partitions are not initialized: {error}",
                group=group_id,
                count=sum(map(len, wanted.values())),
                error=next(iter(errors.values())).name,
            )
            self.note(group_id, lambda known: known.withdraw(wanted))
        else:
            self.note(group_id, lambda known: known.confirm(wanted))
        for topic_id in wanted:
            self._asked_ms.pop((group_id, topic_id), None)

    def note(
        self, group_id: str, change: Callable[[SharePartitions], SharePartitions], done: Callable[[ErrorCode], object] = bool
    ) -> None:
        """Write a change of a group's share partitions, unless the group is gone or it changes nothing; then call ``done``."""
        group = self._store.share(group_id)
        known = None if group is None else group.partitions
        following = None if known is None else change(known)
        if following is None or following == known:
            done(ErrorCode.NONE)
            return

        def completed(error: ErrorCode) -> None:
            if error:
                _log.warn("Group {group}: failed to write its share partitions: {error}", group=group_id, error=error.name)
            done(error)

        self._effects.write([share_partitions(group_id, following)], completed)

    # deleted topics

    def topics_deleted(self, names: Set[str]) -> None:
        """Forget the partitions of topics that no longer exist; another topic may have got the name meanwhile."""
        present = self._environment.topics.snapshot.topic_names
        for group in self._store.share_groups():
            known = {} if group.partitions is None else group.partitions.names
            gone = {topic_id for topic_id, name in known.items() if name in names and topic_id not in present}
            if gone:
                self.note(group.group_id, partial(SharePartitions.forget, topics=gone))
                for topic_id in gone:
                    self._asked_ms.pop((group.group_id, topic_id), None)
