"""Fetches the content of an address, within a time and a size: a server may send without end, or a byte at a time."""

import http.client
import socket
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import unquote, urlsplit

from typing_extensions import override

from twisted_kafka.system import machine
from twisted_kafka.system.files.file_io import read_bounded
from twisted_kafka.system.threads import make_thread

SCHEMES: Final = ("https", "http", "file")

MAX_BYTES: Final = 1024 * 1024
"""The size of an answer, at most."""

TIMEOUT_S: Final = 10.0
"""How long an answer may take, with its redirections."""


def fetch(url: str, timeout_s: float = TIMEOUT_S) -> bytes:
    """Return the content of an address; raises OSError and ValueError."""
    address = urlsplit(url)
    if address.scheme not in SCHEMES:
        raise ValueError(f"the address must begin with one of {', '.join(SCHEMES)}")
    if address.scheme == "file":
        if address.netloc not in ("", "localhost"):
            raise ValueError("the address of a file names no host")
        return read_bounded(Path(unquote(address.path)), MAX_BYTES, may_wait=False)
    with _Deadline(timeout_s) as deadline:
        try:
            with _opener(deadline).open(url, timeout=timeout_s) as answer:
                found: bytes = answer.read(MAX_BYTES + 1)
        except http.client.HTTPException as error:
            raise OSError(f"the answer is not HTTP: {type(error).__name__}") from error
        finally:
            deadline.check()
    if len(found) > MAX_BYTES:
        raise ValueError(f"the answer has more than {MAX_BYTES} bytes")
    return found


class _Deadline:
    """Ends the connections that are made in its time, on a thread of its own: a socket's timeout is that of one read."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._lock = machine.Lock()
        self._is_done = machine.Event()
        self._is_over = False
        self._sockets: list[socket.socket] = []

    def __enter__(self) -> Self:
        make_thread(self._watch, "kafka-jwks-deadline").start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_done.set()
        self.leave()

    def leave(self) -> None:
        """End the connections that were made up to now."""
        with self._lock:
            self._end()
            for each in self._sockets:
                each.close()
            self._sockets.clear()

    def check(self) -> None:
        """Raise TimeoutError if the time is over."""
        if self._is_over:
            raise TimeoutError(f"the answer took more than {self._timeout_s:g} seconds")

    def connect(self, create: Callable[..., socket.socket], *arguments: Any) -> socket.socket:
        """Return the connection that ``create`` makes; it ends with the time."""
        self.check()
        made = create(*arguments)
        with self._lock:
            self._sockets.append(made.dup())  # the descriptor of ``made`` becomes that of a TLS socket
            if self._is_over:
                self._end()
        return made

    def _watch(self) -> None:
        if self._is_done.wait(self._timeout_s):
            return
        with self._lock:
            self._is_over = True
            self._end()

    def _end(self) -> None:
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


def _opener(deadline: _Deadline) -> urllib.request.OpenerDirector:
    """Return an opener of the schemes, and of the addresses that an http server redirects to."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.UnknownHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        _Redirects(deadline),
        urllib.request.HTTPErrorProcessor(),
        _HttpHandler(deadline),
        _HttpsHandler(deadline),
    ):
        opener.add_handler(handler)
    return opener


class _Redirects(urllib.request.HTTPRedirectHandler):
    def __init__(self, deadline: _Deadline) -> None:
        self._deadline = deadline

    @override
    def http_error_302(self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any) -> Any:
        fp.close()  # the text beside the new address would be read to its end, however long it is
        self._deadline.leave()
        return super().http_error_302(req, fp, code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


class _HttpHandler(urllib.request.HTTPHandler):
    def __init__(self, deadline: _Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    @override
    def http_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(_connections(http.client.HTTPConnection, self._deadline), req)


class _HttpsHandler(urllib.request.HTTPSHandler):
    def __init__(self, deadline: _Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    @override
    def https_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(_connections(http.client.HTTPSConnection, self._deadline), req)


def _connections(kind: type[http.client.HTTPConnection], deadline: _Deadline) -> Callable[..., http.client.HTTPConnection]:
    """Return what makes connections that end with the time, also while TLS is being negotiated."""

    def make(host: str, **options: Any) -> http.client.HTTPConnection:
        connection: Any = kind(host, **options)
        connection._create_connection = partial(deadline.connect, connection._create_connection)
        made: http.client.HTTPConnection = connection
        return made

    return make
