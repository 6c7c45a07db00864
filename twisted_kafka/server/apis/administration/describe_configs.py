"""DescribeConfigs v0-4: v1 sources and synonyms, v3 types and documentation."""

from collections.abc import Iterable

from twisted_kafka.admin.config_resource_types import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC, ensure_own_broker
from twisted_kafka.admin.loggers import LoggerLevels
from twisted_kafka.admin.topic_names import ensure_valid_name
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.client_metrics import subscription_path
from twisted_kafka.group_coordinator.group_config_manager import group_entity_path
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.metadata.config_repository import ConfigRepository
from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.errors import InvalidRequestError, KafkaError, UnknownTopicOrPartitionError, error_of
from twisted_kafka.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from twisted_kafka.security.authorizer.acl_types import AclOperation
from twisted_kafka.server.apis.administration.config_access import note_config_resource, require_config_access
from twisted_kafka.server.apis.administration.config_describer import DYNAMIC_BROKER_LOGGER, ConfigDescriber, Entry
from twisted_kafka.server.authorization import ALLOW_ALL, IAuthorization
from twisted_kafka.server.dispatch import api


class DescribeConfigApis:
    """Describes configs of topics, groups and this broker, log levels, and client metrics subscriptions."""

    def __init__(
        self,
        config: KafkaConfig,
        repository: ConfigRepository,
        metadata: MetadataCache,
        describer: ConfigDescriber,
        loggers: LoggerLevels,
        authorization: IAuthorization = ALLOW_ALL,
    ) -> None:
        self._authorization = authorization
        self._config = config
        self._loggers = loggers
        self._repository = repository
        self._metadata = metadata
        self._describer = describer

    @api(DescribeConfigsRequest, DescribeConfigsResponse, versions=(0, 4))
    def describe_configs(self, context: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        """Return the configs of each resource, all or the requested keys."""
        results = []
        for resource in request.resources:
            note_config_resource(context, resource.resource_type, resource.resource_name)
            result = DescribeConfigsResult(
                error_code=0, error_message="", resource_type=resource.resource_type, resource_name=resource.resource_name
            )
            try:
                kind, name = resource.resource_type, resource.resource_name
                require_config_access(self._authorization, context, AclOperation.DESCRIBE_CONFIGS, kind, name)
                entries = self._entries(resource)
            except KafkaError as error:
                result.error_code, result.error_message = error_of(error), str(error)
                context.note_error(result.error_code)
            else:
                result.configs = [_described(entry, request) for entry in entries]
            results.append(result)
        return DescribeConfigsResponse(results=results)

    def _entries(self, resource: DescribeConfigsResource) -> Iterable[Entry]:
        # An empty list means all keys, as null does (as in Kafka).
        wanted = resource.configuration_keys or None
        name = resource.resource_name
        if resource.resource_type == TOPIC:
            ensure_valid_name(name)
            if not self._metadata.contains(name):
                raise UnknownTopicOrPartitionError("")
            return self._describer.topic(self._repository.topic_config(name), wanted)
        if resource.resource_type == BROKER:
            if not name:
                return self._describer.dynamic_broker_defaults(wanted)
            ensure_own_broker(name, self._config.broker_id, may_be_empty=True)
            return self._describer.broker(wanted)
        if resource.resource_type == BROKER_LOGGER:
            if not name:
                raise InvalidRequestError("Invalid broker id for loggers: it must be an integer and not empty")
            ensure_own_broker(name, self._config.broker_id)
            return [_logger(logger, level) for logger, level in self._loggers.all().items() if wanted is None or logger in wanted]
        if resource.resource_type == CLIENT_METRICS:
            return self._describer.client_metrics(self._repository.config(subscription_path(name)), wanted)
        if resource.resource_type == GROUP:
            own = self._repository.config(group_entity_path(name))
            return self._describer.group(own, wanted)
        raise InvalidRequestError(f"Unknown resource type {resource.resource_type}")


def _logger(name: str, level: str) -> Entry:
    return Entry(name, level, DYNAMIC_BROKER_LOGGER, False, False, 0, "", [])


def _described(entry: Entry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[DescribeConfigsSynonym(name=each.name, value=each.value, source=each.source) for each in synonyms],
        config_type=entry.config_type,
        documentation=entry.documentation if request.include_documentation else None,
    )
