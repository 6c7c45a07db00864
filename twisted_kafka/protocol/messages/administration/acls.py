"""Access control entries."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import Int8, Int16, Int32, String


class DescribeAclsRequest(Message, key=29, versions=(0, 3), flexible=2):
    """Ask for the access control entries that match a filter."""

    resource_type_filter: Int8 = 0
    resource_name_filter: String | None = ""
    pattern_type_filter: Int8 = field(default=3, since=1)
    principal_filter: String | None = ""
    host_filter: String | None = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class AclDescription(Struct):
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DescribeAclsResource(Struct):
    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = field(default=3, since=1)
    acls: list[AclDescription] = field(factory=list)


class DescribeAclsResponse(Message, key=29, versions=(0, 3), flexible=2):
    """The matching entries by resource."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    resources: list[DescribeAclsResource] = field(factory=list)


class AclCreation(Struct):
    resource_type: Int8 = 0
    resource_name: String = ""
    resource_pattern_type: Int8 = field(default=3, since=1)
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class CreateAclsRequest(Message, key=30, versions=(0, 3), flexible=2):
    """Add access control entries."""

    creations: list[AclCreation] = field(factory=list)


class AclCreationResult(Struct):
    error_code: Int16 = 0
    error_message: String | None = ""


class CreateAclsResponse(Message, key=30, versions=(0, 3), flexible=2):
    """The result of each addition."""

    throttle_time_ms: Int32 = 0
    results: list[AclCreationResult] = field(factory=list)


class DeleteAclsFilter(Struct):
    resource_type_filter: Int8 = 0
    resource_name_filter: String | None = ""
    pattern_type_filter: Int8 = field(default=3, since=1)
    principal_filter: String | None = ""
    host_filter: String | None = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DeleteAclsRequest(Message, key=31, versions=(0, 3), flexible=2):
    """Delete the access control entries that match filters."""

    filters: list[DeleteAclsFilter] = field(factory=list)


class DeleteAclsMatchingAcl(Struct):
    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = field(default=3, since=1)
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DeleteAclsFilterResult(Struct):
    error_code: Int16 = 0
    error_message: String | None = ""
    matching_acls: list[DeleteAclsMatchingAcl] = field(factory=list)


class DeleteAclsResponse(Message, key=31, versions=(0, 3), flexible=2):
    """The deleted entries by filter."""

    throttle_time_ms: Int32 = 0
    filter_results: list[DeleteAclsFilterResult] = field(factory=list)
