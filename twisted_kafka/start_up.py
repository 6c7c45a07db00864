"""What makes `twistd kafka` start fast: most of that time is spent on importing, so as little as possible happens meanwhile.

Three habits, kept by tests/broker/test_start_up.py, which says what a plain start may not import:

- Who needs a module only for a feature that many brokers do not use (TLS, the metrics endpoint, a codec, tools) imports it in the
  function that first needs it, and under ``TYPE_CHECKING`` for its annotations.
- The garbage collector does not run while modules are imported (``without_collector``).
- Twisted's reactor does not load OpenSSL unless there is a listener for it (``without_tls``).

This module itself imports next to nothing.
"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SERVE_COMMAND = "twisted-kafka serve"
"""``sys.argv[0]`` when that command, not twistd, runs the broker; messages and help name the program by it."""

_TLS_LIBRARY = "OpenSSL"


@contextmanager
def without_collector() -> Iterator[None]:
    """Keep the garbage collector from running, and from ever looking at what was made meanwhile.

    Importing makes some 200,000 objects that stay. The collector would look through them time and again, an eighth of the start;
    afterwards each full collection would stop all threads for as long as it takes to look at them once more.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def without_tls(needed: bool) -> Iterator[None]:
    """Leave TLS out while the reactor is imported, unless it is ``needed``.

    Twisted's reactor loads OpenSSL, cryptography and service_identity if they are there: a seventh of the start's time and a
    fifth of an idle broker's memory. Afterwards they can be imported as always.
    """
    if needed or _TLS_LIBRARY in sys.modules:
        yield
        return
    sys.modules[_TLS_LIBRARY] = None  # type: ignore[assignment]  # which makes its import fail
    try:
        yield
    finally:
        del sys.modules[_TLS_LIBRARY]
