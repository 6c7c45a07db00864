"""Configurations of resources."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import Int8, Int16, Int32, String


class DescribeConfigsResource(Struct):
    resource_type: Int8 = 0
    resource_name: String = ""
    configuration_keys: list[String] | None = field(factory=list)


class DescribeConfigsRequest(Message, key=32, versions=(0, 4), flexible=4):
    """Ask for the configuration of resources."""

    resources: list[DescribeConfigsResource] = field(factory=list)
    include_synonyms: bool = field(default=False, since=1)
    include_documentation: bool = field(default=False, since=3)


class DescribeConfigsSynonym(Struct):
    name: String = ""
    value: String | None = ""
    source: Int8 = 0


class DescribeConfigsResourceResult(Struct):
    name: String = ""
    value: String | None = ""
    read_only: bool = False
    is_default: bool = field(default=False, until=0)
    config_source: Int8 = field(default=-1, since=1, ignorable=True)
    is_sensitive: bool = False
    synonyms: list[DescribeConfigsSynonym] = field(factory=list, since=1, ignorable=True)
    config_type: Int8 = field(default=0, since=3, ignorable=True)
    documentation: String | None = field(default="", since=3, ignorable=True)


class DescribeConfigsResult(Struct):
    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: list[DescribeConfigsResourceResult] = field(factory=list)


class DescribeConfigsResponse(Message, key=32, versions=(0, 4), flexible=4):
    """The configuration entries with their sources."""

    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResult] = field(factory=list)


class AlterConfigsRequestAlterableConfig(Struct):
    name: String = ""
    value: String | None = field(default="", secret=True)


class AlterConfigsRequestAlterConfigsResource(Struct):
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: list[AlterConfigsRequestAlterableConfig] = field(factory=list)


class AlterConfigsRequest(Message, key=33, versions=(0, 2), flexible=2):
    """Replace the whole configuration of resources."""

    resources: list[AlterConfigsRequestAlterConfigsResource] = field(factory=list)
    validate_only: bool = False


class AlterConfigsResponseAlterConfigsResourceResponse(Struct):
    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""


class AlterConfigsResponse(Message, key=33, versions=(0, 2), flexible=2):
    """The result for each resource."""

    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResponseAlterConfigsResourceResponse] = field(factory=list)


class IncrementalAlterConfigsRequestAlterableConfig(Struct):
    name: String = ""
    config_operation: Int8 = 0
    value: String | None = field(default="", secret=True)


class IncrementalAlterConfigsRequestAlterConfigsResource(Struct):
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: list[IncrementalAlterConfigsRequestAlterableConfig] = field(factory=list)


class IncrementalAlterConfigsRequest(Message, key=44, versions=(0, 1), flexible=1):
    """Set, delete, append to or subtract from single configuration entries of resources."""

    resources: list[IncrementalAlterConfigsRequestAlterConfigsResource] = field(factory=list)
    validate_only: bool = False


class IncrementalAlterConfigsResponseAlterConfigsResourceResponse(Struct):
    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""


class IncrementalAlterConfigsResponse(Message, key=44, versions=(0, 1), flexible=1):
    """The result for each resource."""

    throttle_time_ms: Int32 = 0
    responses: list[IncrementalAlterConfigsResponseAlterConfigsResourceResponse] = field(factory=list)


class ListConfigResourcesRequest(Message, key=74, versions=(0, 1), flexible=0):
    """Ask for the resources that have a configuration of their own."""

    resource_types: list[Int8] = field(factory=list, since=1)


class ConfigResource(Struct):
    resource_name: String = ""
    resource_type: Int8 = field(default=16, since=1, ignorable=True)


class ListConfigResourcesResponse(Message, key=74, versions=(0, 1), flexible=0):
    """The resources by type and name."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: list[ConfigResource] = field(factory=list)
