"""A timer that one thread waits for and others put off, without waking it: Linux's timerfd.

A thread that looks every millisecond whether there is something to do has to take the interpreter lock each time, from a thread
that is busy with requests: that took a third of the broker's time. Elsewhere than on Linux there is no better way.
"""

import ctypes
import os
import sys
from typing import Protocol

from twisted_kafka.system import machine
from twisted_kafka.system.forks import close_in_children

_CLOCK_MONOTONIC = 1
_TFD_CLOEXEC = os.O_CLOEXEC if hasattr(os, "O_CLOEXEC") else 0
_COUNT_BYTES = 8


class IWakeUpTimer(Protocol):
    """One thread waits, any thread may start it again."""

    def start(self, delay_s: float) -> None:
        """Let ``wait`` return after ``delay_s`` seconds, not at the time that was set before. From any thread."""

    def wait(self) -> None:
        """Sleep until the time has come."""

    def close(self) -> None:
        """Free its resources. Nobody waits or starts it any more."""


class TimerFd:
    """A timer of the Linux kernel."""

    __slots__ = ("__weakref__", "_fd", "_settime")

    def __init__(self) -> None:
        """Raises OSError or AttributeError if the system has no such timers."""
        libc = ctypes.CDLL(None, use_errno=True)
        self._settime = libc.timerfd_settime
        self._settime.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
        if ctypes.sizeof(ctypes.c_long) != _COUNT_BYTES:
            raise OSError("the layout of its times is that of 64-bit systems")
        self._fd = libc.timerfd_create(_CLOCK_MONOTONIC, _TFD_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        close_in_children(self, TimerFd.close)

    def start(self, delay_s: float) -> None:
        # struct itimerspec: interval and first expiration, each in seconds and nanoseconds. It may be 0 only to stop the timer.
        seconds, fraction = divmod(delay_s, 1)
        times = (ctypes.c_long * 4)(0, 0, int(seconds), max(1, int(fraction * 1e9)))
        self._settime(self._fd, 0, ctypes.addressof(times), None)

    def wait(self) -> None:
        os.read(self._fd, _COUNT_BYTES)

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class SleepTimer:
    """Sleeps, and is woken once each time that it is started after it has expired."""

    __slots__ = ("_closed", "_delay_s", "_started")

    def __init__(self) -> None:
        self._closed = machine.Event()
        self._started = machine.Event()
        self._delay_s = 0.0

    def start(self, delay_s: float) -> None:
        """``IWakeUpTimer.start``; a timer that runs already is not put off."""
        self._delay_s = delay_s
        if not self._started.is_set():
            self._started.set()

    def wait(self) -> None:
        self._started.wait()
        self._closed.wait(self._delay_s)
        self._started.clear()

    def close(self) -> None:
        self._closed.set()


def make_wake_up_timer() -> IWakeUpTimer:
    """Return the best timer of this platform."""
    if sys.platform == "linux" and not machine.is_simulated:
        try:
            return TimerFd()
        except (OSError, AttributeError):  # not on this kernel, or in this C library
            return SleepTimer()
    return SleepTimer()
