"""One seeded run of network threads, handlers and the stall watch as they are, each on a thread, with clients and an operator.

What must hold: a loop has one thread; a request does not wait while a handler sleeps; a loop is not stuck in a request; every
request is answered once and in order; no role is lost; and the stop takes less than ten seconds.
"""

import random
import struct
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

from tests.network.loop.baton import Baton
from tests.network.loop.schedule import ALONE, ANSWER, BUNDLED, CALLBACK, LATE, NO_OP, SLOW, sorted_bundles
from tests.support.network_fakes import FakeTransport, Recorder, frame
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.connection.channel import KafkaChannel
from twisted_kafka.network.connection.channel_state import NOT_MUTED
from twisted_kafka.network.loop import busy_poll, network_thread, processor, reactors, stall_watch
from twisted_kafka.network.loop.busy_poll import BusyPoll
from twisted_kafka.network.loop.network_thread import NetworkThread, drain_and_stop
from twisted_kafka.network.loop.processor import Processor
from twisted_kafka.network.loop.processor_settings import ProcessorSettings
from twisted_kafka.network.loop.reactors import HookedLoop, NoHooks
from twisted_kafka.network.loop.stall_watch import StallWatch
from twisted_kafka.network.request_plane import DATA_PLANE, RequestPlane
from twisted_kafka.network.requests import parker, request_channel
from twisted_kafka.network.requests import request as request_module
from twisted_kafka.network.requests.request import Request
from twisted_kafka.network.requests.request_channel import RequestBundle, RequestChannel
from twisted_kafka.network.requests.request_context import ConnectionInfo
from twisted_kafka.server import request_handler
from twisted_kafka.server.request_handler import KafkaRequestHandlerPool
from twisted_kafka.system import threads
from twisted_kafka.timing.clock import ManualClock

SMALL_LIMIT = 300
"""Requests above it are large."""

SLOW_MS = (0.2, 1, 3, 5, 8, 30, 400)

LONGEST_UNSEEN_NS = 5_000_000
"""So long may a request wait while a handler sleeps: the stall watch is quicker, if somebody watches."""

POLL_MS = 0.01
"""So long does a poll take that does not wait."""

SETTLED_S = 200.0
"""After this, requests have been handled, and sleeping handlers have looked at the queue some times (``MAX_PARK_S``)."""

UNDER_TEST = (busy_poll, network_thread, parker, processor, reactors, request_channel, request_handler, stall_watch)
FILES = frozenset(module.__file__ for module in UNDER_TEST)


class LoopFails(BaseException):
    """Ends a loop at once."""


class BatonTimer:
    """``IWakeUpTimer``."""

    def __init__(self, baton: Baton) -> None:
        self._baton = baton
        self._at_ns: int | None = None

    def start(self, delay_s: float) -> None:
        self._at_ns = self._baton.clock.now_ns + int(delay_s * 1e9)

    def wait(self) -> None:
        self._baton.wait_until(lambda: False, lambda: self._at_ns)
        self._at_ns = None

    def close(self) -> None:
        self._at_ns = None


class BatonReactor:
    """Twisted's, with the loop of the package's own; its sockets are the clients."""

    mainLoop: Any = HookedLoop.mainLoop  # noqa: N815 Twisted's name
    _iterate: Any = HookedLoop.doIteration

    def __init__(self, baton: Baton) -> None:
        self._baton = baton
        self._now_ns = baton.clock.monotonic_ns
        self.hooks: Any = NoHooks()
        self.polls = self.waited_ns = self.waiting_since_ns = 0
        self._busy_poll = BusyPoll(baton.clock.monotonic_ns)
        self.clients: list[Client] = []
        self.running = self._started = self.is_woken = False
        self.must_fail = False
        self._calls: list[tuple[Callable[..., object], tuple[Any, ...]]] = []
        self._within: object = None
        self._internalReaders: set[object] = set()

    @property
    def _selectables(self) -> "dict[int, Client]":
        return dict(enumerate(self.clients))

    def startRunning(self, installSignalHandlers: bool) -> None:
        self.running = self._started = True

    def stop(self) -> None:
        self.running = self._started = False

    def callFromThread(self, function: Callable[..., object], *args: Any) -> None:
        self._calls.append((function, args))
        self.wakeUp()

    def wakeUp(self) -> None:
        self.is_woken = True

    def runUntilCurrent(self) -> None:
        self._enter()
        while self._calls:
            function, args = self._calls.pop(0)
            function(*args)
        self._leave()

    def timeout(self) -> float | None:
        return 0 if self._calls else None

    def doIteration(self, timeout: float | None) -> None:
        self._enter()
        try:
            if self.must_fail:
                self.must_fail = False
                raise LoopFails
            self._iterate(timeout)
        finally:
            self._leave()

    def _enter(self) -> None:
        if self._within is not None or self.hooks.leader.role is None or not isinstance(self.hooks.leader.role, NetworkThread):
            self._baton.fail(AssertionError("two threads are in one loop"))
        self._within = self._baton.holder

    def _leave(self) -> None:
        if self._within is not self._baton.holder:
            self._baton.fail(AssertionError("two threads are in one loop"))
        self._within = None

    def _poll(self, timeout: float, max_events: int) -> "list[tuple[int, None]]":
        if not timeout:
            self._baton.clock.advance_ms(POLL_MS)
        self._baton.wait(self._is_ready, timeout if timeout >= 0 else None)
        waker = [(-1, None)] if self.is_woken else []
        self.is_woken = False
        return waker + [(fd, None) for fd, client in self._selectables.items() if client.is_readable]

    def _is_ready(self) -> bool:
        return self.is_woken or any(client.is_readable for client in self.clients)

    def _doReadOrWrite(self, client: "Client", fd: int, event: None) -> None:
        client.send()


class Client:
    """A connection, and what is sent over it: a request when the former one was answered, or at once."""

    def __init__(self, run: "Run", processor: Processor, number: int) -> None:
        rng = run.baton.rng
        info = ConnectionInfo(f"client-{number}", "PLAINTEXT", "PLAINTEXT", "127.0.0.1")
        self.channel = KafkaChannel(info, processor, 1_000_000)
        self.transport = FakeTransport(self.channel)
        self.channel.transport = self.transport
        self.processor = processor
        self._recorder = run.recorder
        self.kinds = rng.choices((ANSWER, NO_OP, LATE, CALLBACK, SLOW), (60, 8, 5, 8, run.slow_share), k=rng.randrange(1, 10))
        large = rng.choice((0.0, 0.0, 0.2, 0.7))
        bodies = [bytes((kind,)) + bytes(2 * SMALL_LIMIT if rng.random() < large else rng.randrange(5, 9)) for kind in self.kinds]
        key = rng.choice((ALONE, BUNDLED))
        self._frames = [frame(index, body, key) for index, body in enumerate(bodies)]
        self._unsent = b"".join(self._frames)
        self._starts_ns = run.baton.clock.now_ns + rng.choice((0, 0, 1_000_000, 50_000_000))
        self._clock = run.baton.clock
        self.is_cut = False
        processor.add_channel(self.channel)

    @property
    def is_readable(self) -> bool:
        transport = self.transport
        return bool(self._unsent) and transport.is_reading and not transport.is_closed and self._clock.now_ns >= self._starts_ns

    @property
    def is_done(self) -> bool:
        completed = [each for each in self._recorder.completed if each.context.connection is self.channel.connection]
        return self.transport.is_closed or len(completed) == len(self.kinds)

    def send(self) -> None:
        if self.is_readable:
            self._unsent = self._unsent[self.transport.read(self._unsent[:700]) :]

    def check(self) -> None:
        answers, data = [], self.transport.written
        while data:
            size, correlation_id = struct.unpack_from(">ii", data)
            answers.append(correlation_id)
            data = data[4 + size :]
        expected = [number for number, kind in enumerate(self.kinds) if kind != NO_OP]
        assert answers == expected[: len(answers)], "answers out of order or twice"
        if not self.is_cut:
            assert answers == expected, f"{len(answers)} of {len(expected)} requests are answered"
            assert self.channel.state == NOT_MUTED


class Run:
    """All threads of a plane; ``main`` is the operator's."""

    def __init__(self, baton: Baton) -> None:
        self.baton = baton
        self.rng = rng = baton.rng
        baton.on_jump = self.check_nobody_is_forgotten
        baton.clock.computing = rng.choice((0.0, 0.0, 1.0))
        self.is_about_stalls = rng.random() < 0.5
        """Whether nearly all requests take long: the loop changes hands again while the first thread is still in its request."""
        self.slow_share = 400 if self.is_about_stalls else rng.choice((2, 20, 60))
        self.taken = 0
        self.late: list[Request] = []
        self.threads: list[NetworkThread] = []
        self.clients: list[Client] = []
        registry = MetricsRegistry(ManualClock())
        self.channel = RequestChannel(rng.choice((1, 3, 500)), baton.clock)
        self.recorder = Recorder()
        self.watch = StallWatch([self.channel], baton.clock, "watch", BatonTimer(baton))
        plane = RequestPlane(DATA_PLANE, self.channel, baton.clock, registry)
        self.pool = KafkaRequestHandlerPool(plane, self.handle, rng.randrange(1, 5), baton.clock, registry, bundles=self)

    bundled = frozenset({BUNDLED})

    def sort(self, requests: Sequence[Request]) -> list[RequestBundle]:
        return sorted_bundles(requests, lambda: None)

    def handle_bundle(self, bundle: RequestBundle) -> None:
        for request in bundle.requests:
            self.handle(request)

    def handle(self, request: Request) -> None:
        self.taken += 1
        kind = request.frame[request.body_offset]
        if kind == NO_OP:
            self.channel.send_no_op(request)
        elif kind == LATE:
            self.late.append(request)
        elif kind == CALLBACK:
            self.channel.send_callback(lambda: self.answer(request), request)
        else:
            if kind == SLOW:
                self.baton.wait(lambda: False, self.rng.choice(SLOW_MS) / 1000)
            self.answer(request)

    def answer(self, request: Request) -> None:
        data = struct.pack(">ii", 4, request.context.correlation_id)
        self.channel.send_response(request, [data], len(data))

    # The operator.

    def main(self) -> None:
        self.watch.start()
        self.pool.start()
        for _ in range(1 if self.is_about_stalls else self.rng.randrange(1, 4)):
            self.add_network_thread()
        for _ in range(self.rng.randrange(15)):
            self.baton.wait(lambda: False, self.rng.choice((0.0001, 0.002, 0.03)))
            self.rng.choices((self.resize, self.answer_late, self.retire, self.fail_loop), (4, 6, 1, 0.3))[0]()
        # Requests of closed connections are still handled, and may have to be answered late.
        while self.late or self.channel.is_busy or not self.is_quiet:
            self.answer_late()
            self.baton.wait(lambda: False, 0.01)
        self.baton.wait(lambda: False, SETTLED_S)
        self.answer_late()  # those of closed connections
        self.baton.wait(lambda: False, SETTLED_S)
        self.check()
        self.stop()

    @property
    def is_quiet(self) -> bool:
        return all(client.is_done for client in self.clients)

    def add_network_thread(self) -> None:
        reactor = BatonReactor(self.baton)
        number = len(self.threads)
        settings = ProcessorSettings("PLAINTEXT", "PLAINTEXT", 1_000_000, 0)
        processor = Processor(number, settings, reactor, self.channel, self.baton.clock, [self.recorder])
        clients = self.rng.randrange(3, 7) if self.is_about_stalls else self.rng.randrange(1, 4)
        reactor.clients = [Client(self, processor, number * 10 + each) for each in range(clients)]
        self.clients += reactor.clients
        thread = NetworkThread(processor, reactor, f"network-{number}", lambda: BatonReactor(self.baton))  # type: ignore[arg-type, return-value]
        self.threads.append(thread)
        thread.start()

    def resize(self) -> None:
        self.pool.resize(self.rng.randrange(1, 5))

    def answer_late(self) -> None:
        while self.late:
            request = self.late.pop()
            if self.rng.random() < 0.5:
                self.answer(request)
            else:
                self.channel.send_callback(lambda request=request: self.answer(request), request)  # type: ignore[misc]

    def retire(self) -> None:
        if len(self.threads) < 2:
            return
        thread = self.threads.pop(self.rng.randrange(len(self.threads)))
        self.cut(thread)

        def end() -> None:
            drain_and_stop([thread], self.baton.clock, 0.01)
            self.channel.remove_processor(thread.processor)

        self.baton.spawn(end, "retirement")

    def fail_loop(self) -> None:
        thread = self.rng.choice(self.threads)
        self.cut(thread)
        reactor = thread._reactor
        assert isinstance(reactor, BatonReactor)
        reactor.must_fail = True
        reactor.wakeUp()

    def cut(self, thread: NetworkThread) -> None:
        for client in self.clients:
            client.is_cut |= client.processor is thread.processor

    def stop(self) -> None:
        began_ns = self.baton.clock.now_ns
        handlers = [handler for handler, _ in self.pool._handlers]
        self.pool.shutdown()
        assert not [handler.name for handler in handlers if handler.is_running], "handlers are still running"
        drain_and_stop(self.threads, self.baton.clock, 1.0)
        assert all(thread._ended.is_set() for thread in self.threads), "a loop has not ended"
        self.watch.stop()
        assert self.baton.clock.now_ns - began_ns < 10_000_000_000

    # What must hold.

    def check_nobody_is_forgotten(self, jump_ns: int) -> None:
        if jump_ns <= LONGEST_UNSEEN_NS:
            return
        channel = self.channel
        assert not (channel._queue and channel._idle), f"{channel.size} requests wait while {len(channel._idle)} handlers sleep"
        for each in channel._processors:
            assert not each.is_handling, "a loop is stuck in a request"

    def check(self) -> None:
        for client in self.clients:
            client.check()
        channel = self.channel
        assert channel.size == 0, "requests wait"
        completed = self.recorder.completed
        assert len(set(map(id, completed))) == len(completed) == self.taken, f"{len(completed)} of {self.taken} are completed"
        assert len(channel._idle) == len(set(channel._idle)) == len(channel._parkers) == self.pool.size, "a handler's place is lost"
        roles = [parker.role for parker in channel._parkers] + [thread.processor.leader.role for thread in self.threads]
        assert len(set(roles)) == self.pool.size + len(self.threads), "a role is lost"
        assert all(thread.processor.leader.role is thread for thread in self.threads)


def explore(seed: int) -> None:
    """Make one run. What fails says the seed: ``explore`` it alone."""
    baton: Any = Baton(random.Random(seed), FILES)
    with ExitStack() as stack:
        for module in UNDER_TEST:
            if hasattr(module, "machine"):
                stack.enter_context(patch.object(module, "machine", baton))
        stack.enter_context(patch.object(threads, "machine", baton))
        stack.enter_context(patch.object(request_module, "LARGE_BYTES", SMALL_LIMIT))
        try:
            baton.run(Run(baton).main)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
