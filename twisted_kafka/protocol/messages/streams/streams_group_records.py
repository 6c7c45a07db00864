"""Records of streams groups in ``__consumer_offsets``; ``KEY`` is the version number before the key."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import Int8, Int16, Int32, Int64, String, Uint16


class StreamsGroupCurrentMemberAssignmentKey(Message, key=22, versions=(0, 0)):
    """The key of the current assignment of a member of a streams group."""

    group_id: String = ""
    member_id: String = ""


class StreamsGroupCurrentMemberAssignmentValueTaskIds(Struct):
    subtopology_id: String = ""
    partitions: list[Int32] = field(factory=list)
    assignment_epochs: list[Int32] | None = field(factory=list, tag=0)


class StreamsGroupCurrentMemberAssignmentValue(Message, key=22, versions=(0, 0), flexible=0):
    """The tasks that a member of a streams group owns and has to revoke."""

    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    active_tasks: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = field(factory=list)
    standby_tasks: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = field(factory=list)
    warmup_tasks: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = field(factory=list)
    active_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = field(factory=list)
    standby_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = field(factory=list)
    warmup_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = field(factory=list)


class StreamsGroupMemberMetadataKey(Message, key=19, versions=(0, 0)):
    """The key of a member of a streams group."""

    group_id: String = ""
    member_id: String = ""


class Endpoint(Struct):
    host: String = ""
    port: Uint16 = 0


class KeyValue(Struct):
    key: String = ""
    value: String = ""


class StreamsGroupMemberMetadataValue(Message, key=19, versions=(0, 0), flexible=0):
    """A member of a streams group: who it is and where it can be reached."""

    instance_id: String | None = ""
    rack_id: String | None = ""
    client_id: String = ""
    client_host: String = ""
    rebalance_timeout_ms: Int32 = -1
    topology_epoch: Int32 = 0
    process_id: String = ""
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] = field(factory=list)


class StreamsGroupMetadataKey(Message, key=17, versions=(0, 0)):
    """The key of a streams group."""

    group_id: String = ""


class LastAssignmentConfig(Struct):
    key: String = ""
    value: String = ""


class StreamsGroupMetadataValue(Message, key=17, versions=(0, 0), flexible=0):
    """The epoch of a streams group."""

    epoch: Int32 = 0
    metadata_hash: Int64 = 0
    validated_topology_epoch: Int32 = field(default=-1, tag=0)
    last_assignment_configs: list[LastAssignmentConfig] | None = field(factory=list, tag=1)
    stored_description_topology_epoch: Int32 = field(default=-1, tag=2)
    failed_description_topology_epoch: Int32 = field(default=-1, tag=3)


class StreamsGroupTargetAssignmentMemberKey(Message, key=21, versions=(0, 0)):
    """The key of the target assignment of a member of a streams group."""

    group_id: String = ""
    member_id: String = ""


class StreamsGroupTargetAssignmentMemberValueTaskIds(Struct):
    subtopology_id: String = ""
    partitions: list[Int32] = field(factory=list)


class StreamsGroupTargetAssignmentMemberValue(Message, key=21, versions=(0, 0), flexible=0):
    """The target assignment of a member of a streams group."""

    active_tasks: list[StreamsGroupTargetAssignmentMemberValueTaskIds] = field(factory=list)
    standby_tasks: list[StreamsGroupTargetAssignmentMemberValueTaskIds] = field(factory=list)
    warmup_tasks: list[StreamsGroupTargetAssignmentMemberValueTaskIds] = field(factory=list)


class StreamsGroupTargetAssignmentMetadataKey(Message, key=20, versions=(0, 0)):
    """The key of the metadata of a streams group's target assignment."""

    group_id: String = ""


class StreamsGroupTargetAssignmentMetadataValue(Message, key=20, versions=(0, 0), flexible=0):
    """The epoch of a streams group's target assignment."""

    assignment_epoch: Int32 = 0
    assignment_timestamp: Int64 = field(default=0, tag=0)


class StreamsGroupTopologyKey(Message, key=23, versions=(0, 0)):
    """The key of the topology of a streams group."""

    group_id: String = ""


class TopicConfig(Struct):
    key: String = ""
    value: String = ""


class TopicInfo(Struct):
    name: String = ""
    partitions: Int32 = 0
    replication_factor: Int16 = 0
    topic_configs: list[TopicConfig] = field(factory=list)


class CopartitionGroup(Struct):
    source_topics: list[Int16] = field(factory=list)
    source_topic_regex: list[Int16] = field(factory=list)
    repartition_source_topics: list[Int16] = field(factory=list)


class Subtopology(Struct):
    subtopology_id: String = ""
    source_topics: list[String] = field(factory=list)
    source_topic_regex: list[String] = field(factory=list)
    state_changelog_topics: list[TopicInfo] = field(factory=list)
    repartition_sink_topics: list[String] = field(factory=list)
    repartition_source_topics: list[TopicInfo] = field(factory=list)
    copartition_groups: list[CopartitionGroup] = field(factory=list)


class StreamsGroupTopologyValue(Message, key=23, versions=(0, 0), flexible=0):
    """The topology of a streams group."""

    epoch: Int32 = 0
    subtopologies: list[Subtopology] = field(factory=list)
