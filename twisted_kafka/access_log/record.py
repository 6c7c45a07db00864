"""Lines of the access log, some at a time, of requests that are over.

Made column by column, a line takes three microseconds: one loop of the interpreter's own over all requests for each number, one
format for the line, what a connection's lines and those of a millisecond have in common written once, and json's own escaping only
for the strings that clients choose. docs/access-log.md tells what each field means.
"""

import datetime
from collections.abc import Iterable, Sequence
from itertools import count, islice, repeat
from json.encoder import encode_basestring_ascii as quoted
from operator import add, attrgetter, floordiv, sub
from typing import Final

from twisted_kafka.access_log.privacy import FieldPolicy
from twisted_kafka.network.request import ConnectionInfo, Request, TopicNote
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.timing.clock import IClock

FORMAT_VERSION: Final = 1
"""Goes up when a field changes its meaning or goes away; new fields may come at any time."""

HOUR_AT: Final = slice(15, 28)
"""Where a line has its hour, YYYY-MM-DDTHH."""

_TIME: Final = f'{{"v":{FORMAT_VERSION},"time":"%s.%03dZ",'
_API: Final = '"api":%s,"api_key":%d,"version":%d,'
_LINE: Final = (
    '%s%s%s"correlation_id":%d,"request_bytes":%d,"response_bytes":%d,"request_queue_us":%d,"local_us":%d,"remote_us":%d,'
    '"throttle_us":%d,"response_queue_us":%d,"send_us":%d,"total_us":%d,"error":%s,"topics":%s,"sequence":%d}\n'
)
_LINE_END: Final = "}\n"
_WEIGHT: Final = ',"weight":%d}\n'

_TIMES_MAX: Final = 1_000
_CONNECTIONS_MAX: Final = 10_000
_TOPICS_MAX: Final = 10_000
"""So many beginnings of a millisecond's lines, prefixes of connections and elements of topics are kept; beyond that all are
forgotten, for they are made anew at no great cost."""

_context_of = attrgetter("context")
_numbers_of = attrgetter(
    "request_bytes",
    "response_bytes",
    "throttle_ns",
    "received_ns",
    "dequeued_ns",
    "local_complete_ns",
    "response_ready_ns",
    "response_dequeued_ns",
    "sent_ns",
)
_facts_of = attrgetter("correlation_id", "error", "topics")
_api_of = attrgetter("api_key", "api_version")
_client_of = attrgetter(
    "connection", "client_id", "connection.principal", "connection.software_name", "connection.software_version"
)

_Api = tuple[int, int]
_Client = tuple[ConnectionInfo, str | None, str, str, str]
"""What tells the beginnings of lines apart: a connection, with what may still change while it lasts."""


class LineMaker:
    """Makes access-log lines; to be called by one thread at a time."""

    def __init__(self, node_id: int, clock: IClock, max_topics: int, policy: FieldPolicy | None = None) -> None:
        self._node_id = node_id
        self._clock = clock
        self._max_topics = max_topics
        self._policy = policy or FieldPolicy()
        # Begun with the clock's microseconds: no restart gives a number again, for no broker serves a million requests a second.
        self._numbers = count(clock.wall_ms() * 1000)
        self._second = (-1, "")
        self._starts: dict[int, str] = {}
        self._prefixes: dict[_Client, str] = {}
        self._apis: dict[_Api, str] = {}
        self._errors: dict[int, str] = {0: "null"}
        self._elements: dict[TopicNote, str] = {}

    def lines(self, requests: Sequence[Request], weights: Sequence[int] | None = None) -> list[str]:
        """Return a line for each of these requests, which are over, a newline at its end.

        ``weights`` says how many requests each of them stands for, 1 where it is left out.
        """
        if not requests:
            return []
        contexts = list(map(_context_of, requests))
        request_bytes, response_bytes, throttled, received, dequeued, local, ready, response_dequeued, sent = zip(
            *map(_numbers_of, requests), strict=True
        )
        correlation_ids, errors, topics = zip(*map(_facts_of, contexts), strict=True)
        phases = (  # Request.phases_ns, in microseconds
            _us(map(sub, dequeued, received)),
            _us(map(sub, local, dequeued)),
            _us(map(sub, ready, local)),
            _us(throttled),
            _us(map(sub, response_dequeued, ready)),
            _us(map(sub, sent, response_dequeued)),
        )
        columns = zip(
            self._starts_of(sent),
            [self._prefixes.get(client) or self._prefix(client) for client in map(_client_of, contexts)],
            [self._apis.get(api) or self._api(api) for api in map(_api_of, contexts)],
            correlation_ids,
            request_bytes,
            response_bytes,
            *phases,
            map(sum, zip(*phases, strict=True)),
            [self._errors.get(error) or self._error(error) for error in errors],
            [self._topics(notes) if notes else "[]" for notes in topics],
            islice(self._numbers, len(requests)),
            strict=True,
        )
        lines = list(map(_LINE.__mod__, columns))
        return lines if weights is None else list(map(_weighted, lines, weights))

    def _starts_of(self, sent: Sequence[int]) -> list[str]:
        """Return the beginnings of lines, with the times at which these responses were sent."""
        offset_ns = self._clock.wall_ms() * 1_000_000 - self._clock.monotonic_ns()
        starts = self._starts
        return [starts.get(ms) or self._start(ms) for ms in map(floordiv, map(add, sent, repeat(offset_ns)), repeat(1_000_000))]

    def _start(self, now_ms: int) -> str:
        second, text = self._second
        if second != now_ms // 1000:
            second = now_ms // 1000
            text = utc_text(second)
            self._second = (second, text)
        if len(self._starts) >= _TIMES_MAX:
            self._starts.clear()
        start = self._starts[now_ms] = _TIME % (text, now_ms - second * 1000)
        return start

    def _prefix(self, client: _Client) -> str:
        connection, client_id, principal, software, software_version = client
        values = {
            "listener": connection.listener_name,
            "protocol": connection.security_protocol,
            "connection": connection.connection_id,
            "principal": principal,
            "client_id": client_id,
            "software": software,
            "software_version": software_version,
        }
        shown = self._policy.shown(values)
        if len(self._prefixes) >= _CONNECTIONS_MAX:
            self._prefixes.clear()
        prefix = self._prefixes[client] = f'"node":{self._node_id},' + "".join(
            f'"{name}":{"null" if value is None else quoted(value)},' for name, value in shown.items()
        )
        return prefix

    def _api(self, api: _Api) -> str:
        key, version = api
        text = self._apis[api] = _API % (quoted(api_name(key)), key, version)
        return text

    def _error(self, code: int) -> str:
        text = self._errors.get(code)
        if text is None:
            try:
                text = quoted(ErrorCode(code).name)
            except ValueError:
                text = quoted(str(code))
            self._errors[code] = text
        return text

    def _topics(self, notes: list[TopicNote]) -> str:
        elements = self._elements
        if len(notes) == 1 and self._max_topics:  # as in most requests
            return f"[{elements.get(notes[0]) or self._element(notes[0])}]"
        shown = ",".join([elements.get(note) or self._element(note) for note in notes[: self._max_topics]])
        left_out = len(notes) - self._max_topics
        return f"[{shown}]" if left_out <= 0 else f'[{shown}],"topics_left_out":{left_out}'

    def _element(self, note: TopicNote) -> str:
        topic, partitions, records, size_bytes, code = note
        if len(self._elements) >= _TOPICS_MAX:
            self._elements.clear()
        text = self._elements[note] = (
            f'{{"topic":{quoted(topic)},"partitions":{partitions},"records":{records},"bytes":{size_bytes},'
            f'"error":{self._error(int(code)) if code else "null"}}}'
        )
        return text


def _us(nanoseconds: Iterable[int]) -> list[int]:
    return list(map(floordiv, nanoseconds, repeat(1000)))


def _weighted(line: str, weight: int) -> str:
    return line if weight == 1 else line[: -len(_LINE_END)] + _WEIGHT % weight


def api_name(key: int) -> str:
    """Return an API's name as Kafka writes it: ListOffsets for LIST_OFFSETS."""
    return ApiKey(key).title


def utc_text(second: int) -> str:
    """Return a time, in seconds since the epoch, as YYYY-MM-DDTHH:MM:SS in UTC."""
    return datetime.datetime.fromtimestamp(second, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S")
