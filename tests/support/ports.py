"""Ports for programs that have to be told one; whoever can binds port 0 instead."""

import socket
import sys

_held: list[socket.socket] = []


def free_port() -> int:
    """Return a port of 127.0.0.1 that the system gives to nobody else while this process lives.

    It stays bound here with SO_REUSEADDR and without listening, which lets a server with that option, as Twisted's and Java's
    have it, bind it too; Linux chooses such a port neither for port 0 nor for an outgoing connection. Other systems would refuse
    the server, so there the port is free only most probably.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    port = int(holder.getsockname()[1])
    if sys.platform == "linux":
        _held.append(holder)
    else:
        holder.close()
    return port
