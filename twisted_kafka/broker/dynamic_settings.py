"""Applies dynamic settings of the metadata store, at the start and when they change (Kafka: the ConfigHandlers)."""

from collections.abc import Iterable

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.dynamic_broker_config import DynamicBrokerConfig, IReconfigurable
from twisted_kafka.coordinator.group.group_config_manager import ENTITY_TYPE, GroupConfigManager, group_id_of
from twisted_kafka.metadata.config_repository import ConfigRepository
from twisted_kafka.metadata.znodes import DEFAULT_ENTITY
from twisted_kafka.replication.alter_log_dirs import AlterLogDirs


class DynamicConfigs:
    """Brings what ``/config/brokers`` has to the broker's configuration."""

    def __init__(self, config: KafkaConfig, repository: ConfigRepository) -> None:
        """Apply what is there now: the parts that are made after this begin with it. Raises ConfigError."""
        self.broker = DynamicBrokerConfig(config)
        self._repository = repository
        self._broker_id = config.broker_id
        self._encode_anew()
        self._load()

    def follow(self, reconfigurables: Iterable[IReconfigurable]) -> None:
        """Tell these parts, in this order, of changes from now on, and of those since the beginning."""
        for each in reconfigurables:
            self.broker.add_reconfigurable(each)
        self._repository.add_listener("brokers", self._changed)
        self._load()

    def _encode_anew(self) -> None:
        own = self.broker.with_new_secret(self._repository.broker_config(self._broker_id))
        if own is not None:
            self._repository.write(f"brokers/{self._broker_id}", own)

    def _load(self) -> None:
        self.broker.update_defaults(self._repository.broker_config(None))
        self.broker.update_own(self._repository.broker_config(self._broker_id))

    def _changed(self, name: str, settings: dict[str, str]) -> None:
        if name == DEFAULT_ENTITY:
            self.broker.update_defaults(settings)
        elif name == str(self._broker_id):
            self.broker.update_own(settings)


def follow_move_quota(repository: ConfigRepository, broker_id: int, moves: AlterLogDirs) -> None:
    """Bound the moves between log directories by what the broker's own settings say (Kafka: BrokerConfigHandler)."""

    def changed(name: str, settings: dict[str, str]) -> None:
        if name == str(broker_id):
            moves.configure(settings)

    repository.add_listener("brokers", changed)
    moves.configure(repository.broker_config(broker_id))


def follow_group_configs(repository: ConfigRepository, groups: GroupConfigManager) -> None:
    """Have the groups use the settings that they have of their own (Kafka: GroupConfigHandler)."""

    def changed(name: str, settings: dict[str, str]) -> None:
        groups.update(group_id_of(name), settings)

    repository.add_listener(ENTITY_TYPE, changed)
    for name in repository.names(ENTITY_TYPE):
        changed(name, repository.config(f"{ENTITY_TYPE}/{name}"))
