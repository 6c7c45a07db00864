"""Threads take turns, time passes only in waits, and a seed decides the order."""

import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from twisted_kafka.world.machine.primitives import BoundedSemaphore, Condition, Event, Lock, Pool, RLock, Thread, result_of
from twisted_kafka.world.machine.scheduler import (
    ALARMS_BEFORE_A_REPEAT,
    FIRST_NS,
    KilledError,
    Owner,
    Scheduler,
    WorldStuckError,
)


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    made = Scheduler(1)
    yield made
    for owner in (made.test, *OWNERS):
        made.current = made.driver
        if owner is not made.test:
            made.kill(owner)
    OWNERS.clear()


OWNERS: list[Owner] = []


def spawn(scheduler: Scheduler, run: Callable[[], object], owner: Owner | None = None) -> Thread:
    owner = owner or Owner("process")
    OWNERS.append(owner)
    thread = Thread(scheduler, target=run, name="thread")
    scheduler.spawn_for(owner, thread.start)
    return thread


def run(scheduler: Scheduler, seconds: float = 100) -> None:
    scheduler.run(scheduler.now_ns + int(seconds * 1e9))


def test_time_passes_only_in_waits(scheduler: Scheduler) -> None:
    woken: list[tuple[int, int]] = []
    for seconds in (3, 1, 2):
        spawn(scheduler, lambda seconds=seconds: (scheduler.wait(seconds * 10**9), woken.append((seconds, scheduler.now_ns))))  # type: ignore[misc]
    run(scheduler)
    assert woken == [(seconds, FIRST_NS + seconds * 10**9) for seconds in (1, 2, 3)]
    assert scheduler.now_ns == FIRST_NS + 100 * 10**9


def order_of(seed: int) -> list[int]:
    scheduler, owner, order = Scheduler(seed), Owner("process"), list[int]()
    lock = Lock(scheduler)

    def work(number: int) -> None:
        for _ in range(3):
            with lock:
                scheduler.wait(1_000)
                order.append(number)

    for number in range(5):
        spawn(scheduler, lambda number=number: work(number), owner)  # type: ignore[misc]
    run(scheduler)
    OWNERS.clear()
    return [*order, scheduler.fingerprint]


def test_the_seed_decides_the_order() -> None:
    assert len(order_of(0)) == 16
    assert order_of(0) == order_of(0)
    assert len({tuple(order_of(seed)) for seed in range(5)}) == 5


def test_an_event_is_waited_for_with_a_timeout(scheduler: Scheduler) -> None:
    event, results = Event(scheduler), list[bool]()
    spawn(scheduler, lambda: results.extend([event.wait(1), event.wait(5), event.wait(0)]))
    run(scheduler, 3)
    event.set()
    run(scheduler, 1)
    assert results == [False, True, True]


def test_a_condition_releases_its_lock_and_takes_it_again(scheduler: Scheduler) -> None:
    condition, seen = Condition(scheduler, RLock(scheduler)), list[str]()

    def wait() -> None:
        with condition, condition:
            seen.append(str(condition.wait_for(lambda: "set" in seen, 10)))
            seen.append(str(condition.wait_for(lambda: False, 1)))

    def notify() -> None:
        with condition:
            seen.append("set")
            condition.notify()

    spawn(scheduler, wait)
    run(scheduler, 1)
    spawn(scheduler, notify)
    run(scheduler, 20)
    assert seen == ["set", "True", "False"]


def test_a_semaphore_lets_so_many_in(scheduler: Scheduler) -> None:
    semaphore = BoundedSemaphore(scheduler, 2)
    assert [semaphore.acquire(blocking=False) for _ in range(3)] == [True, True, False]
    semaphore.release(2)
    with pytest.raises(ValueError, match="too many times"):
        semaphore.release()


def test_a_pool_runs_its_tasks_and_ends(scheduler: Scheduler) -> None:
    results: list[object] = []

    def work() -> None:
        with Pool(scheduler, 2, "worker-") as pool:
            results.extend(pool.map(lambda number: scheduler.wait(number * 1_000) or number, [3, 1, 2]))
            failed = pool.submit(lambda: 1 // 0)
            try:
                result_of(scheduler, failed, 5)
            except ZeroDivisionError as error:
                results.append(str(error))

    thread = spawn(scheduler, work)
    run(scheduler)
    assert results == [3, 1, 2, "integer division or modulo by zero"]
    assert not thread.is_alive()


def test_a_killed_process_ends_where_it_waits_and_leaves_its_locks(scheduler: Scheduler) -> None:
    lock, owner, ended = Lock(scheduler), Owner("victim"), list[str]()

    def hold() -> None:
        try:
            with lock:
                scheduler.wait()
        except KilledError:
            ended.append("killed")
            raise

    spawn(scheduler, hold, owner)
    run(scheduler, 1)
    assert lock.locked()
    scheduler.kill(owner)
    assert (ended, lock.locked(), owner.actors) == (["killed"], False, {})


def test_a_join_that_gave_up_wakes_nobody_later(scheduler: Scheduler) -> None:
    lock, times = Lock(scheduler), list[int]()
    long = spawn(scheduler, lambda: scheduler.wait(3 * 10**9))

    def hold() -> None:
        with lock:
            scheduler.wait(5 * 10**9)

    def join() -> None:
        long.join(2)
        with lock:
            times.append((scheduler.now_ns - FIRST_NS) // 10**9)

    spawn(scheduler, hold)
    spawn(scheduler, join)
    run(scheduler)
    assert times == [5]


def test_a_paused_process_goes_on_later(scheduler: Scheduler) -> None:
    owner, times = Owner("paused"), list[int]()
    spawn(scheduler, lambda: (scheduler.wait(10**9), times.append((scheduler.now_ns - FIRST_NS) // 10**9)), owner)
    scheduler.pause_process(owner)
    run(scheduler, 5)
    assert times == []
    scheduler.resume_process(owner)
    run(scheduler, 5)
    assert times == [6], "its wait of a second began when it went on"


def test_a_thread_that_waits_for_a_lock_is_named(scheduler: Scheduler) -> None:
    lock = Lock(scheduler)
    lock.acquire()
    spawn(scheduler, lock.acquire)
    run(scheduler, 10)
    (found,) = scheduler.stuck(5 * 10**9)
    assert found.startswith("process: thread\n")
    assert "in acquire" in found
    assert scheduler.stuck(20 * 10**9) == []


def test_a_thread_that_never_waits_is_named_with_its_stack(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twisted_kafka.world.machine.scheduler.STUCK_REAL_S", 0.02)
    lock = threading.Lock()
    lock.acquire()

    def compute_without_end() -> None:
        while True:
            pass

    def wait_for_the_system() -> None:
        lock.acquire()

    for endless in (compute_without_end, wait_for_the_system):
        before = {signal.SIGALRM: signal.signal(signal.SIGALRM, signal.SIG_DFL)}
        end = scheduler.set_alarm()
        try:
            spawn(scheduler, endless)
            with pytest.raises(
                WorldStuckError, match=f"process computes without end in thread thread:\n(.|\n)*in {endless.__name__}"
            ):
                run(scheduler)
        finally:
            end()
            assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL
            signal.signal(signal.SIGALRM, before[signal.SIGALRM])


def test_a_thread_that_is_ended_has_time_to_end(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twisted_kafka.world.machine.scheduler.STUCK_REAL_S", 3600.0)
    ended: list[int] = []

    def endless() -> None:
        for alarm in range(2 * ALARMS_BEFORE_A_REPEAT):
            try:
                signal.raise_signal(signal.SIGALRM)
            except KilledError:
                ended.append(alarm)

    before = signal.signal(signal.SIGALRM, signal.SIG_DFL)
    end = scheduler.set_alarm()
    try:
        spawn(scheduler, endless)
        with pytest.raises(WorldStuckError):
            run(scheduler)
    finally:
        end()
        signal.signal(signal.SIGALRM, before)
    assert ended == [1, 1 + ALARMS_BEFORE_A_REPEAT]


def test_an_error_of_a_thread_ends_the_run(scheduler: Scheduler) -> None:
    spawn(scheduler, lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        run(scheduler)
