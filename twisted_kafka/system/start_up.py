"""Fast start of ``twistd kafka``: with few partitions, most of the time is spent on imports.

Three rules, enforced by tests/broker/test_start_up.py, which lists what a plain start may not import:

- A module that is needed only for a feature that many brokers do not use (TLS, the metrics endpoint, a codec, tools) is imported in
  the function that first needs it, and under ``TYPE_CHECKING`` for annotations.
- The garbage collector does not run while modules are imported, nor while the broker starts (``without_collector``).
- Twisted's reactor does not load OpenSSL unless there is a listener for it (``without_tls``).

On PyPy, a broker that is a process of its own also starts the interpreter a second time, to bound its memory and to import modules
without compiling them (``restart_interpreter``). This module itself imports next to nothing.
"""

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

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
