import ctypes
import os
import sys
import threading

import pytest
from twisted.logger import capturedLogs, formatEvent

from tests.support.eventually import WAIT_S
from twisted_kafka.network.loop.stall_watch import CHECK_S, COMPUTING_CHECK_S, PUT_OFF_S, StallWatch
from twisted_kafka.network.loop.wake_up_timer import IWakeUpTimer, SleepTimer, TimerFd, make_wake_up_timer
from twisted_kafka.network.requests.request_channel import RequestChannel
from twisted_kafka.system.interpreter import HAS_INTERPRETER_LOCK
from twisted_kafka.timing.clock import ManualClock, SystemClock


class CountingChannel(RequestChannel):
    """Counts the checks, and has a request under way while ``is_active``."""

    def __init__(self) -> None:
        super().__init__(1, ManualClock())
        self.checks = 0
        self.is_active = False
        self.is_checked = threading.Event()

    def check_stalls(self) -> bool:
        self.checks += 1
        self.is_checked.set()
        return self.is_active


class FakeTimer:
    def __init__(self) -> None:
        self.delays_s: list[float] = []
        self.is_closed = False

    def start(self, delay_s: float) -> None:
        self.delays_s.append(delay_s)

    def wait(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self.is_closed = True


class Stage:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.clock.advance_ms(1000)
        self.timer = FakeTimer()
        self.channels = [CountingChannel(), CountingChannel()]
        self.watch = StallWatch(self.channels, self.clock, "watch", self.timer)

    def request(self) -> None:
        self.channels[0].watch(self.clock.monotonic_ns())

    @property
    def checks(self) -> list[int]:
        return [each.checks for each in self.channels]


def test_busy_network_threads_check_all_channels_every_half_a_millisecond_and_put_off_the_timer() -> None:
    stage = Stage()
    for _ in range(12):
        stage.request()
        stage.clock.advance_ms(0.1)
    assert stage.checks == [3, 3]
    assert stage.timer.delays_s == [PUT_OFF_S] * 3


def test_thread_checks_on_while_a_request_is_under_way() -> None:
    stage = Stage()
    stage.request()
    stage.channels[1].is_active = True
    stage.watch.expired()
    assert stage.timer.delays_s == [PUT_OFF_S, CHECK_S]
    stage.channels[1].is_active = False
    stage.watch.expired()
    assert stage.timer.delays_s == [PUT_OFF_S, CHECK_S]
    assert stage.checks == [3, 3]
    stage.channels[0].is_active = True
    stage.watch.expired()
    assert stage.timer.delays_s == [PUT_OFF_S, CHECK_S, CHECK_S]


@pytest.mark.skipif(not HAS_INTERPRETER_LOCK, reason="requests that compute do not wait for each other")
def test_while_the_process_computes_checks_are_further_apart() -> None:
    stage = Stage()
    stage.request()
    stage.channels[0].is_active = True
    stage.clock.computing = 1.0
    checks = []
    for _ in range(5):
        stage.clock.advance_ms(stage.timer.delays_s[-1] * 1000)
        stage.watch.expired()
        checks.append(stage.checks[0])
    assert checks == [1, 2, 2, 3, 3]
    assert stage.timer.delays_s == [PUT_OFF_S, *[COMPUTING_CHECK_S, CHECK_S] * 2, COMPUTING_CHECK_S], "each wake takes the lock"
    stage.clock.computing = 0.4
    for _ in range(2):
        stage.clock.advance_ms(0.5)
        stage.watch.expired()
    assert stage.checks == [5, 5], "the request waits for something else than the interpreter lock"


def test_first_request_after_the_timer_has_expired_starts_it_again() -> None:
    stage = Stage()
    stage.request()
    stage.clock.advance_ms(0.1)
    stage.watch.expired()
    stage.request()
    assert stage.timer.delays_s == [PUT_OFF_S] * 2


def test_timer_is_started_although_another_thread_is_checking() -> None:
    stage = Stage()

    class Nested(CountingChannel):
        def check_stalls(self) -> bool:
            stage.clock.advance_ms(1)
            stage.request()
            return super().check_stalls()

    stage.watch._channels = [Nested()]
    stage.request()
    assert stage.timer.delays_s == [PUT_OFF_S] * 2


def test_thread_checks_each_time_the_timer_expires_until_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    seen: list[list[int]] = []

    def wait() -> None:
        seen.append(stage.checks)
        if len(seen) == 3:
            stage.watch._stopping.set()

    monkeypatch.setattr(stage.timer, "wait", wait)
    stage.watch._run()
    assert seen == [[0, 0], [1, 1], [2, 2]]


def test_a_check_that_fails_is_followed_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()

    class Failing(CountingChannel):
        def check_stalls(self) -> bool:
            raise ValueError("broken")

    def wait() -> None:
        if len(stage.timer.delays_s) == 2:
            stage.watch._stopping.set()

    stage.watch._channels = [Failing()]
    monkeypatch.setattr(stage.timer, "wait", wait)
    monkeypatch.setattr("twisted_kafka.system.threads.FIRST_PAUSE_S", 0)
    with capturedLogs() as events:
        stage.watch._run()
    assert stage.timer.delays_s == [CHECK_S] * 2
    assert [formatEvent(event) for event in events] == ["Uncaught exception in the stall watch"] * 2


def test_no_request_is_watched_after_the_end() -> None:
    stage = Stage()
    stage.watch.stop()
    stage.request()
    assert stage.timer.delays_s == []
    assert stage.timer.is_closed
    stage.watch.stop()


@pytest.mark.parametrize("make", [make_wake_up_timer, SleepTimer])
def test_running_watch_checks_soon_after_a_request_and_ends(make: type[IWakeUpTimer]) -> None:
    channel = CountingChannel()
    clock = SystemClock()
    watch = StallWatch([channel], clock, "watch", make())
    watch.start()
    assert [thread.daemon for thread in threading.enumerate() if thread.name == "watch"] == [True]
    for _ in range(2):
        channel.watch(clock.monotonic_ns())
        channel.is_checked.clear()
        assert channel.is_checked.wait(WAIT_S)
    watch.stop()
    assert "watch" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.parametrize("make", [make_wake_up_timer, SleepTimer])
def test_timer_expires_and_can_be_started_again(make: type[IWakeUpTimer]) -> None:
    timer = make()
    for _ in range(2):
        timer.start(0.001)
        waiting = threading.Thread(target=timer.wait, daemon=True)
        waiting.start()
        waiting.join(WAIT_S)
        assert not waiting.is_alive()
    timer.close()


@pytest.mark.parametrize("make", [make_wake_up_timer, SleepTimer])
def test_timer_that_has_expired_waits_to_be_started(make: type[IWakeUpTimer]) -> None:
    timer = make()
    timer.start(0)
    timer.wait()
    waiting = threading.Thread(target=timer.wait, daemon=True)
    waiting.start()
    waiting.join(0.02)
    assert waiting.is_alive()
    timer.start(0)
    waiting.join(WAIT_S)
    assert not waiting.is_alive()
    timer.close()


def test_closed_timer_has_no_descriptor() -> None:
    before = set(os.listdir("/proc/self/fd"))
    make_wake_up_timer().close()
    assert set(os.listdir("/proc/self/fd")) <= before


@pytest.mark.skipif(not sys.platform.startswith("linux") or sys.maxsize < 2**32, reason="only 64-bit Linux has it")
def test_on_linux_the_kernel_has_the_timer() -> None:
    timer = make_wake_up_timer()
    assert isinstance(timer, TimerFd)
    timer.close()


@pytest.mark.skipif(not sys.platform.startswith("linux") or sys.maxsize < 2**32, reason="only 64-bit Linux has it")
@pytest.mark.parametrize(
    ("delay_s", "first"), [(2.5, (2, 500_000_000)), (0.25, (0, 250_000_000)), (0, (0, 1)), (7, (7, 1))], ids=str
)
def test_the_kernel_s_timer_expires_once_after_the_delay(delay_s: float, first: tuple[int, int]) -> None:
    timer = TimerFd()
    times: list[tuple[int, ...]] = []

    def set_time(fd: int, flags: int, address: int, old: None) -> None:
        assert flags == 0
        times.append(tuple((ctypes.c_long * 4).from_address(address)))

    timer._settime = set_time  # type: ignore[assignment]
    timer.start(delay_s)
    assert times == [(0, 0, *first)]
    timer.close()


def test_a_sleep_timer_sleeps_until_its_time_or_its_end() -> None:
    timer = SleepTimer()
    timer.start(1000)
    waiting = threading.Thread(target=timer.wait, daemon=True)
    waiting.start()
    waiting.join(0.02)
    assert waiting.is_alive()
    timer.close()
    waiting.join(WAIT_S)
    assert not waiting.is_alive()
