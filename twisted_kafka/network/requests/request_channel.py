"""The bounded queue between the processors and the request handlers, and where idle handlers are parked.

What the interpreter lock makes expensive is switching threads, so both sides work in batches:

- A processor queues what its sockets brought and says so once (``announce``). A handler that is awake takes the next request,
  idle ones are parked last-in first-out, and one is woken only when none is awake, or when those that are have had the
  same request for ``STALL_S`` seconds (``relieve``): they are busy for long, or blocked.
- Beside requests the queue holds a ShutdownRequest for each handler that is to end, in its turn, and a WakeupRequest, before all
  others, for each callback: work that belongs to a request which was left waiting, and that wants a handler's thread.
- A handler appends its answers to the processor that owns the connection and wakes it when the queue is empty, or after
  ``ANSWERS_PER_WAKE``. Should the next request take long, the processor finds the answers by itself within ``STALL_S``.
- While ``is_at_work`` says that answers are about to come, processors leave their sockets alone, so that they and the
  handlers take turns (``Processor.poll_begins``).

(Kafka: RequestChannel.)
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Final

from twisted_kafka.network.interfaces import IProcessorControl, IQueueListener
from twisted_kafka.network.loop.placement import ThreadPlacement
from twisted_kafka.network.requests.request import (
    CLOSE_CONNECTION,
    END_THROTTLING,
    NO_OP,
    SEND,
    START_THROTTLING,
    Request,
    ThrottleMark,
)
from twisted_kafka.protocol.regions import Part
from twisted_kafka.timing.clock import IClock

STALL_S = 0.001
"""A handler that has had the same request for so long counts as blocked: others are woken for what waits."""

STALL_NS = int(STALL_S * 1e9)

ANSWERS_PER_WAKE = 64
"""A handler that has so many answers ready wakes their processors, although more requests wait."""

MAX_PARK_S = 60.0
"""No handler is parked for longer without looking again."""


class ShutdownRequest:
    """Ends the handler that takes it."""

    __slots__ = ()


class WakeupRequest:
    """Says that a callback waits."""

    __slots__ = ()


class CallbackRequest:
    """What is to be done for a request on a handler's thread, after the handler that took it has left it."""

    __slots__ = ("function", "request")

    def __init__(self, function: Callable[[], object], request: Request) -> None:
        self.function = function
        self.request = request


SHUTDOWN: Final = ShutdownRequest()
WAKEUP: Final = WakeupRequest()


class Parker:
    """Where one thread sleeps, and what others know of it.

    ``busy_since_ns`` is when it took the request that it handles, 0 when it has none; it counts as stalled while
    ``stalled_since_ns`` is the same. So one thread alone writes each of them, and a late remark about a request that is
    over means nothing.
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
        """Sleep until woken; return False when ``timeout_s`` seconds passed before."""
        return self._lock.acquire(timeout=timeout_s)

    def wake(self) -> None:
        """Wake it; to be called once for each time that it was taken from the idle ones."""
        self._lock.release()


class RequestChannel:
    """Requests in, at most ``queue_size`` waiting (key ``queued.max.requests``); responses out."""

    def __init__(self, queue_size: int, clock: IClock, placement: ThreadPlacement | None = None) -> None:
        """``placement`` is told of the threads on both sides, and says on which CPU they run."""
        self.placement = placement
        self._queue: deque[Request | ShutdownRequest | WakeupRequest] = deque()
        self._callbacks: deque[CallbackRequest] = deque()
        self._queue_size = queue_size
        self._drained_size = queue_size // 2
        self._now_ns = clock.monotonic_ns
        self._idle: list[Parker] = []
        self._parkers: list[Parker] = []
        self._processors: list[IProcessorControl] = []
        self._full_for: set[IQueueListener] = set()
        self._unwoken_answers = 0
        self._lock = threading.Lock()  # of the list of handlers; requests pass without it
        self._ended_idle_ns = 0

    def placed(self) -> AbstractContextManager[None]:
        """Return what a thread of this plane holds while it runs (``ThreadPlacement.joined``)."""
        return nullcontext() if self.placement is None else self.placement.joined()

    # The processors' side.

    def add_processor(self, processor: IProcessorControl) -> None:
        """Have ``processor`` woken when handlers are done."""
        self._processors = [*self._processors, processor]

    def remove_processor(self, processor: IProcessorControl) -> None:
        """Wake ``processor`` no more; its answers still go to it."""
        self._processors = [each for each in self._processors if each is not processor]  # handlers may be going through the old one
        self._full_for.discard(processor)

    def send_request(self, request: Request) -> bool:
        """Queue a request; return False when the queue is full. Never blocks. To be followed by ``announce``."""
        queue = self._queue
        if len(queue) >= self._queue_size:
            return False
        queue.append(request)
        return True

    def announce(self) -> None:
        """See to it that somebody takes what was queued."""
        idle = self._idle
        if idle and self._queue and len(idle) + self._count_stalled() >= len(self._parkers):
            self._wake_one()

    def notify_when_drained(self, listener: IQueueListener) -> None:
        """Tell ``listener`` once, when the queue is half empty."""
        self._full_for.add(listener)
        if len(self._queue) <= self._drained_size:
            self._notify_drained()

    @property
    def is_busy(self) -> bool:
        """Whether requests wait or handlers are awake: processors look again soon."""
        return bool(self._queue) or len(self._idle) < len(self._parkers)

    @property
    def is_at_work(self) -> bool:
        """Whether answers are about to come: a handler that is not stalled has a request, or is going to take one.

        When that ends, the processors are woken.
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

    def relieve(self) -> None:
        """Note which handlers are stalled; if all that are awake are, wake a further one for what waits."""
        stalled_before_ns = self._now_ns() - STALL_NS
        for parker in self._parkers:
            since = parker.busy_since_ns
            if since and since <= stalled_before_ns:
                parker.stalled_since_ns = since
        self.announce()

    def _count_stalled(self) -> int:
        return sum([parker.busy_since_ns != 0 and parker.stalled_since_ns == parker.busy_since_ns for parker in self._parkers])

    @property
    def size(self) -> int:
        """How many requests wait (Kafka's metric RequestQueueSize)."""
        return len(self._queue)

    # The handlers' side.

    def add_handler(self) -> Parker:
        """Make the place where one more handler will sleep."""
        parker = Parker()
        with self._lock:
            self._parkers = [*self._parkers, parker]
        return parker

    def remove_handler(self, parker: Parker) -> None:
        """Forget a handler that has ended; who waits for its turn need not wait for it any more."""
        with self._lock:
            self._parkers = [other for other in self._parkers if other is not parker]
            self._ended_idle_ns += parker.parked_ns
        self.announce()
        self._wake_processors()

    def receive(self, parker: Parker, timeout_s: float = MAX_PARK_S) -> Request | CallbackRequest | ShutdownRequest | None:
        """Take a callback or the oldest request, sleeping at most ``timeout_s`` seconds for it; None after that time."""
        if parker.stalled_since_ns:
            parker.stalled_since_ns = 0
            self._wake_processors()  # none of them waits for this handler any more
        queue = self._queue
        while True:
            if self._unwoken_answers >= ANSWERS_PER_WAKE:
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
            with suppress(IndexError):  # whoever came first took several callbacks' worth of wake-ups
                return self._callbacks.popleft()

    def send_shutdown_request(self) -> None:
        """End one handler once what is queued before was taken, be the queue full or not."""
        self._queue.append(SHUTDOWN)
        self._wake_one()

    def send_callback(self, function: Callable[[], object], request: Request) -> None:
        """Have ``function`` run on a handler's thread, before the requests that wait; from any thread.

        What it raises closes the connection of ``request`` unless that is answered.
        """
        self._callbacks.append(CallbackRequest(function, request))
        self._queue.appendleft(WAKEUP)
        self.announce()

    def _sleep(self, parker: Parker, timeout_s: float) -> bool:
        parker.busy_since_ns = 0
        started = parker.parked_since_ns = self._now_ns()
        self._idle.append(parker)
        # A request that came before this handler was seen as idle would wait for the next one: look once more.
        must_wait = not self._queue
        # Just before this thread lets go of the interpreter lock, so that those that it wakes find it free.
        self._wake_processors()
        woken = must_wait and parker.park(timeout_s)
        if not woken:
            try:
                self._idle.remove(parker)
            except ValueError:
                parker.park(MAX_PARK_S)  # somebody is just waking it
                woken = True
        parker.parked_since_ns = 0
        parker.parked_ns += self._now_ns() - started
        return woken or not must_wait

    def idle_ns(self) -> int:
        """Nanoseconds that the handlers have slept so far, in all."""
        now_ns = self._now_ns()
        total = self._ended_idle_ns
        for parker in self._parkers:
            since = parker.parked_since_ns
            total += parker.parked_ns + (now_ns - since if since else 0)
        return total

    # Answers, from any thread.

    def send_response(self, request: Request, parts: Sequence[Part], size_bytes: int, by_handler: bool = False) -> None:
        """Answer with these bytes, the size prefix among them; ``size_bytes`` is their length in all.

        ``by_handler`` says that the calling thread is a handler, which comes back to ``receive`` next: only then may the
        processor's waking wait for further answers.
        """
        self._answer(request, SEND, parts, size_bytes, by_handler)

    def send_no_op(self, request: Request, by_handler: bool = False) -> None:
        """Be done with a request that gets no answer (a produce with acks=0)."""
        self._answer(request, NO_OP, (), 0, by_handler)

    def close_connection(self, request: Request) -> None:
        """Close the request's connection instead of answering it."""
        self._answer(request, CLOSE_CONNECTION, (), 0, False)

    def start_throttling(self, request: Request) -> None:
        """Mute the request's channel until ``end_throttling``, beyond its answer, which is sent as usual.

        To be called by the request's handler before it is answered. (Kafka: ClientQuotaManager.throttle, ThrottledChannel.)
        """
        self._mark(request, START_THROTTLING)

    def end_throttling(self, request: Request) -> None:
        """Let the channel go on, from any thread; to be called once for each ``start_throttling``."""
        self._mark(request, END_THROTTLING)

    def _mark(self, request: Request, kind: int) -> None:
        channel = request.channel
        channel.processor.append_response(ThrottleMark(channel, kind))
        channel.processor.wake_for_responses()

    def abandon(self, request: Request) -> None:
        """Close the connection of a request that its handler failed to answer, once it is claimed."""
        self._answer(request, CLOSE_CONNECTION, (), 0, False, is_claimed=True)

    def _answer(
        self, request: Request, kind: int, parts: Sequence[Part], size_bytes: int, by_handler: bool, is_claimed: bool = False
    ) -> None:
        if not is_claimed and not request.claim():
            raise AlreadyAnsweredError(f"request {request.context.correlation_id} of {request.context.connection_id}")
        request.response_kind = kind
        request.parts = parts
        request.response_bytes = size_bytes
        now_ns = request.response_ready_ns = self._now_ns()
        if not request.local_complete_ns:
            request.local_complete_ns = now_ns
        processor = request.channel.processor
        processor.append_response(request)
        if by_handler:
            self._unwoken_answers += 1  # not exact among threads, and need not be
        else:
            processor.wake_for_responses()

    def _wake_processors(self) -> None:
        self._unwoken_answers = 0
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
                listener = self._full_for.pop()
            except KeyError:
                return
            listener.request_queue_drained()


class AlreadyAnsweredError(Exception):
    """A request is answered once only: this answer is the second, and is dropped."""
