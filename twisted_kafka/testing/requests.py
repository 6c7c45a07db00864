"""The record of clients' requests to a broker under test, with the broker's answers.

assert broker.requests.of("Produce").where(acks=-1, topic="orders").count() == 3
"""

import difflib
import itertools
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, overload

from typing_extensions import override

from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.testing.subjects import Partition
from twisted_kafka.testing.waiting import LOOK_S, Aio, check_may_block, is_cancelled

__tracebackhide__ = True

MAX_REQUESTS: Final = 10_000
"""Only this many of the latest requests are kept."""

MAX_BYTES: Final = 64 * 1024 * 1024
"""At most this many bytes of requests and responses are kept; the latest request is always kept."""

_numbers: Final = itertools.count(1)
_API_NAMES: Final = {key.title: key for key in ApiKey}


def api_key(name: str) -> ApiKey:
    """Return the key of an API by Kafka's name. Raises ValueError; its one line suggests a similar name."""
    key = _API_NAMES.get(name)
    if key is None:
        import difflib

        near = difflib.get_close_matches(name, _API_NAMES, 1, 0.5)
        raise ValueError(f"there is no API {name!r}" + (f": did you mean {near[0]!r}?" if near else ": names are like 'Produce'"))
    return key


def api_name(key: int) -> str:
    """Return Kafka's name of an API; an unknown key gets a name, too."""
    try:
        return ApiKey(key).title
    except ValueError:
        return f"API key {key}"


@dataclass(frozen=True, eq=False)
class RecordedRequest:
    """One request and how it was answered. Do not change its messages."""

    api: str
    """Kafka's name: ``Produce``."""
    version: int
    client_id: str | None
    principal: str
    """``User:ANONYMOUS``."""
    connection: str
    node: int
    """The id of the broker that answered it."""
    fields: Message | None
    """The request with its fields, in the spelling of ``where``: ``fields.acks``, ``fields.topic_data[0].name``.

    None if it could not be read."""
    partitions: tuple[Partition, ...]
    groups: tuple[str, ...]
    response: Message | None
    """The broker's answer, like ``fields``, even if a fault kept it from the client; None if there was no answer."""
    error: str | None
    """The first error of the response, by Kafka's name; None if there is no error."""
    outcome: str
    """``answered``, ``no response``, ``dropped`` (not handled), ``lost``, ``half``, ``corrupt`` or ``closed``."""
    fault: str | None
    """The rule that changed the outcome."""
    arrived_ms: float
    """Since the broker was made, by its clock."""
    answered_ms: float
    size_bytes: int

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics in the request, in order."""
        return tuple(dict.fromkeys(topic for topic, _ in self.partitions))

    @override
    def __repr__(self) -> str:
        return f"<{' '.join(str(self).split())}>"

    @override
    def __str__(self) -> str:
        about = [f"{topic}-{index}" if index is not None else topic for topic, index in self.partitions[:4]]
        about += ["..."] if len(self.partitions) > 4 else []
        about += [f"group {group}" for group in self.groups]
        result = self.error or self.outcome
        return (
            f"{self.arrived_ms:9.1f} ms  {self.api} v{self.version} from {self.client_id or '-'}"
            f"{'  ' + ' '.join(about) if about else ''}  -> {result} in {self.answered_ms - self.arrived_ms:.1f} ms"
            f"{f'  (fault: {self.fault})' if self.fault else ''}"
        )

    def matches(self, name: str, value: object) -> bool:
        """Whether a property, or a field of the request, has this value."""
        if name == "topic":
            return value in self.topics
        if name == "partition":
            return any(index == value for _, index in self.partitions)
        if name == "group":
            return value in self.groups
        if name in _PROPERTIES:
            return bool(getattr(self, name) == value)
        return self.fields is not None and hasattr(self.fields, name) and bool(getattr(self.fields, name) == value)


_PROPERTIES: Final = ("api", "version", "client_id", "principal", "connection", "node", "error", "outcome", "fault")
_OUTCOMES: Final = ("answered", "no response", "dropped", "lost", "half", "corrupt", "closed")
_SUBJECTS: Final = ("topic", "partition", "group")
_SHOWN: Final = 20
"""The ``repr`` of a selection shows this many of the latest requests."""
_OF_BROKER: Final = re.compile(r"broker-(\d+)-")
"""Begins the client ids of brokers."""


def sender_of(client_id: str | None) -> int | None:
    """Return the id of the broker with this client id; None for clients."""
    found = _OF_BROKER.match(client_id or "")
    return None if found is None else int(found[1])


class Selection(Sequence[RecordedRequest]):
    """Some of the recorded requests, oldest first. A selection is live: it also includes matching requests that arrive later."""

    def __init__(self, record: "Requests", key: ApiKey | None, wanted: dict[str, object]) -> None:
        self._record = record
        self._key = key
        self._wanted = wanted

    def of(self, api: str) -> "Selection":
        """Return the requests of one API, by Kafka's name. Raises ValueError for an unknown name."""
        return Selection(self._record, api_key(api), self._wanted)

    def where(self, **wanted: object) -> "Selection":
        """Return the requests with these values of properties, ``topic``, ``partition``, ``group`` or fields, by name.

        Raises ValueError for a field that the API's requests, or all requests, do not have, and for an unknown error or outcome.
        """
        for name in wanted:
            self._check(name)
        api, error, outcome = wanted.get("api"), wanted.get("error"), wanted.get("outcome")
        if isinstance(api, str):
            api_key(api)
        if isinstance(error, str) and error not in ErrorCode.__members__:
            raise ValueError(f"there is no error {error!r}: names are like 'NOT_LEADER_OR_FOLLOWER'")
        if outcome is not None and outcome not in _OUTCOMES:
            raise ValueError(f"there is no outcome {outcome!r}, only {', '.join(_OUTCOMES)}")
        return Selection(self._record, self._key, {**self._wanted, **wanted})

    def _check(self, name: str) -> None:
        if name in _PROPERTIES or name in _SUBJECTS:
            return
        from twisted_kafka.protocol.api import request_class

        if self._key is None:
            if not any(field.name == name for key in ApiKey for field in request_class(key).FIELDS):
                near = difflib.get_close_matches(name, (*_PROPERTIES, *_SUBJECTS), 1)
                advice = f": did you mean {near[0]!r}?" if near else f", only {', '.join((*_PROPERTIES, *_SUBJECTS))} and fields"
                raise ValueError(f"requests have no {name!r}{advice}")
            return
        names = [field.name for field in request_class(self._key).FIELDS]
        if name not in names:
            raise ValueError(f"{self._key.title} requests have no field {name!r}, only {', '.join(names)}")

    def _matches(self, request: RecordedRequest) -> bool:
        if self._key is not None and request.api != self._key.title:
            return False
        return all(request.matches(name, value) for name, value in self._wanted.items())

    @override
    def __iter__(self) -> Iterator[RecordedRequest]:
        return iter([each for _, each in self.numbered()])

    def numbered(self) -> list[tuple[int, RecordedRequest]]:
        """Return the requests with their numbers, which increase and are unique in this process."""
        return [(number, each) for number, each in self._record.snapshot_numbered() if self._matches(each)]

    @overload
    def __getitem__(self, index: int) -> RecordedRequest: ...

    @overload
    def __getitem__(self, index: slice) -> list[RecordedRequest]: ...

    @override
    def __getitem__(self, index: int | slice) -> RecordedRequest | list[RecordedRequest]:
        """Return a request, or a list of them for a slice, as they are now. Raises IndexError, which lists what there is."""
        found = list(self)
        try:
            return found[index]
        except IndexError:
            raise IndexError(f"there are {len(found)} requests{self._told()}, none at {index}; {self._record.told()}") from None

    @override
    def __len__(self) -> int:
        return len(self.numbered())

    def __bool__(self) -> bool:
        return self.count() > 0

    @override
    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "no requests"

    @override
    def __repr__(self) -> str:
        found = list(self)
        shown = found[-_SHOWN:]
        more = [f"... {len(found) - len(shown)} earlier ones"] if len(found) > len(shown) else []
        lines = "".join(f"\n  {each}" for each in [*more, *(" ".join(str(each).split()) for each in shown)])
        return f"<{len(found)} requests{self._told()}{':' if found else ''}{lines}>"

    @override
    def count(self, value: object = None) -> int:
        """Return the number of requests, or how often ``value`` is among them."""
        return len(self) if value is None else super().count(value)

    @property
    def aio(self) -> Aio:
        """The wait for an asyncio loop: ``await kafka.requests.of("Produce").aio.wait_for(3)``."""
        return Aio(self)

    @property
    def last(self) -> RecordedRequest | None:
        """The request that was answered last; None if there is no request."""
        return next(reversed(list(self)), None)

    def wait_for(self, count: int = 1, timeout_s: float = 10.0) -> list[RecordedRequest]:
        """Wait for at least ``count`` requests; return them. Raises TimeoutError, with the number seen, after ``timeout_s``."""
        check_may_block("kafka.requests.wait_for")
        found: list[RecordedRequest] = []

        def there() -> bool:
            found[:] = self
            return len(found) >= count

        if not self._record.wait_until(there, timeout_s, LOOK_S):
            raise TimeoutError(
                f"{len(found)} of {count} requests{self._told()} came {self._record.within(timeout_s)}; {self._record.told()}"
            )
        return found

    def _told(self) -> str:
        api = f" {self._key.title}" if self._key is not None else ""
        wanted = ", ".join(f"{name}={value!r}" for name, value in self._wanted.items())
        return api + (f" with {wanted}" if wanted else "")


class Requests(Selection):
    """All answered requests, oldest first. Any thread may use it."""

    def __init__(self, parent: "Requests | None" = None) -> None:
        """``parent``, a cluster's, gets the requests of clients, too, but not those of other brokers."""
        super().__init__(self, None, {})
        self._parent = parent
        self._recorded: deque[tuple[int, RecordedRequest]] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        self._followers: tuple[Callable[[RecordedRequest], object], ...] = ()
        self._is_over = True

    def follow(self, call: Callable[[RecordedRequest], object]) -> Callable[[], None]:
        """Pass each new request to ``call``, on the broker's threads; return a function that ends this."""
        self._followers = (*self._followers, call)

        def end() -> None:
            self._followers = tuple(each for each in self._followers if each is not call)

        return end

    def add(self, request: RecordedRequest) -> None:
        """Record a request, and forget the oldest ones beyond the limits."""
        with self._changed:
            self._recorded.append((next(_numbers), request))
            self._bytes += request.size_bytes
            while len(self._recorded) > 1 and (len(self._recorded) > MAX_REQUESTS or self._bytes > MAX_BYTES):
                self._bytes -= self._recorded.popleft()[1].size_bytes
            self._changed.notify_all()
        for call in self._followers:
            call(request)
        if self._parent is not None and sender_of(request.client_id) is None:
            self._parent.add(request)

    def open(self) -> None:
        """The broker is running: let waits block."""
        self._is_over = False

    def close(self) -> None:
        """The broker has stopped: end all waits at once."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def clear(self) -> None:
        """Forget all requests."""
        with self._changed:
            self._recorded.clear()
            self._bytes = 0

    def snapshot(self) -> list[RecordedRequest]:
        """Return the present requests."""
        return [request for _, request in self.snapshot_numbered()]

    def snapshot_numbered(self) -> list[tuple[int, RecordedRequest]]:
        """Return the present requests with their numbers."""
        with self._changed:
            return list(self._recorded)

    def within(self, timeout_s: float) -> str:
        """Return how long a wait lasted, in words."""
        return "before the broker stopped, or it does not run" if self._is_over else f"in {timeout_s:g} s"

    def told(self, count: int = 20) -> str:
        """Return the last requests, a line each."""
        last = self.snapshot()[-count:]
        return "the last requests were:\n" + "\n".join(map(str, last)) if last else "there were no requests"

    def wait_until(self, condition: Callable[[], bool], timeout_s: float, look_s: float) -> bool:
        """Wait until ``condition`` is true, and check it after each request and every ``look_s``.

        Return False after ``timeout_s``, when the broker has stopped, or when the task that waits was cancelled.
        """
        from twisted_kafka.timing.clock import SystemClock

        clock = SystemClock()  # real time: the broker's may be held
        due_ns = clock.monotonic_ns() + int(timeout_s * 1e9)
        while True:
            with self._changed:
                seen: Any = self._recorded[-1] if self._recorded else None
            if condition():
                return True
            left_s = (due_ns - clock.monotonic_ns()) / 1e9
            if left_s <= 0 or self._is_over or is_cancelled():
                return False
            with self._changed:
                if (self._recorded[-1] if self._recorded else None) is seen and not self._is_over:
                    self._changed.wait(min(left_s, look_s))
