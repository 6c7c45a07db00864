"""Captured requests as a page shows them: a list, and one request decoded."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from twisted_kafka.console.cluster.texts import finds_api
from twisted_kafka.console.live.capture import KEPT_BYTES, SECRET, Captured
from twisted_kafka.console.live.request_row import RequestRow
from twisted_kafka.protocol.api import request_class, response_class
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.compiler.schema import Struct
from twisted_kafka.protocol.headers import parse_response_header
from twisted_kafka.protocol.regions import FileRegion
from twisted_kafka.system.client_text import bounded_text

MOST_VALUES: Final = 2_000
"""Most values of a decoded message that are shown."""
MOST_SHOWN: Final = 500
"""Most requests of a list."""

_SIZE_BYTES: Final = 4
_SHOWN_BYTES: Final = 32
_RECORDS: Final = "records"


@dataclass(frozen=True, slots=True)
class RequestDetail:
    """A captured request with its messages."""

    row: RequestRow
    request: Any
    """Fields by name, as in JSON, or a text with the reason for their absence."""
    response: Any
    refusal: str | None
    """Why the connection was closed instead of an answer."""


@dataclass(frozen=True, slots=True)
class RequestFilter:
    """Which requests a list has. The form of an address: texts and numbers; an empty one counts for nothing."""

    api: str = ""
    """The name of an API, or a part of names (``finds_api``)."""
    client: str = ""
    """A part of the client id, the principal, the software or the address."""
    topic: str = ""
    """A part of a topic's name or of the group's id."""
    only_errors: bool = False
    slower_ms: float = 0.0
    since: int = 0
    """Only requests with a larger number: for a live list."""

    def takes(self, row: RequestRow) -> bool:
        """Whether a request is in the list."""
        named = (*row.topics, row.group or "")
        return (
            row.number > self.since
            and finds_api(self.api, row.api)
            and any(self.client.casefold() in each.casefold() for each in (row.client_id, row.principal, row.software, row.address))
            and any(self.topic.casefold() in each.casefold() for each in named)
            and (not self.only_errors or row.error is not None)
            and row.total_us >= self.slower_ms * 1_000
        )


def rows(captured: Sequence[Captured], wanted: RequestFilter, count: int = 100) -> tuple[RequestRow, ...]:
    """Return the latest requests that the filter takes, the newest first."""
    found: list[RequestRow] = []
    for each in reversed(captured):
        if each.row.number <= wanted.since or len(found) >= min(count, MOST_SHOWN):
            break
        if wanted.takes(each.row):
            found.append(each.row)
    return tuple(found)


def detail_of(captured: Captured) -> RequestDetail:
    """Return a captured request decoded. Records are shown as their size."""
    key, version, row = captured.api_key, captured.row.version, captured.row
    if key in SECRET:
        why = "not kept: it may have a password, a token or a secret setting"
        return RequestDetail(row, why, why, captured.refusal)
    if not captured.frame:
        sent: Any = "not kept: the client had not logged in"
    elif len(captured.frame) > KEPT_BYTES:
        sent = f"not kept: it is larger than {KEPT_BYTES:,} bytes"
    else:
        sent = _decoded(request_class, key, version, captured.frame, captured.body_offset)
    received: Any = "none" if not row.response_bytes else f"not kept: it is larger than {KEPT_BYTES:,} bytes"
    if captured.response:
        body = b"".join(captured.response)[_SIZE_BYTES:]
        missing = row.response_bytes - _SIZE_BYTES - len(body)
        received = "not kept: it has records from a file" if missing else _response(key, version, body)
    return RequestDetail(row, sent, received, captured.refusal)


def _response(key: int, version: int, body: bytes) -> Any:
    try:
        offset = parse_response_header(key, version, body)[1]
    except Exception as error:  # noqa: BLE001 a body that cannot be read is shown as that
        return f"cannot be read: {error}"
    return _decoded(response_class, key, version, body, offset)


def _decoded(kind: Any, key: int, version: int, data: bytes, offset: int) -> Any:
    try:
        message = kind(key).decode(data, version, offset)
    except Exception as error:  # noqa: BLE001 what a client sent need not be readable
        return f"cannot be read: {error}"
    return shown(message)


class _Left:
    def __init__(self, count: int) -> None:
        self.count = count


def shown(message: Message) -> Any:
    """Return a message as JSON has it: bytes in hexadecimal, records as their size, and at most ``MOST_VALUES`` values."""
    return _shown(message, "", _Left(MOST_VALUES))


def _shown(value: Any, name: str, left: _Left) -> Any:
    left.count -= 1
    if left.count < 0:
        return "..."
    match value:
        case str():
            return bounded_text(value)
        case None | bool() | int() | float():
            return value
        case bytes() | bytearray() | memoryview():
            return f"{len(value):,} bytes" if name == _RECORDS or len(value) > _SHOWN_BYTES else bytes(value).hex()
        case FileRegion():
            return f"{len(value):,} bytes"
        case list() | tuple() if name == _RECORDS:
            return f"{sum(len(each) for each in value):,} bytes"
        case list() | tuple():
            return [_shown(each, "", left) for each in value[: max(0, left.count)]]
        case Struct():
            return {
                each.name: "(hidden)" if each.secret else _shown(getattr(value, each.name), each.name, left)
                for each in value.FIELDS
            }
        case _:
            return bounded_text(str(value))
