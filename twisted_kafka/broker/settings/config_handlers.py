"""Applies the configs of the metadata store to the parts they concern, at the start and when they change.

(Kafka: BrokerConfigHandler, TopicConfigHandler, GroupConfigHandler.)
"""

from collections.abc import Iterable

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.dynamic.dynamic_broker_config import DynamicBrokerConfig, IReconfigurable
from twisted_kafka.group_coordinator.shared.group_config_manager import ENTITY_TYPE, GroupConfigManager, group_id_of
from twisted_kafka.log.log_manager import LogManager
from twisted_kafka.metadata.config_repository import ConfigRepository
from twisted_kafka.metadata.znodes import DEFAULT_ENTITY
from twisted_kafka.replication.replica_manager import ReplicaManager


class BrokerConfigHandler:
    """Brings the configs of ``/config/brokers`` into the broker's configuration."""

    def __init__(self, config: KafkaConfig, repository: ConfigRepository) -> None:
        """Apply the present configs, before other parts are made with the configuration. Raises ConfigError."""
        self.dynamic = DynamicBrokerConfig(config)
        self._repository = repository
        self._broker_id = config.broker_id
        self._encode_with_new_secret()
        self.dynamic.start_with(*self._stored())

    def follow(self, reconfigurables: Iterable[IReconfigurable]) -> None:
        """Reconfigure these parts, in this order, at each change from now on, and for those since the constructor."""
        for each in reconfigurables:
            self.dynamic.add_reconfigurable(each)
        self._repository.add_listener("brokers", self._changed)
        self._load()

    def _encode_with_new_secret(self) -> None:
        own = self.dynamic.with_new_secret(self._repository.broker_config(self._broker_id))
        if own is not None:
            self._repository.write(f"brokers/{self._broker_id}", own)

    def _load(self) -> None:
        self.dynamic.load(*self._stored())

    def _stored(self) -> tuple[dict[str, str], dict[str, str]]:
        return self._repository.broker_config(None), self._repository.broker_config(self._broker_id)

    def _changed(self, name: str, settings: dict[str, str]) -> None:
        if name == DEFAULT_ENTITY:
            self.dynamic.update_defaults(settings)
        elif name == str(self._broker_id):
            self.dynamic.update_own(settings)


def follow_topic_configs(repository: ConfigRepository, logs: LogManager) -> None:
    """Apply changes of a topic's configs to its logs. At the start, the log manager reads the configs itself."""
    repository.add_listener("topics", lambda topic, _: logs.update_topic_config(topic))


def follow_replication_quotas(repository: ConfigRepository, broker_id: int, replicas: ReplicaManager) -> None:
    """Throttle replication, and moves between log directories, as the broker's own configs and those of topics say."""
    quotas = (replicas.leader_quota, replicas.follower_quota)

    def broker_changed(name: str, settings: dict[str, str]) -> None:
        if name == str(broker_id):
            for each in (replicas.moves, *quotas):
                each.configure(settings)

    def topic_changed(name: str, settings: dict[str, str]) -> None:
        for quota in quotas:
            quota.configure_topic(name, settings)

    repository.add_listener("brokers", broker_changed)
    broker_changed(str(broker_id), repository.broker_config(broker_id))
    repository.add_listener("topics", topic_changed)
    topics = repository.names("topics")
    for topic, settings in zip(topics, repository.configs(f"topics/{topic}" for topic in topics), strict=True):
        topic_changed(topic, settings)


def follow_group_configs(repository: ConfigRepository, groups: GroupConfigManager) -> None:
    """Apply the configs of single groups."""

    def changed(name: str, settings: dict[str, str]) -> None:
        groups.update(group_id_of(name), settings)

    repository.add_listener(ENTITY_TYPE, changed)
    names = repository.names(ENTITY_TYPE)
    for name, settings in zip(names, repository.each(f"{ENTITY_TYPE}/{name}" for name in names), strict=True):
        changed(name, settings)
