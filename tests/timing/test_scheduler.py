import threading

import pytest

from tests.support.eventually import eventually
from tests.support.no_threads import no_threads
from twisted_kafka.timing.clock import ManualClock, SystemClock
from twisted_kafka.timing.scheduler import KafkaScheduler, ManualScheduler


def test_manual_scheduler_runs_what_is_due_in_order() -> None:
    clock = ManualClock()
    scheduler = ManualScheduler(clock)
    ran: list[str] = []
    scheduler.schedule_once("late", lambda: ran.append("late"), 20)
    scheduler.schedule_once("early", lambda: ran.append("early"), 10)
    assert scheduler.run_due() == 0
    clock.advance_ms(20)
    assert scheduler.run_due() == 2
    assert ran == ["early", "late"]
    assert scheduler.run_due() == 0


def test_periodic_task_skips_missed_rounds() -> None:
    clock = ManualClock()
    scheduler = ManualScheduler(clock)
    ran: list[int] = []
    handle = scheduler.schedule("tick", lambda: ran.append(1), 5, 10)
    clock.advance_ms(5)
    scheduler.run_due()
    clock.advance_ms(35)
    scheduler.run_due()
    assert len(ran) == 2
    clock.advance_ms(4)
    assert scheduler.run_due() == 0
    clock.advance_ms(1)
    assert scheduler.run_due() == 1
    handle.cancel()
    clock.advance_ms(100)
    assert scheduler.run_due() == 0


def test_time_that_passes_during_a_run_makes_the_next_one_due() -> None:
    clock = ManualClock()
    scheduler = KafkaScheduler(clock, 1)
    began, may_end = threading.Semaphore(0), threading.Semaphore(0)

    def run() -> None:
        began.release()
        assert may_end.acquire(timeout=30)

    scheduler.startup()
    try:
        scheduler.schedule("retention", run, 0, 300_000)
        assert began.acquire(timeout=30)
        clock.advance_ms(6 * 24 * 3_600_000)
        may_end.release()
        assert began.acquire(timeout=30)
    finally:
        may_end.release()
        scheduler.shutdown()


def test_failing_action_is_logged_and_runs_again() -> None:
    clock = ManualClock()
    scheduler = ManualScheduler(clock)
    ran: list[int] = []

    def fail() -> None:
        ran.append(1)
        raise ValueError("no")

    scheduler.schedule("bad", fail, 0, 10)
    scheduler.run_due()
    clock.advance_ms(10)
    scheduler.run_due()
    assert len(ran) == 2


def test_cancelled_task_does_not_run() -> None:
    clock = ManualClock()
    scheduler = ManualScheduler(clock)
    ran: list[int] = []
    scheduler.schedule_once("x", lambda: ran.append(1), 1).cancel()
    clock.advance_ms(2)
    assert scheduler.run_due() == 0
    assert not ran


def test_threads_run_tasks_side_by_side_and_shutdown_ends_them() -> None:
    scheduler = KafkaScheduler(SystemClock(), threads=2)
    both = threading.Barrier(2, timeout=30)
    done = threading.Semaphore(0)

    def meet() -> None:
        both.wait()
        done.release()

    scheduler.schedule_once("a", meet)
    scheduler.startup()
    scheduler.schedule_once("b", meet, 1)
    assert done.acquire(timeout=30)
    assert done.acquire(timeout=30)
    again = threading.Semaphore(0)
    scheduler.schedule("p", again.release, 0, 1)
    assert again.acquire(timeout=30)
    assert again.acquire(timeout=30)
    scheduler.shutdown(5)
    assert not [t for t in threading.enumerate() if t.name.startswith("kafka-scheduler-")]
    assert scheduler.schedule_once("late", lambda: None).is_cancelled


def test_starting_twice_is_an_error() -> None:
    scheduler = KafkaScheduler(SystemClock(), threads=1)
    scheduler.startup()
    with pytest.raises(RuntimeError):
        scheduler.startup()
    scheduler.shutdown(5)


def test_fewer_threads_end_and_more_are_made_while_it_runs() -> None:
    scheduler = KafkaScheduler(SystemClock(), threads=2, thread_name_prefix="resized-")
    scheduler.startup()

    def side_by_side(count: int) -> None:
        barrier = threading.Barrier(count + 1, timeout=30)
        for _ in range(count):
            scheduler.schedule_once("meet", lambda: barrier.wait() and None)  # type: ignore[arg-type]
        barrier.wait()

    side_by_side(2)
    scheduler.resize(4)
    side_by_side(4)
    scheduler.resize(1)
    eventually(lambda: len([each for each in threading.enumerate() if each.name.startswith("resized-")]) == 1)
    side_by_side(1)
    scheduler.shutdown()


def test_without_a_thread_tasks_wait_for_the_next_one_that_the_system_gives() -> None:
    scheduler = KafkaScheduler(SystemClock(), 2)
    ran = threading.Semaphore(0)
    scheduler.startup()
    with no_threads():
        for _ in range(3):
            scheduler.schedule_once("flush", ran.release)
    scheduler.schedule_once("flush", ran.release)
    for _ in range(4):
        assert ran.acquire(timeout=30)
    with no_threads():
        scheduler.resize(5)
    scheduler.shutdown()
