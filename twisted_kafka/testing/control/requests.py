"""What clients asked, over HTTP."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from twisted_kafka.protocol.api import request_class
from twisted_kafka.protocol.json_form import json_name
from twisted_kafka.testing.control.call import Call
from twisted_kafka.testing.control.errors import bad
from twisted_kafka.testing.control.forms import write_request
from twisted_kafka.testing.requests import Requests, Selection, api_key

MAX_REQUESTS: Final = 1000
"""So many requests are answered at once, unless fewer are asked for; ``next`` leads on."""
MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024
"""What was on the wire of the requests in one answer; at least one is in it."""
_FIELD: Final = "field."
_NUMBERS: Final = ("version", "partition")
_TEXTS: Final = ("client_id", "principal", "connection", "topic", "group", "error", "outcome", "fault")
_FORM: Final = re.compile(r"\d{1,10}:\d{1,18}(,\d{1,10}:\d{1,18})*")
_START: Final = "0"


class Cursor:
    """Where a client has read to: the number of the last request of each broker."""

    def __init__(self, read: Mapping[int, int]) -> None:
        self._read = dict(read)

    @classmethod
    def parse(cls, text: str | None) -> "Cursor":
        """Return what ``str`` of it was; of None or "0", the beginning. Raises ControlError."""
        if text in (None, _START):
            return cls({})
        if not _FORM.fullmatch(text):
            raise bad(f"since is {text[:80]!r}: expected the 'next' of an earlier answer")
        return cls({int(broker): int(number) for broker, _, number in (each.partition(":") for each in text.split(","))})

    def is_before(self, broker_id: int, number: int) -> bool:
        """Whether a request comes after it."""
        return number > self._read.get(broker_id, 0)

    def pass_to(self, broker_id: int, number: int) -> None:
        """Move on to this request of a broker."""
        self._read[broker_id] = max(number, self._read.get(broker_id, 0))

    def __str__(self) -> str:
        return ",".join(f"{broker}:{number}" for broker, number in sorted(self._read.items())) or _START


def list_requests(call: Call) -> Any:
    """Return requests that were answered, oldest first: those that the query selects.

    By ``api``, ``version``, ``client_id``, ``principal``, ``connection``, ``topic``, ``partition``, ``group``, ``error``,
    ``outcome``, ``fault``, and ``field.NAME`` for the request's own fields; ``since`` an earlier answer's ``next``; at most
    ``limit``; with all fields if ``whole=true``.
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
    """Return the requests that filters select, given as text or as values. Raises ValueError for those that cannot match."""
    filters = dict(filters)
    api = filters.pop("api", None)
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
    """Return the value that a text in a query stands for: JSON if it is that, else the text."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value
