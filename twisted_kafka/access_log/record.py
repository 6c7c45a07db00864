"""Format one line of the access log after its response has been sent. docs/access-log/format.md defines the fields.

The budget is two microseconds a line: one f-string, a cached prefix per connection and per millisecond, and json's escaping only
for strings that clients choose.
"""

import datetime
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate, count, islice
from json.encoder import encode_basestring_ascii as quoted
from typing import Final

from twisted_kafka.access_log.privacy import FieldPolicy
from twisted_kafka.network.requests.kafka_principal import KafkaPrincipal
from twisted_kafka.network.requests.request import Request
from twisted_kafka.network.requests.request_context import (
    DecisionNote,
    GroupNote,
    RequestContext,
    ResourceKind,
    ResourceNote,
    ShareCount,
    ShareCounts,
    TopicNote,
    TransactionNote,
)
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.system.bounded import BoundedCache
from twisted_kafka.system.client_text import bounded_text
from twisted_kafka.timing.clock import IClock

FORMAT_VERSION: Final = 2
"""Incremented when the fields change. Version 2 has those about groups, resources, acks and partition ids."""

HOUR_AT: Final = slice(15, 28)
"""The position of the hour in a line, YYYY-MM-DDTHH."""

_TIME: Final = f'{{"v":{FORMAT_VERSION},"time":"%s.%03dZ",'
_API: Final = '"api":%s,"api_key":%d,"version":%d,'
_END: Final = "}\n"
_WEIGHTED_END: Final = ',"weight":%d}\n'

LIST_BYTES: Final = 32_768
"""Most bytes of each list of a line: topics, resources, share ... The line has the number of omitted elements."""

KEPT_CHARACTERS: Final = 512
"""A connection keeps the part that its lines share if it is no longer than this, with the client id."""

_CACHE_BYTES: Final = 8 << 20
"""Most bytes of cached elements of topics, as similar requests repeat them; and of cached groups."""
_VERSIONS_KEPT: Final = 64
"""More than an API has, as clients also ask for versions that do not exist."""
_HIDDEN_AS: Final = {
    ResourceKind.GROUP: "group_id",
    ResourceKind.USER: "principal",
    ResourceKind.CLIENT_ID: "client_id",
    ResourceKind.IP: "connection",
    ResourceKind.TRANSACTIONAL_ID: "transactional_id",
}
"""The field of which a resource's name is a value: privacy settings of the field apply to the name."""

# The part that all lines of a connection share, with the values that may change during the connection.
_Prefix = tuple[str | None, KafkaPrincipal, str, str, str]


class LineMaker:
    """Formats access-log lines. Thread-safe."""

    def __init__(
        self, node_id: int, clock: IClock, max_topics: int, max_partitions: int, policy: FieldPolicy | None = None
    ) -> None:
        """``max_topics``: the most topics, and resources, in a line; ``max_partitions``: the most partition ids of each."""
        self._node_id = node_id
        self._wall_ms = clock.wall_ms
        self._max_topics = max_topics
        self._max_partitions = max_partitions
        self._policy = policy or FieldPolicy()
        # Starts at the clock's microseconds. No broker serves a million requests per second, so no number repeats after a restart.
        self._next_number = count(clock.wall_ms() * 1000).__next__
        self._second = (-1, "")
        self._start = (-1, "")  # shared by the lines of one millisecond
        self._apis: dict[tuple[int, int], str] = {}
        self._errors: dict[int, str] = {0: "null"}
        self._elements: BoundedCache[TopicNote, str] = BoundedCache(_CACHE_BYTES, _element_bytes)
        self._groups: BoundedCache[GroupNote, str] = BoundedCache(_CACHE_BYTES, _group_bytes)

    def line(self, request: Request, weight: int = 1) -> str:
        """Return the line of a completed request, with a newline. ``weight`` is how many requests it represents."""
        context = request.context
        now_ms = self._wall_ms()
        start_ms, start = self._start
        if start_ms != now_ms:
            start = self._start_of(now_ms)
        connection = context.connection
        known: _Prefix | None = connection.line_prefix
        if (
            known is None
            or known[0] != context.client_id
            or known[1] is not connection.principal
            or known[2] != connection.software_name
            or known[3] != connection.software_version
        ):
            known = self._connection(context)
        api = self._apis.get((context.api_key, context.api_version)) or self._api(context.api_key, context.api_version)
        # Request.phases_ns in microseconds, without making its tuple.
        dequeued, local_complete, ready = request.dequeued_ns, request.local_complete_ns, request.response_ready_ns
        response_dequeued = request.response_dequeued_ns
        queue = (dequeued - request.received_ns) // 1000
        local = (local_complete - dequeued) // 1000
        remote = (ready - local_complete) // 1000
        throttle = request.throttle_ns // 1000
        response_queue = (response_dequeued - ready) // 1000
        send = (request.sent_ns - response_dequeued) // 1000
        topics = self._topics(context.topics) if context.topics else "[]"
        if context.acks is not None:
            topics = f'{topics},"acks":{context.acks}'
        if context.group is not None:
            topics += self._groups.get(context.group) or self._group(context.group)
        if context.shares is not None:
            topics += self._shares(context.shares)
        if context.resources is not None:
            topics += self._resources(list(context.resources))
        if context.decisions is not None:
            topics += self._decisions(context.decisions)
        if context.transaction is not None:
            topics += self._transaction(context.transaction)
        error = context.error
        return (
            f'{start}{known[4]}{api}"correlation_id":{context.correlation_id},"request_bytes":{request.request_bytes},'
            f'"response_bytes":{request.response_bytes},"request_queue_us":{queue},"local_us":{local},"remote_us":{remote},'
            f'"throttle_us":{throttle},"response_queue_us":{response_queue},"send_us":{send},'
            f'"total_us":{queue + local + remote + throttle + response_queue + send},'
            f'"error":{self._error(error) if error else "null"},"topics":{topics},'
            f'"sequence":{self._next_number()}{_END if weight == 1 else _WEIGHTED_END % weight}'
        )

    def own_line(self, transaction: TransactionNote, topics: Sequence[TopicNote]) -> str:
        """Return the line of a transaction that this broker ended without a request, or after its answer, with a newline."""
        return (
            f'{self._start_of(self._wall_ms())}"node":{self._node_id},"topics":{self._topics(topics)}{self._transaction(transaction)},'
            f'"sequence":{self._next_number()}{_END}'
        )

    def share_line(self, group: GroupNote, topics: Sequence[TopicNote], shares: Mapping[str, ShareCounts]) -> str:
        """Return the line of records that a share group's member has lost without a request, with a newline."""
        return (
            f'{self._start_of(self._wall_ms())}"node":{self._node_id},"topics":{self._topics(topics)}'
            f'{self._groups.get(group) or self._group(group)}{self._shares(shares)},"sequence":{self._next_number()}{_END}'
        )

    def _start_of(self, now_ms: int) -> str:
        second, text = self._second
        if second != now_ms // 1000:
            second = now_ms // 1000
            text = utc_text(second)
            self._second = (second, text)
        start = _TIME % (text, now_ms - second * 1000)
        self._start = (now_ms, start)
        return start

    def _connection(self, context: RequestContext) -> _Prefix:
        connection = context.connection
        values = {
            "listener": connection.listener_name,
            "protocol": connection.security_protocol,
            "connection": connection.connection_id,
            "principal": str(connection.principal),
            "client_id": context.client_id,
            "software": connection.software_name,
            "software_version": connection.software_version,
        }
        shown = self._policy.shown(values)
        prefix = f'"node":{self._node_id},' + "".join(
            f'"{name}":{"null" if value is None else _text(value)},' for name, value in shown.items()
        )
        known = (context.client_id, connection.principal, connection.software_name, connection.software_version, prefix)
        # There may be as many as connections, so clients must not make them large.
        connection.line_prefix = known if len(prefix) + len(context.client_id or "") <= KEPT_CHARACTERS else None
        return known

    def _api(self, key: int, version: int) -> str:
        text = _API % (quoted(api_name(key)), key, version)
        if 0 <= version < _VERSIONS_KEPT:
            self._apis[key, version] = text
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

    def _group(self, note: GroupNote) -> str:
        group_id, member_id, generation = note
        shown = self._policy.shown({"group_id": group_id, "member_id": member_id or None})
        text = "".join(f',"{name}":{_text(value)}' for name, value in shown.items() if value is not None)
        if generation >= 0:
            text += f',"generation":{generation}'
        self._groups.put(note, text)
        return text

    def _shares(self, notes: Mapping[str, ShareCounts]) -> str:
        shown, count = _joined([_share(topic, counts) for topic, counts in islice(notes.items(), self._max_topics)])
        omitted = len(notes) - count
        return f',"share":[{shown}]' if not omitted else f',"share":[{shown}],"share_left_out":{omitted}'

    def _resources(self, notes: Sequence[ResourceNote]) -> str:
        shown, count = _joined([self._resource(*note) for note in notes[: self._max_topics]])
        omitted = len(notes) - count
        return f',"resources":[{shown}]' if not omitted else f',"resources":[{shown}],"resources_left_out":{omitted}'

    def _decisions(self, notes: Mapping[DecisionNote, bool]) -> str:
        first = islice(notes.items(), self._max_topics)
        shown, count = _joined([self._decision(*note, is_allowed) for note, is_allowed in first])
        omitted = len(notes) - count
        return f',"decisions":[{shown}]' if not omitted else f',"decisions":[{shown}],"decisions_left_out":{omitted}'

    def _decision(self, kind: ResourceKind, name: str, operation: str, is_allowed: bool) -> str:
        return f'{self._resource(kind, name)[:-1]},"operation":"{operation}","allowed":{"true" if is_allowed else "false"}}}'

    def _resource(self, kind: ResourceKind, name: str | None) -> str:
        field = _HIDDEN_AS.get(kind, "name")
        shown = self._policy.shown({field: name})
        if field not in shown:
            return f'{{"type":"{kind}"}}'
        value = shown[field]
        return f'{{"type":"{kind}","name":{"null" if value is None else _text(value)}}}'

    def _transaction(self, note: TransactionNote) -> str:
        transactional_id, outcome, duration_ms, timeout_ms = note
        shown = self._policy.shown({"transactional_id": transactional_id}).get("transactional_id")
        fields = [] if shown is None else [f'"id":{_text(shown)}']
        if outcome is not None:
            fields.append(f'"outcome":"{outcome}","duration_ms":{duration_ms}')
        if timeout_ms is not None:
            fields.append(f'"timeout_ms":{timeout_ms}')
        return f',"transaction":{{{",".join(fields)}}}'

    def _topics(self, notes: Sequence[TopicNote]) -> str:
        elements = self._elements
        if len(notes) == 1 and self._max_topics:  # the most common case: needs no list and no join
            return f"[{elements.get(notes[0]) or self._element(notes[0])}]"
        shown, count = _joined([elements.get(note) or self._element(note) for note in notes[: self._max_topics]])
        omitted = len(notes) - count
        return f"[{shown}]" if not omitted else f'[{shown}],"topics_left_out":{omitted}'

    def _element(self, note: TopicNote) -> str:
        topic, partitions, records, size_bytes, code = note
        ids = partitions[: self._max_partitions]
        text = (
            f'{{"topic":{_text(topic)},"partitions":{len(partitions)},"records":{records},"bytes":{size_bytes},'
            f'"error":{self._error(int(code)) if code else "null"}'
        )
        text += f',"partition_ids":[{",".join(map(str, ids))}]}}' if ids else "}"
        if len(ids) == len(partitions):
            self._elements.put(note, text)
        return text


def _share(topic: str, counts: ShareCounts) -> str:
    shown = "".join(f',"{each}":{counts[each]}' for each in ShareCount if each in counts)
    return f'{{"topic":{_text(topic)}{shown}}}'


def _text(value: str) -> str:
    return quoted(bounded_text(value))


def _joined(texts: list[str]) -> tuple[str, int]:
    """Join the first texts that fit a line; return how many there are, too."""
    joined = ",".join(texts)
    if len(joined) <= LIST_BYTES:
        return joined, len(texts)
    ends = list(accumulate(len(text) + 1 for text in texts))
    fitting = bisect_right(ends, LIST_BYTES)
    return ",".join(texts[:fitting]), fitting


def _element_bytes(note: TopicNote, text: str) -> int:
    topic, partitions, *_ = note
    return 4 * len(topic) + 36 * len(partitions) + len(text)  # up to four bytes for each character of the name


def _group_bytes(note: GroupNote, text: str) -> int:
    group_id, member_id, _ = note
    return 4 * (len(group_id) + len(member_id)) + len(text)


def api_name(key: int) -> str:
    """Return Kafka's name of an API, ListOffsets for example."""
    return ApiKey(key).title


def utc_text(second: int) -> str:
    """Return a time, in seconds since the epoch, as YYYY-MM-DDTHH:MM:SS in UTC."""
    return datetime.datetime.fromtimestamp(second, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S")
