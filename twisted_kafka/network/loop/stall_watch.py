"""Finds requests that take long: busy network threads look for them, and if those are stuck, a thread of the broker.

A network thread that handles requests checks at most every ``CHECK_S`` whether others are stuck, and puts off a timer. If none
does so any more, the timer expires, and the watch's thread checks until no request is being handled, or all that are have been
found.

While the process computes, whichever its thread, checks are further apart: a request that takes long computes then, or waits for
the interpreter lock, and another thread would only contend for that.
"""

from collections.abc import Sequence
from typing import Final

from twisted_kafka.network.loop.wake_up_timer import IWakeUpTimer, make_wake_up_timer
from twisted_kafka.network.requests.request_channel import RequestChannel
from twisted_kafka.system import machine
from twisted_kafka.system.interpreter import HAS_INTERPRETER_LOCK
from twisted_kafka.system.threads import make_thread, repeat
from twisted_kafka.timing.clock import IClock

CHECK_S = 0.000_5
"""Time between two checks. A request that is under way at both is stalled."""

PUT_OFF_S = 0.002
"""The watch's thread checks when no network thread has for so long: more than a round of requests takes."""

COMPUTING_CHECK_S: Final = 0.002_5 if HAS_INTERPRETER_LOCK else 0.0
"""Time between two checks while the process computes. So a request that computes is stalled after 2.5 to 5 ms.

The watch's thread sleeps as long: whenever it wakes, it takes the interpreter lock from a request that writes at that moment.
"""

COMPUTING_SHARE: Final = 2
"""The process computes if it has used a processor for at least 1/COMPUTING_SHARE of the time."""

_CHECK_NS = int(CHECK_S * 1e9)
_COMPUTING_CHECK_NS = int(COMPUTING_CHECK_S * 1e9)
_STOP_S = 5.0


class StallWatch:
    """Checks request channels while requests are being handled."""

    __slots__ = (
        "_channels",
        "_checked_ns",
        "_cpu_ns",
        "_lock",
        "_looked",
        "_now_ns",
        "_passed_ns",
        "_stopping",
        "_thread",
        "_timer",
    )

    def __init__(self, channels: Sequence[RequestChannel], clock: IClock, name: str, timer: IWakeUpTimer | None = None) -> None:
        """``name`` is the thread's name."""
        self._channels = channels
        self._now_ns = clock.steady_ns
        self._cpu_ns = clock.cpu_ns
        self._looked = (0, 0)  # at the last look: the time, and the processor time used
        self._passed_ns = 0  # the time of the last check that was not put off
        self._timer = timer or make_wake_up_timer()
        self._checked_ns = 0
        self._stopping = machine.Event()
        self._lock = machine.Lock()
        self._thread = make_thread(self._run, name)
        for channel in channels:
            channel.watch = self.watch

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread. Requests must not be handled any more."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        if self._thread.ident is not None:
            self._timer.start(0)
            self._thread.join(_STOP_S)
        for channel in self._channels:
            channel.watch = _do_nothing
        self._timer.close()

    def watch(self, now_ns: int) -> None:
        """Check the channels while requests are handled. From any thread.

        Called when a request has been taken from the queue, and other threads can see that; extra calls do no harm.
        """
        if now_ns - self._checked_ns >= _CHECK_NS:
            self._checked_ns = now_ns
            self._timer.start(PUT_OFF_S)
            if self._lock.acquire(blocking=False):  # otherwise another thread checks at the moment
                try:
                    self._check()
                finally:
                    self._lock.release()

    def expired(self) -> None:
        """Check the channels because no network thread has for a while. Called by the thread."""
        # In this order: a thread that is about to handle a request is either seen here, or starts the timer itself.
        self._checked_ns = 0
        with self._lock:
            delay_s = CHECK_S  # also if the check fails: nobody else might look
            try:
                delay_s = self._check()
            finally:
                if delay_s:
                    self._timer.start(delay_s)

    def _check(self) -> float:
        """Check the channels unless the check is put off; return the time until the next one, 0 if there is nothing to look for."""
        if self._is_put_off():
            return COMPUTING_CHECK_S
        is_active = False
        for channel in self._channels:
            is_active |= channel.check_stalls()
        return CHECK_S if is_active else 0.0

    def _is_put_off(self) -> bool:
        """Whether the process computes, and the last check was not long ago."""
        now_ns, used_ns = self._now_ns(), self._cpu_ns()
        looked_ns, used_before_ns = self._looked
        self._looked = now_ns, used_ns
        is_computing = (used_ns - used_before_ns) * COMPUTING_SHARE > now_ns - looked_ns
        if is_computing and now_ns - self._passed_ns < _COMPUTING_CHECK_NS:
            return True
        self._passed_ns = now_ns
        return False

    def _run(self) -> None:
        repeat(self._step, self._stopping.wait, "the stall watch")

    def _step(self) -> bool:
        self._timer.wait()
        if self._stopping.is_set():
            return False
        self.expired()
        return True


def _do_nothing(now_ns: int) -> None:
    pass
