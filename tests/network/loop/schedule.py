"""One seeded run of a processor's loop, handlers and clients, all pumped step by step; ``explore`` checks what must hold.

A thread that sleeps is pumped only once it was woken, so a lost wake-up is found: the run does not come to its end. A thread that
handles a request lets others take steps in between, and so does each whenever it looks at the clock. If the stall watch finds the
network thread in a request, the loop passes to a handler's thread, which goes on while the first one is still in its request.
"""

import random
import struct
from collections.abc import Callable, Sequence
from unittest.mock import patch

from tests.support.network_fakes import FakeReactor, FakeTransport, Layer, frame
from twisted_kafka.network.connection.channel import KafkaChannel
from twisted_kafka.network.connection.channel_state import NOT_MUTED
from twisted_kafka.network.requests import request as request_module
from twisted_kafka.network.requests.memory_pool import MemoryPool
from twisted_kafka.network.requests.parker import Parker
from twisted_kafka.network.requests.request import Request
from twisted_kafka.network.requests.request_channel import RequestBundle
from twisted_kafka.server.request_handler import KafkaRequestHandler
from twisted_kafka.timing.clock import ManualClock

ANSWER, NO_OP, CLOSE, THROTTLED, LATE, FAIL, CALLBACK, SLOW = b"ANCTLFKS"

ALONE, BUNDLED = 18, 0
"""API keys; requests of the second one are handled together."""

COMMON = 3
"""So many kinds of bundled requests have something in common, by the length of their bodies; others are alone."""

DEEPEST = 4
"""So deep may steps be within steps."""

MOST_TURNS = 20_000


def sorted_bundles(requests: Sequence[Request], interleave: Callable[[], object]) -> list[RequestBundle]:
    """Sort requests by what they have in common."""
    bundles: dict[object, RequestBundle] = {}
    for request in requests:
        interleave()
        key = request.request_bytes % (COMMON + 1) or None
        bundle = bundles.setdefault(key or request, RequestBundle([], key, []))
        bundle.requests.append(request)
    return list(bundles.values())


class Asleep(BaseException):
    """A handler has nothing to do."""


class LoopRole:
    """The role of the thread that runs the processor's loop."""

    name = "network thread"

    def run(self, parker: Parker) -> None:
        raise NotImplementedError


class PumpedThread(Parker):
    """Where a thread would sleep, its step ends."""

    __slots__ = ("is_asleep",)

    def __init__(self, role: LoopRole | KafkaRequestHandler) -> None:
        super().__init__()
        self.role = role
        self.is_asleep = False

    def park(self, timeout_s: float) -> bool:
        if super().park(0):
            return True
        self.is_asleep = True
        raise Asleep

    def may_go_on(self) -> bool:
        if self.is_asleep and super().park(0):
            self.is_asleep = False
        return not self.is_asleep

    def adopt_next_role(self) -> None:
        if self.next_role is not None:
            self.role, self.next_role = self.next_role, None


class PreemptingClock(ManualClock):
    """Lets others take steps whenever somebody looks at it: in the middle of what a real thread can be interrupted in."""

    def __init__(self) -> None:
        super().__init__()
        self.preempt: Callable[[], None] = lambda: None

    def monotonic_ns(self) -> int:
        self.preempt()
        return super().monotonic_ns()


class HookedReactor(FakeReactor):
    """A reactor with the hooks of ProcessorReactor."""

    def __init__(self) -> None:
        super().__init__()
        self.hooks: object = None
        self.is_woken = False

    def mainLoop(self) -> None:
        """Has been stopped."""

    def wakeUp(self) -> None:
        self.is_woken = True

    def callFromThread(self, function: Callable[..., object], *args: object) -> None:
        super().callFromThread(function, *args)
        self.is_woken = True


class Client:
    """One connection and what is sent over it."""

    def __init__(self, layer: Layer, rng: random.Random) -> None:
        self.channel: KafkaChannel
        self.transport: FakeTransport
        self.channel, self.transport = layer.connect()
        weights = (60, 8, 1, 8, 10, 1, 8, 10)
        bundled = rng.choice((0.0, 0.5, 1.0))
        self.kinds = rng.choices((ANSWER, NO_OP, CLOSE, THROTTLED, LATE, FAIL, CALLBACK, SLOW), weights, k=rng.randrange(1, 12))
        bodies = [bytes((kind,)) + rng.randbytes(rng.choice((0, 5, 400))) for kind in self.kinds]
        keys = [BUNDLED if rng.random() < bundled else ALONE for _ in bodies]
        self.unsent = b"".join(frame(number, body, key) for number, (body, key) in enumerate(zip(bodies, keys, strict=True)))
        self.is_cut = False

    @property
    def is_readable(self) -> bool:
        """Whether the network thread finds bytes of it."""
        return bool(self.unsent) and self.transport.is_reading and not self.transport.is_closed and not self.is_cut

    def send(self, count: int) -> bool:
        """Send some bytes, if they are read; return whether any were."""
        if not self.is_readable:
            return False
        sent = self.transport.read(self.unsent[:count])
        self.unsent = self.unsent[sent:]
        return sent > 0

    def reset(self) -> None:
        """Be gone at once."""
        self.is_cut = True
        self.transport.abortConnection()

    def end(self) -> None:
        """Send no more."""
        self.is_cut = True
        if not self.transport.is_closed and not self.channel.eof_received():
            self.transport.abortConnection()

    def answers(self) -> list[int]:
        """The correlation ids of what it was answered."""
        found, data = [], self.transport.written
        while data:
            size, correlation_id = struct.unpack_from(">ii", data)
            found.append(correlation_id)
            data = data[4 + size :]
        return found

    def check(self, seed: int) -> None:
        expected = [number for number, kind in enumerate(self.kinds) if kind != NO_OP]
        answers = self.answers()
        assert answers == expected[: len(answers)], f"seed {seed}: answers out of order or twice"
        if not self.is_cut and not {CLOSE, FAIL} & set(self.kinds):
            assert answers == expected, f"seed {seed}: {len(answers)} of {len(expected)} requests are answered"
            assert self.channel.state == NOT_MUTED, f"seed {seed}: the channel takes no more requests"


class Schedule:
    """A run; the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = rng = random.Random(seed)
        self.pool: MemoryPool | None = None
        clock = PreemptingClock()
        if rng.random() < 0.6:
            self.pool = MemoryPool(rng.choice((20, 300, 5_000)), ManualClock())  # it looks at its clock under a lock
        self.reactor = HookedReactor() if rng.random() < 0.6 else FakeReactor()
        self.layer = Layer(queue_size=rng.choice((1, 3, 500)), reactor=self.reactor, pool=self.pool, clock=clock)
        self.layer.channel._parkers = []
        self.layer.channel.watch = self.watch
        self.layer.channel.bundled = self.bundled
        self.is_watched = False
        self.processor = self.layer.processor
        self.threads = [PumpedThread(LoopRole())]
        self.processor.leader = self.threads[0]
        self.wanted_handlers = rng.randrange(1, 4)
        for _ in range(self.wanted_handlers):
            self.add_handler()
        self.at_work: list[PumpedThread] = []
        self.clients = [Client(self.layer, rng) for _ in range(rng.randrange(1, 5))]
        self.late: list[Request] = []
        self.throttled: list[Request] = []
        self.taken = 0
        self.depth = 0
        self.owed_ms = 0.0
        self.in_loop: PumpedThread | None = None
        self.poll_limit: float | None = 0
        self.takeovers = 0
        clock.preempt = self.preempt

    def add_handler(self) -> None:
        thread = PumpedThread(KafkaRequestHandler(self.layer.channel, self.handle, "handler", bundles=self))
        self.layer.channel._parkers = [*self.layer.channel._parkers, thread]
        self.threads.append(thread)

    def watch(self, now_ns: int) -> None:
        self.is_watched = True

    @property
    def is_in_loop(self) -> bool:
        """Whether the thread that runs the loop is at something. One that has lost the loop does not count."""
        return self.in_loop is not None and self.in_loop.next_role is None

    # What a handler does.

    bundled = frozenset({BUNDLED})

    def sort(self, requests: Sequence[Request]) -> list[RequestBundle]:
        return sorted_bundles(requests, self.interleave)

    def handle_bundle(self, bundle: RequestBundle) -> None:
        for request in bundle.requests:
            try:
                self.handle(request)
            except ValueError:  # does not fail the others
                self.layer.channel.close_connection(request)

    def handle(self, request: Request) -> None:
        self.taken += 1
        kind = request.frame[request.body_offset]
        self.interleave()
        if kind == NO_OP:
            self.layer.channel.send_no_op(request)
        elif kind == CLOSE:
            self.layer.channel.close_connection(request)
        elif kind == LATE:
            self.late.append(request)
        elif kind == FAIL:
            raise ValueError("a handler's fault")
        elif kind == CALLBACK:
            self.layer.channel.send_callback(lambda: self.answer(request), request)
        else:
            if kind == SLOW:
                self.stall()
            if kind == THROTTLED:
                self.layer.channel.start_throttling(request)
                self.throttled.append(request)
                self.interleave()
            self.answer(request)
        self.interleave()

    def answer(self, request: Request) -> None:
        data = struct.pack(">ii", 4, request.context.correlation_id)
        self.layer.channel.send_response(request, [data], len(data))

    def stall(self) -> None:
        """Take so long that the stall watch notices."""
        for _ in range(2):
            self.step_watch()
            self.interleave()

    # Steps.

    def interleave(self) -> None:
        while self.depth < DEEPEST and self.rng.random() < 0.4:
            self.step()

    def preempt(self) -> None:
        if self.depth < DEEPEST and self.rng.random() < 0.1:
            self.step()

    def step(self) -> None:
        self.depth += 1
        rng = self.rng
        kind = rng.randrange(22)
        client = rng.choice(self.clients)
        if kind < 6:
            self.step_loop(client, rng.randrange(1, 120))
        elif kind < 12:
            self.step_handler()
        elif kind == 12:
            self.step_late()
        elif kind == 13:
            self.end_throttling()
        elif kind == 14:
            self.pass_ms(1)
        elif kind == 15:
            self.resize()
        elif kind == 16:
            self.happen(lambda: self.stick_or_unstick(client))
        elif kind == 17 and rng.random() < 0.05:
            self.happen(client.reset)
        elif kind == 18 and rng.random() < 0.1:
            self.happen(client.end)
        elif kind > 19:
            self.step_watch()
        self.depth -= 1

    def stick_or_unstick(self, client: Client) -> None:
        transport = client.transport
        transport.is_stuck = not transport.is_stuck
        if not transport.is_stuck and transport.waiting and not transport.is_closed:
            transport.unstick()

    def happen(self, event: Callable[[], object]) -> None:
        """Have something happen to a connection: it wakes the network thread, which learns of it between its other steps."""
        if self.is_in_loop:
            return
        before, self.in_loop = self.in_loop, self.loop_thread
        event()
        self.in_loop = before
        if isinstance(self.reactor, HookedReactor):
            self.reactor.is_woken = True

    def pass_ms(self, ms: float) -> None:
        """Let time pass. Calls that are due then are the network thread's: they wait while it is at something else."""
        self.layer.clock.advance_ms(ms)
        if self.is_in_loop:
            self.owed_ms += ms
        else:
            owed, self.owed_ms = self.owed_ms, 0
            until = self.reactor.seconds() + (ms + owed) / 1000
            if any(call.getTime() <= until for call in self.reactor.getDelayedCalls()):
                self.happen(lambda: self.reactor.advance((ms + owed) / 1000))
            else:
                self.reactor.advance((ms + owed) / 1000)

    @property
    def loop_thread(self) -> PumpedThread:
        """The thread that runs the loop, or is about to."""
        return next(each for each in self.threads if isinstance(each.next_role or each.role, LoopRole))

    def step_loop(self, client: Client | None, count: int) -> bool:
        """Have the network thread make one turn, if anything wakes it; return whether it did."""
        if self.is_in_loop:
            return False
        thread = self.loop_thread
        before, self.in_loop = self.in_loop, thread
        try:
            if isinstance(self.reactor, HookedReactor):
                return self._turn(self.reactor, thread, client, count)
            sent = client is not None and client.send(count)
            return self.reactor.run_asked() > 0 or sent
        finally:
            self.in_loop = before

    def _turn(self, reactor: HookedReactor, thread: PumpedThread, client: Client | None, count: int) -> bool:
        if thread.next_role is not None:  # it takes over
            if not thread.may_go_on():
                return False
            thread.adopt_next_role()
            self.processor.leader = thread
            self.takeovers += 1
        else:
            if not (client is not None and client.is_readable) and not reactor.is_woken and self.poll_limit != 0:
                return False
            reactor.is_woken = False
            self.processor.after_poll()
            if client is not None:
                client.send(count)
            self.processor.run_pending()
        self.at_work.append(thread)
        is_leader = self.processor.handle_requests()
        self.at_work.remove(thread)
        assert is_leader == (thread.next_role is None)
        if is_leader:
            reactor.run_asked()
            self.poll_limit = self.processor.before_poll()
        else:
            thread.adopt_next_role()
        return True

    def step_watch(self) -> bool:
        """Have the stall watch look, if it was asked to."""
        was_watched, self.is_watched = self.is_watched, False
        if was_watched:
            self.is_watched = self.layer.channel.check_stalls() or self.is_watched
        return was_watched

    def step_handler(self) -> bool:
        """Have a handler that is awake take a step; return whether there is one."""
        able = [each for each in self.threads if self.is_handler(each) and each not in self.at_work and each.may_go_on()]
        if not able:
            return False
        thread = self.rng.choice(able)
        handler = thread.role
        assert isinstance(handler, KafkaRequestHandler)
        self.at_work.append(thread)
        try:
            if not handler.has_ended:
                handler.step(thread)
        except Asleep:
            pass
        finally:
            self.at_work.remove(thread)
        if handler.has_ended:
            self.threads.remove(thread)
            self.layer.channel.remove_handler(thread)
        return True

    @staticmethod
    def is_handler(thread: PumpedThread) -> bool:
        return isinstance(thread.role, KafkaRequestHandler) and thread.next_role is None

    def step_late(self) -> bool:
        if not self.late:
            return False
        request = self.late.pop(self.rng.randrange(len(self.late)))
        if self.rng.random() < 0.5:
            self.answer(request)
        else:
            self.layer.channel.send_callback(lambda: self.answer(request), request)
        return True

    def end_throttling(self) -> bool:
        if not self.throttled:
            return False
        self.layer.channel.end_throttling(self.throttled.pop())
        return True

    def resize(self) -> None:
        if self.wanted_handlers < 4 and self.rng.random() < 0.5:
            self.wanted_handlers += 1
            self.add_handler()
        elif self.wanted_handlers > 1:
            self.wanted_handlers -= 1
            self.layer.channel.send_shutdown_request()

    # The whole run.

    def run(self, steps: int) -> None:
        with patch.object(request_module, "LARGE_BYTES", 300):
            for _ in range(steps):
                self.step()
            self.finish()
        self.check()

    def finish(self) -> None:
        """Go on without further faults until nothing is left to do; only who is awake, or is woken by time, takes a step."""
        self.depth = DEEPEST
        for client in self.clients:
            client.transport.is_stuck = False
            if client.transport.waiting and not client.transport.is_closed:
                self.happen(client.transport.unstick)
        quiet = 0
        for _ in range(MOST_TURNS):
            moved = False
            for client in self.clients:
                moved = self.step_loop(client, 1000) or moved
            moved = self.step_handler() or moved
            moved = self.step_late() or self.end_throttling() or self.step_watch() or moved
            quiet = 0 if moved else quiet + 1
            if not moved:
                self.pass_ms(1)
            if quiet > 5:
                return
        raise AssertionError(f"seed {self.seed}: it does not come to its end")

    def check(self) -> None:
        layer, seed = self.layer, self.seed
        for client in self.clients:
            client.check(seed)
        assert len(self.threads) == self.wanted_handlers + 1, f"seed {seed}: handlers"
        assert layer.channel.size == 0, f"seed {seed}: requests wait"
        completed = layer.observer.completed
        assert len(completed) == self.taken, f"seed {seed}: {len(completed)} of {self.taken} requests are completed"
        assert len(set(map(id, completed))) == len(completed), f"seed {seed}: a request is completed twice"
        for client in self.clients:
            client.transport.abortConnection()
        assert not layer.processor.channels, f"seed {seed}: a connection is left"
        assert self.pool is None or self.pool.used_bytes == 0, f"seed {seed}: memory is left"


def explore(seed: int, steps: int = 120) -> None:
    """Run one schedule. What fails says the seed: ``explore`` it alone."""
    try:
        Schedule(seed).run(steps)
    except AssertionError:
        raise
    except Exception as error:
        raise AssertionError(f"seed {seed}") from error
