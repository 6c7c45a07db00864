"""LeaderAndIsr, StopReplica, UpdateMetadata, ControlledShutdown, AlterPartition: requests between controller and brokers.

LeaderAndIsr v0-7: v2 broker epoch and grouping by topic, v5 topic ids. StopReplica v0-4: v1 broker epoch, v3 leader epochs.
UpdateMetadata v0-8: v5 broker epoch, v7 topic ids. ControlledShutdown v0-3: v2 broker epoch. AlterPartition v0-3: v1 recovery of
leaders, v2 topic ids, v3 broker epochs. (KIP-380, KIP-497, KIP-516, KIP-570, KIP-704, KIP-841, KIP-903)
"""

from collections.abc import Callable
from concurrent.futures import Future

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.controller.controller_metrics import ControllerState
from twisted_kafka.controller.kafka_controller import KafkaController
from twisted_kafka.network.requests.request_context import RequestContext, ResourceKind
from twisted_kafka.protocol.errors import (
    BrokerNotAvailableError,
    ClusterAuthorizationError,
    ControllerMovedError,
    ErrorCode,
    KafkaError,
    NotControllerError,
    StaleBrokerEpochError,
)
from twisted_kafka.protocol.messages.controller import AlterPartitionRequest, AlterPartitionResponse
from twisted_kafka.protocol.messages.inter_broker import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    RemainingPartition,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.control_plane import ControlPlane
from twisted_kafka.security.authorizer.acl_types import AclOperation
from twisted_kafka.server.authorization import ALLOW_ALL, IAuthorization
from twisted_kafka.server.dispatch import api

UNKNOWN_BROKER_EPOCH = -1
"""The broker epoch in requests of old controllers, which do not send it."""

TOPIC_IDS_SINCE = 5
"""Since this version, the LeaderAndIsr response identifies topics by id."""


class ControlApis:
    """Passes requests of a controller on another broker to the replica manager; the local controller calls it directly.

    They require CLUSTER_ACTION on the cluster, and are accepted on the control plane's listener, or without one on the
    inter-broker listener. On other listeners they fail with CLUSTER_AUTHORIZATION_FAILED.
    """

    def __init__(
        self,
        control: ControlPlane,
        controller: KafkaController,
        config: KafkaConfig,
        epoch: Callable[[], int],
        authorization: IAuthorization = ALLOW_ALL,
    ) -> None:
        """``epoch`` returns this broker's epoch, that of its latest registration."""
        self._authorization = authorization
        self._control = control
        self._controller = controller
        self._config = config
        self._epoch = epoch

    @api(LeaderAndIsrRequest, LeaderAndIsrResponse, versions=(0, 7))
    def leader_and_isr(self, context: RequestContext, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        """Become leader or follower of partitions."""
        self._ensure_of_controller(context, request.broker_epoch)
        response = self._control.leader_and_isr(request)
        if response.error_code == ErrorCode.STALE_CONTROLLER_EPOCH:
            raise _moved(request.controller_epoch)
        if context.api_version >= TOPIC_IDS_SINCE:
            return response
        errors = [
            LeaderAndIsrPartitionError(
                topic_name=error.topic_name, partition_index=error.partition_index, error_code=error.error_code
            )
            for topic in response.topics
            for error in topic.partition_errors
        ]
        return LeaderAndIsrResponse(error_code=response.error_code, partition_errors=errors)

    @api(StopReplicaRequest, StopReplicaResponse, versions=(0, 4))
    def stop_replica(self, context: RequestContext, request: StopReplicaRequest) -> StopReplicaResponse:
        """Stop replicas, and delete them if requested."""
        try:
            self._ensure_of_controller(context, request.broker_epoch)
        except StaleBrokerEpochError as error:
            return StopReplicaResponse(error_code=error.code)  # without the partitions, as in Kafka
        return self._control.stop_replica(request)

    @api(UpdateMetadataRequest, UpdateMetadataResponse, versions=(0, 8))
    def update_metadata(self, context: RequestContext, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        """Update the metadata cache."""
        self._ensure_of_controller(context, request.broker_epoch)
        if not self._control.update_metadata(request):
            raise _moved(request.controller_epoch)
        return UpdateMetadataResponse(error_code=0)

    @api(ControlledShutdownRequest, ControlledShutdownResponse, versions=(0, 3))
    def controlled_shutdown(
        self, context: RequestContext, request: ControlledShutdownRequest
    ) -> "Future[ControlledShutdownResponse]":
        """As the controller, move leaderships off a broker before it stops."""
        context.note_resource(ResourceKind.BROKER, str(request.broker_id))
        self._authorization.require_cluster(context, AclOperation.CLUSTER_ACTION)
        if not context.is_privileged_listener and context.listener_name != self._config.inter_broker_listener_name:
            raise _refusal(context)
        answer: Future[ControlledShutdownResponse] = Future()

        def begin() -> list[TopicPartition] | KafkaError:
            try:
                return self._controller.controlled_shutdown.begin(request.broker_id, request.broker_epoch)
            except (BrokerNotAvailableError, StaleBrokerEpochError) as error:
                return error  # an error response, not a failure of the controller

        def done(begun: "Future[list[TopicPartition] | KafkaError]") -> None:
            try:
                answer.set_result(_shutdown_response(begun.result()))
            except NotControllerError as error:
                answer.set_exception(ControllerMovedError(str(error)))
            except Exception as error:  # noqa: BLE001 it becomes the response
                answer.set_exception(error)

        self._controller.run(begin, ControllerState.CONTROLLED_SHUTDOWN).add_done_callback(done)
        return answer

    @api(AlterPartitionRequest, AlterPartitionResponse, versions=(0, 3))
    def alter_partition(self, context: RequestContext, request: AlterPartitionRequest) -> "Future[AlterPartitionResponse]":
        """As the controller, change in-sync replicas for their leader."""
        context.note_resource(ResourceKind.BROKER, str(request.broker_id))
        self._authorization.require_cluster(context, AclOperation.CLUSTER_ACTION)
        version = context.api_version
        changes = self._controller.isr_changes
        return self._controller.run(lambda: changes.alter(request, version), ControllerState.ISR_CHANGE)

    def _ensure_of_controller(self, context: RequestContext, broker_epoch: int) -> None:
        self._authorization.require_cluster(context, AclOperation.CLUSTER_ACTION)
        if not context.is_privileged_listener:
            raise _refusal(context)
        own = self._epoch()
        # It may be greater: the controller may learn of a registration before the broker does.
        if broker_epoch != UNKNOWN_BROKER_EPOCH and broker_epoch < own:
            raise StaleBrokerEpochError(f"Broker epoch {broker_epoch} in the request is smaller than this broker's epoch {own}")


def _shutdown_response(led: list[TopicPartition] | KafkaError) -> ControlledShutdownResponse:
    if isinstance(led, KafkaError):
        raise led
    remaining = [RemainingPartition(topic_name=each.topic, partition_index=each.partition) for each in led]
    return ControlledShutdownResponse(error_code=0, remaining_partitions=remaining)


def _moved(epoch: int) -> ControllerMovedError:
    return ControllerMovedError(f"Controller epoch {epoch} is stale: there has been a request of a newer controller")


def _refusal(context: RequestContext) -> ClusterAuthorizationError:
    return ClusterAuthorizationError(f"Inter-broker requests are not authorized on listener {context.listener_name}")
