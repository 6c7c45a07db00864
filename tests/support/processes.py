"""Programs that tests and benchmarks start, and that do not outlive them."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Collection, Iterator
from functools import partial
from typing import Any

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)  # loaded here: between fork and exec there is to be as little as possible


def start_tied(command: list[str], **options: Any) -> "subprocess.Popen[Any]":
    """Start a program that is killed as soon as this process is gone, whatever ended it.

    What Linux tells is the death of the thread that started it: a program that another than the main thread starts is not tied,
    nor is any on other systems.
    """
    if sys.platform == "linux" and threading.current_thread() is threading.main_thread():
        options["preexec_fn"] = partial(end_with_parent, os.getpid())
    return subprocess.Popen(command, **options)


def end_with_parent(parent: int) -> None:
    """Have this process, a child of ``parent``, killed with it; call it first thing in the child."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # gone already
        os._exit(1)


@contextlib.contextmanager
def signals_end(ignored: Collection[signal.Signals] = ()) -> Iterator[None]:
    """Have what is started meanwhile end on the signals that end a program started at a terminal, but for those ``ignored``.

    A program inherits what its parent ignores: SIGHUP under nohup, SIGINT in the background of a script. On the main thread only.
    """
    before = {}
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        before[number] = signal.signal(number, signal.SIG_IGN if number in ignored else usual)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
