"""DescribeConfigs v0-4: v1 sources and synonyms, v3 types and documentation."""

from collections.abc import Iterable, Mapping
from typing import Final

from twisted_kafka.admin.config_resource_types import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC, ensure_own_broker
from twisted_kafka.admin.loggers import LoggerLevels
from twisted_kafka.admin.topic_names import ensure_valid_name
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.client_metrics import subscription_path
from twisted_kafka.group_coordinator.shared.group_config_manager import group_entity_path
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.metadata.config_repository import ConfigRepository
from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.errors import InvalidRequestError, KafkaError, UnknownTopicOrPartitionError, error_of
from twisted_kafka.protocol.messages.administration.configs import (
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

MOST_VALUES: Final = 100_000
"""Most configs and synonyms in a response: the configs of 3,000 topics, say. Each takes about a kilobyte while it is encoded.

A small request may name a broker's hundreds of configs often, or thousands of groups that do not exist.
"""


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
        described = _Described(request, self._describer.of_one_request(), self._loggers)
        for resource in request.resources:
            note_config_resource(context, resource.resource_type, resource.resource_name)
            result = DescribeConfigsResult(
                error_code=0, error_message="", resource_type=resource.resource_type, resource_name=resource.resource_name
            )
            try:
                kind, name = resource.resource_type, resource.resource_name
                require_config_access(self._authorization, context, AclOperation.DESCRIBE_CONFIGS, kind, name)
                described.check_room()
                result.configs = described.configs(resource, self._own(resource))
            except KafkaError as error:
                result.error_code, result.error_message = error_of(error), str(error)
                context.note_error(result.error_code)
            results.append(result)
        return DescribeConfigsResponse(results=results)

    def _own(self, resource: DescribeConfigsResource) -> dict[str, str]:
        """Check a resource, and return its own configs if it has some besides the broker's.

        Raises UnknownTopicOrPartitionError, InvalidTopicError for a malformed name, or InvalidRequestError for another broker or an
        unknown type.
        """
        kind, name = resource.resource_type, resource.resource_name
        if kind == TOPIC:
            ensure_valid_name(name)
            if not self._metadata.contains(name):
                raise UnknownTopicOrPartitionError("")
            return self._repository.topic_config(name)
        if kind == CLIENT_METRICS:
            return self._repository.config(subscription_path(name))
        if kind == GROUP:
            return self._repository.config(group_entity_path(name))
        if kind not in (BROKER, BROKER_LOGGER):
            raise InvalidRequestError(f"Unknown resource type {kind}")
        if kind == BROKER_LOGGER and not name:
            raise InvalidRequestError("Invalid broker id for loggers: it must be an integer and not empty")
        if name:
            ensure_own_broker(name, self._config.broker_id, may_be_empty=kind == BROKER)
        return {}


class _Described:
    """The configs of one response. Resources with the same own configs share them, however many there are."""

    def __init__(self, request: DescribeConfigsRequest, describer: ConfigDescriber, loggers: LoggerLevels) -> None:
        self._request = request
        self._describer = describer
        self._loggers = loggers
        self._levels: Mapping[str, str] | None = None
        """The levels of all loggers, once they have been asked for."""
        self._shared: dict[object, tuple[list[DescribeConfigsResourceResult], int]] = {}
        """The configs, and the number of values in them."""
        self._left = MOST_VALUES

    def configs(self, resource: DescribeConfigsResource, own: dict[str, str]) -> list[DescribeConfigsResourceResult]:
        """Return the configs of a resource that has been checked. Raises InvalidRequestError beyond the limit."""
        # The names of brokers are those of this one, or empty.
        name = resource.resource_name if resource.resource_type in (BROKER, BROKER_LOGGER) else ""
        key = resource.resource_type, name, frozenset(own.items()), tuple(resource.configuration_keys or ())
        found = self._shared.get(key)
        if found is None:
            configs = [_described(entry, self._request) for entry in self._entries(resource, own)]
            found = self._shared[key] = configs, len(configs) + sum(len(each.synonyms) for each in configs)
        self._left -= found[1]
        self.check_room()
        return found[0]

    def _entries(self, resource: DescribeConfigsResource, own: dict[str, str]) -> Iterable[Entry]:
        # An empty list means all keys, as null does (as in Kafka).
        kind, wanted = resource.resource_type, resource.configuration_keys or None
        if kind == TOPIC:
            return self._describer.topic(own, wanted)
        if kind == CLIENT_METRICS:
            return self._describer.client_metrics(own, wanted)
        if kind == GROUP:
            return self._describer.group(own, wanted)
        if kind == BROKER_LOGGER:
            return self._logger_entries(wanted)
        if not resource.resource_name:
            return self._describer.dynamic_broker_defaults(wanted)
        return self._describer.broker(wanted)

    def _logger_entries(self, wanted: Iterable[str] | None) -> Iterable[Entry]:
        if self._levels is None:
            self._levels = self._loggers.all()
        levels = self._levels
        names = levels if wanted is None else sorted(levels.keys() & set(wanted))
        return [_logger(name, levels[name]) for name in names]

    def check_room(self) -> None:
        """Raise InvalidRequestError once the limit is exceeded: further resources are not looked at."""
        if self._left < 0:
            raise InvalidRequestError(
                f"A response has at most {MOST_VALUES} configs and synonyms: describe fewer resources at a time."
            )


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
