"""The clients' requests, over HTTP."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from typing_extensions import override

from twisted_kafka.protocol.api import request_class
from twisted_kafka.protocol.json_form import json_name
from twisted_kafka.testing.control.call import Call
from twisted_kafka.testing.control.errors import bad
from twisted_kafka.testing.control.forms import write_request
from twisted_kafka.testing.recorded.requests import Requests, Selection, api_key

MAX_REQUESTS: Final = 1000
"""An answer has at most this many requests; a query with its ``next`` returns further ones."""
MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024
"""The requests in an answer had at most this many bytes on the wire; an answer has at least one."""
_FIELD: Final = "field."
_NUMBERS: Final = ("version", "partition")
_TEXTS: Final = ("client_id", "principal", "connection", "topic", "group", "error", "outcome", "fault")
_FORM: Final = re.compile(r"\d{1,10}:\d{1,18}(,\d{1,10}:\d{1,18})*")
_START: Final = "0"


class Cursor:
    """A client's position: the number of the last request that it has read, for each broker."""

    def __init__(self, read: Mapping[int, int]) -> None:
        self._read = dict(read)

    @classmethod
    def parse(cls, text: str | None) -> "Cursor":
        """Parse the text of a cursor; None and "0" are the beginning. Raises ControlError."""
        if text in (None, _START):
            return cls({})
        if not _FORM.fullmatch(text):
            raise bad(f"since is {text[:80]!r}: expected the 'next' of an earlier answer")
        return cls({int(broker): int(number) for broker, _, number in (each.partition(":") for each in text.split(","))})

    def is_before(self, broker_id: int, number: int) -> bool:
        """Whether a request follows this position."""
        return number > self._read.get(broker_id, 0)

    def pass_to(self, broker_id: int, number: int) -> None:
        """Move on to this request of a broker."""
        self._read[broker_id] = max(number, self._read.get(broker_id, 0))

    @override
    def __str__(self) -> str:
        return ",".join(f"{broker}:{number}" for broker, number in sorted(self._read.items())) or _START


def list_requests(call: Call) -> Any:
    """Return the answered requests that the query selects, oldest first.

    The query selects by ``api``, ``version``, ``client_id``, ``principal``, ``connection``, ``topic``, ``partition``, ``group``,
    ``error``, ``outcome``, ``fault``, and ``field.NAME`` for the request's own fields; ``since`` is the ``next`` of an earlier
    answer. At most ``limit`` requests are returned, with all fields if ``whole=true``.
    """
    asked = call.asked
    cursor, limit = Cursor.parse(asked.take("since", str, None)), asked.number("limit", MAX_REQUESTS)
    is_whole, broker_id = asked.flag("whole"), asked.number("broker", None)
    filters = asked.rest()
    brokers = call.target.brokers() if broker_id is None else {broker_id: call.target.broker(broker_id)}
    ordered = sorted(
        (number, each_id, request)
        for each_id, broker in brokers.items()
        for number, request in selected(broker.requests, filters).numbered()
        if cursor.is_before(each_id, number)
    )
    found: list[Any] = []
    size_bytes = 0
    for number, each_id, request in ordered:
        size_bytes += request.size_bytes
        if len(found) >= min(limit, MAX_REQUESTS) or (found and size_bytes > MAX_ANSWER_BYTES):
            break
        found.append(write_request(number, each_id, request, is_whole=is_whole))
        cursor.pass_to(each_id, number)
    return {"requests": found, "next": str(cursor), "more": len(found) < len(ordered)}


def clear_requests(call: Call) -> Any:
    """Forget the requests of all brokers."""
    call.asked.end()
    for broker in call.target.brokers().values():
        broker.requests.clear()
    return {}


def selected(requests: Requests, filters: Mapping[str, Any]) -> Selection:
    """Return the requests that filters select; a filter is a text or a value. Raises ValueError for one that cannot match."""
    filters = dict(filters)
    api = filters.pop("api", None)
    if not isinstance(api, str | None):
        raise bad(f"api is {json.dumps(api)[:80]}: expected a text")
    selection = requests if api is None else requests.of(api)
    fields = () if api is None else request_class(api_key(api)).FIELDS
    wanted: dict[str, Any] = {}
    for name, value in filters.items():
        if name in (*_NUMBERS, *_TEXTS):
            wanted[name] = _number(name, value) if name in _NUMBERS else value
        elif name.startswith(_FIELD):
            asked = name.removeprefix(_FIELD)
            wanted[next((field.name for field in fields if json_name(field.name) == asked), asked)] = _value(value)
        else:
            raise bad(f"requests have no {name!r}: expected {', '.join(('api', *_TEXTS, *_NUMBERS))}, or field.NAME with an api")
    if api is None and any(name.startswith(_FIELD) for name in filters):
        raise bad("field.NAME needs an api, as in api=Produce&field.acks=-1")
    return selection.where(**wanted)


def _number(name: str, value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise bad(f"{name} is {value!r}: expected a whole number") from None


def _value(value: Any) -> Any:
    """Return the value of a text in a query: the value of its JSON, or the text itself if it is not JSON."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value
