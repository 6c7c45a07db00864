"""The queue between network threads and handlers, and the memory of requests."""

import itertools
import random
import threading
from collections import Counter
from typing import Any

from tests.stress.crew import STUCK_S, Crew, wait_for
from tests.support.fake import Fake
from twisted_kafka.network.requests.memory_pool import MemoryPool
from twisted_kafka.network.requests.parker import Parker
from twisted_kafka.network.requests.request import Request
from twisted_kafka.network.requests.request_channel import (
    AlreadyAnsweredError,
    CallbackRequest,
    RequestBundle,
    RequestChannel,
    ShutdownRequest,
)
from twisted_kafka.network.requests.request_context import ConnectionInfo, RequestContext
from twisted_kafka.timing.clock import SystemClock

QUEUE_SIZE = 8
HANDLERS = 3
BUNDLED_API = 0
PARK_S = 10 * STUCK_S
"""A handler that nobody wakes sleeps for longer than anybody waits for it."""


class Sender(Fake):
    """A network thread: sends requests of one connection, and gets their responses."""

    is_handling = False

    def __init__(self, number: int, channel: RequestChannel) -> None:
        self._channel = channel
        self._connection = ConnectionInfo(f"c{number}", "L", "PLAINTEXT", "-")
        self._room = threading.Event()
        self.sent = 0
        self.responses: list[Any] = []

    def step(self, own: random.Random) -> None:
        self.sent += 1
        context = RequestContext(own.choice((BUNDLED_API, 1)), 0, self.sent, None, self._connection)
        request = Request(context, b"x", 0, self, 0)
        while True:
            self._room.clear()
            if self._channel.send_request(request):
                break
            self._channel.notify_when_drained(self)
            assert self._room.wait(STUCK_S), "nobody says that the queue has room"
        self._channel.wake_handler()

    def request_queue_drained(self) -> None:
        self._room.set()

    def append_response(self, response: Any) -> None:
        self.responses.append(response.context.correlation_id)

    def wake_for_responses(self) -> None: ...

    def check_stall(self) -> bool:
        return False

    def has_channel(self, connection: ConnectionInfo) -> bool:
        return True


class Handlers:
    """Handlers that answer each request, some of them twice."""

    def __init__(self, channel: RequestChannel) -> None:
        self.channel = channel

    def run(self) -> None:
        parker = self.channel.add_handler()
        while not self.handle(parker, PARK_S):
            pass
        self.channel.remove_handler(parker)

    def handle(self, parker: Parker, timeout_s: float) -> bool:
        """Handle what comes next; return whether the handler has to end."""
        taken = self.channel.receive(parker, timeout_s)
        if isinstance(taken, ShutdownRequest):
            return True
        if isinstance(taken, CallbackRequest):
            taken.function()
        elif isinstance(taken, RequestBundle) and taken.items is None:
            first, *others = [RequestBundle([each], None, [each]) for each in taken.requests]
            self.channel.put_back(others)
            self._answer(first.requests[0])
        elif isinstance(taken, RequestBundle):
            self._answer(taken.requests[0])
        elif taken is not None:
            self._answer(taken)
        return False

    def _answer(self, request: Request) -> None:
        self.channel.send_response(request, (), 0)
        if request.context.correlation_id % 7 == 0:
            try:
                self.channel.send_response(request, (), 0)
            except AlreadyAnsweredError:
                return
            raise AssertionError("a request is answered twice")


def request_queue(crew: Crew) -> None:
    """No request, callback or notification of room is lost or given twice while handlers come and go."""
    clock = SystemClock()
    channel = RequestChannel(QUEUE_SIZE, clock)
    channel.bundled = (BUNDLED_API,)
    handlers = Handlers(channel)
    senders = [Sender(number, channel) for number in range(2)]
    for sender in senders:
        channel.add_processor(sender)
        crew.add(sender.step)
    called: list[int] = []
    numbers = itertools.count()
    leader = Parker()

    def call_back(_: random.Random) -> None:
        number = next(numbers)
        done = threading.Event()
        channel.send_callback(lambda: (called.append(number), done.set()))
        assert done.wait(STUCK_S), "a callback is not called"

    def lead(_: random.Random) -> None:
        """Handle requests in the place of an idle handler, as network threads do."""
        place = channel.claim_idle(clock.steady_ns()) if channel.has_work else None
        if place is None:
            return
        has_ended = False
        for _turn in range(4):
            has_ended = has_ended or handlers.handle(leader, 0)
        leader.busy_since_ns = 0
        if has_ended:  # the handler ends instead
            channel.send_shutdown_request()
        channel.release_idle(place, clock.steady_ns())
        channel.wake_handler()

    def watch(_: random.Random) -> None:
        channel.check_stalls()
        assert channel.idle_ns() >= 0

    def close() -> None:
        wait_for(lambda: all(len(each.responses) == each.sent for each in senders), "a request is not answered")
        for _ in range(HANDLERS):
            channel.send_shutdown_request()

    crew.add_server(handlers.run, HANDLERS)
    crew.add(call_back)
    crew.add(lead)
    crew.add(watch)
    crew.run(close)
    for sender in senders:
        assert Counter(sender.responses) == Counter(range(1, sender.sent + 1)), "each request is answered once"
    assert sorted(called) == list(range(next(numbers))), "each callback is called once"
    assert channel.size == 0


def memory_pool(crew: Crew) -> None:
    """The memory that is released is all that was taken, and each that waits for memory is called."""
    pool = MemoryPool(1000, SystemClock())

    def use(own: random.Random) -> None:
        size_bytes = own.randint(1, 900)
        available = threading.Event()
        while not pool.try_allocate(size_bytes, available.set):
            assert available.wait(STUCK_S), "nobody says that there is memory"
            available.clear()
        pool.release(size_bytes)

    crew.add(use, 4)
    crew.run()
    assert pool.used_bytes == 0
    assert pool.waited_for_ns() == 0
