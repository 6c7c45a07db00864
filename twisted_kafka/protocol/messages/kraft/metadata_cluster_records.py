"""KRaft metadata records about brokers, controllers and features."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import NO_UUID, Int8, Int16, Int32, Int64, String, Uint16, Uuid


class BrokerEndpoint(Struct):
    name: String = ""
    host: String = ""
    port: Uint16 = 0
    security_protocol: Int16 = 0


class BrokerFeature(Struct):
    name: String = ""
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


class RegisterBrokerRecord(Message, key=0, versions=(0, 4), flexible=0):
    """A broker registered."""

    broker_id: Int32 = 0
    is_migrating_zk_broker: bool = field(default=False, since=2)
    incarnation_id: Uuid = NO_UUID
    broker_epoch: Int64 = 0
    end_points: list[BrokerEndpoint] = field(factory=list)
    features: list[BrokerFeature] = field(factory=list)
    rack: String | None = ""
    fenced: bool = True
    in_controlled_shutdown: bool = field(default=False, since=1)
    log_dirs: list[Uuid] = field(factory=list, since=3, tag=0)
    cordoned_log_dirs: list[Uuid] | None = field(default=None, since=4, tag=1)


class UnregisterBrokerRecord(Message, key=1, versions=(0, 0), flexible=0):
    """A broker was removed from the cluster."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = 0


class FenceBrokerRecord(Message, key=7, versions=(0, 0), flexible=0):
    """A broker was fenced."""

    id: Int32 = 0
    epoch: Int64 = 0


class UnfenceBrokerRecord(Message, key=8, versions=(0, 0), flexible=0):
    """A broker is no longer fenced."""

    id: Int32 = 0
    epoch: Int64 = 0


class FeatureLevelRecord(Message, key=12, versions=(0, 0), flexible=0):
    """The finalized level of a feature."""

    name: String = ""
    feature_level: Int16 = 0


class BrokerRegistrationChangeRecord(Message, key=17, versions=(0, 3), flexible=0):
    """A broker's registration changed in part."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = 0
    fenced: Int8 = field(default=0, tag=0)
    in_controlled_shutdown: Int8 = field(default=0, since=1, tag=1)
    log_dirs: list[Uuid] = field(factory=list, since=2, tag=2)
    cordoned_log_dirs: list[Uuid] | None = field(default=None, since=3, tag=3)


class ZkMigrationStateRecord(Message, key=21, versions=(0, 0), flexible=0):
    """The state of the migration from ZooKeeper."""

    zk_migration_state: Int8 = 0


class ControllerEndpoint(Struct):
    name: String = ""
    host: String = ""
    port: Uint16 = 0
    security_protocol: Int16 = 0


class ControllerFeature(Struct):
    name: String = ""
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


class RegisterControllerRecord(Message, key=27, versions=(0, 0), flexible=0):
    """A controller registered."""

    controller_id: Int32 = 0
    incarnation_id: Uuid = NO_UUID
    zk_migration_ready: bool = False
    end_points: list[ControllerEndpoint] = field(factory=list)
    features: list[ControllerFeature] = field(factory=list)


class UnregisterControllerRecord(Message, key=29, versions=(0, 0), flexible=0):
    """A controller was removed from the cluster."""

    controller_id: Int32 = 0
