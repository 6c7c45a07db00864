"""Fast start of ``twistd kafka``: with few partitions, most of the time is spent on imports.

Three rules, enforced by tests/broker/test_start_up.py, which lists what a plain start may not import:

- A module that is needed only for a feature that many brokers do not use (TLS, the metrics endpoint, a codec, tools) is imported in
  the function that first needs it, and under ``TYPE_CHECKING`` for annotations.
- The garbage collector does not run while modules are imported, nor while the broker starts (``without_collector``).
- Twisted's reactor does not load OpenSSL unless there is a listener for it (``without_tls``).

What the collector does later belongs here too: ``LongCollections`` keeps its long pauses rare.

On PyPy, a broker that is a process of its own also starts the interpreter a second time, to bound its memory and to import modules
without compiling them (``restart_interpreter``). This module itself imports next to nothing.
"""

import gc
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from twisted_kafka.system.interpreter import MEMORY_SETTINGS, START_OPTIONS

SERVE_COMMAND = "twisted-kafka serve"
"""``sys.argv[0]`` if this command runs the broker instead of twistd; used in messages and help."""

CLUSTER_COMMAND = "twisted-kafka cluster"
"""The same for several brokers."""

_TLS_LIBRARY = "OpenSSL"

_BROKER_PROGRAMS = ("twistd", "twist", "twisted-kafka")


def restart_interpreter() -> None:
    """Execute this program again with the interpreter's ``MEMORY_SETTINGS`` and ``START_OPTIONS``; it keeps its process id.

    Does nothing if the environment has all settings: what the user sets is kept. Nor does it in a program that embeds a broker.
    """
    missing = {name: value for name, value in MEMORY_SETTINGS.items() if name not in os.environ}
    if missing and os.path.basename(sys.argv[0]) in _BROKER_PROGRAMS:
        sys.stdout.flush()
        own = any(word.startswith("--jit") for word in sys.orig_argv)  # compile_loops would lose them
        options = () if own else START_OPTIONS
        os.execve(sys.executable, [sys.executable, *options, *sys.orig_argv[1:]], {**os.environ, **missing})


def compile_loops() -> None:
    """Switch on the compiler that ``START_OPTIONS`` have switched off."""
    if START_OPTIONS and tuple(sys.orig_argv[1 : 1 + len(START_OPTIONS)]) == START_OPTIONS:
        from importlib import import_module  # not while this module is imported

        import_module("pypyjit").set_param("default")


@contextmanager
def without_collector() -> Iterator[None]:
    """Disable the garbage collector, and afterwards exempt the objects that were made meanwhile from collection.

    Imports make some 200,000 permanent objects, and each partition another 60. Scanning them repeatedly would take an eighth of the
    start, a third with thousands of partitions, and later each full collection would stop all threads while it scans them again.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if hasattr(gc, "freeze"):  # PyPy's collector is generational and incremental
            gc.freeze()
        gc.enable()


class LongCollections:
    """Exempts what survives a long full collection from collection, for an hour.

    All threads wait while CPython's collector scans every object: 0.5 s with the logs of 10,000 partitions that were created since
    the start. These objects live long, so the next scan would find nothing. The first full collection after the hour frees the
    cycles that have become garbage meanwhile. A function for ``gc.callbacks``.
    """

    LONG_NS: Final = 100_000_000
    EXEMPT_NS: Final = 3_600_000_000_000
    _OLDEST: Final = 2

    def __init__(self, now_ns: Callable[[], int], collector: Any = gc) -> None:
        """``collector`` has the functions ``freeze`` and ``unfreeze`` of the module ``gc``."""
        self._now_ns = now_ns
        self._collector = collector
        self._began_ns = 0
        self._exempt_until_ns: int | None = None

    def __call__(self, phase: str, info: Mapping[str, int]) -> None:
        """Note the beginning or the end of a collection, as ``gc.callbacks`` documents."""
        if info["generation"] != self._OLDEST:
            return
        now_ns = self._now_ns()
        if phase == "start":
            self._began_ns = now_ns
            if self._exempt_until_ns is not None and now_ns >= self._exempt_until_ns:
                self._exempt_until_ns = None
                self._collector.unfreeze()
        elif now_ns - self._began_ns >= self.LONG_NS:
            if self._exempt_until_ns is None:
                self._exempt_until_ns = now_ns + self.EXEMPT_NS
            self._collector.freeze()


def keep_long_collections_rare(now_ns: Callable[[], int]) -> None:
    """Use ``LongCollections`` in this process, which is a broker of its own; not on PyPy, whose collector works in small steps."""
    if hasattr(gc, "callbacks") and not any(isinstance(each, LongCollections) for each in gc.callbacks):
        gc.callbacks.append(LongCollections(now_ns))


@contextmanager
def without_tls(needed: bool) -> Iterator[None]:
    """Hide OpenSSL while the reactor is imported, unless TLS is ``needed``.

    Twisted's reactor imports OpenSSL, cryptography and service_identity if they are installed, which takes a seventh of the start's
    time and a fifth of an idle broker's memory. They can be imported normally afterwards.
    """
    if needed or _TLS_LIBRARY in sys.modules:
        yield
        return
    sys.modules[_TLS_LIBRARY] = None  # type: ignore[assignment]  # makes its import fail
    try:
        yield
    finally:
        del sys.modules[_TLS_LIBRARY]
