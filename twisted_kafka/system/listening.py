"""Listening at an address: how to have it alone, and why a program cannot, for the person who started it."""

import errno
import socket
from typing import Final

_EXCLUSIVE: Final[int | None] = getattr(socket, "SO_EXCLUSIVEADDRUSE", None)


def take_address(listening: socket.socket) -> None:
    """Let a socket bind to the port of a program that has ended a moment ago, but not to that of one that runs; raises OSError.

    On Windows SO_REUSEADDR would take the port of a program that runs.
    """
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR if _EXCLUSIVE is None else _EXCLUSIVE, 1)


def why_not_bound(error: OSError) -> str:
    """Return why a port cannot be had, and what to do if another program has it."""
    advice = "; stop what listens there, or take another port (0: a free one)" if error.errno == errno.EADDRINUSE else ""
    return f"{error.strerror or error}{advice}"
