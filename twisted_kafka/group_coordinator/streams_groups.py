"""The group coordinator's interface for streams groups (KIP-1071)."""

from concurrent.futures import Future

from twisted_kafka.coordinator.runtime import CoordinatorRuntime
from twisted_kafka.group_coordinator.group_shard import GroupShard
from twisted_kafka.group_coordinator.requests import Client
from twisted_kafka.group_coordinator.streams.heartbeat_validation import check_heartbeat, is_leaving
from twisted_kafka.group_coordinator.streams.streams_group_protocol import Heartbeat
from twisted_kafka.protocol.errors import KafkaError
from twisted_kafka.protocol.messages.streams.streams_groups import DescribedGroup, StreamsGroupHeartbeatRequest


class StreamsGroups:
    """Streams groups (Kafka: GroupCoordinatorService). Methods may be called on any thread; all may raise KafkaError."""

    def __init__(self, runtime: CoordinatorRuntime[GroupShard]) -> None:
        self._runtime = runtime

    def heartbeat(self, request: StreamsGroupHeartbeatRequest, client: Client, version: int) -> "Heartbeat | Future[Heartbeat]":
        """Add, keep or remove a member; ``version`` is that of the request."""
        check_heartbeat(request)
        if is_leaving(request):
            return self._runtime.execute(request.group_id, lambda shard: shard.streams.leave(request))
        return self._runtime.read(request.group_id, lambda shard: shard.streams.heartbeat(request, client, version))

    def describe(self, group_id: str) -> "DescribedGroup | Future[DescribedGroup]":
        """Describe a group; errors are in the result."""

        def refused(error: KafkaError) -> DescribedGroup:
            return DescribedGroup(error_code=error.code, error_message=str(error), group_id=group_id)

        return self._runtime.try_read(group_id, lambda shard: shard.queries.describe_streams(group_id), refused)
