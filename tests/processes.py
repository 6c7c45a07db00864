"""Programs that tests and benchmarks start, and that do not outlive them."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
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
