"""The nodes of the metadata tree: their paths, and their data in the format of Kafka 2.8 to 3.9.

Each kind of node is a class with ``encode()`` and ``decode(data)``; ``znodes_admin`` has the rarer kinds, and the lookup of the
class by path. The JSON has no whitespace and Kafka's order of keys; some numbers are strings. Decoders raise ``BadNodeError`` for
invalid data.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Self

from typing_extensions import override

from twisted_kafka.metadata.znode_json import (
    BadNodeError,
    by_number,
    decode_json,
    encode_json,
    epoch,
    int32,
    int32_list,
    mapping,
    reading,
    text,
    text_list,
)
from twisted_kafka.protocol.compiler.types import uuid_from_text, uuid_text
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.system.numbers import MAX_PORT

BROKER_IDS: Final = "/brokers/ids"
BROKER_SEQUENCE: Final = "/brokers/seqid"
TOPICS: Final = "/brokers/topics"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
CLUSTER_ID: Final = "/cluster/id"
FEATURE: Final = "/feature"
CONFIG: Final = "/config"
CONFIG_CHANGES: Final = "/config/changes"
CONFIG_CHANGE_PREFIX: Final = "/config/changes/config_change_"
DELETE_TOPICS: Final = "/admin/delete_topics"
PREFERRED_ELECTION: Final = "/admin/preferred_replica_election"
REASSIGN_PARTITIONS: Final = "/admin/reassign_partitions"
ISR_CHANGES: Final = "/isr_change_notification"
ISR_CHANGE_PREFIX: Final = "/isr_change_notification/isr_change_"
LOG_DIR_EVENTS: Final = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX: Final = "/log_dir_event_notification/log_dir_event_"
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"
DEFAULT_ENTITY: Final = "<default>"

PERSISTENT_PATHS: Final = (
    "/consumers",
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE,
    ISR_CHANGES,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS,
    "/config/topics",
    "/config/clients",
    "/config/users",
    "/config/brokers",
    "/config/ips",
)
"""The nodes that a broker creates at its start if they are missing."""


def topic_path(topic: str) -> str:
    """Return the path of the topic's node."""
    return f"{TOPICS}/{topic}"


def partition_path(partition: TopicPartition) -> str:
    """Return the path of the partition's node, which has no data."""
    return f"{TOPICS}/{partition.topic}/partitions/{partition.partition}"


def state_path(partition: TopicPartition) -> str:
    """Return the path of the node with the partition's leader and in-sync replicas."""
    return f"{TOPICS}/{partition.topic}/partitions/{partition.partition}/state"


def broker_path(broker_id: int) -> str:
    """Return the path of the broker's registration."""
    return f"{BROKER_IDS}/{broker_id}"


def config_path(entity_path: str) -> str:
    """Return the path of the config of an entity: ``topics/orders``, ``brokers/1``, ``users/<default>`` ..."""
    return f"{CONFIG}/{entity_path}"


def delete_topic_path(topic: str) -> str:
    """Return the path of the node that requests the topic's deletion."""
    return f"{DELETE_TOPICS}/{topic}"


_BROKER_NODE_VERSION: Final = 5
_TOPIC_NODE_VERSION: Final = 3

_PORT: Final = re.compile(r"-?[0-9]{1,5}")

_NOTHING: Final[dict[Any, Any]] = {}
"""The default of mappings; it can be shared, because a Mapping cannot be changed."""


class EndPointText(NamedTuple):
    """An endpoint of a broker: ``LISTENER://host:port``, with an IPv6 host in brackets."""

    listener_name: str
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text; raises BadNodeError."""
        listener_name, separator, rest = text.partition("://")
        host, colon, port = rest.rpartition(":")
        if not separator or not colon or _PORT.fullmatch(port) is None or int(port) > MAX_PORT:
            raise BadNodeError(f"{text!r:.100} is not an endpoint")
        return cls(listener_name, host.removeprefix("[").removesuffix("]"), int(port))

    @override
    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener_name}://{host}:{self.port}"


class BrokerNode(NamedTuple):
    """``/brokers/ids/<id>``, ephemeral: the endpoints of a live broker. ``host`` and ``port`` are those of PLAINTEXT."""

    endpoints: list[str]
    listener_security_protocol_map: dict[str, str]
    timestamp_ms: int
    rack: str | None = None
    host: str | None = None
    port: int = -1
    jmx_port: int = -1
    features: Mapping[str, Mapping[str, int]] = _NOTHING

    def encode(self) -> bytes:
        """Encode the node's data."""
        value: dict[str, Any] = {
            "features": self.features,
            "listener_security_protocol_map": self.listener_security_protocol_map,
            "endpoints": self.endpoints,
        }
        if self.rack is not None:
            value["rack"] = self.rack
        value |= {"jmx_port": self.jmx_port, "port": self.port, "host": self.host}
        return encode_json(value | {"version": _BROKER_NODE_VERSION, "timestamp": str(self.timestamp_ms)})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode the node's data; before version 4 a listener is identified by its security protocol."""
        value = decode_json(data)
        with reading("broker"):
            if value["version"] < 2:
                endpoints = [f"PLAINTEXT://{value['host']}:{value['port']}"]
            else:
                endpoints = text_list(value["endpoints"])
            names = [EndPointText.parse(each).listener_name for each in endpoints]  # the controller sends them to all brokers
            rack, host = value.get("rack"), value.get("host")
            return cls(
                endpoints=endpoints,
                listener_security_protocol_map=mapping(
                    value.get("listener_security_protocol_map", {name: name for name in names}), text
                ),
                timestamp_ms=int(value.get("timestamp", -1)),
                rack=None if rack is None else text(rack),
                host=None if host is None else text(host),
                port=int32(value.get("port", -1)),
                jmx_port=int32(value.get("jmx_port", -1)),
                features=mapping(value.get("features", {}), lambda levels: mapping(levels, int32)),
            )


class TopicNode(NamedTuple):
    """``/brokers/topics/<topic>``: the topic's id and the replicas of its partitions."""

    partitions: dict[int, list[int]]
    topic_id: bytes | None
    adding_replicas: Mapping[int, list[int]] = _NOTHING
    removing_replicas: Mapping[int, list[int]] = _NOTHING

    def encode(self) -> bytes:
        """Encode the node's data."""
        value: dict[str, Any] = {"partitions": self.partitions}
        if self.topic_id is not None:
            value["topic_id"] = uuid_text(self.topic_id)
        value |= {"adding_replicas": self.adding_replicas, "removing_replicas": self.removing_replicas}
        return encode_json(value | {"version": _TOPIC_NODE_VERSION if self.topic_id is not None else 2})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode the node's data; there are no topic ids before version 3, and no reassignments before version 2."""
        value = decode_json(data)
        with reading("topic"):
            topic_id = value.get("topic_id")
            return cls(
                partitions=by_number(value["partitions"]),
                topic_id=None if topic_id is None else uuid_from_text(topic_id),
                adding_replicas=by_number(value.get("adding_replicas", {})),
                removing_replicas=by_number(value.get("removing_replicas", {})),
            )


class PartitionStateNode(NamedTuple):
    """``.../partitions/<n>/state``: leader, epochs and ISR; the node's version is the partition epoch."""

    leader: int
    leader_epoch: int
    isr: list[int]
    controller_epoch: int
    leader_recovery_state: int = 0

    def encode(self) -> bytes:
        """Encode the node's data."""
        value: dict[str, Any] = {
            "controller_epoch": self.controller_epoch,
            "leader": self.leader,
            "version": 1,
            "leader_epoch": self.leader_epoch,
            "isr": self.isr,
        }
        if self.leader_recovery_state:
            value["leader_recovery_state"] = self.leader_recovery_state
        return encode_json(value)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode the node's data."""
        value = decode_json(data)
        with reading("partition state"):
            return cls(
                leader=int32(value["leader"]),
                leader_epoch=epoch(value["leader_epoch"]),
                isr=int32_list(value["isr"]),
                controller_epoch=int32(value["controller_epoch"]),
                leader_recovery_state=int32(value.get("leader_recovery_state", 0)),
            )


class ControllerNode(NamedTuple):
    """``/controller``, ephemeral: the active controller."""

    broker_id: int
    timestamp_ms: int
    kraft_controller_epoch: int = -1

    def encode(self) -> bytes:
        """Encode the node's data."""
        return encode_json(
            {
                "version": 2,
                "brokerid": self.broker_id,
                "timestamp": str(self.timestamp_ms),
                "kraftControllerEpoch": self.kraft_controller_epoch,
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode the node's data; version 1 has no KRaft epoch."""
        value = decode_json(data)
        with reading("controller"):
            return cls(
                broker_id=int32(value["brokerid"]),
                timestamp_ms=int(value.get("timestamp", -1)),
                kraft_controller_epoch=int32(value.get("kraftControllerEpoch", -1)),
            )


class NumberNode(NamedTuple):
    """``/controller_epoch``: a decimal number, which is increased by each controller."""

    value: int

    def encode(self) -> bytes:
        """Encode the node's data."""
        return b"%d" % self.value

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode the node's data."""
        with reading("number"):
            return cls(epoch(int(data)))


class ClusterIdNode(NamedTuple):
    """``/cluster/id``: the cluster id; the node's version is a string."""

    cluster_id: str

    def encode(self) -> bytes:
        """Encode the node's data."""
        return encode_json({"version": "1", "id": self.cluster_id})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode the node's data."""
        value = decode_json(data)
        with reading("cluster id"):
            return cls(text(value["id"]))


class ConfigNode(NamedTuple):
    """``/config/<type>/<name>``: the dynamic config of an entity; all values are strings."""

    config: dict[str, str]

    def encode(self) -> bytes:
        """Encode the node's data."""
        return encode_json({"version": 1, "config": self.config})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode the node's data; no data is an empty config."""
        if not data:
            return cls({})
        value = decode_json(data)
        with reading("config"):
            return cls({str(key): str(each) for key, each in value["config"].items()})


class ConfigChangeNode(NamedTuple):
    """``/config/changes/config_change_<n>``: the entity whose config changed, such as ``topics/orders``."""

    entity_path: str

    def encode(self) -> bytes:
        """Encode the node's data."""
        return encode_json({"version": 2, "entity_path": self.entity_path})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode the node's data; version 1 has the type and the name of the entity in separate fields."""
        value = decode_json(data)
        with reading("config change"):
            if value["version"] == 1:
                return cls(f"{value['entity_type']}/{value['entity_name']}")
            return cls(text(value["entity_path"]))


class ProducerIdBlockNode(NamedTuple):
    """``/latest_producer_id_block``: the last allocated block of producer ids, ``first`` to ``last`` inclusive, and its owner."""

    broker_id: int
    first: int
    last: int

    def encode(self) -> bytes:
        """Encode the node's data; the bounds are strings."""
        return encode_json({"version": 1, "broker": self.broker_id, "block_start": str(self.first), "block_end": str(self.last)})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode the node's data."""
        value = decode_json(data)
        with reading("producer id block"):
            return cls(broker_id=int32(value["broker"]), first=int(value["block_start"]), last=int(value["block_end"]))
