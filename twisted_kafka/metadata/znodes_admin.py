"""The rarer nodes of the metadata tree: administrative requests, notifications, ACLs and delegation tokens."""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol, Self

from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.znode_json import decode_json, encode_json, int32, int32_list, mapping, reading, text, text_list
from twisted_kafka.protocol.topic_partition import TopicPartition

_OF_AN_ACL: Final = ("principal", "permissionType", "host", "operation")


def _partition_of(value: Any) -> TopicPartition:
    return TopicPartition(text(value["topic"]), int32(value["partition"]))


class PartitionsNode(NamedTuple):
    """``/admin/preferred_replica_election`` and ``/isr_change_notification/isr_change_<n>``: a list of partitions."""

    partitions: list[TopicPartition]

    def encode(self) -> bytes:
        """Encode the node's data."""
        return encode_json(
            {"version": 1, "partitions": [{"topic": each.topic, "partition": each.partition} for each in self.partitions]}
        )

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode the node's data."""
        value = decode_json(data)
        with reading("list of partitions"):
            return cls([_partition_of(each) for each in value["partitions"]])


class ReassignmentNode(NamedTuple):
    """``/admin/reassign_partitions``: the target replicas of partitions."""

    replicas: dict[TopicPartition, list[int]]

    def encode(self) -> bytes:
        """Encode the node's data."""
        partitions = [{"topic": each.topic, "partition": each.partition, "replicas": ids} for each, ids in self.replicas.items()]
        return encode_json({"version": 1, "partitions": partitions})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode the node's data."""
        value = decode_json(data)
        with reading("reassignment"):
            return cls({_partition_of(each): int32_list(each["replicas"]) for each in value["partitions"]})


class LogDirEventNode(NamedTuple):
    """``/log_dir_event_notification/log_dir_event_<n>``: a log directory of a broker failed."""

    broker_id: int
    event: int = 1

    def encode(self) -> bytes:
        """Encode the node's data."""
        return encode_json({"version": 1, "broker": self.broker_id, "event": self.event})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode the node's data."""
        value = decode_json(data)
        with reading("log directory event"):
            return cls(int32(value["broker"]), int32(value["event"]))


class FeatureNode(NamedTuple):
    """``/feature``: the finalized features; ``status`` 1 means enabled.

    Version 2 has ``max_version_level`` for each feature, version 1 ``min_version_level`` as well.
    """

    features: dict[str, Any]
    status: int = 1
    version: int = 2

    @classmethod
    def of(cls, levels: Mapping[str, int]) -> Self:
        """Return an enabled node with these levels."""
        return cls({feature: {"max_version_level": level} for feature, level in levels.items()})

    @property
    def is_enabled(self) -> bool:
        """Whether its features count."""
        return self.status == 1

    def levels(self) -> dict[str, int]:
        """Return the level of each feature. Raises BadNodeError."""
        with reading("feature"):
            return {feature: int(value["max_version_level"]) for feature, value in self.features.items()}

    def encode(self) -> bytes:
        """Encode the node's data."""
        return encode_json({"features": self.features, "version": self.version, "status": self.status})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode the node's data."""
        value = decode_json(data)
        with reading("feature"):
            return cls(mapping(value["features"], lambda feature: feature), int32(value["status"]), int32(value["version"]))


class AclEntry(NamedTuple):
    """An access control entry; the names are those of Kafka's Java API (``Allow``, ``Describe``)."""

    principal: str
    permission_type: str
    host: str
    operation: str


class AclNode(NamedTuple):
    """``/kafka-acl/<type>/<name>`` and ``/kafka-acl-extended/prefixed/<type>/<name>``: the ACLs of a resource."""

    acls: list[AclEntry]

    def encode(self) -> bytes:
        """Encode the node's data."""
        acls = [
            {"principal": each.principal, "permissionType": each.permission_type, "host": each.host, "operation": each.operation}
            for each in self.acls
        ]
        return encode_json({"acls": acls, "version": 1})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode the node's data."""
        value = decode_json(data)
        with reading("ACL"):
            return cls([AclEntry(*[text(each[name]) for name in _OF_AN_ACL]) for each in value["acls"]])


class AclChangeNode(NamedTuple):
    """A resource whose ACLs changed: text for literal patterns (``TOPIC:orders``), JSON for prefixed ones."""

    resource_type: str
    name: str
    pattern_type: str = "LITERAL"

    def encode(self) -> bytes:
        """Encode the node's data."""
        if self.pattern_type == "LITERAL":
            return f"{self.resource_type}:{self.name}".encode()
        value = {"version": 1, "resourceType": self.resource_type, "name": self.name, "patternType": self.pattern_type}
        return encode_json(value)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode the node's data."""
        with reading("ACL change"):
            if not data.startswith(b"{"):
                resource_type, _, name = data.decode().partition(":")
                return cls(resource_type, name)
            value = decode_json(data)
            return cls(text(value["resourceType"]), text(value["name"]), text(value["patternType"]))


class TokenNode(NamedTuple):
    """``/delegation_token/tokens/<id>``; principals are percent-encoded ``User:name``."""

    token_id: str
    owner: str
    requester: str
    renewers: list[str]
    issued_ms: int
    expires_ms: int
    max_ms: int

    def encode(self) -> bytes:
        """Encode the node's data."""
        return encode_json(
            {
                "issueTimestamp": self.issued_ms,
                "renewers": self.renewers,
                "tokenRequester": self.requester,
                "tokenId": self.token_id,
                "owner": self.owner,
                "expiryTimestamp": self.expires_ms,
                "maxTimestamp": self.max_ms,
                "version": 3,
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode the node's data; before version 3 the requester is the owner."""
        value = decode_json(data)
        with reading("delegation token"):
            return cls(
                token_id=text(value["tokenId"]),
                owner=text(value["owner"]),
                requester=text(value.get("tokenRequester", value["owner"])),
                renewers=text_list(value["renewers"]),
                issued_ms=int(value["issueTimestamp"]),
                expires_ms=int(value["expiryTimestamp"]),
                max_ms=int(value["maxTimestamp"]),
            )


class TextNode(NamedTuple):
    """``/delegation_token/token_changes/token_change_<n>``: a token's id as plain text."""

    text: str

    def encode(self) -> bytes:
        """Encode the node's data."""
        return self.text.encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode the node's data."""
        with reading("text"):
            return cls(data.decode())


class Znode(Protocol):
    """The interface of the node classes."""

    def encode(self) -> bytes:
        """Encode the node's data."""

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode the node's data; raises BadNodeError."""


_TYPES: Final[list[tuple[str, type[Znode]]]] = [
    (r"/brokers/ids/\d+", znodes.BrokerNode),
    (r"/brokers/topics/[^/]+/partitions/\d+/state", znodes.PartitionStateNode),
    (r"/brokers/topics/[^/]+", znodes.TopicNode),
    (r"/controller", znodes.ControllerNode),
    (r"/controller_epoch", znodes.NumberNode),
    (r"/cluster/id", znodes.ClusterIdNode),
    (r"/config/changes/config_change_\d*", znodes.ConfigChangeNode),
    (r"/config/(topics|brokers|clients|ips|users)/[^/]+", znodes.ConfigNode),
    (r"/config/users/[^/]+/clients/[^/]+", znodes.ConfigNode),
    (r"/latest_producer_id_block", znodes.ProducerIdBlockNode),
    (r"/feature", FeatureNode),
    (r"/admin/preferred_replica_election", PartitionsNode),
    (r"/isr_change_notification/isr_change_\d*", PartitionsNode),
    (r"/admin/reassign_partitions", ReassignmentNode),
    (r"/log_dir_event_notification/log_dir_event_\d*", LogDirEventNode),
    (r"/kafka-acl/[^/]+/.+", AclNode),
    (r"/kafka-acl-extended/[^/]+/[^/]+/.+", AclNode),
    (r"/kafka-acl(-extended)?-changes/acl_changes_\d*", AclChangeNode),
    (r"/delegation_token/tokens/[^/]+", TokenNode),
    (r"/delegation_token/token_changes/token_change_\d*", TextNode),
]


def node_type(path: str) -> type[Znode] | None:
    """Return the class of the node at ``path``; None for a node without data."""
    return next((kind for pattern, kind in _TYPES if re.fullmatch(pattern, path)), None)
