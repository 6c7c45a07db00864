"""StreamsGroupHeartbeat, StreamsGroupDescribe, StreamsGroupTopologyDescriptionUpdate: streams groups (KIP-1071).

StreamsGroupHeartbeat v0-1: v1 (Kafka 4.4) topology descriptions, the acceptable lag as an int64, the status of missing client tags.
StreamsGroupDescribe v0-1: v1 (Kafka 4.4) topology descriptions (KIP-1331) and the assignor.
StreamsGroupTopologyDescriptionUpdate v0.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Final, NamedTuple

from twisted_kafka.admin.streams_topics import StreamsTopics
from twisted_kafka.admin.topic_orders import DEFAULT_COUNT, NewTopic
from twisted_kafka.group_coordinator.group_coordinator import GroupCoordinator
from twisted_kafka.group_coordinator.requests import Client
from twisted_kafka.group_coordinator.state.streams.configured_topology import InternalTopic, Status
from twisted_kafka.group_coordinator.streams.streams_group_protocol import Heartbeat
from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.errors import (
    ErrorCode,
    StreamsInvalidTopologyError,
    TopicAuthorizationError,
    UnsupportedVersionError,
)
from twisted_kafka.protocol.errors.base import shown
from twisted_kafka.protocol.messages.streams.streams_groups import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    StreamsGroupDescribeResponseSubtopology,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestSubtopology,
    StreamsGroupHeartbeatRequestTopology,
    StreamsGroupHeartbeatResponse,
)
from twisted_kafka.protocol.messages.streams.streams_topology import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from twisted_kafka.protocol.topic_partition import INTERNAL_TOPICS, is_legal_topic
from twisted_kafka.quota.controller_mutation_quota_manager import ControllerMutationQuotaManager
from twisted_kafka.security.authorizer.acl_types import AclOperation, ResourceType
from twisted_kafka.server.apis.groups.classic_groups import client_host, note_groups
from twisted_kafka.server.authorization import ALLOW_ALL, IAuthorization
from twisted_kafka.server.dispatch import api
from twisted_kafka.waiting.futures import gather, when_done

_DISABLED: Final = "Streams groups are not enabled, by streams.version or group.coordinator.rebalance.protocols."
_HIDDEN: Final = "The described group uses topics that the client is not authorized to describe."

_MOST_REASONS: Final = 3
"""Most topics whose creation failed that a status names."""


class TopicCreation(NamedTuple):
    """How the internal topics of an application are created."""

    topics: StreamsTopics
    mutations: ControllerMutationQuotaManager


class StreamsGroupApis:
    """Streams groups; while ``is_enabled`` returns false, every request fails with UNSUPPORTED_VERSION."""

    def __init__(
        self,
        groups: GroupCoordinator,
        creation: TopicCreation,
        is_enabled: Callable[[], bool],
        authorization: IAuthorization = ALLOW_ALL,
    ) -> None:
        self._authorization = authorization
        self._groups = groups.streams
        self._configs = groups.group_config_manager
        self._creation = creation
        self._is_enabled = is_enabled

    def _require_enabled(self) -> None:
        if not self._is_enabled():
            raise UnsupportedVersionError(_DISABLED)

    @api(StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse, versions=(0, 1))
    def streams_group_heartbeat(
        self, context: RequestContext, request: StreamsGroupHeartbeatRequest
    ) -> "StreamsGroupHeartbeatResponse | Future[StreamsGroupHeartbeatResponse]":
        """Add, keep or remove a member; respond when the change is stored. Missing internal topics are created."""
        context.group = request.group_id, request.member_id, request.member_epoch
        self._require_enabled()
        self._authorization.require(context, AclOperation.READ, ResourceType.GROUP, request.group_id)
        if request.topology is not None:
            self._check_topics(context, request.topology)
        client = Client(context.client_id or "", client_host(context))
        answer = self._groups.heartbeat(request, client, context.api_version)

        def respond(found: Heartbeat) -> StreamsGroupHeartbeatResponse:
            if found.missing:
                self._create(context, request.group_id, found)
            for each in found.response.status or ():
                each.status_detail = shown(each.status_detail)
            return found.response

        return when_done(answer, respond)

    def _check_topics(self, context: RequestContext, topology: StreamsGroupHeartbeatRequestTopology) -> None:
        """Raise StreamsInvalidTopologyError or TopicAuthorizationError if the topology has topics that it may not use."""
        names = dict.fromkeys(name for each in topology.subtopologies for name in _topics_of(each))
        prohibited = [name for name in names if name in INTERNAL_TOPICS]
        if prohibited:
            raise StreamsInvalidTopologyError(
                f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is prohibited."
            )
        invalid = [name for name in names if not is_legal_topic(name)]
        if invalid:
            raise StreamsInvalidTopologyError(f"Topic names {','.join(invalid)} are not valid topic names.")
        if self._authorization.enforces and names:
            allowed = self._authorization.allowed_of(context, AclOperation.DESCRIBE, ResourceType.TOPIC, names)
            if len(allowed) < len(names):
                raise TopicAuthorizationError

    # internal topics

    def _create(self, context: RequestContext, group_id: str, found: Heartbeat) -> None:
        """Begin to create the topics, and add to the status why that fails."""
        names = [topic.name for topic in found.missing]
        if not self._authorization.is_allowed_on_cluster(context, AclOperation.CREATE, logs_denied=False):
            allowed = self._authorization.allowed_of(context, AclOperation.CREATE, ResourceType.TOPIC, names)
            denied = [name for name in names if name not in allowed]
            if denied:
                _explain(found.response, f"Unauthorized to CREATE on topics {', '.join(denied)}.")
                return
        quota = self._creation.mutations.permissive_quota_for(context)
        retry_ms = 2 * self._configs.number(group_id, "streams.heartbeat.interval.ms")
        failed = self._creation.topics.create([_order(topic) for topic in found.missing], quota, retry_ms)
        if failed:
            reasons = ", ".join(f"{name} ({reason})" for name, reason in list(failed.items())[:_MOST_REASONS])
            more = len(failed) - _MOST_REASONS
            _explain(found.response, f"Creation failed: {reasons}{f' and {more} more' if more > 0 else ''}.")

    # describing

    @api(StreamsGroupDescribeRequest, StreamsGroupDescribeResponse, versions=(0, 1))
    def streams_group_describe(
        self, context: RequestContext, request: StreamsGroupDescribeRequest
    ) -> "StreamsGroupDescribeResponse | Future[StreamsGroupDescribeResponse]":
        """Describe groups with their topologies, members, and the members' tasks."""
        note_groups(context, request.group_ids)
        self._require_enabled()

        def respond(groups: list[DescribedGroup]) -> StreamsGroupDescribeResponse:
            shown = self._without_hidden_topics(context, groups)
            for group in shown:
                context.note_error(group.error_code)
                if request.include_authorized_operations and not group.error_code:
                    operations = self._authorization.authorized_operations(context, ResourceType.GROUP, group.group_id)
                    group.authorized_operations = operations
            return StreamsGroupDescribeResponse(groups=shown)

        asked = dict.fromkeys(request.group_ids)  # each once: a description may be large
        allowed = self._authorization.allowed_of(context, AclOperation.DESCRIBE, ResourceType.GROUP, asked)
        includes = request.include_topology_description
        found = [self._describe(each, includes) if each in allowed else _refused(each) for each in asked]
        return gather(found, respond)

    @api(StreamsGroupTopologyDescriptionUpdateRequest, StreamsGroupTopologyDescriptionUpdateResponse, versions=(0, 0))
    def streams_group_topology_description_update(
        self, context: RequestContext, request: StreamsGroupTopologyDescriptionUpdateRequest
    ) -> "StreamsGroupTopologyDescriptionUpdateResponse | Future[StreamsGroupTopologyDescriptionUpdateResponse]":
        """Give the description of a topology to the plug-in (KIP-1331)."""
        context.group = request.group_id, request.member_id, -1
        self._require_enabled()
        self._authorization.require(context, AclOperation.READ, ResourceType.GROUP, request.group_id)
        return self._groups.update_description(request)

    def _describe(self, group_id: str, includes_topology: bool) -> "DescribedGroup | Future[DescribedGroup]":
        if not group_id:
            return DescribedGroup(error_code=ErrorCode.INVALID_GROUP_ID, group_id=group_id)
        return self._groups.describe(group_id, with_topology_description=includes_topology)

    def _without_hidden_topics(self, context: RequestContext, groups: list[DescribedGroup]) -> list[DescribedGroup]:
        """Return an error in the place of each group with a topic that the client may not describe."""
        if not self._authorization.enforces:
            return groups
        topics = [_topics_of_group(group) for group in groups]
        allowed = self._authorization.allowed_of(context, AclOperation.DESCRIBE, ResourceType.TOPIC, set().union(*topics))
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return [
            group if names <= allowed else DescribedGroup(error_code=error, error_message=_HIDDEN, group_id=group.group_id)
            for group, names in zip(groups, topics, strict=True)
        ]


def _topics_of(
    subtopology: StreamsGroupHeartbeatRequestSubtopology | StreamsGroupDescribeResponseSubtopology,
) -> Iterable[str]:
    yield from subtopology.source_topics
    yield from subtopology.repartition_sink_topics
    for topic in (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics):
        yield topic.name


def _topics_of_group(group: DescribedGroup) -> set[str]:
    subtopologies = [] if group.topology is None else group.topology.subtopologies or []
    return {name for each in subtopologies for name in _topics_of(each)}


def _order(topic: InternalTopic) -> NewTopic:
    return NewTopic(topic.name, topic.partition_count, topic.replication_factor or DEFAULT_COUNT, configs=topic.configs)


def _explain(response: StreamsGroupHeartbeatResponse, reason: str) -> None:
    """Add to the status of missing internal topics why they are not created."""
    for each in response.status or ():
        if each.status_code == Status.MISSING_INTERNAL_TOPICS:
            each.status_detail += f"; {reason}"


def _refused(group_id: str) -> DescribedGroup:
    return DescribedGroup(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, group_id=group_id)
