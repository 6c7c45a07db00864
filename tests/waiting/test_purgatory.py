import threading

import pytest

from twisted_kafka.timing.clock import ManualClock, SystemClock
from twisted_kafka.timing.timer import Timer
from twisted_kafka.waiting.purgatory import DelayedOperation, DelayedOperationPurgatory


class Op(DelayedOperation):
    def __init__(self, delay_ms: float = 100) -> None:
        super().__init__(delay_ms)
        self.ready = False
        self.tries = 0
        self.events: list[str] = []

    def try_complete(self) -> bool:
        self.tries += 1
        return self.ready and self.force_complete()

    def on_complete(self) -> None:
        self.events.append("complete")

    def on_expiration(self) -> None:
        self.events.append("expired")


def make() -> tuple[ManualClock, Timer, DelayedOperationPurgatory]:
    clock = ManualClock()
    timer = Timer(clock)
    return clock, timer, DelayedOperationPurgatory("test", clock, timer)


def test_ready_operation_completes_at_once_and_is_not_watched() -> None:
    _, timer, purgatory = make()
    op = Op()
    op.ready = True
    assert purgatory.try_complete_else_watch(op, ["a"])
    assert op.events == ["complete"]
    assert purgatory.watched == 0
    assert len(timer) == 0


def test_what_happens_between_the_tries_is_not_missed() -> None:
    _, timer, purgatory = make()

    class Late(Op):
        def try_complete(self) -> bool:
            self.ready = self.tries == 1
            return super().try_complete()

    op = Late()
    assert purgatory.try_complete_else_watch(op, ["a"])
    assert op.tries == 2
    assert purgatory.watched == purgatory.num_delayed == len(timer) == 0


def test_check_and_complete_completes_once_under_all_keys() -> None:
    clock, timer, purgatory = make()
    op = Op()
    other = Op()
    assert not purgatory.try_complete_else_watch(op, ["a", "b"])
    assert not purgatory.try_complete_else_watch(other, ["b"])
    assert (purgatory.watched, purgatory.num_delayed) == (3, 2)
    assert purgatory.check_and_complete("a") == 0
    assert purgatory.check_and_complete("unknown") == 0
    op.ready = True
    assert purgatory.check_and_complete("b") == 1
    assert purgatory.check_and_complete("a") == 0
    assert (purgatory.watched, purgatory.num_delayed) == (1, 1)
    clock.advance_ms(1000)
    assert timer.expire_due() == 1
    assert op.events == ["complete"]
    assert other.events == ["complete", "expired"]
    assert (purgatory.watched, purgatory.num_delayed, len(timer)) == (0, 0, 0)


def test_expires_in_time_and_not_before() -> None:
    clock, timer, purgatory = make()
    op = Op(50)
    purgatory.try_complete_else_watch(op, ["a"])
    clock.advance_ms(49.5)
    assert timer.expire_due() == 0
    clock.advance_ms(1.5)
    assert timer.expire_due() == 1
    assert op.events == ["complete", "expired"]
    assert not op.force_complete()


def test_force_complete_from_outside_leaves_nothing_behind() -> None:
    _, timer, purgatory = make()
    op = Op()
    purgatory.try_complete_else_watch(op, ["a"])
    assert op.force_complete()
    assert (purgatory.watched, purgatory.num_delayed, len(timer)) == (0, 0, 0)


def test_finish_completes_all_though_one_fails() -> None:
    _, timer, purgatory = make()

    class Failing(Op):
        def on_complete(self) -> None:
            raise OSError("gone")

    operations = [Op(), Failing(), Op()]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["a", "b"])
    purgatory.finish()
    assert all(operation.is_completed for operation in operations)
    assert (purgatory.watched, len(timer)) == (0, 0)


def test_cancel_for_key_and_shutdown() -> None:
    clock, timer, purgatory = make()
    op = Op()
    purgatory.try_complete_else_watch(op, ["a"])
    assert purgatory.cancel_for_key("a") == [op]
    op.ready = True
    assert purgatory.check_and_complete("a") == 0
    second = Op()
    purgatory.try_complete_else_watch(second, ["a"])
    purgatory.shutdown()
    assert purgatory.check_and_complete("a") == 0
    clock.advance_ms(500)
    timer.expire_due()
    assert second.events == []
    timer.shutdown()


def test_failing_operation_does_not_keep_others_waiting() -> None:
    _, _, purgatory = make()

    class Bad(Op):
        def on_complete(self) -> None:
            raise ValueError("no")

    bad, good = Bad(), Op()
    purgatory.try_complete_else_watch(bad, ["a"])
    purgatory.try_complete_else_watch(good, ["a"])
    bad.ready = good.ready = True
    assert purgatory.check_and_complete("a") == 1
    assert good.events == ["complete"]
    assert purgatory.watched == 0


@pytest.mark.medium
def test_completed_exactly_once_among_threads() -> None:
    timer = Timer(SystemClock())
    timer.start()
    purgatory = DelayedOperationPurgatory("race", SystemClock(), timer)
    start = threading.Barrier(3, timeout=30)
    ops = [Op(1) for _ in range(300)]
    for op in ops:
        purgatory.try_complete_else_watch(op, ["k"])

    def hammer() -> None:
        start.wait()
        for op in ops:
            op.ready = True
            purgatory.check_and_complete("k")

    threads = [threading.Thread(target=hammer) for _ in range(2)]
    for thread in threads:
        thread.start()
    start.wait()
    for thread in threads:
        thread.join(30)
    assert all(op.events.count("complete") == 1 for op in ops)
    assert purgatory.watched == purgatory.num_delayed == 0
    timer.shutdown()


def test_reaper_thread_expires_on_its_own() -> None:
    timer = Timer(SystemClock(), "own")
    timer.start()
    done = threading.Event()
    timer.add(20_000, lambda: None)
    timer.add(1, done.set)
    assert done.wait(30)
    timer.shutdown()
    assert "ExpirationReaper-own" not in [t.name for t in threading.enumerate()]
