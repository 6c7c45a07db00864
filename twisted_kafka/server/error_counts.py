"""The error codes in a response: the first one for the access log, and how often each occurs for the metrics."""

from functools import cache
from typing import Any, Final, NamedTuple

from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.codec import Message
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.schema import ListOf, StructType

_ALL_VERSIONS: Final = 0x7FFF


class ErrorPlaces(NamedTuple):
    """The places of error codes in a struct: its own field ("" if it has none), and lists whose items have some."""

    own: str
    lists: "tuple[tuple[str, ErrorPlaces], ...]"

    def __bool__(self) -> bool:
        return bool(self.own or self.lists)


_ERROR_FIELDS = ("error_code", "partition_error_code")

# Up to these versions, the metrics count the top-level error even if the version has no field for it (as in Kafka).
_COUNTED_UNTIL: dict[int, int] = {
    ApiKey.FETCH: _ALL_VERSIONS,
    ApiKey.OFFSET_FETCH: 7,
    ApiKey.DESCRIBE_LOG_DIRS: _ALL_VERSIONS,
    ApiKey.ELECT_LEADERS: _ALL_VERSIONS,
}

# A response without any error code counts as one NONE.
_COUNTED_IF_EMPTY = (ApiKey.FIND_COORDINATOR, ApiKey.ADD_PARTITIONS_TO_TXN)


@cache
def error_places(struct: StructType, version: int | None = None) -> ErrorPlaces:
    """Return the places of error codes in a response class, in one version or in all, so that no other field is visited."""
    lists = []
    own = ""
    for field in struct.FIELDS:
        is_there = version is None or field.at(version)
        if field.name in _ERROR_FIELDS:
            if version is None or is_there or version <= _COUNTED_UNTIL.get(struct.KEY, -1):
                own = field.name
        elif not is_there:
            continue
        elif isinstance(field.type, ListOf) and isinstance(field.type.element, StructType):
            inner = error_places(field.type.element, version)
            if inner:
                lists.append((field.name, inner))
    return ErrorPlaces(own, tuple(lists))


def first_error(value: Any, places: ErrorPlaces) -> int:
    """Return the first error code in a response, or 0."""
    if places.own:
        own = int(getattr(value, places.own))
        if own:
            return own
    for name, inner in places.lists:
        for item in getattr(value, name) or ():
            code = first_error(item, inner)
            if code:
                return code
    return 0


def note_errors(context: RequestContext, response: Message) -> None:
    """Count each error code of a response, including NONE, for the metrics (Kafka: AbstractResponse.errorCounts)."""
    counts: dict[int, int] = {}
    _count_errors(response, error_places(type(response), context.api_version), counts)
    if not counts and response.KEY in _COUNTED_IF_EMPTY:
        counts = {ErrorCode.NONE: 1}
    for code in counts:
        context.note_error(code)
    if len(counts) != 1 or counts.get(context.error) != 1:
        if response.KEY == ApiKey.OFFSET_FETCH:
            _count_groups_once(response, counts)
        context.error_counts = counts


def _count_groups_once(response: Any, counts: dict[int, int]) -> None:
    """Count the error of a group that is named twice once, the last one, as Kafka's OffsetFetchResponse does with a map."""
    last = {group.group_id: group for group in response.groups}
    for group in response.groups:
        if group is not last[group.group_id]:
            counts[group.error_code] -= 1
            if not counts[group.error_code]:
                del counts[group.error_code]


def _count_errors(value: Any, places: ErrorPlaces, counts: dict[int, int]) -> None:
    if places.own:
        code = int(getattr(value, places.own))
        counts[code] = counts.get(code, 0) + 1
    for name, inner in places.lists:
        for item in getattr(value, name) or ():
            _count_errors(item, inner, counts)
