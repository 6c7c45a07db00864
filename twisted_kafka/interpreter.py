"""The interpreter: what this broker does differently on PyPy, or without the interpreter lock.

Other modules ask these constants and never the interpreter's name, so that each difference is decided here.
"""

import os
import sys
from typing import Final

IS_PYPY: Final[bool] = sys.implementation.name == "pypy"

HAS_INTERPRETER_LOCK: Final[bool] = getattr(sys, "_is_gil_enabled", lambda: True)()
"""Whether only one thread at a time executes Python code; false on a free-threaded build (PEP 703)."""

NUMPY_PAYS: Final[bool] = not IS_PYPY
"""Whether numpy beats loops over bytes. PyPy compiles the loops, and calls numpy through an emulation of CPython's C API."""

HAS_AFFINITY: Final[bool] = hasattr(os, "sched_setaffinity")
"""Whether a thread can be bound to CPUs (not on macOS, nor on PyPy)."""
