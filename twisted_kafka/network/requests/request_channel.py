"""The bounded queue between processors and request handlers, and the idle handlers. (Kafka: RequestChannel.)

Under the interpreter lock, switching threads is expensive, so both sides work in batches:

- A processor queues all requests that its sockets have brought and then calls ``wake_handler`` once. A handler that is awake takes
  the next request. Idle handlers are parked last in, first out, and one is woken only if no handler is awake, or if those that are
  have been on the same request for ``STALL_S`` (``detect_stalled_handlers``): they are slow, or blocked.
- Besides requests the queue holds ShutdownRequests, each of which ends one handler in its turn, and WakeupRequests, which go to the
  front: each stands for one callback, further work for a request that was left waiting, to be done on a handler's thread.
- A handler appends its responses to the processor that owns the connection, and wakes the processor when the queue is empty or
  after ``RESPONSES_PER_WAKE``. If the handler's next request takes long, the processor notices the responses within ``STALL_S``.
- While ``has_active_handler`` says that responses are about to come, a processor does not poll its sockets: processors and handlers
  take turns (``Processor.before_poll``).
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from twisted_kafka.network.requests.request import (
    CLOSE_CONNECTION,
    END_THROTTLING,
    NO_OP,
    SEND,
    START_THROTTLING,
    IProcessor,
    Request,
    ThrottlingResponse,
)
from twisted_kafka.protocol.regions import Part
from twisted_kafka.timing.clock import IClock

STALL_S = 0.001
"""A handler that has been on the same request for this long is stalled: another one is woken for the requests that wait."""

STALL_NS = int(STALL_S * 1e9)

RESPONSES_PER_WAKE = 64
"""After this many responses a handler wakes the processors even if more requests wait."""

MAX_PARK_S = 60.0
"""A parked handler checks the queue at least this often."""


class ShutdownRequest:
    """Ends the handler that receives it."""

    __slots__ = ()


class WakeupRequest:
    """Makes the handler that receives it run a callback."""

    __slots__ = ()


class CallbackRequest:
    """Further work for a request, on a handler's thread, after the handler that received the request has returned."""

    __slots__ = ("function", "request")

    def __init__(self, function: Callable[[], object], request: Request) -> None:
        self.function = function
        self.request = request


SHUTDOWN: Final = ShutdownRequest()
WAKEUP: Final = WakeupRequest()


class Parker:
    """Where one thread sleeps, and what other threads can see of it.

    ``busy_since_ns`` is when the thread took its current request, 0 if it has none. The thread is stalled if ``stalled_since_ns``
    has the same value. Each field has a single writer, and marking a request as stalled after it has ended has no effect.
    """

    __slots__ = ("_lock", "busy_since_ns", "parked_ns", "parked_since_ns", "stalled_since_ns")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self.parked_ns = 0
        self.parked_since_ns = 0
        self.busy_since_ns = 0
        self.stalled_since_ns = 0

    def park(self, timeout_s: float) -> bool:
        """Sleep until woken; return False after ``timeout_s`` seconds."""
        return self._lock.acquire(timeout=timeout_s)

    def wake(self) -> None:
        """Wake the thread. Called once each time the parker is removed from the idle ones."""
        self._lock.release()


class RequestChannel:
    """Takes requests, of which at most ``queue_size`` wait (key ``queued.max.requests``), and responses."""

    def __init__(self, queue_size: int, clock: IClock) -> None:
        self._queue: deque[Request | ShutdownRequest | WakeupRequest] = deque()
        self._callbacks: deque[CallbackRequest] = deque()
        self._queue_size = queue_size
        self._drained_size = queue_size // 2
        self._now_ns = clock.monotonic_ns
        self._idle: list[Parker] = []
        self._parkers: list[Parker] = []
        self._processors: list[IProcessor] = []
        self._full_for: set[IProcessor] = set()
        self._unsignalled_responses = 0
        self._lock = threading.Lock()  # guards the list of handlers; requests pass without a lock
        self._ended_idle_ns = 0

    # The processors' side.

    def add_processor(self, processor: IProcessor) -> None:
        """Wake ``processor`` when handlers have responses for it."""
        self._processors = [*self._processors, processor]

    def remove_processor(self, processor: IProcessor) -> None:
        """Stop waking ``processor``. Late responses still go to it."""
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

    def notify_when_drained(self, processor: IProcessor) -> None:
        """Call ``processor.request_queue_drained`` once, when at most half of the queue is used."""
        self._full_for.add(processor)
        if len(self._queue) <= self._drained_size:
            self._notify_drained()

    @property
    def is_busy(self) -> bool:
        """Whether requests wait or handlers are awake."""
        return bool(self._queue) or len(self._idle) < len(self._parkers)

    @property
    def has_active_handler(self) -> bool:
        """Whether responses are about to come: a handler that is not stalled has a request, or is about to take one.

        When this ends, the processors are woken.
        """
        parkers = self._parkers
        if len(self._idle) == len(parkers):
            return False
        if self._queue:
            return len(self._idle) + self._count_stalled() < len(parkers)
        for parker in parkers:
            since = parker.busy_since_ns
            if since and parker.stalled_since_ns != since:
                return True
        return False

    def detect_stalled_handlers(self) -> None:
        """Mark the handlers that are stalled now. If all that are awake are stalled, wake another one for the queued requests."""
        stalled_before_ns = self._now_ns() - STALL_NS
        for parker in self._parkers:
            since = parker.busy_since_ns
            if since and since <= stalled_before_ns:
                parker.stalled_since_ns = since
        self.wake_handler()

    def _count_stalled(self) -> int:
        return sum([parker.busy_since_ns != 0 and parker.stalled_since_ns == parker.busy_since_ns for parker in self._parkers])

    @property
    def size(self) -> int:
        """How many requests wait (Kafka's metric RequestQueueSize)."""
        return len(self._queue)

    # The handlers' side.

    def add_handler(self) -> Parker:
        """Register another handler; return its parker."""
        parker = Parker()
        with self._lock:
            self._parkers = [*self._parkers, parker]
        return parker

    def remove_handler(self, parker: Parker) -> None:
        """Forget a handler that has ended, and stop processors from waiting for it."""
        with self._lock:
            self._parkers = [other for other in self._parkers if other is not parker]
            self._ended_idle_ns += parker.parked_ns
        self.wake_handler()
        self._wake_processors()

    def receive(self, parker: Parker, timeout_s: float = MAX_PARK_S) -> Request | CallbackRequest | ShutdownRequest | None:
        """Return a callback or the oldest request. Sleep at most ``timeout_s`` seconds for one, then return None."""
        if parker.stalled_since_ns:
            parker.stalled_since_ns = 0
            self._wake_processors()  # they no longer wait for a stalled handler
        queue = self._queue
        while True:
            if self._unsignalled_responses >= RESPONSES_PER_WAKE:
                self._wake_processors()
            try:
                request = queue.popleft()
            except IndexError:
                if not self._sleep(parker, timeout_s):
                    return None
                continue
            parker.busy_since_ns = now_ns = self._now_ns()
            if self._full_for and len(queue) <= self._drained_size:
                self._notify_drained()
            if isinstance(request, Request):
                request.dequeued_ns = now_ns
                return request
            if isinstance(request, ShutdownRequest):
                parker.busy_since_ns = 0
                return request
            with suppress(IndexError):  # another handler may have run the callbacks of several wake-ups
                return self._callbacks.popleft()

    def send_shutdown_request(self) -> None:
        """End one handler after the requests that are queued now, even if the queue is full."""
        self._queue.append(SHUTDOWN)
        self._wake_one()

    def send_callback(self, function: Callable[[], object], request: Request) -> None:
        """Run ``function`` on a handler's thread before the requests that wait. From any thread.

        If it raises, the connection of ``request`` is closed unless the request has been answered.
        """
        self._callbacks.append(CallbackRequest(function, request))
        self._queue.appendleft(WAKEUP)
        self.wake_handler()

    def _sleep(self, parker: Parker, timeout_s: float) -> bool:
        parker.busy_since_ns = 0
        started = parker.parked_since_ns = self._now_ns()
        self._idle.append(parker)
        # Check again: a request queued before this handler was visibly idle has woken nobody.
        must_wait = not self._queue
        # Just before this thread releases the interpreter lock, so that the processors that it wakes can take it.
        self._wake_processors()
        woken = must_wait and parker.park(timeout_s)
        if not woken:
            try:
                self._idle.remove(parker)
            except ValueError:
                parker.park(MAX_PARK_S)  # another thread has taken the parker and is about to wake it
                woken = True
        parker.parked_since_ns = 0
        parker.parked_ns += self._now_ns() - started
        return woken or not must_wait

    def idle_ns(self) -> int:
        """Return how many nanoseconds all handlers together have slept so far."""
        now_ns = self._now_ns()
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
        by_handler: bool = False,
        kind: int = SEND,
        is_claimed: bool = False,
    ) -> None:
        """Answer with these bytes, which include the size prefix; ``size_bytes`` is their total length.

        ``by_handler`` says that the calling thread is a handler that will call ``receive`` next. Only then may waking the processor
        be postponed until there are more responses. Raises AlreadyAnsweredError.
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
        if by_handler:
            self._unsignalled_responses += 1  # approximate when several threads count, which is enough
        else:
            processor.wake_for_responses()

    def send_no_op(self, request: Request, by_handler: bool = False) -> None:
        """Complete a request that gets no response (a produce with acks=0). Raises AlreadyAnsweredError."""
        self.send_response(request, (), 0, by_handler, NO_OP)

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

    def _wake_processors(self) -> None:
        self._unsignalled_responses = 0
        for processor in self._processors:
            processor.wake_for_responses()

    def _wake_one(self) -> bool:
        try:
            parker = self._idle.pop()
        except IndexError:
            return False
        parker.wake()
        return True

    def _notify_drained(self) -> None:
        while self._full_for:
            try:
                processor = self._full_for.pop()
            except KeyError:
                return
            processor.request_queue_drained()


class AlreadyAnsweredError(Exception):
    """The request has been answered already; this response is dropped."""
