"""Topology descriptions of streams groups."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import Int8, Int16, Int32, String


class TopologyDescriptionNode(Struct):
    """A node of a topology: a source (type 1), a processor (2) or a sink (3), and the names of the nodes that follow it."""

    name: String = ""
    node_type: Int8 = 0
    source_topics: list[String] = field(factory=list)
    sink_topic: String | None = None
    stores: list[String] = field(factory=list)
    successors: list[String] = field(factory=list)


class TopologyDescriptionSubtopology(Struct):
    """The nodes of one subtopology."""

    subtopology_id: String = ""
    nodes: list[TopologyDescriptionNode] = field(factory=list)


class TopologyDescriptionGlobalStore(Struct):
    """A store that every instance has as a whole: the node that reads its topic, and the one that fills it."""

    source: TopologyDescriptionNode = field(factory=TopologyDescriptionNode)
    processor: TopologyDescriptionNode = field(factory=TopologyDescriptionNode)


class TopologyDescription(Struct):
    """A description of a streams group's topology for people (KIP-1331)."""

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
