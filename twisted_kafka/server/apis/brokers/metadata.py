"""Metadata v0-13: v1 controller, racks, and null for all topics, v2 cluster id, v4 auto-creation flag, v5 offline replicas, v7
leader epochs, v8 authorized operations, v10 topic ids, v11 without cluster operations, v12 requests by topic id, v13 top-level
error. DescribeCluster v0-2: v1 endpoint type. DescribeTopicPartitions v0, paged (Apache Kafka supports it in KRaft mode only)."""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from twisted_kafka.admin.topic_orders import log_topic_change
from twisted_kafka.admin.topics import TopicManager
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.metadata.cache import NO_LEADER, MetadataCache, MetadataSnapshot, PartitionState
from twisted_kafka.network.requests.request_context import RequestContext, ResourceKind
from twisted_kafka.protocol.compiler.types import NO_UUID
from twisted_kafka.protocol.errors import ErrorCode, InvalidRequestError
from twisted_kafka.protocol.messages.cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse
from twisted_kafka.protocol.messages.metadata import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from twisted_kafka.protocol.topic_partition import INTERNAL_TOPICS, is_legal_topic
from twisted_kafka.quota.controller_mutation_quota_manager import ControllerMutationQuotaManager
from twisted_kafka.security.authorizer.acl_types import CLUSTER_NAME, AclOperation, ResourceType
from twisted_kafka.server.authorization import ALLOW_ALL, OPERATIONS_NOT_ASKED, IAuthorization
from twisted_kafka.server.dispatch import EncodedResponse, api
from twisted_kafka.server.error_counts import note_errors
from twisted_kafka.server.inner_requests import InnerConnection, is_handed_over
from twisted_kafka.system.bounded import BoundedCache

_DESCRIBE: Final = AclOperation.DESCRIBE
_TOPIC: Final = ResourceType.TOPIC

ENCODED_BYTES: Final = 32 * 1024 * 1024
"""Most bytes of encoded responses that are kept for a snapshot: those about all topics, and about one topic."""

BROKERS: Final = 1
CONTROLLERS: Final = 2

_IDS_ALONE_SINCE: Final = 12
_LISTENER_ERRORS_SINCE: Final = 6
_MAX_NOTED: Final = 10
"""Most topics noted that the client cannot get."""


class MetadataApis:
    """Describes the cluster from this broker's metadata cache."""

    def __init__(
        self,
        metadata: MetadataCache,
        config: KafkaConfig,
        topics: TopicManager,
        mutations: ControllerMutationQuotaManager,
        authorization: IAuthorization = ALLOW_ALL,
    ) -> None:
        self._authorization = authorization
        self._metadata = metadata
        self._mutations = mutations
        self._topics = topics
        self._auto_create = config.boolean("auto.create.topics.enable")
        self._page_limit = config.int("max.request.partition.size.limit")
        self._encoded = (metadata.snapshot, _encoded_responses())

    @api(MetadataRequest, MetadataResponse, versions=(0, 13))
    def metadata(self, context: RequestContext, request: MetadataRequest) -> MetadataResponse | EncodedResponse:
        """Describe the cluster and the requested topics.

        Equal requests about all topics, or about one, share one encoded response per metadata snapshot, if the principal may
        describe all of the topics. There is no bound to how many lists of several topics clients may ask for.
        """
        version = context.api_version
        asked = request.topics
        snapshot = self._metadata.snapshot
        names: tuple[str | None, ...] | None = None
        if asked is None or (version == 0 and not asked):
            names = None if isinstance(context.connection, InnerConnection) else ()  # that one takes the answer without its bytes
        elif len(asked) == 1 and asked[0].topic_id == NO_UUID:
            names = (asked[0].name,)
        if names is None or (self._authorization.enforces and not self._sees_all(context, request, snapshot, names)):
            response = self._answer(context, request, snapshot)
            _note_topics(context, response)
            return MetadataResponse() if asked is None and is_handed_over(context, response) else response
        operations = (request.include_topic_authorized_operations, request.include_cluster_authorized_operations)
        key = (context.listener_name, version, operations, names)
        if self._encoded[0] is not snapshot:
            self._encoded = (snapshot, _encoded_responses())
        responses = self._encoded[1]
        encoded = responses.get(key)
        if encoded is None:
            response = self._answer(context, request, snapshot)
            if _note_topics(context, response):
                return response
            note_errors(context, response)
            encoded = EncodedResponse(response, version, context.error_counts)
            responses.put(key, encoded)
        context.error_counts = encoded.error_counts
        return encoded

    def _sees_all(
        self, context: RequestContext, request: MetadataRequest, snapshot: MetadataSnapshot, names: Sequence[str | None]
    ) -> bool:
        """Whether the client may describe all of these topics (without names: all topics), so that it can share their answer."""
        if request.include_topic_authorized_operations or request.include_cluster_authorized_operations or None in names:
            return False
        asked: Collection[str] = names or snapshot.topics  # type: ignore[assignment]  # there is no None
        remembers = self._authorization.remembers
        for name in asked:
            if not remembers(context, _DESCRIBE, _TOPIC, name):
                break
        else:
            return True
        return len(self._described(context, asked, logs_denied=False)) == len(set(asked))

    def _described(self, context: RequestContext, names: Iterable[str], *, logs_denied: bool = True) -> set[str]:
        """Return those topics that the principal may describe."""
        operation = AclOperation.DESCRIBE
        return self._authorization.allowed_of(context, operation, ResourceType.TOPIC, names, logs_denied=logs_denied)

    def _cluster_operations(self, context: RequestContext) -> int:
        if not self._authorization.is_allowed_on_cluster(context, AclOperation.DESCRIBE):
            return 0
        return self._authorization.authorized_operations(context, ResourceType.CLUSTER, CLUSTER_NAME)

    def _topic_operations(self, context: RequestContext, name: str) -> int:
        return self._authorization.authorized_operations(context, ResourceType.TOPIC, name)

    def _answer(self, context: RequestContext, request: MetadataRequest, snapshot: MetadataSnapshot) -> MetadataResponse:
        version = context.api_version
        include = request.include_topic_authorized_operations
        view = _View(snapshot, context.listener_name, version)
        topics = self._topics_asked_for(context, request, view)
        if include:
            for topic in topics:
                if topic.error_code not in (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.TOPIC_AUTHORIZATION_FAILED):
                    topic.topic_authorized_operations = self._topic_operations(context, topic.name or "")
        operations = OPERATIONS_NOT_ASKED
        if request.include_cluster_authorized_operations:
            operations = self._cluster_operations(context)
        controller = snapshot.controller_id
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
                for node in snapshot.nodes(context.listener_name)
            ],
            cluster_id=self._metadata.cluster_id,
            controller_id=NO_LEADER if controller is None else controller,
            topics=topics,
            cluster_authorized_operations=operations,
        )

    def _topics_asked_for(self, context: RequestContext, request: MetadataRequest, view: "_View") -> list[MetadataResponseTopic]:
        asked = request.topics
        version = context.api_version
        if asked is None or (version == 0 and not asked):
            allowed = self._described(context, view.snapshot.topics, logs_denied=False)
            return [view.topic(name) for name in view.snapshot.topics if name in allowed]
        ids = list(dict.fromkeys(topic.topic_id for topic in asked if topic.topic_id != NO_UUID))
        if version < _IDS_ALONE_SINCE and any(topic.name is None or topic.topic_id != NO_UUID for topic in asked):
            raise InvalidRequestError("Topic ids are invalid in metadata requests before version 12")
        if ids:
            return self._topics_by_id(context, ids, view)
        names = dict.fromkeys(topic.name for topic in asked)
        if None in names:
            raise InvalidRequestError("Invalid topic: it has neither a name nor an id")
        allowed = self._described(context, (name for name in names if name is not None))
        known = [view.topic(name) for name in names if name in view.snapshot.topics and name in allowed]
        missing = [name for name in names if name is not None and name not in view.snapshot.topics and name in allowed]
        # The answer does not reveal whether such a topic exists.
        denied = [_denied(name, is_internal=False) for name in names if name is not None and name not in allowed]
        return known + self._missing(context, missing, request.allow_auto_topic_creation and self._auto_create) + denied

    def _topics_by_id(self, context: RequestContext, ids: Sequence[bytes], view: "_View") -> list[MetadataResponseTopic]:
        topics = [view.topic_by_id(topic_id) for topic_id in ids]
        allowed = self._described(context, (topic.name for topic in topics if topic.name is not None))
        refusal = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return [
            topic
            if topic.name is None or topic.name in allowed
            else MetadataResponseTopic(error_code=refusal, name=None, topic_id=topic.topic_id)
            for topic in topics
        ]

    def _missing(self, context: RequestContext, names: Sequence[str], may_create: bool) -> list[MetadataResponseTopic]:
        if not names:
            return []
        denied = []
        if may_create and not self._authorization.is_allowed_on_cluster(context, AclOperation.CREATE, logs_denied=False):
            allowed = self._authorization.allowed_of(context, AclOperation.CREATE, ResourceType.TOPIC, names)
            denied = [_denied(name, is_internal=name in INTERNAL_TOPICS) for name in names if name not in allowed]
            names = [name for name in names if name in allowed]
        errors = {name: ErrorCode.INVALID_TOPIC_EXCEPTION for name in names if not is_legal_topic(name)}
        creatable = [name for name in names if name not in errors]
        if may_create and creatable:
            made = self._topics.auto_create(creatable, self._mutations.permissive_quota_for(context))
            errors |= {each.name: each.error for each in made}
            log_topic_change(context, "Created", (each.name for each in made if each.topic_id != NO_UUID))
        return [
            MetadataResponseTopic(
                error_code=errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), name=name, is_internal=name in INTERNAL_TOPICS
            )
            for name in names
        ] + denied

    @api(DescribeClusterRequest, DescribeClusterResponse, versions=(0, 2))
    def describe_cluster(self, context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
        """Describe the brokers."""
        if request.endpoint_type != BROKERS:
            wrong = (
                ErrorCode.MISMATCHED_ENDPOINT_TYPE if request.endpoint_type == CONTROLLERS else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
            )
            context.note_error(wrong)
            return DescribeClusterResponse(
                error_code=wrong, error_message="Unsupported endpoint type: this is a broker's endpoint", cluster_id=""
            )
        snapshot = self._metadata.snapshot
        operations = OPERATIONS_NOT_ASKED
        if request.include_cluster_authorized_operations:
            operations = self._cluster_operations(context)
        return DescribeClusterResponse(
            cluster_id=self._metadata.cluster_id or "",
            controller_id=NO_LEADER if snapshot.controller_id is None else snapshot.controller_id,
            brokers=[
                DescribeClusterBroker(broker_id=node.id, host=node.host, port=node.port, rack=node.rack)
                for node in snapshot.nodes(context.listener_name)
            ],
            cluster_authorized_operations=operations,
        )

    @api(DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, versions=(0, 0))
    def describe_topic_partitions(
        self, context: RequestContext, request: DescribeTopicPartitionsRequest
    ) -> DescribeTopicPartitionsResponse:
        """Describe topics in order of name, from the cursor up to the limit; the next cursor is the start of the next page."""
        snapshot = self._metadata.snapshot
        cursor = request.cursor
        if cursor is not None and cursor.partition_index < 0:
            raise InvalidRequestError(f"Invalid cursor: partition {cursor.partition_index} is negative")
        asked = {topic.name for topic in request.topics}
        allowed = self._described(context, asked or snapshot.topics, logs_denied=bool(asked))
        names = sorted(asked or allowed)
        if cursor is not None:
            if request.topics and cursor.topic_name not in names:
                raise InvalidRequestError(f"Invalid cursor: topic {cursor.topic_name!r} is not among the requested topics")
            names = [name for name in names if name >= cursor.topic_name]
        left = max(1, min(self._page_limit, request.response_partition_limit))
        view = _View(snapshot, context.listener_name, _LISTENER_ERRORS_SINCE)
        response = DescribeTopicPartitionsResponse()
        for name in names:
            if not left:
                response.next_cursor = Cursor(topic_name=name, partition_index=0)
                break
            first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
            if name in allowed:
                topic, next_partition = _page(view, name, first, left)
                topic.topic_authorized_operations = self._topic_operations(context, name)
            else:
                refusal = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                topic, next_partition = DescribeTopicPartitionsResponseTopic(error_code=refusal, name=name), None
            response.topics.append(topic)
            context.note_error(topic.error_code)
            left -= len(topic.partitions)
            if next_partition is not None:
                response.next_cursor = Cursor(topic_name=name, partition_index=next_partition)
                break
        return response


def _note_topics(context: RequestContext, response: MetadataResponse) -> bool:
    """Note the errors of topics, for the access log; return whether there are any."""
    errors = [topic for topic in response.topics if topic.error_code]
    if not errors:
        return False
    context.note_error(errors[0].error_code)
    for topic in errors[:_MAX_NOTED]:
        if topic.name is not None:
            context.note_resource(ResourceKind.TOPIC, topic.name)
    return True


_Key = tuple[str, int, tuple[bool, bool], tuple[str | None, ...]]


def _encoded_responses() -> BoundedCache[_Key, EncodedResponse]:
    return BoundedCache(ENCODED_BYTES, lambda key, encoded: len(encoded.body) + sum(len(name or "") for name in key[-1]))


class _View:
    """A metadata snapshot as seen by clients of one listener and version."""

    __slots__ = ("_alive_only", "_listener_errors", "_reached", "snapshot")

    def __init__(self, snapshot: MetadataSnapshot, listener_name: str, version: int) -> None:
        self.snapshot = snapshot
        self._reached = frozenset(each for each, broker in snapshot.brokers.items() if listener_name in broker.nodes)
        # Version 0 lists only replicas on live brokers; versions before 6 have no error code for a missing listener.
        self._alive_only = version == 0
        self._listener_errors = version >= _LISTENER_ERRORS_SINCE

    def topic(self, name: str | None) -> MetadataResponseTopic:
        assert name is not None
        return MetadataResponseTopic(
            name=name,
            topic_id=self.snapshot.topic_ids.get(name, NO_UUID),
            is_internal=name in INTERNAL_TOPICS,
            partitions=[self.partition(state) for state in self.snapshot.topics[name].values()],
        )

    def topic_by_id(self, topic_id: bytes) -> MetadataResponseTopic:
        name = self.snapshot.topic_names.get(topic_id)
        if name is None:
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
        return self.topic(name)

    def partition(self, state: PartitionState) -> MetadataResponsePartition:
        error, leader, replicas, isr = 0, state.leader, state.replicas, state.isr
        if leader not in self._reached:
            error, leader = self._leader(leader)
        if self._alive_only:
            replicas, isr = self._reachable(replicas), self._reachable(isr)
            if not error and (len(replicas) < len(state.replicas) or len(isr) < len(state.isr)):
                error = ErrorCode.REPLICA_NOT_AVAILABLE
        return MetadataResponsePartition(
            error_code=error,
            partition_index=state.partition,
            leader_id=leader,
            leader_epoch=state.leader_epoch,
            replica_nodes=replicas,
            isr_nodes=isr,
            offline_replicas=state.offline_replicas,
        )

    def _leader(self, leader: int) -> tuple[int, int]:
        """Return the error and the id for a leader that clients cannot reach."""
        is_alive = leader in self.snapshot.brokers
        return ErrorCode.LISTENER_NOT_FOUND if is_alive and self._listener_errors else ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER

    def _reachable(self, brokers: list[int]) -> list[int]:
        return [broker for broker in brokers if broker in self._reached]


def _denied(name: str, *, is_internal: bool) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name, is_internal=is_internal)


def _page(view: _View, name: str, first: int, limit: int) -> tuple[DescribeTopicPartitionsResponseTopic, int | None]:
    """Return up to ``limit`` partitions of a topic from ``first`` on, and the index of the next one, if any."""
    states = view.snapshot.topics.get(name)
    if states is None:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_legal_topic(name) else ErrorCode.INVALID_TOPIC_EXCEPTION
        missing = DescribeTopicPartitionsResponseTopic(error_code=unknown, name=name, is_internal=name in INTERNAL_TOPICS)
        return missing, None
    wanted = [state for index, state in states.items() if index >= first]
    partitions = []
    for state in wanted[:limit]:
        seen = view.partition(state)
        partitions.append(
            DescribeTopicPartitionsResponsePartition(
                error_code=seen.error_code,
                partition_index=seen.partition_index,
                leader_id=seen.leader_id,
                leader_epoch=seen.leader_epoch,
                replica_nodes=seen.replica_nodes,
                isr_nodes=seen.isr_nodes,
                eligible_leader_replicas=[],
                last_known_elr=[],
                offline_replicas=seen.offline_replicas,
            )
        )
    topic = DescribeTopicPartitionsResponseTopic(
        name=name,
        topic_id=view.snapshot.topic_ids.get(name, NO_UUID),
        is_internal=name in INTERNAL_TOPICS,
        partitions=partitions,
    )
    return topic, wanted[limit].partition if len(wanted) > limit else None
