"""Requests of tools older than Kafka 2.4, which create nodes below ``/admin``.

(Kafka: ``PartitionReassignmentHandler``, ``PreferredReplicaElectionHandler``.) A node remains until its request is completed.
"""

from collections.abc import Mapping, Sequence

from twisted.logger import Logger

from twisted_kafka.controller.machines.machinery import Machinery
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.znode_json import BadNodeError
from twisted_kafka.metadata.znodes_admin import PartitionsNode, ReassignmentNode
from twisted_kafka.protocol.topic_partition import TopicPartition

_log = Logger()


class RequestNodes:
    """Reads the nodes, and removes completed requests. Used on the controller's event thread only."""

    def __init__(self, machinery: Machinery) -> None:
        self._context = machinery.context
        self._store = machinery.store
        self._reassigned: dict[TopicPartition, list[int]] = {}

    def reassignments(self) -> Mapping[TopicPartition, Sequence[int]]:
        """Return the target replicas of partitions in ``/admin/reassign_partitions``. A node that cannot be read stays."""
        self._reassigned = {}
        found = self._store.get(znodes.REASSIGN_PARTITIONS)
        if found is not None:
            try:
                self._reassigned = ReassignmentNode.decode(found[0]).replicas
            except BadNodeError as error:
                _log.error("{path} is ignored: {error}", path=znodes.REASSIGN_PARTITIONS, error=error)
        return dict(self._reassigned)

    def settle_reassignments(self) -> None:
        """Remove reassignments that are not under way from the node. The last removal deletes the node."""
        left = {}
        for partition, targets in self._reassigned.items():
            assignment = self._context.assignment(partition)
            if assignment.is_reassigned and assignment.target == targets:
                left[partition] = targets
        if len(left) == len(self._reassigned):
            return
        self._reassigned = left
        if left:
            self._store.set(znodes.REASSIGN_PARTITIONS, ReassignmentNode(left).encode())
        else:
            self._store.delete(znodes.REASSIGN_PARTITIONS)

    def preferred_elections(self) -> list[TopicPartition] | None:
        """Return the partitions in ``/admin/preferred_replica_election``; None if there is no such node."""
        found = self._store.get(znodes.PREFERRED_ELECTION)
        if found is None:
            return None
        try:
            return PartitionsNode.decode(found[0]).partitions
        except BadNodeError as error:
            _log.error("{path} is ignored: {error}", path=znodes.PREFERRED_ELECTION, error=error)
            return []

    def settle_preferred_elections(self) -> None:
        """Delete the node."""
        self._store.delete(znodes.PREFERRED_ELECTION)
