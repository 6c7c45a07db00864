"""Sequences of recorded requests of any kind: selected by their properties, waited for, followed."""

import abc
import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar, overload

from typing_extensions import override

from twisted_kafka.system import machine
from twisted_kafka.testing.waiting import LOOK_S, WAIT_S, Aio, check_may_block, is_cancelled
from twisted_kafka.timing.clock import SystemClock

__tracebackhide__ = True

MAX_REQUESTS: Final = 10_000
"""Only this many of the latest requests are kept."""

MAX_BYTES: Final = 64 * 1024 * 1024
"""At most this many bytes of requests and responses are kept; the latest request is always kept."""

OUTCOMES: Final = ("answered", "no response", "dropped", "lost", "half", "corrupt", "closed")
_SHOWN: Final = 20
"""The ``repr`` of a selection shows this many of the latest requests."""
_numbers: Final = itertools.count(1)


class BaseRequest(abc.ABC):
    """A request, and how it was answered. ``str`` is a line about it."""

    api: str
    """The name of the API."""
    size_bytes: int

    @abc.abstractmethod
    def matches(self, name: str, value: object) -> bool:
        """Whether a property, or a field of the request, has this value."""


Q = TypeVar("Q", bound=BaseRequest)


class BaseSelection(Sequence[Q], abc.ABC):
    """Some of the recorded requests, oldest first. A selection is live: it also includes matching requests that arrive later."""

    def __init__(self, store: "BaseRequests[Q]", api: str | None, wanted: dict[str, object]) -> None:
        self._store = store
        self._api = api
        self._wanted = wanted

    @abc.abstractmethod
    def _narrowed(self, api: str | None, wanted: dict[str, object]) -> "BaseSelection[Q]":
        """Return a part of the requests."""

    @abc.abstractmethod
    def _check_api(self, api: str) -> None:
        """Raise ValueError for an unknown name."""

    @abc.abstractmethod
    def _check(self, name: str, value: object) -> None:
        """Raise ValueError for a property or a field that no request has, and for a value that it never has."""

    def _matches(self, request: Q) -> bool:
        if self._api is not None and request.api != self._api:
            return False
        return all(request.matches(name, value) for name, value in self._wanted.items())

    @override
    def __iter__(self) -> Iterator[Q]:
        return iter([each for _, each in self.numbered()])

    def numbered(self) -> list[tuple[int, Q]]:
        """Return the requests with their numbers, which increase and are unique in this process."""
        return [(number, each) for number, each in self._store.snapshot_numbered() if self._matches(each)]

    @overload
    def __getitem__(self, index: int) -> Q: ...

    @overload
    def __getitem__(self, index: slice) -> list[Q]: ...

    @override
    def __getitem__(self, index: int | slice) -> Q | list[Q]:
        """Return a request, or a list of them for a slice, as they are now. Raises IndexError, which lists what there is."""
        found = list(self)
        try:
            return found[index]
        except IndexError:
            raise IndexError(f"there are {len(found)} requests{self._told()}, none at {index}; {self._store.told()}") from None

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
    def last(self) -> Q | None:
        """The request that was answered last; None if there is no request."""
        return next(reversed(list(self)), None)

    def wait_for(self, count: int = 1, timeout_s: float = WAIT_S) -> list[Q]:
        """Wait for at least ``count`` requests; return them. Raises TimeoutError, with the number seen, after ``timeout_s``."""
        check_may_block("kafka.requests.wait_for")
        found: list[Q] = []

        def there() -> bool:
            found[:] = self
            return len(found) >= count

        if not self._store.wait_until(there, timeout_s, LOOK_S):
            raise TimeoutError(
                f"{len(found)} of {count} requests{self._told()} came {self._store.within(timeout_s)}; {self._store.told()}"
            )
        return found

    def _told(self) -> str:
        api = f" {self._api}" if self._api is not None else ""
        wanted = ", ".join(f"{name}={value!r}" for name, value in self._wanted.items())
        return api + (f" with {wanted}" if wanted else "")


class BaseRequests(BaseSelection[Q]):
    """All answered requests, oldest first. Any thread may use it."""

    def __init__(self) -> None:
        super().__init__(self, None, {})
        self._recorded: deque[tuple[int, Q]] = deque()
        self._bytes = 0
        self._changed = machine.Condition()
        self._followers: tuple[Callable[[Q], object], ...] = ()
        self._is_over = True

    def follow(self, call: Callable[[Q], object]) -> Callable[[], None]:
        """Pass each new request to ``call``, on its threads; return a function that ends this."""
        self._followers = (*self._followers, call)

        def end() -> None:
            self._followers = tuple(each for each in self._followers if each is not call)

        return end

    def add(self, request: Q) -> None:
        """Record a request, and forget the oldest ones beyond the limits."""
        with self._changed:
            self._recorded.append((next(_numbers), request))
            self._bytes += request.size_bytes
            while len(self._recorded) > 1 and (len(self._recorded) > MAX_REQUESTS or self._bytes > MAX_BYTES):
                self._bytes -= self._recorded.popleft()[1].size_bytes
            self._changed.notify_all()
        for call in self._followers:
            call(request)

    def open(self) -> None:
        """It is running: let waits block."""
        self._is_over = False

    def close(self) -> None:
        """It has stopped: end all waits at once."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def clear(self) -> None:
        """Forget all requests."""
        with self._changed:
            self._recorded.clear()
            self._bytes = 0

    def snapshot(self) -> list[Q]:
        """Return the present requests."""
        return [request for _, request in self.snapshot_numbered()]

    def snapshot_numbered(self) -> list[tuple[int, Q]]:
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

        Return False after ``timeout_s``, when it has stopped, or when the task that waits was cancelled.
        """
        clock = SystemClock()  # real time: the tests' may be held
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
