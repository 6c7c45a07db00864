"""The memory that a call allocates, on interpreters that can trace it."""

import importlib
from collections.abc import Callable

import pytest


def traced_peak_bytes(call: Callable[[], object]) -> int:
    """Return the most bytes that were allocated at once during ``call``; skips the test where nothing traces them (PyPy)."""
    try:
        tracemalloc = importlib.import_module("tracemalloc")
    except ImportError:
        pytest.skip("this interpreter has no tracemalloc")
    tracemalloc.start()
    try:
        before: int = tracemalloc.get_traced_memory()[0]
        call()
        peak: int = tracemalloc.get_traced_memory()[1]
        return peak - before
    finally:
        tracemalloc.stop()
