"""Sends requests with a client's settings, in the form of Kafka's tools: over TLS, and after a SASL login."""

from collections.abc import Mapping
from typing import Any, Final

from twisted.internet.error import ConnectError, DNSLookupError
from twisted.internet.error import TimeoutError as ConnectTimeoutError
from twisted.python.failure import Failure
from zope.interface import implementer

from twisted_kafka.client.broker_connection import BrokerConnection, IConnectionOwner, PeerRefusedError
from twisted_kafka.client.client_settings import Node
from twisted_kafka.client.connector import IConnector
from twisted_kafka.client.inter_broker import connector_for
from twisted_kafka.client.one_request import NotAResponseError
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.network.loop.reactors import close_reactor, make_reactor
from twisted_kafka.protocol.api import response_class
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.headers import encode_request_header, parse_response_header
from twisted_kafka.protocol.regions import Buffer
from twisted_kafka.security.sasl.clients import MECHANISM_KEY, InterBrokerClients
from twisted_kafka.security.sasl.listener_settings import JAAS
from twisted_kafka.timing.clock import IClock

PROTOCOL_KEY: Final = "security.protocol"
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_CORRELATION_ID: Final = 1
_MAX_RESPONSE_BYTES: Final = 64 * 1024 * 1024
_OWN_PREFIXES: Final = ("ssl.", "sasl.")
_GSSAPI: Final = "GSSAPI"


class Secured:
    """Sends requests with one client's settings, each over its own connection. It blocks."""

    def __init__(self, settings: Mapping[str, str], client_id: str, clock: IClock) -> None:
        """``settings`` are a client's, by Kafka's names; only security settings have an effect. Raises ConfigError."""
        self.protocol = settings.get(PROTOCOL_KEY, PROTOCOLS[0]).strip().upper()
        if self.protocol not in PROTOCOLS:
            raise ConfigError(f"Invalid value {settings[PROTOCOL_KEY]!r} for {PROTOCOL_KEY}: must be one of {', '.join(PROTOCOLS)}")
        if self.protocol.startswith("SASL_") and JAAS not in settings:
            raise ConfigError(f"{JAAS} is missing: {PROTOCOL_KEY}={self.protocol} needs a login module with its user and password")
        self._config = _as_between_brokers(settings, self.protocol)
        self._client_id = client_id
        self._clock = clock
        reactor = make_reactor(clock)  # the settings are read once now, so that their errors come before the first connection
        try:
            self._connector(reactor)
        finally:
            close_reactor(reactor)

    def ask(self, address: tuple[str, int], request: Message, version: int, timeout_s: float) -> Any:
        """Connect to host and port, send the request, and return the response.

        Raises PeerRefusedError if one side rejects the other, NotAResponseError, MalformedMessageError, or OSError.
        """
        frame = encode_request_header(request.KEY, version, _CORRELATION_ID, self._client_id), request.encode(version)
        reactor = make_reactor(self._clock)
        try:
            attempt = _Attempt(frame, reactor.stop)
            reactor.callWhenRunning(lambda: attempt.begin(self._connector(reactor), address, timeout_s))
            reactor.callLater(timeout_s, attempt.end, TimeoutError())
            reactor.run(installSignalHandlers=False)
        finally:
            close_reactor(reactor)
        body = attempt.answer
        return response_class(request.KEY).decode(body, version, parse_response_header(request.KEY, version, body)[1])

    def _connector(self, reactor: Any) -> IConnector:
        sasl = InterBrokerClients(self._config, self.protocol, self._clock) if self.protocol.startswith("SASL_") else None
        return connector_for(self._config, self.protocol, reactor, sasl)


def _as_between_brokers(settings: Mapping[str, str], protocol: str) -> KafkaConfig:
    """Return the configuration of a broker that would connect to other brokers like this client."""
    own = {key: value for key, value in settings.items() if key.startswith(_OWN_PREFIXES)}
    mechanism = own.pop("sasl.mechanism", _GSSAPI)
    return KafkaConfig.embedded(
        {
            **own,
            MECHANISM_KEY: mechanism,
            "sasl.enabled.mechanisms": mechanism,
            "listeners": f"{protocol}://127.0.0.1:0",
            "security.inter.broker.protocol": protocol,
        }
    )


@implementer(IConnectionOwner)
class _Attempt:
    """One connection, one request, one answer; ``stop`` is called after it, once."""

    def __init__(self, frame: tuple[bytes, bytes], stop: Any) -> None:
        self._frame = frame
        self._stop = stop
        self._answer: bytes | None = None
        self._error: BaseException | None = None

    @property
    def answer(self) -> bytes:
        """The answer; raises the error if there is no answer."""
        if self._answer is None:
            raise self._error or NotAResponseError(b"")
        return self._answer

    def begin(self, connector: IConnector, address: tuple[str, int], timeout_s: float) -> None:
        """Connect."""
        connecting = connector.connect(Node(-1, *address), self, _MAX_RESPONSE_BYTES, timeout_s)
        connecting.addErrback(self._not_connected)

    def end(self, error: BaseException | None) -> None:
        """End, with an error unless there is an answer."""
        if self._error is None and self._answer is None:
            self._error = error or NotAResponseError(b"")
            self._stop()

    def connection_made(self, connection: BrokerConnection) -> None:
        pass  # it is not secured yet (``IConnectionOwner``)

    def connection_secured(self, connection: BrokerConnection) -> None:
        """Send the request (``IConnectionOwner``)."""
        connection.send_frame(self._frame)

    def frame_received(self, connection: BrokerConnection, frame: Buffer) -> None:
        """Take the answer (``IConnectionOwner``)."""
        if self._error is None and self._answer is None:
            self._answer = bytes(frame)
            self._stop()

    def connection_lost(self, connection: BrokerConnection, why: BaseException | None) -> None:
        """Remember the reason (``IConnectionOwner``)."""
        self.end(why if isinstance(why, PeerRefusedError) else NotAResponseError(b""))

    def _not_connected(self, failure: Failure) -> None:
        error = failure.value
        if isinstance(error, DNSLookupError):
            self.end(OSError("its name has no address: check the name, or DNS"))
        elif isinstance(error, ConnectTimeoutError):
            self.end(TimeoutError())
        elif isinstance(error, ConnectError):
            self.end(OSError(error.osError, str(error.args[0]) if error.args else "cannot connect"))
        else:
            self.end(error)
