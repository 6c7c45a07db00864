"""A captured request as a row of a list. Its size is bounded, whatever the client has sent."""

from dataclasses import dataclass
from typing import Final

from twisted_kafka.network.requests.request import Request
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.system.client_text import bounded_text

PHASES: Final = ("request_queue", "local", "remote", "throttle", "response_queue", "send", "total")
"""The names of ``RequestRow.phases_us``, as in the access log."""

_MOST_TOPICS: Final = 10
_CHARACTER_BYTES: Final = 4
"""Most bytes of a character in memory."""
_APIS: Final = frozenset(map(int, ApiKey))
_ERRORS: Final = frozenset(map(int, ErrorCode))


@dataclass(frozen=True, slots=True)
class RequestRow:
    """A captured request."""

    number: int
    completed_ms: int
    """Since the epoch."""
    api: str
    version: int
    client_id: str
    principal: str
    software: str
    address: str
    listener: str
    connection: str
    topics: tuple[str, ...]
    """The first of them."""
    group: str | None
    error: str | None
    """The name of the first error code in the response."""
    request_bytes: int
    response_bytes: int
    phases_us: tuple[int, ...]

    @property
    def text_bytes(self) -> int:
        """The most memory that the texts of clients in it take up."""
        texts = (self.client_id, self.principal, self.software, self.group or "", *self.topics)
        return _CHARACTER_BYTES * sum(map(len, texts))

    @property
    def total_us(self) -> int:
        """From its last byte to the end of the response."""
        return self.phases_us[-1]


def row_of(number: int, completed_ms: int, request: Request) -> RequestRow:
    """Return the row of a completed request. Texts of clients are bounded."""
    context, connection = request.context, request.context.connection
    key = context.api_key
    return RequestRow(
        number,
        completed_ms,
        api_name(key),
        context.api_version,
        bounded_text(context.client_id or ""),
        bounded_text(str(connection.principal)),
        f"{connection.software_name} {connection.software_version}",
        connection.client_address,
        connection.listener_name,
        connection.connection_id,
        tuple(bounded_text(each[0]) for each in (context.topics or ())[:_MOST_TOPICS]),
        None if context.group is None else bounded_text(context.group[0]),
        error_name(context.error),
        request.request_bytes,
        request.response_bytes,
        tuple(each // 1_000 for each in request.phases_ns()),
    )


def error_name(code: int) -> str | None:
    """Return the name of an error code, None for no error."""
    if not code:
        return None
    return ErrorCode(code).name if code in _ERRORS else f"error {code}"


def api_name(key: int) -> str:
    """Return the name of an API."""
    return ApiKey(key).title if key in _APIS else f"API key {key}"
