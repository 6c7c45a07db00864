"""The group coordinator's interface for streams groups (KIP-1071)."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

from twisted_kafka.coordinator.runtime import CoordinatorRuntime
from twisted_kafka.group_coordinator.group_shard import GroupShard
from twisted_kafka.group_coordinator.requests import Client
from twisted_kafka.group_coordinator.shared.environment import GroupEnvironment
from twisted_kafka.group_coordinator.shared.topology_descriptions import NOT_STORED
from twisted_kafka.group_coordinator.state.streams.topology import NO_EPOCH
from twisted_kafka.group_coordinator.streams.description_epochs import Outcome
from twisted_kafka.group_coordinator.streams.heartbeat_validation import check_heartbeat, is_leaving
from twisted_kafka.group_coordinator.streams.streams_group_protocol import Heartbeat
from twisted_kafka.protocol.errors import ErrorCode, InvalidRequestError, KafkaError, UnsupportedVersionError
from twisted_kafka.protocol.messages.streams.streams_groups import DescribedGroup, StreamsGroupHeartbeatRequest
from twisted_kafka.protocol.messages.streams.streams_topology import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from twisted_kafka.waiting.futures import and_then, when_done

DESCRIPTIONS_SINCE: Final = 1
"""The version of StreamsGroupHeartbeat whose clients can describe their topology."""

_NO_PLUGIN: Final = "The broker has no streams group topology description plugin configured."

_Updated = StreamsGroupTopologyDescriptionUpdateResponse


class StreamsGroups:
    """Streams groups (Kafka: GroupCoordinatorService). Methods may be called on any thread; all may raise KafkaError."""

    def __init__(self, runtime: CoordinatorRuntime[GroupShard], environment: GroupEnvironment) -> None:
        self._runtime = runtime
        self._descriptions = environment.descriptions
        self._metrics = environment.metrics

    def heartbeat(self, request: StreamsGroupHeartbeatRequest, client: Client, version: int) -> "Heartbeat | Future[Heartbeat]":
        """Add, keep or remove a member; ``version`` is that of the request."""
        check_heartbeat(request)
        if is_leaving(request):
            return self._runtime.execute(request.group_id, lambda shard: shard.streams.leave(request))
        answer = self._runtime.read(request.group_id, lambda shard: shard.streams.heartbeat(request, client, version))
        descriptions = self._descriptions
        if descriptions is None or version < DESCRIPTIONS_SINCE:
            return answer

        def ask(found: Heartbeat) -> Heartbeat:
            epoch = found.undescribed_epoch
            if not found.response.error_code and epoch != NO_EPOCH and descriptions.may_ask(request.group_id, epoch):
                found.response.topology_description_required = True
            return found

        return when_done(answer, ask)

    def describe(self, group_id: str, *, with_topology_description: bool = False) -> "DescribedGroup | Future[DescribedGroup]":
        """Describe a group; errors are in the result."""

        def refused(error: KafkaError) -> tuple[DescribedGroup, int]:
            return DescribedGroup(error_code=error.code, error_message=str(error), group_id=group_id), NO_EPOCH

        def described(shard: GroupShard) -> tuple[DescribedGroup, int]:
            group = shard.store.streams(group_id)
            return shard.queries.describe_streams(group_id), NO_EPOCH if group is None else group.basis.stored_description_epoch

        def complete(found: tuple[DescribedGroup, int]) -> DescribedGroup:
            group, stored_epoch = found
            if with_topology_description and not group.error_code:
                self._add_description(group, stored_epoch)
            return group

        return when_done(self._runtime.try_read(group_id, described, refused), complete)

    def _add_description(self, group: DescribedGroup, stored_epoch: int) -> None:
        group.topology_description_status = NOT_STORED
        if self._descriptions is not None and group.topology is not None and group.topology.epoch == stored_epoch:
            found = self._descriptions.get(group.group_id, stored_epoch)
            group.topology_description_status, group.topology_description = found

    # topology descriptions

    def update_description(self, request: StreamsGroupTopologyDescriptionUpdateRequest) -> "_Updated | Future[_Updated]":
        """Give the description of a member's topology to the plug-in."""
        descriptions = self._descriptions
        if descriptions is None:
            raise UnsupportedVersionError(_NO_PLUGIN)
        for name, value in (("MemberId", request.member_id), ("GroupId", request.group_id)):
            if not value:
                raise InvalidRequestError(f"{name} can't be empty.")
        group_id, epoch = request.group_id, request.topology_epoch

        def keep(error: ErrorCode) -> "_Updated | Future[_Updated]":
            if error:
                return _Updated(error_code=error)
            failure, message, is_over = descriptions.put(group_id, epoch, request.topology_description)
            response = _Updated(error_code=failure, error_message=message)
            if not is_over:
                return response
            written = self._write(group_id, lambda shard: shard.descriptions.end(group_id, epoch, is_refused=bool(failure)))
            return when_done(written, lambda error: _Updated(error_code=error) if error else response)

        return and_then(self._runtime.execute(group_id, lambda shard: shard.descriptions.begin(request)), keep)

    def forget_description(self, group_id: str) -> "ErrorCode | Future[ErrorCode]":
        """Delete the description of a group without members, before the group is deleted; return GROUP_DELETION_FAILED or NONE."""
        descriptions = self._descriptions
        if descriptions is None:
            return ErrorCode.NONE

        def delete(error: ErrorCode) -> "ErrorCode | Future[ErrorCode]":
            if error:
                return ErrorCode.NONE if error is ErrorCode.GROUP_ID_NOT_FOUND else error
            return descriptions.delete(group_id) or self._write(group_id, lambda shard: shard.descriptions.end_deletion(group_id))

        return and_then(self._write(group_id, lambda shard: shard.descriptions.begin_deletion(group_id)), delete)

    def _write(self, group_id: str, operation: Callable[[GroupShard], Outcome]) -> "ErrorCode | Future[ErrorCode]":
        try:
            return self._runtime.execute(group_id, operation)
        except KafkaError as error:
            return error.code

    def forget_unused_descriptions(self) -> None:
        """Delete the descriptions of groups with neither members nor offsets, which expire after that."""
        if self._descriptions is not None:
            found = self._runtime.execute_everywhere(lambda shard: shard.descriptions.unused())
            unused = [group_id for each in found for group_id in each]
            self._metrics.descriptions_cleaned_up(len(unused))
            for group_id in unused:
                self.forget_description(group_id)

    def close(self) -> None:
        """Close the plug-in."""
        if self._descriptions is not None:
            self._descriptions.close()
