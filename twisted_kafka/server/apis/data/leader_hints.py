"""The current leaders in responses to clients that asked the wrong broker (KIP-951)."""

from twisted_kafka.metadata.cache import Node
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.replica_manager import ReplicaManager


class LeaderHints:
    """Collects the current leaders for one response, with their endpoints on the client's listener."""

    __slots__ = ("_listener_name", "_replicas", "nodes")

    def __init__(self, replicas: ReplicaManager, listener_name: str) -> None:
        self._replicas = replicas
        self._listener_name = listener_name
        self.nodes: dict[int, Node] = {}

    def leader(self, topic_partition: TopicPartition) -> tuple[int, int]:
        """Return the leader's id and epoch, -1 if unknown, and add its node to ``nodes``."""
        leader_id, leader_epoch = self._replicas.current_leader(topic_partition)
        node = self._replicas.metadata.node(leader_id, self._listener_name)
        if node is not None:
            self.nodes[leader_id] = node
        return leader_id, leader_epoch
