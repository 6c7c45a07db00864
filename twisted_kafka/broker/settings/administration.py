"""Settings that administrators change while the broker runs: configs, log levels, subscriptions to client metrics."""

from twisted.logger import globalLogPublisher

from twisted_kafka.admin.config_resource_types import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from twisted_kafka.admin.config_resources import BrokerConfigs, ClientMetricsConfigs, TopicConfigs
from twisted_kafka.admin.configs import ConfigAdmin, IConfigResource
from twisted_kafka.admin.loggers import LoggerLevels
from twisted_kafka.admin.policies import Policies
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.dynamic.dynamic_broker_config import DynamicBrokerConfig
from twisted_kafka.group_coordinator.shared.group_config_manager import (
    ENTITY_TYPE,
    GroupConfigManager,
    GroupConfigResource,
    group_id_of,
)
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.metadata.config_repository import ConfigRepository
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.server.apis.administration.alter_configs import AlterConfigApis
from twisted_kafka.server.apis.administration.config_describer import ConfigDescriber
from twisted_kafka.server.apis.administration.config_resources import ConfigResourceApis, Listings
from twisted_kafka.server.apis.administration.describe_configs import DescribeConfigApis
from twisted_kafka.server.apis.brokers.telemetry import TelemetryApis
from twisted_kafka.server.authorization import IAuthorization
from twisted_kafka.telemetry.client_metrics_manager import ClientMetricsManager
from twisted_kafka.telemetry.exposed_metrics import ExposedMetrics
from twisted_kafka.timing.clock import IClock

_CLIENT_METRICS_TYPE = "client-metrics"


class Administration:
    """Makes the families of APIs for configs and client metrics, and the parts that they work on."""

    def __init__(
        self,
        config: KafkaConfig,
        configs: ConfigRepository,
        dynamic: DynamicBrokerConfig,
        clock: IClock,
        metrics: MetricsRegistry,
    ) -> None:
        """Load the policies; raise ConfigError for one that cannot be loaded."""
        self.policies = Policies(config)
        self._config = config
        self._configs = configs
        self._dynamic = dynamic
        self.loggers = LoggerLevels()
        self._client_metrics = ClientMetricsManager(clock, ExposedMetrics(metrics), config.int("telemetry.max.bytes"))

    def start(self) -> None:
        """Filter the log by level, and load the present subscriptions."""
        self.loggers.install(globalLogPublisher)
        self._configs.add_listener(_CLIENT_METRICS_TYPE, self._client_metrics.update)
        names = self._configs.names(_CLIENT_METRICS_TYPE)
        for name, config in zip(names, self._configs.each(f"{_CLIENT_METRICS_TYPE}/{name}" for name in names), strict=True):
            self._client_metrics.update(name, config)

    def stop(self) -> None:
        """Remove the filter, and close the policies."""
        self.loggers.uninstall()
        self.policies.close()

    def families(
        self, metadata: MetadataCache, describer: ConfigDescriber, groups: GroupConfigManager, authorization: IAuthorization
    ) -> list[object]:
        """Return an object of each family."""
        resources: dict[int, IConfigResource] = {
            TOPIC: TopicConfigs(self._config, metadata),
            BROKER: BrokerConfigs(self._dynamic, self._config.broker_id),
            CLIENT_METRICS: ClientMetricsConfigs(),
            GROUP: GroupConfigResource(groups),
        }
        admin = ConfigAdmin(self._configs, self.policies)
        return [
            DescribeConfigApis(self._config, self._configs, metadata, describer, self.loggers, authorization),
            AlterConfigApis(admin, resources, self.loggers, self._config.broker_id, authorization),
            ConfigResourceApis(self._listings(metadata), authorization),
            # As in Kafka, clients are asked for metrics only where something reports them.
            *([TelemetryApis(self._client_metrics)] if self._config.optional_string("metrics.listener") else []),
        ]

    def _listings(self, metadata: MetadataCache) -> Listings:
        def brokers() -> list[str]:
            return [str(broker_id) for broker_id in sorted(metadata.snapshot.brokers)]

        return {
            TOPIC: metadata.topic_names,
            BROKER: brokers,
            BROKER_LOGGER: brokers,
            CLIENT_METRICS: lambda: self._with_configs(_CLIENT_METRICS_TYPE),
            GROUP: lambda: [group_id_of(name) for name in self._with_configs(ENTITY_TYPE)],
        }

    def _with_configs(self, entity_type: str) -> list[str]:
        """Return the node names of entities that have a config in the store, whether or not it has reached this broker's parts."""
        names = sorted(self._configs.names(entity_type))
        found = self._configs.configs(f"{entity_type}/{name}" for name in names)
        return [name for name, config in zip(names, found, strict=True) if config]
