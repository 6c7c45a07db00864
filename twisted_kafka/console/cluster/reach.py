"""Reaches brokers with a client's settings. Every failure is one line with the remedy."""

import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from twisted_kafka.client.connections.socket_connection import SocketConnection
from twisted_kafka.client.errors import NotAResponseError, PeerRefusedError, Refusal
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.compiler.wire import MalformedMessageError
from twisted_kafka.protocol.messages.sasl import SaslHandshakeRequest
from twisted_kafka.timing.clock import SystemClock

if TYPE_CHECKING:
    from twisted_kafka.console.cluster.secured import Secured

_HANDSHAKE_VERSION: Final = 1
_TLS_ALERT: Final = b"\x15\x03"
_HTTP: Final = b"HTTP"

_ADVICE: Final = {
    Refusal.NO_TLS: "set security.protocol=PLAINTEXT or SASL_PLAINTEXT",
    Refusal.TLS: "compare ssl.enabled.protocols and ssl.cipher.suites with the broker's",
    Refusal.UNTRUSTED: "set ssl.truststore.location to a store with the authority that signed it",
    Refusal.HOST: "connect with a name in the certificate, or set ssl.endpoint.identification.algorithm to nothing",
    Refusal.OWN_CERTIFICATE: "set ssl.keystore.location to a certificate that the broker trusts",
    Refusal.NO_SASL: "set security.protocol=PLAINTEXT, or SSL",
    Refusal.MECHANISM: "set sasl.mechanism to one of these",
    Refusal.LOGIN: "check the user name and the password in sasl.jaas.config",
}


class NoAnswerError(Exception):
    """The other side does not answer like a Kafka broker. The text describes its behaviour and gives advice."""

    def __init__(self, text: str, *, is_refused: bool = False) -> None:
        """``is_refused``: one side rejects the other, so that a retry cannot help."""
        super().__init__(text)
        self.is_refused = is_refused


class Reach:
    """Connects to brokers with one client's settings."""

    def __init__(self, settings: Mapping[str, str], client_id: str, timeout_s: float) -> None:
        """``timeout_s`` is for each step. Raises ConfigError."""
        self._client_id = client_id
        self._timeout_s = timeout_s
        self._secured = _secured(settings, client_id) if settings else None

    def connect(self, host: str, port: int) -> SocketConnection:
        """Connect and log in. Raises NoAnswerError."""
        try:
            return self._connect(host, port)
        except (OSError, PeerRefusedError, NotAResponseError) as error:
            raise self.explained(error, host, port) from None

    def ask(self, host: str, port: int, request: Message, version: int) -> Any:
        """Return a broker's answer over a connection of its own. Raises NoAnswerError."""
        try:
            with self._connect(host, port) as connection:
                return connection.ask(request, version, self._timeout_s)
        except (OSError, PeerRefusedError, NotAResponseError, MalformedMessageError) as error:
            raise self.explained(error, host, port) from None

    def ask_after_log_in(self, host: str, port: int, request: Message, version: int) -> Any:
        """Return the answer to a request that may need a login first. Raises NoAnswerError."""
        try:
            return self.ask(host, port, request, version)
        except NoAnswerError as error:
            raise self.with_missing_login(error, host, port) from None

    def with_missing_login(self, error: NoAnswerError, host: str, port: int) -> NoAnswerError:
        """Return a better error than this one if the listener requires a login that these settings do not have."""
        if self._secured is not None and self._secured.protocol.startswith("SASL_"):
            return error
        try:
            mechanisms = self.ask(host, port, SaslHandshakeRequest(mechanism="-"), _HANDSHAKE_VERSION).mechanisms
        except NoAnswerError:  # the earlier error says more
            return error
        if not mechanisms:
            return error
        advice = f"set security.protocol=SASL_{'SSL' if self._has_tls else 'PLAINTEXT'}, sasl.mechanism and sasl.jaas.config"
        return NoAnswerError(f"{host}:{port} requires a login with {', '.join(mechanisms)}: {advice}")

    def explained(self, error: Exception, host: str, port: int) -> NoAnswerError:
        """Return the error of a connection as one line with advice."""
        where = f"{host}:{port}"
        match error:
            case PeerRefusedError():
                text = f"cannot connect to {where}: {str(error).rstrip('.')}; {_ADVICE[error.refusal]}"
            case socket.gaierror():
                text = f"{host} has no address: check the name, or DNS"
            case TimeoutError():
                limit = f"{self._timeout_s:g} s"
                text = f"{where} does not answer within {limit}: check for a firewall, and that this is a Kafka listener"
            case OSError():
                text = f"{where} cannot be reached: {error.strerror or error}; start the broker, or check the address"
            case NotAResponseError():
                text = f"{where} {self._reason((host, port), error.received)}"
            case _:
                text = f"{where} is not a Kafka broker ({error}): use the port of a Kafka listener"
        return NoAnswerError(text, is_refused=isinstance(error, PeerRefusedError))

    @property
    def _has_tls(self) -> bool:
        return self._secured is not None and self._secured.protocol.endswith("SSL")

    def _connect(self, host: str, port: int) -> SocketConnection:
        if self._secured is None:
            return SocketConnection((host, port), self._client_id, self._timeout_s)
        return self._secured.connect((host, port), self._timeout_s)

    def _reason(self, address: tuple[str, int], received: bytes) -> str:
        if received == _HTTP:
            return "is a web server: use the port of a Kafka listener"
        if self._has_tls:
            return "closes the connection: if the listener has no TLS, set security.protocol=PLAINTEXT or SASL_PLAINTEXT"
        if received.startswith(_TLS_ALERT) or (not received and self._speaks_tls(address)):
            return "requires TLS: set security.protocol=SSL or SASL_SSL in clients, and here in a --command-config file"
        if received:
            return "does not answer like a Kafka broker: use the port of a Kafka listener"
        return "closes the connection: it requires a SASL login (security.protocol), or it is not a Kafka broker"

    def _speaks_tls(self, address: tuple[str, int]) -> bool:
        """Whether the listener answers a TLS handshake. Nothing is sent over it, so the peer is not verified."""
        import ssl  # few runs need it

        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        try:
            with socket.create_connection(address, self._timeout_s) as connection, context.wrap_socket(connection):
                return True
        except ssl.SSLEOFError:
            return False
        except ssl.SSLError as error:  # an alert, for example from a listener that requires another version
            return "ALERT" in (error.reason or "")
        except OSError:
            return False


def _secured(settings: Mapping[str, str], client_id: str) -> "Secured":
    from twisted_kafka.console.cluster.secured import Secured  # imports TLS and SASL, which few runs need

    return Secured(settings, client_id, SystemClock())
