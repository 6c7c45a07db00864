"""Host name lookups with a time limit.

``getaddrinfo`` cannot be interrupted: if the name server does not answer, it blocks until the system's resolver gives up, often
for half a minute. So each lookup runs on a thread of its own, and the caller waits at most ``LOOKUP_TIMEOUT_S``.
"""

import socket
from concurrent.futures import Future
from typing import Final

from twisted_kafka.system import machine
from twisted_kafka.system.threads import start_limited

LOOKUP_TIMEOUT_S: Final = 5.0

MAX_LOOKUPS: Final = 4
"""Most concurrent lookups. When this many hang, the next one fails at once."""

_free = machine.BoundedSemaphore(MAX_LOOKUPS)


class UnknownHostError(OSError):
    """A host name could not be resolved; the message says why."""


def addresses(host: str) -> list[str]:
    """Return the distinct addresses of a host; an IP address is returned as it is. Raises UnknownHostError."""
    if numeric := numeric_addresses(host):
        return numeric
    found: Future[list[str]] = Future()
    try:
        is_started = start_limited(_free, lambda: _fill(found, host), f"host-name-lookup-{host}")
    except RuntimeError as error:
        raise UnknownHostError(str(error)) from error
    if not is_started:
        raise UnknownHostError(f"{MAX_LOOKUPS} lookups of other hosts hang")
    try:
        return machine.result_of(found, LOOKUP_TIMEOUT_S)
    except TimeoutError:
        raise UnknownHostError(f"no name server answered within {LOOKUP_TIMEOUT_S:g} s") from None
    except OSError as error:
        raise UnknownHostError(error.strerror or str(error)) from error
    except UnicodeError as error:
        raise UnknownHostError("not a valid host name") from error


def numeric_addresses(host: str) -> list[str]:
    """Return the address if ``host`` is an IP address; an empty list for a name, which has to be looked up."""
    try:
        return _look_up(host, socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return []


def _fill(found: "Future[list[str]]", host: str) -> None:
    try:
        found.set_result(_look_up(host))
    except BaseException as error:  # noqa: BLE001 raised again by result()
        found.set_exception(error)


def _look_up(host: str, flags: int = 0) -> list[str]:
    found = machine.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=flags)
    return list(dict.fromkeys(str(info[4][0]) for info in found))
