"""TLS over a socket that blocks, with host name verification."""

import selectors
import socket
from collections.abc import Callable
from typing import Final, TypeVar

from OpenSSL import SSL
from service_identity import CertificateError, VerificationError
from service_identity.pyopenssl import verify_hostname, verify_ip_address

from twisted_kafka.client.connections.addresses import is_address
from twisted_kafka.client.errors import NotAResponseError, PeerRefusedError, Refusal
from twisted_kafka.timing.clock import SystemClock
from twisted_kafka.tls.ssl_context import is_end_of_file, openssl_reason, reason_of

_T = TypeVar("_T")
_WRITE_BYTES: Final = 64 * 1024
_OF_OTHER_PROTOCOLS: Final = ("wrong version number", "packet length too long", "record layer failure")
"""OpenSSL's reasons for first bytes that are not TLS."""


class TlsStream:
    """The client's side of TLS, with the methods of a socket. Each step raises OSError, TimeoutError, or PeerRefusedError."""

    def __init__(self, connected: socket.socket, context: SSL.Context, host: str, timeout_s: float, *, verifies_host: bool) -> None:
        """Complete the handshake; the server's certificate must be valid for the host if ``verifies_host``.

        Raises PeerRefusedError, NotAResponseError if the server closes the connection, or OSError.
        """
        self._socket = connected
        connected.settimeout(0)
        self._timeout_s = timeout_s
        self._connection = SSL.Connection(context, connected)
        if not is_address(host):
            self._connection.set_tlsext_host_name(host.encode("idna"))
        self._connection.set_connect_state()
        try:
            self._step(self._connection.do_handshake)
            if verifies_host:
                (verify_ip_address if is_address(host) else verify_hostname)(self._connection, host)
        except (VerificationError, CertificateError, ValueError) as error:
            self.close()
            text = f"its certificate is not valid for {host} ({type(error).__name__})"
            raise PeerRefusedError(text, Refusal.HOST) from None
        except EOFError:
            self.close()
            raise NotAResponseError(b"") from None
        except BaseException:
            self.close()
            raise

    def settimeout(self, timeout_s: float, /) -> None:
        self._timeout_s = timeout_s

    def sendall(self, data: bytes, /) -> None:
        view = memoryview(data)
        try:
            while view:
                part = view[:_WRITE_BYTES]
                view = view[self._step(lambda: self._connection.send(part)) :]  # noqa: B023 (called at once)
        except EOFError:
            raise ConnectionResetError("the peer closed the connection") from None

    def recv(self, size_bytes: int, /) -> bytes:
        try:
            return self._step(lambda: self._connection.recv(size_bytes))
        except EOFError:
            return b""

    def close(self) -> None:
        self._socket.close()

    def _step(self, step: Callable[[], _T]) -> _T:
        """Repeat a step until OpenSSL has the bytes for it. Raises EOFError if the peer has closed the connection.

        The timeout is for the whole step: bytes that come one by one do not prolong it.
        """
        due_ns = SystemClock.steady_ns() + int(self._timeout_s * 1e9)
        while True:
            try:
                return step()
            except SSL.WantReadError:
                self._wait(selectors.EVENT_READ, due_ns)
            except SSL.WantWriteError:
                self._wait(selectors.EVENT_WRITE, due_ns)
            except (SSL.ZeroReturnError, SSL.SysCallError):
                raise EOFError from None
            except SSL.Error as error:
                if is_end_of_file(error):
                    raise EOFError from None
                raise PeerRefusedError(reason_of(error, self._connection), self._refusal(error)) from None

    def _refusal(self, error: SSL.Error) -> Refusal:
        if isinstance(self._connection.get_app_data(), str):
            return Refusal.UNTRUSTED
        reason = openssl_reason(error)
        if reason in _OF_OTHER_PROTOCOLS:
            return Refusal.NO_TLS
        return Refusal.OWN_CERTIFICATE if "certificate" in reason or "unknown ca" in reason else Refusal.TLS

    def _wait(self, event: int, due_ns: int) -> None:
        left_s = (due_ns - SystemClock.steady_ns()) / 1e9
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, event)
            if left_s <= 0 or not selector.select(left_s):
                raise TimeoutError
