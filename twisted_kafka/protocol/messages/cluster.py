"""The cluster, its brokers, controllers and features."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import NO_UUID, Int8, Int16, Int32, Int64, String, Uint16, Uuid


class FeatureUpdateKey(Struct):
    feature: String = ""
    max_version_level: Int16 = 0
    allow_downgrade: bool = field(default=False, until=0)
    upgrade_type: Int8 = field(default=1, since=1)


class UpdateFeaturesRequest(Message, key=57, versions=(0, 2), flexible=0):
    """Raise or lower the finalized levels of features."""

    timeout_ms: Int32 = 60000
    feature_updates: list[FeatureUpdateKey] = field(factory=list)
    validate_only: bool = field(default=False, since=1)


class UpdatableFeatureResult(Struct):
    feature: String = ""
    error_code: Int16 = 0
    error_message: String | None = ""


class UpdateFeaturesResponse(Message, key=57, versions=(0, 2), flexible=0):
    """The result for each feature."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    results: list[UpdatableFeatureResult] = field(factory=list, until=1, ignorable=True)


class DescribeClusterRequest(Message, key=60, versions=(0, 2), flexible=0):
    """Ask for the cluster's id, controller and brokers."""

    include_cluster_authorized_operations: bool = False
    endpoint_type: Int8 = field(default=1, since=1)
    include_fenced_brokers: bool = field(default=False, since=2)


class DescribeClusterBroker(Struct):
    broker_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None
    is_fenced: bool = field(default=False, since=2)


class DescribeClusterResponse(Message, key=60, versions=(0, 2), flexible=0):
    """The cluster as this broker knows it."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    endpoint_type: Int8 = field(default=1, since=1)
    cluster_id: String = ""
    controller_id: Int32 = -1
    brokers: list[DescribeClusterBroker] = field(factory=list)
    cluster_authorized_operations: Int32 = -2147483648


class BrokerRegistrationRequestListener(Struct):
    name: String = ""
    host: String = ""
    port: Uint16 = 0
    security_protocol: Int16 = 0


class BrokerRegistrationRequestFeature(Struct):
    name: String = ""
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


class BrokerRegistrationRequest(Message, key=62, versions=(0, 4), flexible=0):
    """A broker registers with the KRaft controller."""

    broker_id: Int32 = 0
    cluster_id: String = ""
    incarnation_id: Uuid = NO_UUID
    listeners: list[BrokerRegistrationRequestListener] = field(factory=list)
    features: list[BrokerRegistrationRequestFeature] = field(factory=list)
    rack: String | None = ""
    is_migrating_zk_broker: bool = field(default=False, since=1)
    log_dirs: list[Uuid] = field(factory=list, since=2, ignorable=True)
    previous_broker_epoch: Int64 = field(default=-1, since=3, ignorable=True)


class BrokerRegistrationResponse(Message, key=62, versions=(0, 4), flexible=0):
    """The broker's epoch."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    broker_epoch: Int64 = -1


class BrokerHeartbeatRequest(Message, key=63, versions=(0, 2), flexible=0):
    """A broker's heartbeat to the KRaft controller: it is alive, and may want to be fenced or to shut down."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    current_metadata_offset: Int64 = 0
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: list[Uuid] = field(factory=list, since=1, tag=0)
    cordoned_log_dirs: list[Uuid] | None = field(default=None, since=2, tag=1)


class BrokerHeartbeatResponse(Message, key=63, versions=(0, 2), flexible=0):
    """Whether the broker is fenced, and whether it may shut down."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False


class UnregisterBrokerRequest(Message, key=64, versions=(0, 0), flexible=0):
    """Remove a broker from the cluster."""

    broker_id: Int32 = 0


class UnregisterBrokerResponse(Message, key=64, versions=(0, 0), flexible=0):
    """Whether it was removed."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


class ControllerRegistrationRequestListener(Struct):
    name: String = ""
    host: String = ""
    port: Uint16 = 0
    security_protocol: Int16 = 0


class ControllerRegistrationRequestFeature(Struct):
    name: String = ""
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


class ControllerRegistrationRequest(Message, key=70, versions=(0, 0), flexible=0):
    """A KRaft controller registers with the active controller."""

    controller_id: Int32 = 0
    incarnation_id: Uuid = NO_UUID
    zk_migration_ready: bool = False
    listeners: list[ControllerRegistrationRequestListener] = field(factory=list)
    features: list[ControllerRegistrationRequestFeature] = field(factory=list)


class ControllerRegistrationResponse(Message, key=70, versions=(0, 0), flexible=0):
    """Whether it was registered."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


class UnregisterControllerRequest(Message, key=94, versions=(0, 0), flexible=0):
    """Remove a KRaft controller from the cluster."""

    controller_id: Int32 = 0


class UnregisterControllerResponse(Message, key=94, versions=(0, 0), flexible=0):
    """Whether it was removed."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
