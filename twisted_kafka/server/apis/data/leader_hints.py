"""The leader that a client is told of when it asked the wrong broker (KIP-951)."""

from twisted_kafka.metadata.cache import Node
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.replica_manager import ReplicaManager


class LeaderHints:
    """Collects, for one response, the leaders of partitions and where they are reached on the client's listener."""

    __slots__ = ("_listener_name", "_replicas", "nodes")

    def __init__(self, replicas: ReplicaManager, listener_name: str) -> None:
        self._replicas = replicas
        self._listener_name = listener_name
        self.nodes: dict[int, Node] = {}

    def leader(self, topic_partition: TopicPartition) -> tuple[int, int]:
        """Return (id, leader epoch), -1 where unknown; its node goes to ``nodes``."""
        leader_id, leader_epoch = self._replicas.current_leader(topic_partition)
        node = self._replicas.metadata.node(leader_id, self._listener_name)
        if node is not None:
            self.nodes[leader_id] = node
        return leader_id, leader_epoch
