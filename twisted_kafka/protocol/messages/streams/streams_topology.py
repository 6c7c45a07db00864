"""Topology descriptions of streams groups."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import Int8, Int16, Int32, String


class TopologyDescriptionNode(Struct):
    name: String = ""
    node_type: Int8 = 0
    source_topics: list[String] = field(factory=list)
    sink_topic: String | None = None
    stores: list[String] = field(factory=list)
    successors: list[String] = field(factory=list)


class TopologyDescriptionSubtopology(Struct):
    subtopology_id: String = ""
    nodes: list[TopologyDescriptionNode] = field(factory=list)


class TopologyDescriptionGlobalStore(Struct):
    source: TopologyDescriptionNode = field(factory=TopologyDescriptionNode)
    processor: TopologyDescriptionNode = field(factory=TopologyDescriptionNode)


class TopologyDescription(Struct):
    subtopologies: list[TopologyDescriptionSubtopology] = field(factory=list)
    global_stores: list[TopologyDescriptionGlobalStore] = field(factory=list)


class StreamsGroupTopologyDescriptionUpdateRequest(Message, key=93, versions=(0, 0), flexible=0):
    """A member of a streams group sends a readable description of its topology."""

    group_id: String = ""
    member_id: String = ""
    topology_epoch: Int32 = 0
    topology_description: TopologyDescription = field(factory=TopologyDescription)


class StreamsGroupTopologyDescriptionUpdateResponse(Message, key=93, versions=(0, 0), flexible=0):
    """Whether the description was stored."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
