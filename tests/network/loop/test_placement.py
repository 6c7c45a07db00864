"""Where the threads of a plane are placed: a fake system, time by hand, and the real one."""

import os
import sys
import threading

import pytest

from twisted_kafka.network.loop.placement import DECISION_INTERVAL_NS, FIRST_PAUSE_NS, SMALL_BYTES, LinuxCpus, ThreadPlacement
from twisted_kafka.timing.clock import ManualClock

ALL = frozenset((0, 1, 2))
NETWORK, HANDLER, STRANGER = 100, 101, 102


class FakeCpus:
    """Three CPUs; the thread that calls is ``current``, and is on CPU 2."""

    def __init__(self) -> None:
        self.current = NETWORK
        self.masks = {NETWORK: ALL, HANDLER: ALL, STRANGER: ALL}
        self.delays = dict.fromkeys(self.masks, 0)
        self.refused = False

    def this_thread(self) -> int:
        return self.current

    def threads(self) -> list[int]:
        return list(self.masks)

    def allowed(self, thread: int) -> frozenset[int]:
        return self.masks[thread]

    def allow(self, thread: int, cpus: frozenset[int]) -> None:
        if self.refused:
            raise PermissionError(1, "Operation not permitted")
        if thread not in self.masks:
            raise ProcessLookupError
        self.masks[thread] = cpus

    def cpu_of(self, thread: int) -> int:
        return 2

    def delayed_ns(self, thread: int) -> int:
        if thread not in self.delays:
            raise FileNotFoundError
        return self.delays[thread]


class Scene:
    """A network thread and a handler that have joined, and the traffic of one processor."""

    def __init__(self) -> None:
        self.cpus = FakeCpus()
        self.clock = ManualClock()
        self.placement = ThreadPlacement(self.clock, self.cpus, ALL)
        self.requests = self.size_bytes = 0
        self.held = []
        for thread in (HANDLER, NETWORK):
            self.cpus.current = thread
            self.held.append(self.placement.joined())
            self.held[-1].__enter__()

    def pass_requests(self, count: int = 5_000, size_bytes: int = 100, seconds: float = 1.0) -> None:
        self.requests += count
        self.size_bytes += count * size_bytes
        self.clock.advance_ms(seconds * 1000)
        self.placement.update(0, self.requests, self.size_bytes)

    @property
    def masks(self) -> list[set[int]]:
        return [set(self.cpus.masks[thread]) for thread in (NETWORK, HANDLER, STRANGER)]


FREE = [{0, 1, 2}] * 3
GATHERED = [{2}, {2}, {0, 1, 2}]


def test_small_requests_gather_both_sides_on_the_cpu_of_the_network_thread() -> None:
    scene = Scene()
    scene.pass_requests()
    assert scene.masks == GATHERED
    assert scene.placement.home == 2


def test_few_requests_change_nothing() -> None:
    scene = Scene()
    scene.pass_requests(count=900)
    assert scene.masks == FREE
    scene.pass_requests()
    scene.pass_requests(count=900)
    assert scene.masks == GATHERED


def test_between_two_decisions_lies_some_time() -> None:
    scene = Scene()
    scene.pass_requests(seconds=DECISION_INTERVAL_NS / 1e9 - 0.01)
    assert scene.masks == FREE
    scene.pass_requests(seconds=0.02)
    assert scene.masks == GATHERED


def test_large_requests_free_them_at_once_and_small_ones_gather_them_again() -> None:
    scene = Scene()
    scene.pass_requests()
    scene.pass_requests(size_bytes=SMALL_BYTES + 1)
    assert scene.masks == FREE
    scene.pass_requests()
    assert scene.masks == GATHERED


def test_the_mean_is_of_all_processors() -> None:
    scene = Scene()
    scene.pass_requests(seconds=0.1)
    scene.clock.advance_ms(1000)
    scene.placement.update(1, 5_000, 5_000 * 3 * SMALL_BYTES)
    assert scene.masks == FREE


def test_a_crowded_cpu_is_left_for_longer_each_time() -> None:
    scene = Scene()
    pause_s = FIRST_PAUSE_NS / 1e9
    scene.pass_requests()
    for _ in range(2):
        scene.cpus.delays[HANDLER] += 600_000_000
        scene.pass_requests()
        assert scene.masks == FREE
        scene.pass_requests(seconds=pause_s - 0.5)
        assert scene.masks == FREE
        scene.pass_requests()
        assert scene.masks == GATHERED
        pause_s *= 2


def test_waiting_a_little_for_the_cpu_is_no_crowd() -> None:
    scene = Scene()
    scene.pass_requests()
    scene.cpus.delays[HANDLER] += 400_000_000
    scene.pass_requests()
    assert scene.masks == GATHERED
    assert not scene.placement.is_calm  # but somebody else is there


def test_it_is_calm_while_many_small_requests_pass_and_nobody_else_wants_the_cpu() -> None:
    scene = Scene()
    placement = scene.placement
    assert not placement.is_calm
    scene.pass_requests()
    assert not placement.is_calm  # how long they wait on their CPU is seen from here on
    scene.cpus.delays[HANDLER] += 150_000_000
    scene.pass_requests()
    assert placement.is_calm
    scene.pass_requests(size_bytes=SMALL_BYTES + 1)
    assert not placement.is_calm
    scene.pass_requests()
    scene.pass_requests()
    assert placement.is_calm
    scene.pass_requests(count=900)
    assert not placement.is_calm
    scene.pass_requests()
    assert placement.is_calm
    scene.cpus.delays[HANDLER] += 300_000_000
    scene.pass_requests()
    assert not placement.is_calm


def test_a_thread_that_a_placed_one_started_is_freed() -> None:
    scene = Scene()
    scene.pass_requests()
    scene.cpus.masks[STRANGER] = frozenset((2,))  # inherited
    scene.pass_requests()
    assert scene.masks == GATHERED
    scene.cpus.masks[STRANGER] = frozenset((2,))
    scene.pass_requests(count=1)
    assert scene.masks == GATHERED
    scene.cpus.masks[STRANGER] = frozenset((2,))
    scene.pass_requests(size_bytes=2 * SMALL_BYTES)
    assert scene.masks == FREE


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_affinity_that_somebody_else_has_set_is_left_alone(when: str) -> None:
    scene = Scene()
    if when == "after":
        scene.pass_requests()
    scene.cpus.masks[HANDLER] = frozenset((1,))
    scene.pass_requests(size_bytes=100 if when == "before" else 2 * SMALL_BYTES)
    scene.pass_requests()
    scene.pass_requests(size_bytes=2 * SMALL_BYTES)
    assert scene.masks == [{0, 1, 2} if when == "before" else {2}, {1}, {0, 1, 2}]


def test_a_thread_that_joins_later_is_placed_with_the_others_and_free_when_it_leaves() -> None:
    scene = Scene()
    scene.pass_requests()
    scene.cpus.current = STRANGER
    with scene.placement.joined():
        assert scene.masks == [{2}, {2}, {2}]
    assert scene.masks == GATHERED


def test_a_thread_that_has_ended_is_no_trouble() -> None:
    scene = Scene()
    scene.pass_requests()
    del scene.cpus.masks[STRANGER]
    del scene.cpus.delays[HANDLER]
    scene.pass_requests()
    assert scene.placement.home == 2


def test_where_it_is_not_permitted_nothing_happens() -> None:
    scene = Scene()
    scene.cpus.refused = True
    scene.pass_requests()
    scene.cpus.refused = False
    scene.pass_requests()
    assert scene.masks == FREE


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="placement is for Linux only")
def test_what_linux_says_of_a_thread() -> None:
    cpus = LinuxCpus()
    seen = []

    def ask() -> None:
        thread = cpus.this_thread()
        free = cpus.allowed(thread)
        cpu = max(free)
        cpus.allow(thread, frozenset((cpu,)))
        seen.append(
            (thread in cpus.threads(), set(cpus.allowed(thread)) == {cpu}, cpus.cpu_of(thread) == cpu, cpus.delayed_ns(thread) >= 0)
        )

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join(10)
    assert seen == [(True, True, True, True)]
    assert os.sched_getaffinity(0) == cpus.allowed(os.getpid())
