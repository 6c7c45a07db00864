"""The error codes in a response: the first one for the access log, and how often each occurs for the metrics."""

from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple, cast

from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.compiler.schema import ListOf, StructType
from twisted_kafka.protocol.errors import ErrorCode

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

# The metrics do not count their top-level error (as in Kafka).
_COUNTED_IN_LISTS_ONLY = (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,)

# A response without any error code counts as one NONE.
_COUNTED_IF_EMPTY = (ApiKey.FIND_COORDINATOR, ApiKey.ADD_PARTITIONS_TO_TXN)


@cache
def error_places(struct: StructType, version: int | None = None) -> ErrorPlaces:
    """Return the places of error codes in a response class, so that no other field is visited.

    Without a version: the codes of all versions. With one: the codes that the metrics count.
    """
    lists = []
    own = ""
    for field in struct.FIELDS:
        is_there = version is None or field.at(version)
        if field.name in _ERROR_FIELDS:
            if version is None or _is_counted(struct.KEY, version, is_there):
                own = field.name
        elif not is_there:
            continue
        elif isinstance(field.type, ListOf) and isinstance(field.type.element, StructType):
            inner = error_places(field.type.element, version)
            if inner:
                lists.append((field.name, inner))
    return ErrorPlaces(own, tuple(lists))


def _is_counted(key: int, version: int, is_there: bool) -> bool:
    return key not in _COUNTED_IN_LISTS_ONLY and (is_there or version <= _COUNTED_UNTIL.get(key, -1))


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
    codes = _codes_of(type(response), context.api_version)(response)
    if not codes and response.KEY in _COUNTED_IF_EMPTY:
        codes = [ErrorCode.NONE]
    if not context.error and any(codes):
        context.error = int(next(filter(None, codes)))
    if len(codes) == 1 and codes[0] == context.error:
        return
    counts = {int(code): codes.count(code) for code in dict.fromkeys(codes)}
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


@cache
def _codes_of(struct: StructType, version: int) -> Callable[[Any], list[int]]:
    """Return the function that lists all error codes of a response; compiled, since every response passes through it."""
    lines = ["def codes(o0):", "    found = []"]

    def write(places: ErrorPlaces, depth: int) -> None:
        indent = "    " * (depth + 1)
        if places.own:
            lines.append(f"{indent}found.append(o{depth}.{places.own})")
        for name, inner in places.lists:
            lines.append(f"{indent}for o{depth + 1} in o{depth}.{name} or ():")
            write(inner, depth + 1)

    write(error_places(struct, version), 0)
    lines.append("    return found")
    scope: dict[str, Any] = {}
    exec(compile("\n".join(lines), f"<error codes of {struct.__name__} v{version}>", "exec"), scope)
    return cast(Callable[[Any], list[int]], scope["codes"])
