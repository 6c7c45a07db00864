"""The group coordinator's shard: the groups and offsets of one partition of ``__consumer_offsets``.

Only ``replay`` changes stored state: committed offsets, classic groups' generations and assignments, and all of a consumer
group. Volatile state (joins of an ongoing rebalance, session deadlines) is kept apart, and operations change it directly; the
members rebuild it when another broker takes over.
"""

from collections.abc import Collection

from twisted_kafka.coordinator.coordinator_record import CoordinatorRecord, RecordKinds
from twisted_kafka.coordinator.effects import Effects, Write
from twisted_kafka.group_coordinator.classic.rebalance import Rebalancer
from twisted_kafka.group_coordinator.consumer.classic_clients import ClassicClients
from twisted_kafka.group_coordinator.consumer.consumer_group_protocol import ConsumerGroupProtocol
from twisted_kafka.group_coordinator.consumer.member_manager import MemberManager
from twisted_kafka.group_coordinator.group_queries import GroupQueries
from twisted_kafka.group_coordinator.group_router import GroupRouter
from twisted_kafka.group_coordinator.offsets.offset_metadata_manager import OffsetMetadataManager
from twisted_kafka.group_coordinator.share.share_group_protocol import ShareGroupProtocol
from twisted_kafka.group_coordinator.share.share_offsets import ShareOffsets
from twisted_kafka.group_coordinator.share.share_partition_manager import SharePartitionManager
from twisted_kafka.group_coordinator.shared.environment import GroupEnvironment
from twisted_kafka.group_coordinator.state.group import Group
from twisted_kafka.group_coordinator.state.group_kinds import GROUP_RECORD_KINDS
from twisted_kafka.group_coordinator.state.group_store import GroupStore
from twisted_kafka.group_coordinator.streams.description_epochs import DescriptionEpochs
from twisted_kafka.group_coordinator.streams.streams_group_protocol import StreamsGroupProtocol
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.topic_partition import TopicPartition


class GroupShard:
    """Groups and offsets of one partition; every method is called with the partition's lock held."""

    def __init__(self, effects: Effects, environment: GroupEnvironment) -> None:
        config = environment.config
        self.store = GroupStore(config.offsets_retention_ms, config.offsets_retention_check_interval_ms)
        self._config = environment.config
        self._rebalancer = Rebalancer(effects, environment, self.store.drop_if_unused)
        self._member_manager = MemberManager(self.store, environment, effects, self._rebalancer)
        self.consumer = ConsumerGroupProtocol(self.store, environment, self._member_manager)
        classic_members = ClassicClients(environment, self._member_manager, self.consumer)
        self.classic = GroupRouter(self.store, environment, self._rebalancer, effects, classic_members)
        self.offsets = OffsetMetadataManager(self.store, environment, effects, self._rebalancer)
        self.queries = GroupQueries(self.store, environment)
        self.share_partitions = SharePartitionManager(self.store, environment, effects)
        self.share = ShareGroupProtocol(self.store, environment, effects, self.share_partitions)
        self.streams = StreamsGroupProtocol(self.store, environment, effects)
        self.descriptions = DescriptionEpochs(self.store)
        self.share_offsets = ShareOffsets(self.store, environment, effects, self.share_partitions)

    def replay(self, record: CoordinatorRecord, producer_id: int, offset: int) -> None:
        """Apply a record that is in the log."""
        self.store.replay(record, producer_id, offset)

    def replay_end_transaction(self, producer_id: int, committed: bool) -> None:
        """Commit or discard the offsets of a transaction."""
        self.store.end_transaction(producer_id, committed)

    def key_of(self, record: CoordinatorRecord) -> str:
        """Return the id of the record's group."""
        return self.store.group_id_of(record)

    def keys_of_transaction(self, producer_id: int) -> Collection[str]:
        """Return the ids of the groups with offsets of the transaction."""
        return self.store.offsets.groups_of_transaction(producer_id)

    def stored(self, key: str) -> Group | None:
        """Return the group."""
        return self.store.find(key)

    def delete_group(self, group_id: str) -> ErrorCode | Write[ErrorCode]:
        """Delete a group without members. Returns the error; for a share group, raises NON_EMPTY_GROUP if it has members."""
        if self.store.share(group_id) is not None:
            return self.share_offsets.delete_group(group_id)
        return self.offsets.delete_group(group_id)

    def partitions_deleted(self, partitions: Collection[TopicPartition], deleted_ms: int) -> None:
        """Forget partitions that were deleted at this time."""
        self.offsets.forget_partitions(partitions, deleted_ms)
        self.share_partitions.topics_deleted({partition.topic for partition in partitions})

    def loaded(self) -> None:
        """Start the sessions of all members of the loaded groups."""
        self.store.loaded()
        self._member_manager.loaded()
        self.share.loaded()
        self.streams.loaded()
        for group in self.store.classic_groups():
            if len(group.members) > self._config.max_size:
                self._rebalancer.prepare(group, "the loaded group is larger than group.max.size")
            for member in list(group.members.values()):
                self._rebalancer.start_session(group, member)

    def unloaded(self) -> None:
        """Answer parked requests with NOT_COORDINATOR and stop the timers."""
        for group in self.store.classic_groups():
            self._rebalancer.abandon(group, ErrorCode.NOT_COORDINATOR)
        self._member_manager.unloaded()
        self.share.unloaded()
        self.streams.unloaded()
        self.share_offsets.unloaded()
        self.store.groups.clear()


class GroupShardFactory:
    """Creates the shards of ``__consumer_offsets``."""

    def __init__(self, environment: GroupEnvironment) -> None:
        self._environment = environment

    def kinds(self) -> RecordKinds:
        """Return the record types of ``__consumer_offsets``."""
        return GROUP_RECORD_KINDS

    def shard(self, partition: int, leader_epoch: int, effects: Effects) -> GroupShard:
        """Return a new, empty shard."""
        return GroupShard(effects, self._environment)
