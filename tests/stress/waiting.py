"""Purgatories, the timer, the scheduler, and futures of several futures."""

import itertools
import random
import threading
from collections import Counter
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue

from tests.stress.crew import STUCK_S, Crew, wait_for
from twisted_kafka.timing.clock import SystemClock
from twisted_kafka.timing.scheduler import KafkaScheduler
from twisted_kafka.timing.timer import Timer
from twisted_kafka.waiting.futures import gather
from twisted_kafka.waiting.purgatory import DelayedOperation, DelayedOperationPurgatory

KEYS = 3
MOST_WAITING = 200
LONG_MS = 600_000


class Reached(DelayedOperation):
    """Waits until the counters have reached some values."""

    def __init__(self, delay_ms: float, counts: list[int], wanted: dict[int, int]) -> None:
        super().__init__(delay_ms)
        self._counts = counts
        self._wanted = wanted
        self.completions: list[int] = []

    @property
    def is_reached(self) -> bool:
        return all(self._counts[key] >= count for key, count in self._wanted.items())

    def try_complete(self) -> bool:
        return self.is_reached and self.force_complete()

    def on_complete(self) -> None:
        self.completions.append(1)


def purgatory(crew: Crew) -> None:
    """Each operation is completed once, as soon as its condition holds, and nothing of it is left."""
    clock = SystemClock()
    timer = Timer(clock)
    timer.start()
    waiting = DelayedOperationPurgatory("stress", clock, timer)
    counts = [0] * KEYS
    lock = threading.Lock()
    operations: list[Reached] = []

    def count(key: int, by: int = 1) -> None:
        with lock:
            counts[key] += by
        waiting.check_and_complete(key)

    def begin(own: random.Random) -> None:
        if waiting.num_delayed > MOST_WAITING:
            return
        keys = own.sample(range(KEYS), own.randint(1, 2))
        delay_ms = own.choice((1, LONG_MS))
        operation = Reached(delay_ms, counts, {key: counts[key] + own.randint(0, 2) for key in keys})
        operations.append(operation)
        waiting.try_complete_else_watch(operation, keys)
        if own.random() < 0.1:
            operation.force_complete()

    crew.add(begin, 2)
    crew.add(lambda own: count(own.randrange(KEYS)), 2)
    try:
        crew.run()
        late = [each for each in operations if each.is_reached and each.delay_ms == LONG_MS and not each.is_completed]
        assert not late, f"{len(late)} operations wait although their conditions hold"
        for key in range(KEYS):
            count(key, 10)
        wait_for(lambda: all(each.completions for each in operations), "an operation is not completed")
        assert all(len(each.completions) == 1 for each in operations), "an operation is completed twice"
        assert (waiting.watched, waiting.num_delayed) == (0, 0)
        wait_for(lambda: len(timer) == 0, "the timer keeps operations that are complete")
    finally:
        timer.shutdown()


def timers(crew: Crew) -> None:
    """Each timeout that is not cancelled expires once, a cancelled one at most once."""
    timer = Timer(SystemClock())
    timer.start()
    numbers = itertools.count()
    lock = threading.Lock()
    expired: list[int] = []
    kept: list[int] = []
    cancelled: list[int] = []

    def use(own: random.Random) -> None:
        with lock:
            number = next(numbers)
        entry = timer.add(own.choice((0, 1, 2, 50)), lambda: expired.append(number))
        if own.random() < 0.7:
            entry.cancel()
            cancelled.append(number)
        else:
            kept.append(number)

    crew.add(use, 3)
    try:
        crew.run()
        wait_for(lambda: len(expired) >= len(kept) and len(timer) == 0, "a timeout does not expire")
        seen = Counter(expired)
        assert max(seen.values(), default=1) == 1, "a timeout expires twice"
        assert seen.keys() >= set(kept), "a timeout does not expire"
        assert seen.keys() <= {*kept, *cancelled}
    finally:
        timer.shutdown()


def scheduler(crew: Crew) -> None:
    """Each task runs once, and a periodic one never beside itself."""
    tasks = KafkaScheduler(SystemClock(), 3)
    tasks.startup()
    ran: list[int] = []
    numbers = itertools.count()
    lock = threading.Lock()
    running = threading.Lock()
    overlaps: list[int] = []
    periods: list[int] = []

    def once(own: random.Random) -> None:
        with lock:
            number = next(numbers)
        task = tasks.schedule_once("once", lambda: ran.append(number), own.choice((0, 0, 1)))
        if own.random() < 0.1:
            tasks.resize(own.randint(1, 4))
        if number % 50 == 0:
            wait_for(lambda: task.is_cancelled, "a task does not run")

    def periodic() -> None:
        if not running.acquire(blocking=False):
            overlaps.append(1)
            return
        periods.append(1)
        running.release()

    tasks.schedule("periodic", periodic, 0, 0.1)
    crew.add(once, 3)
    try:
        crew.run()
        count = next(numbers)
        wait_for(lambda: len(ran) >= count, "a task does not run")
        assert sorted(ran) == list(range(count)), "each task runs once"
        assert periods
        assert not overlaps
    finally:
        tasks.shutdown()


def futures(crew: Crew) -> None:
    """A future of several futures is done once all of them are, whichever threads complete them."""
    queues: list[SimpleQueue[Future[int] | None]] = [SimpleQueue() for _ in range(3)]

    def total(results: list[int]) -> int:
        return sum(results)

    def gathered(_: random.Random) -> None:
        parts = [Future[int]() for _ in queues]
        whole = gather(parts, total)
        for part, queue in zip(parts, queues, strict=True):
            queue.put(part)
        assert isinstance(whole, Future)
        assert whole.result(STUCK_S) == len(parts)

    def complete(queue: "SimpleQueue[Future[int] | None]") -> None:
        while (part := queue.get()) is not None:
            part.set_result(1)

    for queue in queues:
        crew.add_server(partial(complete, queue))
    crew.add(gathered)
    crew.run(lambda: [queue.put(None) for queue in queues])
