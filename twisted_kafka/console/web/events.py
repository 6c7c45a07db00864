"""Live pages: server-sent events, of which a page gets the newest only.

All live parts are rendered one after the other, each at most once in ``INTERVAL_S`` however many browsers show it. After each, the
hub rests for so long that rendering takes at most a fiftieth of the time. So twenty open pages cannot slow the broker down: they
become slower themselves. A browser that reads slowly misses parts, and gets the newest when it reads again. Without a browser that
looks, nothing runs: the script of a page ends its stream when the page is hidden.
"""

import json
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, Final

from twisted.internet.interfaces import IPushProducer
from twisted.logger import Logger
from zope.interface import implementer

from twisted_kafka.console.web.listener import ConsoleRequest
from twisted_kafka.system.threads import thread_cpu_ns

INTERVAL_S: Final = 2.0
RESTS: Final = 49
"""The hub rests for this many times as long as all threads worked on a part."""
LONGEST_REST_S: Final = 30.0
"""Up to a part that costs 0.6 s, all of them together take a fiftieth of a processor's time."""
HEARTBEAT_S: Final = 15.0
"""A stream without news for this long gets a comment, so that a dead connection is noticed."""
MOST_STREAMS: Final = 100
MOST_STREAMS_OF_USER: Final = 20
"""Most streams of one user with a login: one user must not take all places."""
LIFETIME_S: Final = 600.0
"""A stream ends after this time; the browser opens another one, with its present rights."""

_NS: Final = 1_000_000_000

_log = Logger()


class Rendered:
    """A live part and its cost."""

    __slots__ = ("cost_ns", "cursor", "data", "is_end")

    def __init__(self, data: str | None, cost_ns: int, *, is_end: bool = False, cursor: str = "") -> None:
        """``data`` is None if there is no news. With ``is_end`` the viewer may not see more. ``cursor`` is where a tail goes on."""
        self.cursor = cursor
        self.data = data
        self.cost_ns = cost_ns
        self.is_end = is_end


@implementer(IPushProducer)
class Stream:
    """A browser that shows a live part."""

    def __init__(self, request: ConsoleRequest, user: str, now_s: float) -> None:
        self.user = user
        self._request = request
        self._began_s = self._wrote_s = now_s
        self.is_paused = False
        self._sent: str | None = None
        self._cursor = ""

    def send(self, data: str, now_s: float) -> None:
        """Send a part unless the browser has it, or does not read."""
        if data == self._sent or self.is_paused or self._request.is_over:
            return
        self._sent = data
        self._write(f"data: {json.dumps(data)}\n\n", now_s)

    def append(self, data: str | None, cursor: str, now_s: float) -> None:
        """Send a part that follows the earlier ones, and where the next one begins."""
        if cursor != self._cursor and not self._request.is_over:
            self._cursor = cursor
            self._write(f"id: {cursor}\nevent: more\ndata: {json.dumps(data or '')}\n\n", now_s)

    def beat(self, now_s: float) -> None:
        """Write a comment if nothing has been written for long."""
        if now_s - self._wrote_s >= HEARTBEAT_S and not self.is_paused and not self._request.is_over:
            self._write(":\n\n", now_s)

    def is_old(self, now_s: float) -> bool:
        """Return whether its time is over."""
        return now_s - self._began_s >= LIFETIME_S

    def end(self, *, is_for_good: bool = False) -> None:
        """End the stream; the browser opens it again unless it is for good."""
        if self._request.is_over:
            return
        if is_for_good:
            self._request.write(b"event: end\ndata: \n\n")  # type: ignore[no-untyped-call]
        self._request.is_over = True
        self._request.unregisterProducer()  # type: ignore[no-untyped-call]
        self._request.finish()  # type: ignore[no-untyped-call]

    def _write(self, text: str, now_s: float) -> None:
        self._wrote_s = now_s
        self._request.write(text.encode("utf-8", "replace"))  # type: ignore[no-untyped-call]

    def pauseProducing(self) -> None:
        """Miss parts from now on: the browser does not read."""
        self.is_paused = True

    def resumeProducing(self) -> None:
        """Take parts again."""
        self.is_paused = False

    def stopProducing(self) -> None:
        """Take no more parts: the browser has gone."""
        self.is_paused = True


class _Part:
    """A live part, and the browsers that show it."""

    __slots__ = ("due_s", "is_following", "render", "streams")

    def __init__(self, render: Callable[[], Rendered], *, is_following: bool) -> None:
        self.render = render
        self.is_following = is_following
        self.streams: dict[Stream, None] = {}
        self.due_s = 0.0

    @property
    def is_read(self) -> bool:
        """Whether a browser would take a new part now."""
        return any(not stream.is_paused for stream in self.streams)


class Hub:
    """Renders the live parts while browsers show them. Its methods are called on the reactor's thread."""

    def __init__(self, reactor: Any, submit: Callable[[Callable[[], Rendered]], "Future[Rendered]"]) -> None:
        """``submit`` runs a rendering on another thread."""
        self._reactor = reactor
        self._submit = submit
        self._parts: dict[Hashable, _Part] = {}
        self._rest_ends_s = 0.0
        self._is_rendering = False
        self._call: Any = None
        self._is_closed = False

    @property
    def stream_count(self) -> int:
        """The number of open streams."""
        return sum(len(part.streams) for part in self._parts.values())

    def add(
        self, key: Hashable, request: ConsoleRequest, user: str, render: Callable[[], Rendered], *, is_following: bool = False
    ) -> bool:
        """Show a live part to a browser; return False if there are too many. ``user`` is empty without a login.

        Browsers with the same key share one rendering. A part that is following is a sequence, as a tail is: nothing is rendered
        while its browser does not read.
        """
        if self._is_closed or self.stream_count >= MOST_STREAMS or (user and self._count_of(user) >= MOST_STREAMS_OF_USER):
            return False
        request.begin(200, "text/event-stream", {"x-accel-buffering": "no"})
        stream = Stream(request, user, self._reactor.seconds())
        request.write(b"retry: 3000\n\n")  # type: ignore[no-untyped-call]
        if request.is_over:
            return True
        request.registerProducer(stream, True)  # type: ignore[no-untyped-call]
        part = self._parts.get(key)
        if part is None:
            part = self._parts[key] = _Part(render, is_following=is_following)
        part.streams[stream] = None
        part.due_s = min(part.due_s, self._reactor.seconds())
        request.notifyFinish().addBoth(lambda _: self._remove(key, part, stream))
        self._schedule()
        return True

    def close(self) -> None:
        """End all streams."""
        self._is_closed = True
        if self._call is not None and self._call.active():
            self._call.cancel()
        for part in list(self._parts.values()):
            for stream in list(part.streams):
                stream.end()
        self._parts.clear()

    def _count_of(self, user: str) -> int:
        return sum(stream.user == user for part in self._parts.values() for stream in part.streams)

    def _remove(self, key: Hashable, part: _Part, stream: Stream) -> None:
        part.streams.pop(stream, None)
        if not part.streams and self._parts.get(key) is part:
            del self._parts[key]

    def _schedule(self) -> None:
        """Wake when the next part is due and the rest is over."""
        if self._is_rendering or self._is_closed or not self._parts:
            return
        due_s = max(self._rest_ends_s, min(part.due_s for part in self._parts.values()))
        delay_s = max(0.0, due_s - self._reactor.seconds())
        if self._call is not None and self._call.active():
            self._call.reset(delay_s)
        else:
            self._call = self._reactor.callLater(delay_s, self._wake)

    def _wake(self) -> None:
        now_s = self._reactor.seconds()
        self._tidy(now_s)
        if not self._parts:
            return
        part = min(self._parts.values(), key=lambda each: each.due_s)
        part.due_s = now_s + INTERVAL_S
        if not part.is_read:
            self._schedule()
            return
        self._is_rendering = True
        future = self._submit(part.render)
        future.add_done_callback(lambda done: self._reactor.callFromThread(self._rendered, part, done))

    def _tidy(self, now_s: float) -> None:
        for part in list(self._parts.values()):
            for stream in list(part.streams):
                if stream.is_old(now_s):
                    stream.end()
                else:
                    stream.beat(now_s)

    def _rendered(self, part: _Part, future: "Future[Rendered]") -> None:
        self._is_rendering = False
        now_s, began_ns = self._reactor.seconds(), thread_cpu_ns()
        try:
            rendered = future.result()
        except Exception:  # noqa: BLE001 the other parts go on
            _log.failure("A live part of the console could not be rendered")
            rendered = Rendered(None, 0, is_end=True)
        for stream in list(part.streams):
            if part.is_following:
                stream.append(rendered.data, rendered.cursor, now_s)
            elif rendered.data is not None:
                stream.send(rendered.data, now_s)
            if rendered.is_end:
                stream.end(is_for_good=True)
        cost_ns = rendered.cost_ns + thread_cpu_ns() - began_ns
        self._rest_ends_s = now_s + min(LONGEST_REST_S, RESTS * cost_ns / _NS)
        self._schedule()
