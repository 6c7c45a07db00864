"""CreateTopics v0-7: v1 validate only and error messages, v4 default counts, v5 counts and configs in the response, v7 topic ids.
DeleteTopics v0-6: v5 error messages, v6 topic ids. CreatePartitions v0-3."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future

from twisted_kafka.admin.topic_orders import NewPartitions, NewTopic, TopicResult, log_topic_change
from twisted_kafka.admin.topics import TopicManager
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.compiler.types import NO_UUID
from twisted_kafka.protocol.errors import ErrorCode, InvalidRequestError, TopicAuthorizationError
from twisted_kafka.protocol.messages.administration.topics import (
    CreatableTopicConfig,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from twisted_kafka.quota.controller_mutation_quota_manager import UNBOUNDED, ControllerMutationQuotaManager
from twisted_kafka.security.authorizer.acl_types import AclOperation, ResourceType
from twisted_kafka.server.apis.administration.config_describer import ConfigDescriber
from twisted_kafka.server.authorization import ALLOW_ALL, IAuthorization
from twisted_kafka.server.dispatch import Limited, api
from twisted_kafka.waiting.futures import then

_Described = dict[tuple[tuple[str, str], ...], list[CreatableTopicConfigs]]

_STRICT_CREATION_SINCE = 6
_STRICT_DELETION_SINCE = 5
_STRICT_GROWTH_SINCE = 3
"""From these versions on, clients know THROTTLING_QUOTA_EXCEEDED (KIP-599)."""

_BEGUN = (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT)
"""The errors of a change that was written; after a timeout it will still happen."""

_BY_ID_SINCE = 6
_DETAILS_SINCE = 5


def _configs(configs: Iterable[CreatableTopicConfig]) -> dict[str, str | None]:
    """Return configs by key; of a key that is named twice the last value counts, but null if it is null once, which is refused."""
    return {each.name: each.value for each in configs} | {each.name: None for each in configs if each.value is None}


class TopicApis:
    """Creates and deletes topics, and adds partitions."""

    def __init__(
        self,
        topics: TopicManager,
        metadata: MetadataCache,
        describer: ConfigDescriber,
        mutations: ControllerMutationQuotaManager,
        authorization: IAuthorization = ALLOW_ALL,
    ) -> None:
        self._authorization = authorization
        self._topics = topics
        self._mutations = mutations
        self._metadata = metadata
        self._describer = describer

    @api(CreateTopicsRequest, CreateTopicsResponse, versions=(0, 7))
    def create_topics(self, context: RequestContext, request: CreateTopicsRequest) -> "Future[CreateTopicsResponse | Limited]":
        """Create topics, or with ``validate_only`` check whether they could be created."""
        wanted = [
            NewTopic(
                topic.name,
                topic.num_partitions,
                topic.replication_factor,
                {each.partition_index: each.broker_ids for each in topic.assignments},
                _configs(topic.configs),
            )
            for topic in request.topics
        ]
        names = [topic.name for topic in wanted]
        creatable = set(names)
        if not self._authorization.is_allowed_on_cluster(context, AclOperation.CREATE, logs_denied=False):
            creatable = self._allowed(context, AclOperation.CREATE, names)
        describable = self._allowed(context, AclOperation.DESCRIBE_CONFIGS, names, logs_denied=False)
        denied = _denied(names, creatable)
        times = Counter(names)
        left = [topic for topic in wanted if topic.name not in denied]
        quota = self._mutations.quota_for(context, _STRICT_CREATION_SINCE)
        results = self._topics.create_topics(left, request.timeout_ms, validate_only=request.validate_only, mutations=quota)

        def answer(done: list[TopicResult]) -> CreateTopicsResponse | Limited:
            done = _in_order(names, [*done, *denied.values()])
            _note(context, done)
            if not request.validate_only:
                log_topic_change(context, "Created", (each.name for each in done if each.topic_id != NO_UUID))
            described: _Described = {}
            created = [self._created(context.api_version, each, each.name in describable, described) for each in done]
            for each in created:
                if each.name not in describable and (each.name in denied or times[each.name] > 1):
                    each.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            response = CreateTopicsResponse(topics=created)
            return response if quota is UNBOUNDED else Limited(response, quota)

        return then(results, answer)

    def _allowed(
        self, context: RequestContext, operation: AclOperation, names: Iterable[str], *, logs_denied: bool = True
    ) -> set[str]:
        return self._authorization.allowed_of(context, operation, ResourceType.TOPIC, names, logs_denied=logs_denied)

    def _created(self, version: int, result: TopicResult, is_describable: bool, described: _Described) -> CreatableTopicResult:
        created = CreatableTopicResult(
            name=result.name, error_code=result.error, error_message=result.message, topic_id=result.topic_id
        )
        if result.error or version < _DETAILS_SINCE:
            return created
        if not is_describable:
            created.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        else:
            created.num_partitions = result.num_partitions
            created.replication_factor = result.replication_factor
            # Topics created in one request usually have the same configs.
            key = tuple(result.configs.items())
            configs = described.get(key)
            if configs is None:
                configs = described[key] = self._effective_configs(result.configs)
            created.configs = configs
        return created

    def _effective_configs(self, own: Mapping[str, str]) -> list[CreatableTopicConfigs]:
        return [
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.is_sensitive,
            )
            for entry in self._describer.topic(own)
        ]

    @api(DeleteTopicsRequest, DeleteTopicsResponse, versions=(0, 6))
    def delete_topics(self, context: RequestContext, request: DeleteTopicsRequest) -> "Future[DeleteTopicsResponse | Limited]":
        """Delete topics by name or id."""
        if context.api_version >= _BY_ID_SINCE:
            if any(topic.name is not None and topic.topic_id != NO_UUID for topic in request.topics):
                raise InvalidRequestError("A topic to delete has a name or an id, not both: all of them are refused")
            answers = [self._resolved(topic) for topic in request.topics]
        else:
            answers = [DeletableTopicResult(name=name) for name in request.topic_names]
        if self._authorization.enforces:
            self._refuse_deletions(context, answers)
        names = [answer.name for answer in answers if not answer.error_code and answer.name is not None]
        quota = self._mutations.quota_for(context, _STRICT_DELETION_SINCE)

        def answer_all(done: list[TopicResult]) -> DeleteTopicsResponse | Limited:
            by_name = {result.name: result for result in done}
            for answer in answers:
                if not answer.error_code and answer.name is not None:
                    result = by_name[answer.name]
                    answer.error_code, answer.error_message = result.error, result.message
                context.note_topic(answer.name or "", (), 0, 0, answer.error_code)
            log_topic_change(context, "Deleted", (answer.name for answer in answers if answer.name and answer.error_code in _BEGUN))
            response = DeleteTopicsResponse(responses=answers)
            return response if quota is UNBOUNDED else Limited(response, quota)

        return then(self._topics.delete_topics(names, request.timeout_ms, mutations=quota), answer_all)

    def _refuse_deletions(self, context: RequestContext, answers: Iterable[DeletableTopicResult]) -> None:
        """Set the errors of topics that may not be deleted. A client that may not describe a topic must not learn its name."""
        names = {answer.name for answer in answers if answer.name is not None}
        describable = self._allowed(context, AclOperation.DESCRIBE, names)
        deletable = self._allowed(context, AclOperation.DELETE, names)
        for answer in answers:
            if answer.error_code or answer.name is None:
                continue
            if answer.name not in deletable or (answer.topic_id != NO_UUID and answer.name not in describable):
                answer.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                if answer.topic_id != NO_UUID and answer.name not in describable:
                    answer.name = None

    def _resolved(self, topic: DeleteTopicState) -> DeletableTopicResult:
        if topic.topic_id == NO_UUID:
            # As in Kafka, a topic with neither name nor id is an authorization error.
            error = ErrorCode.NONE if topic.name is not None else ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return DeletableTopicResult(name=topic.name, error_code=error)
        name = self._metadata.topic_name(topic.topic_id)
        error = ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.NONE
        return DeletableTopicResult(name=name, topic_id=topic.topic_id, error_code=error)

    @api(CreatePartitionsRequest, CreatePartitionsResponse, versions=(0, 3))
    def create_partitions(
        self, context: RequestContext, request: CreatePartitionsRequest
    ) -> "Future[CreatePartitionsResponse | Limited]":
        """Add partitions to topics."""
        wanted = [
            NewPartitions(
                topic.name, topic.count, None if topic.assignments is None else [each.broker_ids for each in topic.assignments]
            )
            for topic in request.topics
        ]
        names = [topic.name for topic in wanted]
        denied = _denied(names, self._allowed(context, AclOperation.ALTER, names))
        left = [topic for topic in wanted if topic.name not in denied]
        quota = self._mutations.quota_for(context, _STRICT_GROWTH_SINCE)
        results = self._topics.create_partitions(left, request.timeout_ms, validate_only=request.validate_only, mutations=quota)

        def answer(done: list[TopicResult]) -> CreatePartitionsResponse | Limited:
            done = _in_order(names, [*done, *denied.values()])
            _note(context, done)
            if not request.validate_only:
                log_topic_change(context, "Added partitions to", (each.name for each in done if each.error in _BEGUN))
            response = CreatePartitionsResponse(
                results=[
                    CreatePartitionsTopicResult(name=each.name, error_code=each.error, error_message=each.message) for each in done
                ]
            )
            return response if quota is UNBOUNDED else Limited(response, quota)

        return then(results, answer)


def _denied(names: Sequence[str], allowed: set[str]) -> dict[str, TopicResult]:
    """Return the results of topics that are not allowed. Those named twice are refused for that reason."""
    times = Counter(names)
    refused = {}
    for name in names:
        if name not in allowed and times[name] == 1:
            refused[name] = TopicResult(name)
            refused[name].refuse(TopicAuthorizationError())
    return refused


def _in_order(names: Sequence[str], results: Sequence[TopicResult]) -> list[TopicResult]:
    """Return the results in the order of the names in the request."""
    position = {name: at for at, name in enumerate(reversed(names))}
    return sorted(results, key=lambda result: -position[result.name])


def _note(context: RequestContext, results: Iterable[TopicResult]) -> None:
    for result in results:
        context.note_topic(result.name, tuple(range(result.num_partitions)), 0, 0, result.error)
