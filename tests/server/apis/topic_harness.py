"""One broker's metadata without network or logs: store, controller, cache and the APIs over them, pumped by hand."""

from pathlib import Path
from typing import Any

from tests.support.fake import Fake
from twisted_kafka.admin.config_resource_types import BROKER, CLIENT_METRICS, GROUP, TOPIC
from twisted_kafka.admin.config_resources import BrokerConfigs, ClientMetricsConfigs, TopicConfigs
from twisted_kafka.admin.configs import ConfigAdmin, IConfigResource
from twisted_kafka.admin.loggers import LoggerLevels
from twisted_kafka.admin.partitions import PartitionAdmin
from twisted_kafka.admin.placement import ReplicaPlacement
from twisted_kafka.admin.policies import Policies
from twisted_kafka.admin.topic_waits import TopicWaits
from twisted_kafka.admin.topics import TopicManager
from twisted_kafka.config.broker_config import OWN_EDITION, KafkaConfig
from twisted_kafka.config.dynamic.dynamic_broker_config import DynamicBrokerConfig
from twisted_kafka.config.endpoints import EndPoint
from twisted_kafka.controller.channels.interfaces import ControlRequest, OnResponse
from twisted_kafka.controller.kafka_controller import KafkaController
from twisted_kafka.group_coordinator.shared.group_config_manager import GroupConfigManager, GroupConfigResource
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.metadata.config_repository import ConfigRepository
from twisted_kafka.metadata.embedded import SqliteStore
from twisted_kafka.metadata.features import FeatureCache
from twisted_kafka.metadata.registration import broker_node, cluster_id, prepare_store, register_broker
from twisted_kafka.metadata.znodes import BrokerNode
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.requests.request_context import ConnectionInfo, RequestContext
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.messages.administration.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from twisted_kafka.protocol.messages.inter_broker import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
)
from twisted_kafka.quota.quota_managers import QuotaManagers
from twisted_kafka.server.apis.administration.alter_configs import AlterConfigApis
from twisted_kafka.server.apis.administration.config_describer import ConfigDescriber
from twisted_kafka.server.apis.administration.describe_configs import DescribeConfigApis
from twisted_kafka.server.apis.administration.features import FeatureApis
from twisted_kafka.server.apis.administration.partitions import PartitionApis
from twisted_kafka.server.apis.administration.topics import TopicApis
from twisted_kafka.server.apis.brokers.api_versions import VersionsApis
from twisted_kafka.server.apis.brokers.metadata import MetadataApis
from twisted_kafka.server.dispatch import ApiRegistry, Limited, ReadyResponse
from twisted_kafka.timing.clock import ManualClock
from twisted_kafka.timing.timer import Timer


class Control:
    def __init__(self, cache: MetadataCache) -> None:
        self.cache = cache

    def leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        return LeaderAndIsrResponse()

    def update_metadata(self, request: UpdateMetadataRequest) -> None:
        self.cache.apply(request)

    def stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse:
        return StopReplicaResponse(
            partition_errors=[
                StopReplicaPartitionError(topic_name=topic.topic_name, partition_index=state.partition_index)
                for topic in request.topic_states
                for state in topic.partition_states
            ]
        )


class Channels(Fake):
    """The controller's channel to its only broker, which carries out at once what it is sent."""

    def __init__(self, control: Control) -> None:
        self._control = control

    def send(self, broker_id: int, request: ControlRequest, on_response: OnResponse | None) -> None:
        response: LeaderAndIsrResponse | StopReplicaResponse | None = None
        if isinstance(request, LeaderAndIsrRequest):
            response = self._control.leader_and_isr(request)
        elif isinstance(request, StopReplicaRequest):
            response = self._control.stop_replica(request)
        else:
            self._control.update_metadata(request)
        if on_response is not None:
            on_response(response)

    def add_broker(self, broker_id: int, node: BrokerNode) -> None: ...

    def remove_broker(self, broker_id: int) -> None: ...

    def remove_all(self) -> None: ...


class OneBroker:
    def __init__(self, path: Path, **properties: Any) -> None:
        self.config = KafkaConfig.embedded(
            {"broker.id": "1", **{key.replace("_", "."): value for key, value in properties.items()}},
            OWN_EDITION._replace(features={}),
        )
        self.clock = ManualClock()
        self.store = SqliteStore(path / "metadata.sqlite", self.clock, threaded=False)
        prepare_store(self.store)
        self.features = FeatureCache(self.store)
        self.features.startup()
        self.cache = MetadataCache(1, cluster_id(self.store, "a-cluster"))
        self.configs = ConfigRepository(self.store, self.clock, threaded=False)
        channels = Channels(Control(self.cache))
        self.controller = KafkaController(self.config, self.store, self.configs, channels, self.clock, threaded=False)
        end_points = [EndPoint("in", 9092, "PLAINTEXT", "PLAINTEXT"), EndPoint("out", 9093, "OUT", "PLAINTEXT")]
        register_broker(self.store, 1, broker_node(end_points, rack="r", now_ms=0))
        self.controller.startup()
        waits = TopicWaits(self.cache, self.clock, Timer(self.clock))
        policies = Policies(self.config)
        self.topics = TopicManager(
            self.config, self.store, self.cache, self.controller, waits, ReplicaPlacement(self.cache), policies
        )
        self.quotas = QuotaManagers(self.config, self.clock, MetricsRegistry(self.clock), Timer(self.clock))
        self.loggers = LoggerLevels()
        groups = GroupConfigManager(self.config)
        resources: dict[int, IConfigResource] = {
            TOPIC: TopicConfigs(self.config, self.cache),
            BROKER: BrokerConfigs(DynamicBrokerConfig(self.config), 1),
            CLIENT_METRICS: ClientMetricsConfigs(),
            GROUP: GroupConfigResource(groups),
        }
        describer = ConfigDescriber(self.config, self.configs)
        families = [
            MetadataApis(self.cache, self.config, self.topics, self.quotas.controller_mutation),
            TopicApis(self.topics, self.cache, describer, self.quotas.controller_mutation),
            DescribeConfigApis(self.config, self.configs, self.cache, describer, self.loggers),
            AlterConfigApis(ConfigAdmin(self.configs, policies), resources, self.loggers, 1),
            PartitionApis(PartitionAdmin(self.cache, self.controller, waits), self.cache),
            FeatureApis(self.controller, self.features),
            VersionsApis(dict, self.features, self.cache),
        ]
        self.apis = ApiRegistry(families).apis
        self.errors: list[Any] = []
        self.pump()

    def pump(self) -> None:
        while self.store.pump() + self.configs.pump() + self.controller.pump():
            pass

    def ask(self, request: Message, version: int, listener: str = "PLAINTEXT") -> Any:
        """Send the request through the codec, as version ``version``; the response comes back the same way."""
        api = self.apis[request.KEY]
        assert api.serves(version)
        context = RequestContext(request.KEY, version, 1, "test", ConnectionInfo("c", listener, "PLAINTEXT", "127.0.0.1"))
        response = api.handler(context, type(request).decode(request.encode(version), version))
        self.pump()
        if hasattr(response, "result"):
            response = response.result(0)
        self.throttle_ms = 0
        """How long the client of the last request has to wait because of what it changed."""
        if isinstance(response, Limited):
            response, self.throttle_ms = response.response, response.quota.throttle_ms()
        self.errors.append(context.error)
        if isinstance(response, ReadyResponse):
            (body,) = response.encode_parts(version)
            assert isinstance(body, bytes)
            return api.response_class.decode(body, version)
        return type(response).decode(response.encode(version), version)

    def create(self, name: str, partitions: int = 1, **configs: Any) -> bytes:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=self.settings(**configs))
        (result,) = self.ask(CreateTopicsRequest(topics=[topic]), 7).topics
        assert not result.error_code
        return result.topic_id

    @staticmethod
    def settings(**configs: Any) -> list[CreatableTopicConfig | Any]:
        return [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
