"""A recording: a file of JSON lines, the first about the recording, each further one a request and its answer.

    {"at_ms": 12.1, "took_ms": 0.8, "connection": 1, "client": "shop", "api": "Produce", "version": 9, "request": {...}, ...}

The order is that of the answers. Secrets are not written.
"""

import base64
import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from twisted_kafka.protocol.api import ApiKey, request_class, response_class
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.recording.message_form import has_secrets, read_message, write_message
from twisted_kafka.system import machine
from twisted_kafka.system.files.file_io import write_at
from twisted_kafka.system.files.names import open_descriptor
from twisted_kafka.system.numbers import INT16_MAX
from twisted_kafka.timing.clock import IClock

ANSWERED: Final = "answered"
NO_ANSWER: Final = "no response"
CLOSED: Final = "closed"

FORMAT: Final = 1
MAX_FILE_BYTES: Final = 256 * 1024 * 1024
"""A replay reads the whole file into memory."""
MAX_LINE_BYTES: Final = 512 * 1024 * 1024
"""A request and an answer of 100 MB each, the most that a broker takes by default, are shorter."""

_HEADER: Final = "twisted_kafka_recording"
_APIS: Final = {key.title: key for key in ApiKey}


class RecordingError(ValueError):
    """A file is not a recording, or one of its lines is invalid. The text is one line, with the file and the line's number."""


@dataclass(frozen=True)
class Exchange:
    """A request and its answer, with the times of a recorder's clock."""

    connection: int
    client_id: str | None
    key: int
    version: int
    request: Message | None
    """None if it cannot be read."""
    response: Message | None
    at_ms: float
    """Since the recording began."""
    took_ms: float
    outcome: str = ANSWERED


class Recording:
    """A recording that is written. Any thread may add to it. Exchanges beyond ``max_bytes`` are only counted."""

    def __init__(
        self, path: Path | str, clock: IClock, *, broker: str, max_bytes: int = MAX_FILE_BYTES, is_new: bool = False
    ) -> None:
        """Make the file, which only its owner can read. ``is_new``: raise FileExistsError if it exists. Raises OSError."""
        self.path = Path(path)
        self._max_bytes = max_bytes
        self._lock = machine.Lock()
        flags = os.O_WRONLY | os.O_CREAT | (os.O_EXCL if is_new else os.O_TRUNC)
        descriptor = open_descriptor(self.path, flags, 0o600)
        self._descriptor: int | None = descriptor
        self._bytes = 0
        self.written = 0
        """The number of exchanges in the file."""
        self.dropped = 0
        """The number of exchanges that did not fit."""
        try:
            self._write(descriptor, {_HEADER: FORMAT, "broker": broker, "began_ms": clock.wall_ms()})
        except OSError:
            self.close()
            raise

    def add(self, exchange: Exchange) -> None:
        """Write an exchange. Does nothing after ``close``. Raises OSError, for example for a full disk."""
        form = write_exchange(exchange)
        with self._lock:
            if self._descriptor is not None and self._write(self._descriptor, form):
                self.written += 1
            elif self._descriptor is not None:
                self.dropped += 1

    def _write(self, descriptor: int, form: dict[str, Any]) -> bool:
        line = (json.dumps(form, ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass")
        if self._bytes + len(line) > self._max_bytes:
            return False
        try:
            write_at(descriptor, line, self._bytes)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, self._bytes)  # without the part of a line that the disk has taken
            raise
        self._bytes += len(line)
        return True

    def close(self) -> None:
        """Close the file. Harmless when it is closed."""
        with self._lock:
            descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()


def write_exchange(exchange: Exchange) -> dict[str, Any]:
    """Return the line's fields. ``requestBytes`` has the bytes of a request that would not be encoded to the same bytes."""
    try:
        name = ApiKey(exchange.key).title
    except ValueError:
        name = f"API key {exchange.key}"
    form: dict[str, Any] = {
        "at_ms": round(exchange.at_ms, 3),
        "took_ms": round(exchange.took_ms, 3),
        "connection": exchange.connection,
        "client": exchange.client_id,
        "api": name,
        "version": exchange.version,
    }
    if exchange.outcome != ANSWERED:
        form["outcome"] = exchange.outcome
    if exchange.request is not None:
        form["request"] = write_message(exchange.request, exchange.version)
        raw = _bytes_beside(exchange.request, form["request"], exchange.version)
        if raw is not None:
            form["requestBytes"] = raw
    if exchange.response is not None:
        form["response"] = write_message(exchange.response, exchange.version)
    return form


def _bytes_beside(message: Message, form: dict[str, Any], version: int) -> str | None:
    if has_secrets(type(message)):
        return None
    body = message.encode(version)
    with contextlib.suppress(ValueError):
        if read_message(type(message), form, version).encode(version) == body:
            return None
    return base64.b64encode(body).decode()


@dataclass(frozen=True)
class Recorded:
    """A line of a recording, as it was read."""

    number: int
    """The line's, from 1 on."""
    at_ms: float
    took_ms: float
    connection: int
    client_id: str | None
    key: ApiKey
    version: int
    outcome: str
    request: dict[str, Any] | None
    request_bytes: bytes | None
    response: dict[str, Any] | None

    @property
    def title(self) -> str:
        """``Produce v9``."""
        return f"{self.key.title} v{self.version}"

    @property
    def answered_ms(self) -> float:
        """When the answer came."""
        return self.at_ms + self.took_ms

    def request_message(self, producer_ids: dict[int, int]) -> Message:
        """Return the request. Raises ValueError, and HiddenError if its secrets are missing."""
        if self.request is None:
            raise ValueError("the request could not be read when it was recorded")
        return read_message(request_class(self.key), self.request, self.version, producer_ids)

    def response_message(self) -> Message:
        """Return the response. Raises ValueError, and HiddenError if its secrets are missing."""
        if self.response is None:
            raise ValueError("there was no response")
        return read_message(response_class(self.key), self.response, self.version)


def read_recording(path: Path | str) -> Iterator[Recorded]:
    """Yield the lines of a recording, one by one. Raises OSError and RecordingError."""
    with open(path, encoding="utf-8", errors="surrogatepass", newline="\n") as file:
        number = 0
        while line := file.readline(MAX_LINE_BYTES):
            number += 1
            yield from _read_line(path, number, line)
        if not number:
            raise RecordingError(f"{path} is no recording: it is empty")


def _check_header(form: dict[str, Any]) -> None:
    """Raise ValueError for a client or a version that no header of a request has."""
    client, version = form.get("client"), form.get("version", 0)
    if not isinstance(client, str | None) or len((client or "").encode()) > INT16_MAX:
        raise ValueError(f"client is {client!r:.80}: expected a text of at most {INT16_MAX} bytes")
    if not isinstance(version, int) or not 0 <= version <= INT16_MAX:
        raise ValueError(f"version is {version!r:.80}: expected a whole number")


def _read_line(path: Path | str, number: int, line: str) -> Iterator[Recorded]:
    try:
        form = json.loads(line)
        if number == 1:
            if not isinstance(form, dict) or form.get(_HEADER) != FORMAT:
                raise ValueError(f'expected {{"{_HEADER}": {FORMAT}, ...}}')
            return
        if not isinstance(form, dict):
            raise ValueError("expected an object")
        if form["api"] not in _APIS:
            if "request" in form:
                raise ValueError(f"there is no API {form['api']!r}")
            return  # one that the recorder did not know
        _check_header(form)
        raw = form.get("requestBytes")
        yield Recorded(
            number,
            float(form["at_ms"]),
            float(form["took_ms"]),
            int(form["connection"]),
            form["client"],
            _APIS[form["api"]],
            int(form["version"]),
            form.get("outcome", ANSWERED),
            form.get("request"),
            None if raw is None else base64.b64decode(raw, validate=True),
            form.get("response"),
        )
    except KeyError as error:
        raise RecordingError(f"{path} is no recording: line {number} has no {error.args[0]!r}") from None
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise RecordingError(f"{path} is no recording: line {number}: {error}") from None
