"""Records of which topology a streams group's description is of (KIP-1331; Kafka: GroupMetadataManager).

Before a plug-in is called the stored epoch becomes UNCERTAIN, so that a description which it may have is deleted with the group
even if the call's outcome is lost.
"""

from typing import Final

from twisted_kafka.coordinator.append_errors import consumer_group_error
from twisted_kafka.coordinator.coordinator_record import CoordinatorRecord
from twisted_kafka.coordinator.effects import Write
from twisted_kafka.group_coordinator.state.group_store import GroupStore
from twisted_kafka.group_coordinator.state.streams import streams_group_records as records
from twisted_kafka.group_coordinator.state.streams.streams_group import UNCERTAIN_EPOCH, GroupBasis, StreamsGroup
from twisted_kafka.group_coordinator.state.streams.topology import NO_EPOCH
from twisted_kafka.protocol.errors import (
    ErrorCode,
    GroupIdNotFoundError,
    InvalidRequestError,
    UnknownMemberIdError,
)
from twisted_kafka.protocol.messages.streams.streams_topology import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
)

_SOURCE: Final = 1
_PROCESSOR: Final = 2
_SINK: Final = 3

Outcome = ErrorCode | Write[ErrorCode]


class DescriptionEpochs:
    """The part of a shard that knows which groups' topologies are described."""

    def __init__(self, store: GroupStore) -> None:
        self._store = store

    def begin(self, request: StreamsGroupTopologyDescriptionUpdateRequest) -> Outcome:
        """Check an update of the description, and mark the group's description as uncertain.

        Raises GroupIdNotFoundError, UnknownMemberIdError, or InvalidRequestError for another topology epoch or malformed nodes.
        """
        group_id, epoch = request.group_id, request.topology_epoch
        group = self._store.streams(group_id)
        if group is None:
            is_other = group_id in self._store.groups
            raise GroupIdNotFoundError(f"Group {group_id} is not a streams group." if is_other else f"Group {group_id} not found.")
        if request.member_id not in group.members:
            raise UnknownMemberIdError(f"Member {request.member_id} is not a member of group {group_id}.")
        current = NO_EPOCH if group.topology is None else group.topology.epoch
        if epoch != current:
            raise InvalidRequestError(f"Topology epoch {epoch} does not match the group's current topology epoch {current}.")
        _check_nodes(request.topology_description)
        return self._mark(group)

    def begin_deletion(self, group_id: str) -> Outcome:
        """Mark the description of a group without members as uncertain; return GROUP_ID_NOT_FOUND if it has none."""
        group = self._store.streams(group_id)
        if group is None or group.members or not group.is_described:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return self._mark(group)

    def _mark(self, group: StreamsGroup) -> Outcome:
        if group.basis.stored_description_epoch == UNCERTAIN_EPOCH:
            return ErrorCode.NONE
        return self._write(group, group.basis._replace(stored_description_epoch=UNCERTAIN_EPOCH))

    def end(self, group_id: str, epoch: int, *, is_refused: bool) -> Outcome:
        """Record that the plug-in has the description of the topology with this epoch, or has refused it for good."""
        group = self._store.streams(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        basis = group.basis
        if is_refused:
            basis = basis._replace(failed_description_epoch=max(basis.failed_description_epoch, epoch))
        elif basis.stored_description_epoch == NO_EPOCH:  # it was deleted meanwhile
            basis = basis._replace(stored_description_epoch=UNCERTAIN_EPOCH)
        else:
            basis = basis._replace(stored_description_epoch=max(basis.stored_description_epoch, epoch))
        return self._write(group, basis)

    def end_deletion(self, group_id: str) -> Outcome:
        """Record that the plug-in has no description of the group any more, unless it got one meanwhile."""
        group = self._store.streams(group_id)
        if group is None or not group.is_described:
            return ErrorCode.NONE
        is_unchanged = group.basis.stored_description_epoch == UNCERTAIN_EPOCH
        stored = NO_EPOCH if is_unchanged else UNCERTAIN_EPOCH
        return self._write(group, group.basis._replace(stored_description_epoch=stored))

    def unused(self) -> list[str]:
        """Return the groups that have a description, but neither members nor offsets."""
        return [
            group.group_id
            for group in self._store.streams_groups()
            if group.is_described and not group.members and not self._store.offsets.has_any(group.group_id)
        ]

    @staticmethod
    def _write(group: StreamsGroup, basis: GroupBasis) -> Write[ErrorCode]:
        written: list[CoordinatorRecord] = [records.group_metadata(group.group_id, group.epoch, basis)]
        return Write(written, consumer_group_error)


def _check_nodes(description: TopologyDescription) -> None:
    """Raise InvalidRequestError for a node of no known type."""
    stores = description.global_stores
    nodes = [node for each in description.subtopologies for node in each.nodes]
    for node in [*nodes, *(node for each in stores for node in (each.source, each.processor))]:
        if node.node_type not in (_SOURCE, _PROCESSOR, _SINK):
            raise InvalidRequestError(f"Unknown topology node type: {node.node_type}")
    if any((each.source.node_type, each.processor.node_type) != (_SOURCE, _PROCESSOR) for each in stores):
        raise InvalidRequestError("Global store must be composed of a source and a processor node.")
