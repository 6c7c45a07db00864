"""Sends the requests of a recording to a broker, and compares the answers.

The replay keeps the order of the clients: before it sends a request, it waits for all answers that preceded the request in the
recording. It replaces recorded ids (members, producers, topics, sessions) by the broker's. While the broker is not ready, it asks
again, like a client.
"""

import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import Any, Final

from typing_extensions import override

from twisted_kafka.protocol.api import ApiKey, request_class, response_class
from twisted_kafka.protocol.compiler.codec import MalformedMessageError, Message
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.headers import encode_request_header, parse_response_header
from twisted_kafka.recording.differences import Comparison, fetched_records
from twisted_kafka.recording.message_form import OF_OTHER_TYPES, encode, read_message, write_message
from twisted_kafka.recording.recording import ANSWERED, CLOSED, MAX_FILE_BYTES, NO_ANSWER, Recorded, RecordingError, read_recording
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock

MAX_CONNECTIONS: Final = 1_000
MAX_ANSWER_BYTES: Final = 256 * 1024 * 1024
MOST_SHOWN: Final = 10
"""The number of differences of one answer that are reported."""
READY_S: Final = 10.0
_AGAIN_S: Final = 0.05
_NOT_READY: Final = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.CONCURRENT_TRANSACTIONS,  # the last transaction is still being completed
        ErrorCode.NOT_ENOUGH_REPLICAS,  # or the broker cannot verify yet that a partition is in the transaction
    }
)
"""Errors of a broker that still creates, loads or completes something, and has changed nothing.

If such an error was not recorded, the replay asks again; if one was recorded, the answer may have no error now.
"""
_SASL: Final = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
_SIZE: Final = Struct(">i")
_REST: Final = frozenset({NO_ANSWER, CLOSED})


@dataclass
class Report:
    """The result of a replay; ``str`` of it is for people."""

    sent: int = 0
    alike: int = 0
    left_out: list[str] = field(default_factory=list)
    """Requests that were not sent, a line each with the reason."""
    differences: list[str] = field(default_factory=list)
    """A line for each."""

    @override
    def __str__(self) -> str:
        lines = [*self.differences, *(f"not sent: {each}" for each in self.left_out)]
        counts = f"{self.sent} requests were sent, {self.alike} were answered as recorded, {len(self.left_out)} were not sent"
        return "\n".join([*lines, counts])


class _Connection:
    """One connection to the broker. It skips answers that are no longer expected."""

    def __init__(self, host: str, port: int, timeout_s: float) -> None:
        self._socket = socket.create_connection((host, port), timeout_s)
        self._stream = self._socket.makefile("rb")
        self._correlation_id = 0

    def send(self, line: Recorded, body: bytes) -> int:
        self._correlation_id += 1
        frame = encode_request_header(line.key, line.version, self._correlation_id, line.client_id) + body
        self._socket.sendall(_SIZE.pack(len(frame)) + frame)
        return self._correlation_id

    def receive(self, correlation_id: int) -> bytes | None:
        """Return the answer's frame; None if the connection was closed. Raises TimeoutError."""
        while True:
            size = self._stream.read(_SIZE.size)
            if len(size) < _SIZE.size:
                return None
            (count,) = _SIZE.unpack(size)
            if not _SIZE.size <= count <= MAX_ANSWER_BYTES:
                raise MalformedMessageError(f"an answer of {count} bytes")
            frame = self._stream.read(count)
            if len(frame) < count:
                return None
            if _SIZE.unpack_from(frame)[0] == correlation_id:
                return frame

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


@dataclass
class _Sent:
    line: Recorded
    body: bytes
    connection: _Connection
    correlation_id: int


Route = Callable[[int, Message], tuple[str, int]]
"""Returns the address of the broker that has to answer a request, which is from the recorded connection with this number."""


class Replay:
    """Replays one recording against the broker at an address."""

    def __init__(self, host: str, port: int, clock: IClock, timeout_s: float = 30.0, route: Route | None = None) -> None:
        """``timeout_s`` limits the wait for each answer. ``route`` chooses one of several brokers for each request."""
        self._address = (host, port)
        self._route = route
        self._clock = clock
        self._timeout_s = timeout_s
        self._comparison = Comparison()
        self._connections: dict[tuple[int, tuple[str, int]], _Connection] = {}
        """By the number of the recorded connection, and the address of the broker."""
        self._sent: dict[int, _Sent] = {}
        self._fetched: tuple[dict[Any, Any], dict[Any, Any]] = ({}, {})
        self._report = Report()

    def run(self, path: Path | str) -> Report:
        """Send everything; return the result. Raises OSError, including TimeoutError, and RecordingError."""
        try:
            for line, is_request in _in_order(path):
                if is_request:
                    self._send(line)
                elif line.number in self._sent:
                    self._receive(self._sent.pop(line.number))
        finally:
            for connection in self._connections.values():
                connection.close()
        self._compare_fetched()
        return self._report

    def _send(self, line: Recorded) -> None:
        where = f"line {line.number}, {line.title}"
        if line.key in _SASL:
            self._report.left_out.append(f"{where}: its secrets are not in the recording")
            return
        try:
            body, address = self._body(line)
        except ValueError as error:
            self._report.left_out.append(f"{where}: {error}")
            return
        where_to = line.connection, address
        connection = self._connections.get(where_to)
        if connection is None:
            if len(self._connections) == MAX_CONNECTIONS:
                raise ValueError(f"{where}: the recording has more than {MAX_CONNECTIONS} connections")
            connection = self._connections[where_to] = _Connection(*address, self._timeout_s)
        self._report.sent += 1
        try:
            correlation_id = connection.send(line, body)
        except (BrokenPipeError, ConnectionResetError):
            self._differ(line, ["the connection was closed before this request, which was answered when it was recorded"])
            return
        self._sent[line.number] = _Sent(line, body, connection, correlation_id)

    def _body(self, line: Recorded) -> tuple[bytes, tuple[str, int]]:
        """Return the request's bytes, and the address of its broker."""
        if line.request_bytes is not None and not self._comparison.ids and self._route is None:
            return line.request_bytes, self._address
        if line.request is None:
            raise ValueError("the request could not be read when it was recorded")
        fields = self._comparison.translated(line.request)
        message = read_message(request_class(line.key), fields, line.version, self._comparison.producer_ids)
        address = self._address if self._route is None else self._route(line.connection, message)
        if line.request_bytes is not None and not self._comparison.ids:
            return line.request_bytes, address
        return encode(message, line.version), address

    def _receive(self, sent: _Sent) -> None:
        line = sent.line
        if line.outcome not in (ANSWERED, *_REST):
            return  # a fault kept the answer from the client
        if line.outcome == NO_ANSWER:
            self._report.alike += 1
            return
        found = self._answer(sent)
        if line.outcome == CLOSED or line.response is None:
            self._differ(line, [] if found is None else ["the connection was closed when it was recorded, now there is an answer"])
            return
        if found is None:
            self._close(sent.connection)
            self._differ(line, ["the connection was closed instead of an answer"])
            return
        self._compare(line, found)

    def _close(self, connection: _Connection) -> None:
        connection.close()
        self._connections = {key: each for key, each in self._connections.items() if each is not connection}

    def _answer(self, sent: _Sent) -> dict[str, Any] | None:
        """Return the answer. If the recorded broker was ready, ask again until this one is."""
        recorded_errors = _errors(sent.line.response)
        due_ns = self._clock.monotonic_ns() + int(READY_S * 1e9)
        while True:
            found = self._ask(sent)
            is_ready = found is None or not (_errors(found) - recorded_errors) & _NOT_READY
            if is_ready or self._clock.monotonic_ns() >= due_ns:
                return found
            self._pause()
            sent.correlation_id = sent.connection.send(sent.line, sent.body)

    def _ask(self, sent: _Sent) -> dict[str, Any] | None:
        line = sent.line
        if sent.connection not in self._connections.values():
            return None
        try:
            frame = sent.connection.receive(sent.correlation_id)
        except TimeoutError:
            text = (
                f"line {line.number}, {line.title}: no answer in {self._timeout_s:g} s; it took {line.took_ms:g} ms when recorded"
            )
            raise TimeoutError(text) from None
        except ConnectionResetError:
            return None
        if frame is None:
            return None
        return _read_answer(line, frame)

    def _pause(self) -> None:
        condition = machine.Condition()
        with condition:
            self._clock.wait_until(condition, self._clock.monotonic_ns() + int(_AGAIN_S * 1e9))

    def _compare(self, line: Recorded, found: dict[str, Any]) -> None:
        recorded = line.response
        assert recorded is not None
        try:
            lines = self._compared(recorded, found, is_fetch=line.key == ApiKey.FETCH)
        except OF_OTHER_TYPES as error:
            lines = [f"the recorded answer cannot be compared: {type(error).__name__}: {error}"]
        self._differ(line, lines)

    def _compared(self, recorded: dict[str, Any], found: dict[str, Any], *, is_fetch: bool) -> list[str]:
        if is_fetch:
            for seen, response in zip(self._fetched, (recorded, found), strict=True):
                seen.update(
                    {(topic, partition, offset): content for topic, partition, offset, content in fetched_records(response)}
                )
        lines = list(self._comparison.differences(recorded, found, is_fetch=is_fetch))
        if lines and _errors(recorded) & _NOT_READY and not _errors(found):
            return []  # the recorded broker was not ready, and this one is
        return lines

    def _differ(self, line: Recorded, lines: list[str]) -> None:
        if not lines:
            self._report.alike += 1
            return
        client = f" from {line.client_id}" if line.client_id else ""
        self._report.differences += [f"line {line.number}, {line.title}{client}: {each}" for each in lines[:MOST_SHOWN]]
        if len(lines) > MOST_SHOWN:
            self._report.differences.append(f"line {line.number}, {line.title}{client}: {len(lines) - MOST_SHOWN} more differences")

    def _compare_fetched(self) -> None:
        recorded, found = self._fetched
        ids = self._comparison.ids
        for (topic, partition, offset), content in recorded.items():
            now = found.get((ids.get(("topic", topic), topic), partition, offset))
            if now != content:
                change = "was not fetched now" if now is None else f"was {content[:2]!r}, now {now[:2]!r}"
                self._report.differences.append(f"the record at {offset} of {topic}-{partition} {change}")


def _read_answer(line: Recorded, frame: bytes) -> dict[str, Any]:
    # A version of ApiVersions that is too new is answered in version 0 (KIP-511).
    for version in (line.version, 0) if line.key == ApiKey.API_VERSIONS else (line.version,):
        try:
            at = parse_response_header(line.key, version, frame)[1]
            return write_message(response_class(line.key).decode(frame, version, at), version)
        except MalformedMessageError:
            continue
    return {"unreadable": f"{len(frame)} bytes"}


def _in_order(path: Path | str) -> Iterator[tuple[Recorded, bool]]:
    """Yield each line twice, as its request and as its answer, in the order in which they happened.

    Raises RecordingError for a file that is too large, as it is read into memory.
    """
    if Path(path).stat().st_size > MAX_FILE_BYTES:
        raise RecordingError(f"{path} has more than {MAX_FILE_BYTES >> 20} MiB: record less")
    lines = list(read_recording(path))
    events = [(line.at_ms, line.number, 0) for line in lines] + [(line.answered_ms, line.number, 1) for line in lines]
    by_number = {line.number: line for line in lines}
    for _, number, kind in sorted(events):
        yield by_number[number], kind == 0


def _errors(form: Any) -> set[int]:
    """Return the error codes in a response."""
    if isinstance(form, dict):
        code = form.get("errorCode")
        own = {code} if isinstance(code, int) and code else set()
        return own.union(*map(_errors, form.values()))
    return set().union(*map(_errors, form)) if isinstance(form, list) else set()
