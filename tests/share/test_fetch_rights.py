"""The right to fetch of a share partition, given back between any two steps of other threads."""

import itertools
import sys
from collections.abc import Callable
from concurrent.futures import Future
from types import FrameType
from typing import Any

import pytest

from tests.support.fake import Fake
from tests.support.share_bench import KEY, ShareBench
from twisted_kafka.config.group_configs import ShareGroupConfigs
from twisted_kafka.share.share_partition import SharePartition, SharePartitionEnvironment
from twisted_kafka.system.interpreter import IS_PYPY
from twisted_kafka.waiting.futures import completed

CONFIGS = ShareGroupConfigs(1000, 5, 100, "read_uncommitted", "earliest", True, "", False)


class Reads(Fake):
    """A persister that is only asked to read, and answers at once."""

    def __init__(self, bench: ShareBench) -> None:
        self._bench = bench

    def read_state(self, request: Any) -> "Future[Any]":
        return completed(self._bench.shares.read_state(request))


def active_partition() -> SharePartition:
    bench = ShareBench()
    assert not bench.initialize(start_offset=0).error_code
    environment = SharePartitionEnvironment(bench.clock, bench.timer, Reads(bench), lambda _: CONFIGS, lambda _: False)
    share = SharePartition(KEY, 0, environment, lambda _: 0, bool, bool, bool)
    assert not share.initialize().result(0).error
    return share


def call_at(step: int, function: Callable[[], Any], action: Callable[[], object]) -> tuple[Any, bool]:
    """Call ``function``, and ``action`` before its opcode number ``step``; return its result, and whether it has so many."""
    left = [step]

    def trace(frame: FrameType, event: str, _: object) -> Any:
        frame.f_trace_opcodes = True
        if event == "opcode":
            left[0] -= 1
            if not left[0]:
                action()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        result = function()
    finally:
        sys.settrace(before)
    return result, left[0] <= 0


def given_back_at(step: int) -> tuple[bool, bool]:
    """Give the right back while others want it; return whether the fetch that did not get it is tried again.

    Before opcode number ``step`` one thread gets the right, if it is free, and another one does not. The second result is whether
    there is such an opcode.
    """
    share = active_partition()
    got: list[bool] = []
    assert share.lock_fetch()
    is_tried_again, has_more = call_at(step, share.unlock_fetch, lambda: got.extend((share.lock_fetch(), share.lock_fetch())))
    if has_more and got[0]:
        is_tried_again |= share.unlock_fetch()
    return is_tried_again, has_more


@pytest.mark.skipif(IS_PYPY, reason="PyPy traces no opcodes")
def test_a_fetch_that_does_not_get_the_right_is_tried_again() -> None:
    for step in itertools.count(1):
        is_tried_again, has_more = given_back_at(step)
        if not has_more:
            break
        assert is_tried_again, f"before opcode {step}"
    assert step > 5
