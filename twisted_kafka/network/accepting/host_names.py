"""Addresses of hosts, looked up within a time limit.

``getaddrinfo`` cannot be interrupted: with a name server that does not answer it takes as long as the system's resolver tries,
often half a minute. So names are looked up on threads of their own, and the caller waits ``LOOKUP_TIMEOUT_S`` at most.
"""

import socket
import threading
from concurrent.futures import Future
from typing import Final

LOOKUP_TIMEOUT_S: Final = 5.0

MAX_LOOKUPS: Final = 4
"""Names that this process looks up at the same time. When so many hang, the next one fails at once."""

_free = threading.BoundedSemaphore(MAX_LOOKUPS)


class UnknownHostError(OSError):
    """A host's addresses could not be found; the text says why."""


def addresses(host: str) -> list[str]:
    """Return the addresses of a host, each once; for an address just that. Raises UnknownHostError."""
    try:
        return _look_up(host, socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        pass  # a name: only these need name servers
    if not _free.acquire(blocking=False):
        raise UnknownHostError(f"{MAX_LOOKUPS} lookups of other hosts hang")
    found: Future[list[str]] = Future()
    threading.Thread(target=_fill, args=(found, host), name=f"host-name-lookup-{host}", daemon=True).start()
    try:
        return found.result(LOOKUP_TIMEOUT_S)
    except TimeoutError:
        raise UnknownHostError(f"no name server answered within {LOOKUP_TIMEOUT_S:g} s") from None
    except OSError as error:
        raise UnknownHostError(error.strerror or str(error)) from error
    except UnicodeError as error:
        raise UnknownHostError("it is not the name of a host") from error


def _fill(found: "Future[list[str]]", host: str) -> None:
    try:
        found.set_result(_look_up(host))
    except BaseException as error:  # noqa: BLE001 it is raised where the result is awaited
        found.set_exception(error)
    finally:
        _free.release()


def _look_up(host: str, flags: int = 0) -> list[str]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=flags)
    return list(dict.fromkeys(str(info[4][0]) for info in found))
