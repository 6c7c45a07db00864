"""Closes descriptors in a forked process: it has copies of its parent's descriptors, but none of the threads that use them.

A program that runs a broker may fork, as multiprocessing does by default on Linux up to Python 3.13. A copy of a socket would keep
the parent's port and connections open, a copy of a locked file its directory locked. So a child closes both at once. Closing a copy
does nothing to the parent.
"""

import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from twisted_kafka.system import machine

_closers: Final[weakref.WeakKeyDictionary[object, Callable[[Any], object]]] = weakref.WeakKeyDictionary()
_lock = machine.Lock()


def close_in_children(resource: object, close: Callable[[Any], object]) -> None:
    """Call ``close(resource)`` in each process that is forked later, if ``resource`` still exists in the parent then.

    ``close`` must not change what parent and child share: it closes descriptors, and does not use them. It does nothing for a
    resource that is closed already.
    """
    with _lock:
        _closers[resource] = close


def never_finalize(resource: object) -> None:
    """Keep an object until the process is gone, so that its finalizer does not touch the parent's files."""
    try:
        from ctypes import py_object, pythonapi

        pythonapi.Py_IncRef(py_object(resource))
    except (ImportError, AttributeError):  # PyPy runs no finalizers at the end of a process
        _kept.append(resource)


_kept: Final[list[object]] = []


@contextmanager
def whole_copies() -> Iterator[None]:
    """Let a process that is forked meanwhile keep everything: no other process uses it at the same time."""
    global _is_whole
    _is_whole = True
    try:
        yield
    finally:
        _is_whole = False


_is_whole = False


def process_number() -> int:
    """Return the same number as in the parent in a whole copy, and another one in other forked processes."""
    return _number


_number = os.getpid()


def _in_child() -> None:
    global _lock, _number
    if _is_whole:
        return
    _number = os.getpid()
    _lock = machine.Lock()  # another thread of the parent may have held it
    for resource, close in list(_closers.items()):
        try:
            close(resource)
        except Exception:  # noqa: BLE001 the child has nothing to do with it
            continue
    _closers.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
