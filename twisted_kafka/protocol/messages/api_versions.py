"""ApiVersions."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import Int16, Int32, Int64, String


class ApiVersionsRequest(Message, key=18, versions=(0, 5), flexible=3):
    """Ask which APIs and versions the broker serves; the client also names its software."""

    client_software_name: String = field(default="", since=3, ignorable=True)
    client_software_version: String = field(default="", since=3, ignorable=True)
    cluster_id: String | None = field(default=None, since=5, ignorable=True)
    node_id: Int32 = field(default=-1, since=5, ignorable=True)


class ApiVersion(Struct):
    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


class SupportedFeatureKey(Struct):
    name: String = ""
    min_version: Int16 = 0
    max_version: Int16 = 0


class FinalizedFeatureKey(Struct):
    name: String = ""
    max_version_level: Int16 = 0
    min_version_level: Int16 = 0


class ApiVersionsResponse(Message, key=18, versions=(0, 5), flexible=3):
    """The supported APIs with their versions, and the cluster's features."""

    error_code: Int16 = 0
    api_keys: list[ApiVersion] = field(factory=list)
    throttle_time_ms: Int32 = field(default=0, since=1, ignorable=True)
    supported_features: list[SupportedFeatureKey] = field(factory=list, since=3, tag=0, ignorable=True)
    finalized_features_epoch: Int64 = field(default=-1, since=3, tag=1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = field(factory=list, since=3, tag=2, ignorable=True)
    zk_migration_ready: bool = field(default=False, since=3, tag=3, ignorable=True)
