"""The machine on which the broker runs: threads, locks, random numbers, uuids, and host names.

Each name is the standard library's: ``machine.Lock`` *is* ``threading.Lock``. A simulated machine (``twisted_kafka.world``) rebinds
the names. So code looks them up here when it makes a lock or a thread, and never with ``from ... import Lock``; the lock itself
costs nothing more. Time comes from an ``IClock``. A test of the house rules finds code that goes around this module.
"""

import os
import random
import socket
from base64 import urlsafe_b64encode
from concurrent.futures import Future, ThreadPoolExecutor
from threading import BoundedSemaphore, Condition, Event, Lock, RLock, Thread, current_thread, get_ident, local
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

__all__ = [
    "BoundedSemaphore",
    "Condition",
    "Event",
    "Lock",
    "RLock",
    "Thread",
    "ThreadPoolExecutor",
    "chance",
    "current_thread",
    "get_ident",
    "getaddrinfo",
    "gethostname",
    "is_simulated",
    "local",
    "make_reactor",
    "make_socket",
    "new_uuid",
    "random_bytes",
    "random_text",
    "result_of",
]

R = TypeVar("R")

is_simulated = False
"""Whether this machine is simulated: without descriptors that the system's calls know, and with time that passes only in waits."""

chance = random
"""Numbers that may be guessed: jitter, samples. Secrets are made of ``random_bytes``."""

random_bytes = os.urandom
getaddrinfo = socket.getaddrinfo
gethostname = socket.gethostname
make_socket = socket.socket

make_reactor: "Callable[[Any], Any] | None" = None
"""Makes the reactor of a network thread on an ``IClock``, in place of this machine's."""


def result_of(future: "Future[R]", timeout_s: float | None = None) -> R:
    """Wait for a future; return its result or raise its exception. Raises TimeoutError after ``timeout_s`` seconds.

    A future that is done needs no wait: ``future.result()`` is enough.
    """
    return future.result(timeout_s)


def random_text(entropy_bytes: int) -> str:
    """Return a random text of URL-safe characters."""
    return urlsafe_b64encode(random_bytes(entropy_bytes)).rstrip(b"=").decode("ascii")


def new_uuid() -> "UUID":
    """Return a random UUID (version 4)."""
    from uuid import UUID  # takes milliseconds to import, and few need it at the start

    return UUID(bytes=random_bytes(16), version=4)
