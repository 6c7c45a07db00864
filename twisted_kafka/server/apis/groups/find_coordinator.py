"""FindCoordinator v0-6: v1 transactional ids, v4 several keys (KIP-699), v6 share groups.

The first request creates the internal topic. Until it has a leader, the response is COORDINATOR_NOT_AVAILABLE, and clients retry.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from twisted_kafka.admin.topics import TopicManager
from twisted_kafka.metadata.cache import MetadataCache, Node
from twisted_kafka.network.requests.request_context import RequestContext, ResourceKind
from twisted_kafka.protocol.errors import ErrorCode, KafkaError
from twisted_kafka.protocol.messages.coordinators.groups import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.quota.controller_mutation_quota_manager import ControllerMutationQuotaManager
from twisted_kafka.security.authorizer.acl_types import AclOperation, ResourceType
from twisted_kafka.server.authorization import ALLOW_ALL, IAuthorization
from twisted_kafka.server.dispatch import api
from twisted_kafka.share.share_partition_key import is_coordinator_key

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2

SEVERAL_KEYS_SINCE: Final = 4
SHARE_SINCE: Final = 6


class CoordinatorTopic(NamedTuple):
    """The internal topic of a coordinator type, and the function that maps keys to its partitions."""

    topic: str
    partition_for: Callable[[str], int]


_RESOURCES: Final = {GROUP: ResourceType.GROUP, TRANSACTION: ResourceType.TRANSACTIONAL_ID}

_KINDS: Final = {GROUP: ResourceKind.GROUP, TRANSACTION: ResourceKind.TRANSACTIONAL_ID, SHARE: ResourceKind.GROUP}
_NO_NODE: Final = Node(-1, "", -1, None)
Found = tuple[ErrorCode, Node, str | None]
_NOT_AVAILABLE: Final[Found] = (ErrorCode.COORDINATOR_NOT_AVAILABLE, _NO_NODE, None)
_NOT_AVAILABLE_MESSAGE: Final = "The coordinator is not available."


class FindCoordinatorApis:
    """Finds coordinators; ``kinds`` are the supported coordinator types by key type (GROUP, TRANSACTION, SHARE)."""

    def __init__(
        self,
        kinds: Mapping[int, CoordinatorTopic],
        metadata: MetadataCache,
        topics: TopicManager,
        mutations: ControllerMutationQuotaManager,
        authorization: IAuthorization = ALLOW_ALL,
    ) -> None:
        self._authorization = authorization
        self._kinds = kinds
        self._metadata = metadata
        self._topics = topics
        self._mutations = mutations

    @api(FindCoordinatorRequest, FindCoordinatorResponse, versions=(0, 6))
    def find_coordinator(self, context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        """Return the coordinator of each key."""
        if request.key_type == SHARE:
            self._authorization.require_cluster(context, AclOperation.CLUSTER_ACTION)
        if context.api_version < SEVERAL_KEYS_SINCE:
            error, node, message = self._find(context, request.key_type, request.key)
            context.note_error(error)
            self._create_missing_topic(context, request.key_type, [error])
            return FindCoordinatorResponse(
                error_code=error,
                error_message=(message or _NOT_AVAILABLE_MESSAGE) if error else ErrorCode.NONE.name,
                node_id=node.id,
                host=node.host,
                port=node.port,
            )
        coordinators = []
        for key in request.coordinator_keys:
            error, node, message = self._find(context, request.key_type, key)
            if request.key_type == SHARE and context.api_version < SHARE_SINCE:
                error, node = ErrorCode.INVALID_REQUEST, _NO_NODE
            if error:
                context.note_error(error)
            coordinators.append(
                Coordinator(key=key, error_code=error, error_message=message or "", node_id=node.id, host=node.host, port=node.port)
            )
        self._create_missing_topic(context, request.key_type, [each.error_code for each in coordinators])
        return FindCoordinatorResponse(coordinators=coordinators)

    def _create_missing_topic(self, context: RequestContext, key_type: int, errors: Collection[int]) -> None:
        """Create the internal topic if a coordinator is not available because it is missing: once for all keys of a request."""
        kind = self._kinds.get(key_type)
        if kind is not None and ErrorCode.COORDINATOR_NOT_AVAILABLE in errors and not self._metadata.contains(kind.topic):
            self._topics.create_internal_topic(kind.topic, self._mutations.permissive_quota_for(context))

    def _find(self, context: RequestContext, key_type: int, key: str) -> Found:
        context.note_resource(_KINDS.get(key_type, ResourceKind.ANY), key)
        kind = self._kinds.get(key_type)
        if kind is None:
            return ErrorCode.INVALID_REQUEST, _NO_NODE, f"Unknown coordinator key type {key_type}."
        if key_type == SHARE:
            if not is_coordinator_key(key):
                return ErrorCode.INVALID_REQUEST, _NO_NODE, "The key of a share partition is group:topicId:partition."
        else:
            try:
                self._authorization.require(context, AclOperation.DESCRIBE, _RESOURCES[key_type], key)
            except KafkaError as error:
                return error.code, _NO_NODE, str(error)
        if not self._metadata.contains(kind.topic):
            return _NOT_AVAILABLE
        state = self._metadata.partition(TopicPartition(kind.topic, kind.partition_for(key)))
        node = None if state is None else self._metadata.node(state.leader, context.listener_name)
        return _NOT_AVAILABLE if node is None else (ErrorCode.NONE, node, None)
