"""Client quotas."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import Float64, Int8, Int16, Int32, String


class ComponentData(Struct):
    entity_type: String = ""
    match_type: Int8 = 0
    match: String | None = ""


class DescribeClientQuotasRequest(Message, key=48, versions=(0, 1), flexible=1):
    """Ask for the quotas of users, clients and addresses that match a filter."""

    components: list[ComponentData] = field(factory=list)
    strict: bool = False


class EntityData(Struct):
    entity_type: String = ""
    entity_name: String | None = ""


class ValueData(Struct):
    key: String = ""
    value: Float64 = 0.0


class DescribeClientQuotasResponseEntryData(Struct):
    entity: list[EntityData] = field(factory=list)
    values: list[ValueData] = field(factory=list)


class DescribeClientQuotasResponse(Message, key=48, versions=(0, 1), flexible=1):
    """The matching quotas."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    entries: list[DescribeClientQuotasResponseEntryData] | None = field(factory=list)


class OpData(Struct):
    key: String = ""
    value: Float64 = 0.0
    remove: bool = False


class AlterClientQuotasRequestEntryData(Struct):
    entity: list[EntityData] = field(factory=list)
    ops: list[OpData] = field(factory=list)


class AlterClientQuotasRequest(Message, key=49, versions=(0, 1), flexible=1):
    """Set or delete quotas of users, clients and addresses."""

    entries: list[AlterClientQuotasRequestEntryData] = field(factory=list)
    validate_only: bool = False


class AlterClientQuotasResponseEntryData(Struct):
    error_code: Int16 = 0
    error_message: String | None = ""
    entity: list[EntityData] = field(factory=list)


class AlterClientQuotasResponse(Message, key=49, versions=(0, 1), flexible=1):
    """The result for each change."""

    throttle_time_ms: Int32 = 0
    entries: list[AlterClientQuotasResponseEntryData] = field(factory=list)
