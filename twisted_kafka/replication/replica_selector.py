"""Consumers that read from the nearest replica (KIP-392): the leader names another one in the response to a fetch.

``replica.selector.class`` is Kafka's RackAwareReplicaSelector, which compares the consumer's ``client.rack`` with ``broker.rack``,
its LeaderSelector, or a Python class, ``package.module.Class``, that provides ``IReplicaSelector``.
"""

# ruff: noqa: N805 - the methods of a zope interface have no self

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from zope.interface import Interface, implementer

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.python_class import instance_of
from twisted_kafka.metadata.cache import MetadataCache, Node
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.partition.fetch_data import ClientMetadata
from twisted_kafka.replication.partition.partition import Partition

KEY: Final = "replica.selector.class"
RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER_ONLY: Final = "org.apache.kafka.common.replica.LeaderSelector"


class ReplicaView(NamedTuple):
    """A replica that has the offset: its broker's address on the client's listener, and how far it is."""

    node: Node
    log_end_offset: int
    behind_ms: int
    """The time since it last had all that the leader had; 0 for the leader."""


class IReplicaSelector(Interface):
    """Says from which replica a consumer is to read (Kafka: ``ReplicaSelector``)."""

    def configure(configs: Mapping[str, str]) -> None:
        """Called first, with the broker's settings as text."""

    def select(
        topic_partition: TopicPartition, client: ClientMetadata, replicas: Sequence[ReplicaView], leader: ReplicaView
    ) -> ReplicaView | None:
        """Return one of the replicas, which are in sync and have the offset; the leader or None for this broker."""

    def close() -> None:
        """Release resources, as the broker stops."""


@implementer(IReplicaSelector)
class RackAwareReplicaSelector:
    """The replica in the client's rack that is furthest; the leader if it is there, or nothing is."""

    def configure(self, configs: Mapping[str, str]) -> None:
        pass  # there are no settings

    def select(
        self, topic_partition: TopicPartition, client: ClientMetadata, replicas: Sequence[ReplicaView], leader: ReplicaView
    ) -> ReplicaView | None:
        """Return the replica."""
        near = [each for each in replicas if client.rack_id and each.node.rack == client.rack_id]
        if not near or leader in near:
            return leader
        return max(near, key=lambda each: (each.log_end_offset, -each.behind_ms, each.node.id))

    def close(self) -> None: ...


class PreferredReplicas:
    """Asks the selector, for partitions that this broker leads."""

    def __init__(self, selector: Any, metadata: MetadataCache) -> None:
        """``selector`` provides IReplicaSelector."""
        self._selector = selector
        self._metadata = metadata

    def find(self, partition: Partition, client: ClientMetadata, fetch_offset: int, now_ms: int) -> int | None:
        """Return the broker from which the client has to read this offset; None for this broker."""
        if not partition.is_leader or partition.is_alone:
            return None
        node = self._node(partition.local_broker_id, client)
        if node is None:
            return None
        leader = ReplicaView(node, partition.log.log_end_offset, 0)
        views = [leader]
        for replica in list(partition.remote_replicas.values()):
            # A replica out of sync would fall further behind with each consumer.
            if replica.broker_id in partition.isr and replica.log_start_offset <= fetch_offset <= replica.log_end_offset:
                node = self._node(replica.broker_id, client)
                if node is not None:
                    views.append(ReplicaView(node, replica.log_end_offset, now_ms - replica.last_caught_up_ms))
        selected = self._selector.select(partition.topic_partition, client, views, leader)
        return None if selected is None or selected == leader else selected.node.id

    def close(self) -> None:
        """Release the resources of the selector."""
        self._selector.close()

    def _node(self, broker_id: int, client: ClientMetadata) -> Node | None:
        return self._metadata.node(broker_id, client.listener_name)


def make_preferred_replicas(config: KafkaConfig, metadata: MetadataCache) -> PreferredReplicas | None:
    """Return the selector of ``replica.selector.class``, None without one; raises ConfigError."""
    name = config.optional_string(KEY)
    if name is None or name == LEADER_ONLY:
        return None
    if name == RACK_AWARE:
        return PreferredReplicas(RackAwareReplicaSelector(), metadata)
    originals = dict(config.originals)
    selector = instance_of(name, KEY, ("configure", "select", "close"), lambda made: made.configure(originals))
    return PreferredReplicas(selector, metadata)
