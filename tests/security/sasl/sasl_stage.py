"""A SASL listener without sockets and threads: one processor, one handler, and clients that send frames."""

import struct
from typing import Any

from tests.support.fake import Fake
from tests.support.network_fakes import FakeTransport, Layer
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.metadata.features import FinalizedFeatures
from twisted_kafka.network.connection.channel import KafkaChannel
from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.api import ApiKey, response_class
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.headers import encode_request_header, parse_response_header
from twisted_kafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from twisted_kafka.protocol.messages.coordinators.groups import HeartbeatRequest, HeartbeatResponse
from twisted_kafka.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from twisted_kafka.security.sasl.failed_attempts import FailedAttempts
from twisted_kafka.security.sasl.mechanisms import SaslResources
from twisted_kafka.security.sasl.sasl_listener import SaslListener
from twisted_kafka.security.scram.credentials import ScramCredential
from twisted_kafka.server.apis.brokers.api_versions import VersionsApis
from twisted_kafka.server.apis.brokers.sasl import SaslApis
from twisted_kafka.server.dispatch import ApiRegistry, api
from twisted_kafka.server.kafka_apis import KafkaApis
from twisted_kafka.server.request_handler import KafkaRequestHandler
from twisted_kafka.timing.clock import ManualClock

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
PLAIN_SETTINGS = {
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_alice="alice-secret" user_bob="bob-secret";',
}
ALICE = b"\0alice\0alice-secret"
BOB = b"\0bob\0bob-secret"
DELAY_MS = 100


class Features:
    """Those of ``FeatureCache`` that ApiVersions reads."""

    current = FinalizedFeatures({}, -1)


class GuardedApis:
    """An API for the authenticated only, alone and in bundles; it remembers for whom it was called."""

    def __init__(self) -> None:
        self.callers: list[str] = []

    @api(HeartbeatRequest, HeartbeatResponse, versions=(0, 4))
    def heartbeat(self, context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
        self.callers.append(str(context.principal))
        return HeartbeatResponse()

    @heartbeat.read_together
    def read(self, context: RequestContext, frame: object, offset: int) -> Any:
        return "all", str(context.principal)

    @heartbeat.handle_together
    def beat_together(self, key: object, items: list[str]) -> list[None]:
        self.callers += items
        return [None] * len(items)

    @heartbeat.answer_together
    def answer(self, context: RequestContext, item: str, result: None) -> HeartbeatResponse:
        return HeartbeatResponse()


class Credentials(Fake):
    """SCRAM credentials of users and delegation tokens."""

    def __init__(self) -> None:
        self.users: dict[tuple[str, str], ScramCredential] = {}
        self.tokens: dict[tuple[str, str], tuple[ScramCredential, str, int]] = {}
        self.iterations = 4096

    def credential(self, mechanism: str, username: str) -> ScramCredential | None:
        return self.users.get((mechanism, username))

    def usual_iterations(self, mechanism: str) -> int:
        return self.iterations

    def token_credential(self, mechanism: str, token_id: str) -> tuple[ScramCredential, str, int] | None:
        return self.tokens.get((mechanism, token_id))


class Client:
    """One connection."""

    def __init__(self, stage: "SaslStage", channel: KafkaChannel, transport: FakeTransport) -> None:
        self._stage = stage
        self.channel = channel
        self.transport = transport
        self._correlation_id = 0

    def send_frame(self, frame: bytes) -> bytes:
        """Send a frame; return what was answered at once, without its size."""
        before = len(self.transport.written)
        if not self.transport.is_closed:
            self.channel.dataReceived(struct.pack(">i", len(frame)) + frame)
            self._stage.run()
        return self.transport.written[before:][4:]

    def send(self, request: Message, version: int) -> Any:
        """Send a request; return the response, None if there is none yet."""
        self._correlation_id += 1
        header = encode_request_header(ApiKey(request.KEY), version, self._correlation_id, "test")
        return self._decoded(self.send_frame(header + request.encode(version)), request.KEY, version)

    def answer_after_delay(self, key: int, version: int) -> Any:
        """Return the response that came only after ``connection.failed.authentication.delay.ms``."""
        before = len(self.transport.written)
        self._stage.layer.advance_ms(DELAY_MS - 1)
        assert len(self.transport.written) == before
        self._stage.layer.advance_ms(1)
        return self._decoded(self.transport.written[before:][4:], key, version)

    def _decoded(self, data: bytes, key: int, version: int) -> Any:
        if not data:
            return None
        correlation_id, offset = parse_response_header(key, version, data)
        assert correlation_id == self._correlation_id
        return response_class(key).decode(data, version, offset)

    def versions(self, version: int = 3) -> ApiVersionsResponse:
        return self.send(ApiVersionsRequest(client_software_name="test", client_software_version="1"), version)

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> Any:
        return self.send(SaslHandshakeRequest(mechanism=mechanism), version)

    def authenticate(self, token: bytes, version: int = 2) -> Any:
        return self.send(SaslAuthenticateRequest(auth_bytes=token), version)

    def heartbeat(self) -> Any:
        return self.send(HeartbeatRequest(), 4)

    def log_in(self, token: bytes = ALICE, mechanism: str = "PLAIN") -> Any:
        assert self.handshake(mechanism).error_code == 0
        answer = self.authenticate(token)
        assert answer.error_code == 0
        return answer

    @property
    def principal(self) -> str:
        return str(self.channel.connection.principal)


class SaslStage:
    """The listener ``SASL`` of a broker."""

    def __init__(self, settings: dict[str, str | None] | None = None, clock: ManualClock | None = None) -> None:
        self.clock = clock or ManualClock()
        self.layer = Layer(clock=self.clock)
        self.layer.processor.settings.failed_authentication_delay_ms = DELAY_MS
        self.scheduled: list[tuple[Any, int]] = []
        attempts = FailedAttempts(self.clock, lambda log, delay_ms: self.scheduled.append((log, delay_ms)))
        listeners: dict[str, str | None] = {
            "listeners": "SASL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
            "listener.security.protocol.map": "SASL:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
        }
        all_settings = {**listeners, **PLAIN_SETTINGS, **(settings or {})}
        self.config = KafkaConfig.embedded({key: text for key, text in all_settings.items() if text is not None})
        self.credentials = Credentials()
        self.listener = SaslListener(
            self.config, "SASL", SaslResources(self.clock, attempts, lambda: self.credentials, self.credentials)
        )
        self.guarded = GuardedApis()
        registry = ApiRegistry(
            [VersionsApis(lambda: registry.supported, Features(), MetadataCache(1, "cluster")), SaslApis(), self.guarded]  # type: ignore[arg-type]
        )
        apis = KafkaApis(registry, self.layer.channel, self.clock)
        self.layer.channel.bundled = apis.bundled
        self._handler = KafkaRequestHandler(self.layer.channel, apis.handle, "handler", bundles=apis)

    def connect(self) -> Client:
        channel, transport = self.layer.connect()
        channel.authenticate_with(self.listener.authenticator(channel.connection), self.listener.max_receive_bytes)
        return Client(self, channel, transport)

    def run(self) -> None:
        """Handle what is queued and send the responses."""
        while True:
            while self._handler.step(self.layer.parker, 0):
                pass
            self.layer.reactor.run_asked()
            if not self.layer.channel.has_work and not self.layer.channel.size:
                return
