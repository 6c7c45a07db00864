"""The bounded queue between processors and request handlers, and the idle handlers. (Kafka: RequestChannel.)

Switching threads is expensive, above all under the interpreter lock:

- A processor that has queued requests handles them itself in the place of an idle handler (``claim_idle``). If one takes long, that
  handler's thread takes over the loop, and the processor's former thread is the handler then (``check_stalls``).
- Handlers take large requests, and others while no processor does. They are parked last in, first out, and one is woken only if no
  handler is awake, or if every awake handler had the same request at two checks: they are slow, or blocked.
- Besides requests the queue holds ShutdownRequests, each of which ends one handler in its turn, and WakeupRequests, which go to the
  front: each stands for one callback, further work for a request that was left waiting, to be done on a handler's thread.
- Responses go to the processor that owns the connection, which is woken if it sleeps.
"""

from collections import deque
from collections.abc import Callable, Container, Hashable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from twisted_kafka.network.requests.parker import Parker
from twisted_kafka.network.requests.request import (
    CLOSE_CONNECTION,
    END_THROTTLING,
    NO_OP,
    SEND,
    START_THROTTLING,
    Request,
    ThrottlingResponse,
)
from twisted_kafka.protocol.regions import Part
from twisted_kafka.system import machine
from twisted_kafka.system.interpreter import HAS_INTERPRETER_LOCK
from twisted_kafka.timing.clock import IClock

if TYPE_CHECKING:
    from twisted_kafka.network.loop.processor import Processor

MAX_PARK_S = 60.0
"""A parked handler checks the queue at least this often."""


MAX_BUNDLED_REQUESTS = 32
"""Most requests that are handled together."""

MAX_BUNDLE_BYTES = 64 * 1024
"""Most bytes of requests that are handled together: more would delay others too long."""


class ShutdownRequest:
    """Ends the handler that receives it."""

    __slots__ = ()
    is_large = False


class WakeupRequest:
    """Makes the handler that receives it run a callback."""

    __slots__ = ()
    is_large = False


class RequestBundle:
    """Requests that are handled together: produces to one partition, say.

    ``items`` has the content of each request. It is None until a handler has compared the requests' keys. Requests with another
    ``key`` become bundles of their own and are put back into the queue (``RequestChannel.put_back``). A request that must be
    handled alone has the key None.
    """

    __slots__ = ("items", "key", "requests")
    is_large = False

    def __init__(self, requests: list[Request], key: Hashable = None, items: list[Any] | None = None) -> None:
        self.requests = requests
        self.key = key
        self.items = items


class CallbackRequest:
    """Further work for a request, on a handler's thread, after the handler that received the request has returned."""

    __slots__ = ("function", "request")

    def __init__(self, function: Callable[[], object], request: Request | None) -> None:
        self.function = function
        self.request = request


SHUTDOWN: Final = ShutdownRequest()
WAKEUP: Final = WakeupRequest()


class RequestChannel:
    """Takes requests, of which at most ``queue_size`` wait (key ``queued.max.requests``), and responses.

    Parts of bundles that handlers have put back come on top, at most ``MAX_BUNDLED_REQUESTS`` for each handler.
    """

    def __init__(self, queue_size: int, clock: IClock) -> None:
        self._queue: deque[Request | RequestBundle | ShutdownRequest | WakeupRequest] = deque()
        self._callbacks: deque[CallbackRequest] = deque()
        self._queue_size = queue_size
        self._drained_size = queue_size // 2
        self._now_ns = clock.monotonic_ns
        self._steady_ns = clock.steady_ns
        self._idle: list[Parker] = []
        self._parkers: list[Parker] = []
        self._processors: list[Processor] = []
        self._full_for: set[Processor] = set()
        self.bundled: Container[int] = ()
        """Keys of the APIs whose requests handlers take several of at once."""
        self.watch: Callable[[int], None] = _do_nothing
        """Has ``check_stalls`` called until it returns False. Called with the time whenever a request is taken from the queue."""
        self._lock = machine.Lock()  # guards the lists of handlers and processors; requests pass without a lock
        self._ended_idle_ns = 0

    # The processors' side.

    def add_processor(self, processor: "Processor") -> None:
        """Watch the requests that ``processor`` handles. While it handles one, other threads leave the queue to it."""
        with self._lock:
            self._processors = [*self._processors, processor]

    def remove_processor(self, processor: "Processor") -> None:
        """Forget ``processor``, whose loop has ended. Late responses still go to it."""
        with self._lock:
            self._processors = [each for each in self._processors if each is not processor]  # a copy: handlers may be iterating
        self._full_for.discard(processor)

    def send_request(self, request: Request) -> bool:
        """Queue a request; return False if the queue is full. Never blocks. To be followed by ``wake_handler``."""
        queue = self._queue
        if len(queue) >= self._queue_size:
            return False
        queue.append(request)
        return True

    def wake_handler(self) -> None:
        """Wake an idle handler for the queued requests, unless one that is awake and not stalled will take them."""
        idle = self._idle
        if idle and self._queue and len(idle) + self._count_stalled() >= len(self._parkers):
            self._wake_one()

    @property
    def has_work(self) -> bool:
        """Whether a network thread can take something from the queue in the place of an idle handler."""
        queue = self._queue
        try:
            return bool(queue) and bool(self._idle) and not queue[0].is_large
        except IndexError:  # another thread has taken it
            return False

    @property
    def has_large_next(self) -> bool:
        """Whether the next request is for a handler's thread."""
        queue = self._queue
        try:
            return bool(queue) and queue[0].is_large
        except IndexError:  # another thread has taken it
            return False

    def _is_left_to_another(self, parker: Parker) -> bool:
        """Whether another thread takes the next request: two would contend for the interpreter lock."""
        if self.has_large_next:
            return False
        return any(processor.is_handling for processor in self._processors) or (
            HAS_INTERPRETER_LOCK and any(each is not parker and each.is_at_work for each in self._parkers)
        )

    def claim_idle(self, now_ns: int) -> Parker | None:
        """Claim the place of an idle handler, to handle requests in its stead; None if no handler is idle.

        To be followed by ``release_idle``, ``Parker.wake`` or ``replace``.
        """
        try:
            parker = self._idle.pop()
        except IndexError:
            return None
        parker.end_idle(now_ns)
        return parker

    def release_idle(self, parker: Parker, now_ns: int) -> None:
        """Return a claimed place to the handler that has it. It is still asleep."""
        parker.parked_since_ns = now_ns
        self._idle.append(parker)

    def replace(self, follower: Parker, leader: Parker) -> None:
        """Let the thread of ``leader`` keep the place that was claimed from ``follower``."""
        with self._lock:
            self._ended_idle_ns += follower.parked_ns
            follower.parked_ns = leader.parked_ns = 0
            self._parkers = [leader if each is follower else each for each in self._parkers]

    def notify_when_drained(self, processor: "Processor") -> None:
        """Call ``processor.request_queue_drained`` once, when at most half of the queue is used."""
        self._full_for.add(processor)
        if len(self._queue) <= self._drained_size:
            self._notify_drained()

    @property
    def is_busy(self) -> bool:
        """Whether requests wait or handlers are awake."""
        return bool(self._queue) or len(self._idle) < len(self._parkers)

    def check_stalls(self) -> bool:
        """Look for requests that were already under way at the last call; return whether to look again soon.

        A network thread that is stuck in one is succeeded by an idle handler's thread. If all handlers that are awake are stalled,
        another one is woken for the queued requests. (``StallWatch``.)
        """
        is_handling = False
        for processor in self._processors:
            is_handling |= processor.check_stall()
        for parker in self._parkers:
            parker.check_stall()
        self.wake_handler()
        return is_handling or len(self._idle) + self._count_stalled() < len(self._parkers)

    def _count_stalled(self) -> int:
        return sum([parker.is_stalled for parker in self._parkers])

    @property
    def size(self) -> int:
        """How many requests wait (Kafka's metric RequestQueueSize)."""
        return len(self._queue)

    # The handlers' side.

    def add_handler(self) -> Parker:
        """Register another handler; return the parker for its thread."""
        parker = Parker()
        with self._lock:
            self._parkers = [*self._parkers, parker]
        return parker

    def remove_handler(self, parker: Parker) -> None:
        """Forget a handler that has ended."""
        with self._lock:
            self._parkers = [other for other in self._parkers if other is not parker]
            self._ended_idle_ns += parker.parked_ns
        self.wake_handler()

    def receive(
        self, parker: Parker, timeout_s: float = MAX_PARK_S
    ) -> Request | RequestBundle | CallbackRequest | ShutdownRequest | None:
        """Return a callback or the oldest request. If the queue is empty, sleep until woken or for ``timeout_s``, and return None.

        Return a bundle if the next requests have the same API, one of ``bundled``. A network thread in the place of a handler
        passes a timeout of 0. It gets no large request.
        """
        parker.busy_since_ns = 0
        if timeout_s and self._is_left_to_another(parker):
            self._sleep(parker, timeout_s)
            return None
        queue = self._queue
        try:
            if not timeout_s and (not queue or queue[0].is_large):  # no exception each time that a network thread is done
                return None
            request: Request | RequestBundle | ShutdownRequest | WakeupRequest = queue.popleft()
        except IndexError:
            if timeout_s:
                self._sleep(parker, timeout_s)
            return None
        now_ns = self._now_ns()
        steady_ns = self._steady_ns()
        # Each time: if the thread's last request was stalled, nobody may be watching any more. It is awake now, and not stalled.
        self.watch(steady_ns)
        parker.busy_since_ns = steady_ns
        if isinstance(request, Request):
            request.dequeued_ns = now_ns
            if queue and request.context.api_key in self.bundled:
                request = self._bundle(request)
        elif isinstance(request, RequestBundle):
            for each in request.requests:
                each.dequeued_ns = now_ns
        if self._full_for and len(queue) <= self._drained_size:
            self._notify_drained()
        if isinstance(request, ShutdownRequest):
            parker.busy_since_ns = 0
        if not isinstance(request, WakeupRequest):
            return request
        try:
            return self._callbacks.popleft()
        except IndexError:  # another handler has run the callbacks of several wake-ups
            return None

    def _bundle(self, first: Request) -> "Request | RequestBundle":
        queue = self._queue
        requests = [first]
        room = MAX_BUNDLE_BYTES - first.request_bytes
        while len(requests) < MAX_BUNDLED_REQUESTS:
            try:
                following = queue.popleft()
            except IndexError:
                break
            if (
                not isinstance(following, Request)
                or following.context.api_key != first.context.api_key
                or following.request_bytes > room
                or following.is_large
            ):
                queue.appendleft(following)
                self.wake_handler()  # as in put_back
                break
            following.dequeued_ns = first.dequeued_ns
            room -= following.request_bytes
            requests.append(following)
        return RequestBundle(requests) if len(requests) > 1 else first

    def put_back(self, bundles: Sequence[RequestBundle]) -> None:
        """Queue the parts of a bundle before other requests; without the part that the handler itself continues with.

        A handler that found the queue empty meanwhile sleeps, and if the one that calls this is stalled already, nobody watches it.
        """
        self._queue.extendleft(reversed(bundles))
        self.wake_handler()

    def send_shutdown_request(self) -> None:
        """End one handler after the requests that are queued now, even if the queue is full."""
        self._queue.append(SHUTDOWN)
        self._wake_one()

    def send_callback(self, function: Callable[[], object], request: Request | None = None) -> None:
        """Run ``function`` on a handler's thread before the requests that wait. From any thread.

        If it raises, the connection of ``request`` is closed unless the request has been answered. Without a request, the error is
        only logged.
        """
        self._callbacks.append(CallbackRequest(function, request))
        self._queue.appendleft(WAKEUP)
        self.wake_handler()

    def _sleep(self, parker: Parker, timeout_s: float) -> None:
        parker.parked_since_ns = self._steady_ns()
        self._idle.append(parker)
        # Check again: a request queued before this handler was visibly idle has woken nobody.
        must_wait = not self._queue or self._is_left_to_another(parker)
        is_woken = must_wait and parker.park(timeout_s)
        while not is_woken:
            try:
                self._idle.remove(parker)
                break
            except ValueError:  # a network thread has claimed the place, or another thread is about to wake this one
                is_woken = parker.park(MAX_PARK_S)
        parker.end_idle(self._steady_ns())

    def idle_ns(self) -> int:
        """Return how many nanoseconds all handlers together have slept so far."""
        now_ns = self._steady_ns()
        total = self._ended_idle_ns
        for parker in self._parkers:
            since = parker.parked_since_ns
            total += parker.parked_ns + (now_ns - since if since else 0)
        return total

    # Responses, from any thread.

    def send_response(
        self,
        request: Request,
        parts: Sequence[Part],
        size_bytes: int,
        kind: int = SEND,
        is_claimed: bool = False,
    ) -> None:
        """Answer with these bytes, which include the size prefix; ``size_bytes`` is their total length.

        Raises AlreadyAnsweredError.
        """
        if not is_claimed and not request.claim():
            raise AlreadyAnsweredError(f"request {request.context.correlation_id} of {request.context.connection_id}")
        request.response_kind = kind
        request.parts = parts
        request.response_bytes = size_bytes
        now_ns = request.response_ready_ns = self._now_ns()
        if not request.local_complete_ns:
            request.local_complete_ns = now_ns
        processor = request.processor
        processor.append_response(request)
        processor.wake_for_responses()

    def send_no_op(self, request: Request) -> None:
        """Complete a request that gets no response (a produce with acks=0). Raises AlreadyAnsweredError."""
        self.send_response(request, (), 0, NO_OP)

    def close_connection(self, request: Request) -> None:
        """Close the request's connection instead of answering. Raises AlreadyAnsweredError."""
        self.send_response(request, (), 0, kind=CLOSE_CONNECTION)

    def start_throttling(self, request: Request) -> None:
        """Mute the request's channel until ``end_throttling``. The response is sent as usual.

        Called by the request's handler before it answers. (Kafka: ClientQuotaManager.throttle, ThrottledChannel.)
        """
        self._send_throttling(request, START_THROTTLING)

    def end_throttling(self, request: Request) -> None:
        """Unmute the channel. Called exactly once for each ``start_throttling``, from any thread."""
        self._send_throttling(request, END_THROTTLING)

    def _send_throttling(self, request: Request, kind: int) -> None:
        processor = request.processor
        processor.append_response(ThrottlingResponse(request.context, kind))
        processor.wake_for_responses()

    def abandon(self, request: Request) -> None:
        """Close the connection of a claimed request that its handler failed to answer."""
        self.send_response(request, (), 0, kind=CLOSE_CONNECTION, is_claimed=True)

    def _wake_one(self) -> None:
        with suppress(IndexError):  # nobody is idle
            self._idle.pop().wake()

    def _notify_drained(self) -> None:
        # Each processor once: while one is notified, others fill the queue and wait again.
        for processor in self._full_for.copy():
            self._full_for.discard(processor)
            processor.request_queue_drained()


def _do_nothing(now_ns: int) -> None:
    pass


class AlreadyAnsweredError(Exception):
    """The request has been answered already; this response is dropped."""
