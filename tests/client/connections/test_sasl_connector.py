"""Connections that authenticate first: the exchange, what goes wrong in it, and connections whose session ends."""

from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from tests.support.client_harness import FakeConnector, Harness, Outcome
from tests.support.fake import Fake
from tests.support.security.scram_client import credential
from twisted_kafka.client.client_settings import ClientSettings
from twisted_kafka.client.connections.sasl_connector import SaslConnector
from twisted_kafka.client.connections.sasl_exchange import ISaslClient
from twisted_kafka.client.errors import AuthenticationError, ConnectError
from twisted_kafka.client.network_client import NetworkClient
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.protocol.messages.coordinators.groups import HeartbeatRequest, HeartbeatResponse
from twisted_kafka.protocol.messages.sasl import SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeResponse
from twisted_kafka.security.sasl.clients import OAuthBearerSaslClient, PlainSaslClient, ScramSaslClient
from twisted_kafka.security.sasl.scram import ScramSaslServer, ScramServerCallbackHandler
from twisted_kafka.security.scram.credentials import ScramCredential
from twisted_kafka.security.scram.formulas import SCRAM_SHA_512

HANDSHAKE, AUTHENTICATE, HEARTBEAT = 17, 36, 12


class Clients:
    """Makes clients with a function."""

    def __init__(self, make: Callable[[], ISaslClient]) -> None:
        self._make = make
        self.hosts: list[str] = []
        self.validations = 0

    def validate(self) -> None:
        self.validations += 1

    def client_for(self, host: str) -> ISaslClient:
        self.hosts.append(host)
        return self._make()


class SaslHarness(Harness):
    def __init__(self, make_client: Callable[[], ISaslClient]) -> None:
        super().__init__()
        self.background: list[tuple[Callable[[], object], Deferred[object]]] = []
        self.client = NetworkClient(
            self.clock,
            SaslConnector(self.connector, Clients(make_client), self.clock, self._in_background),
            ClientSettings(client_id="me", discover_versions=False),
            lambda: 0.5,
        )

    def _in_background(self, work: Callable[[], object]) -> "Deferred[object]":
        self.background.append((work, Deferred()))
        return self.background[-1][1]

    def begin(self) -> tuple[Any, Outcome]:
        """Connect, and let the mechanism be chosen."""
        outcome = self.send(HeartbeatRequest(group_id="g"))
        attempt = self.attempts[-1].succeed()
        (chosen,) = attempt.requests()
        assert chosen[:2] == (HANDSHAKE, 1)
        attempt.answer(chosen, SaslHandshakeResponse(mechanisms=["x"]))
        return attempt, outcome


def token_of(attempt: Any) -> tuple[Any, bytes]:
    (request,) = attempt.requests()
    assert request[:2] == (AUTHENTICATE, 1)
    return request, bytes(SaslAuthenticateRequest.decode(request[4], 1).auth_bytes)


class OneUser(Fake):
    def credential(self, mechanism: str, username: str) -> ScramCredential:
        return credential("secret", SCRAM_SHA_512)

    def usual_iterations(self, mechanism: str) -> int:
        return 4096


def plain() -> ISaslClient:
    return PlainSaslClient("broker", "secret")


def scram() -> ISaslClient:
    return ScramSaslClient(SCRAM_SHA_512, "broker", "secret")


def test_requests_are_sent_when_the_node_has_accepted_the_password() -> None:
    harness = SaslHarness(plain)
    attempt, outcome = harness.begin()
    request, token = token_of(attempt)
    assert token == b"\0broker\0secret"
    assert not harness.client.is_ready(1)
    attempt.answer(request, SaslAuthenticateResponse())
    (sent,) = attempt.requests()
    assert sent[0] == HEARTBEAT
    attempt.answer(sent, HeartbeatResponse(error_code=27))
    assert outcome.response.error_code == 27


def test_scram_proves_both_sides() -> None:
    server = ScramSaslServer(SCRAM_SHA_512, ScramServerCallbackHandler(OneUser()))
    harness = SaslHarness(scram)
    attempt, _ = harness.begin()
    for _ in range(2):
        request, token = token_of(attempt)
        attempt.answer(request, SaslAuthenticateResponse(auth_bytes=server.evaluate(token)))
    assert server.is_complete
    assert harness.client.is_ready(1)


@pytest.mark.parametrize("final", [b"", b"v=AAAA"])
def test_a_node_that_does_not_know_the_credential_is_not_sent_to(final: bytes) -> None:
    server = ScramSaslServer(SCRAM_SHA_512, ScramServerCallbackHandler(OneUser()))
    harness = SaslHarness(scram)
    attempt, outcome = harness.begin()
    request, token = token_of(attempt)
    attempt.answer(request, SaslAuthenticateResponse(auth_bytes=server.evaluate(token)))
    request, _ = token_of(attempt)
    attempt.answer(request, SaslAuthenticateResponse(auth_bytes=final))
    assert isinstance(outcome.error, AuthenticationError)
    assert "did not prove" in str(outcome.error)
    assert attempt.transport.is_aborted
    assert not attempt.requests()


@pytest.mark.parametrize(
    "first",
    [b"", b"r=x,s=eA==,i=4096", b"r=%s,s=eA==,i=4096", b"r=%sx,s=eA==,i=10000000", b"r=%sx,s=*,i=4096", b"r=%sx,s=eA==,i=1"],
)
def test_a_bad_challenge_ends_the_exchange(first: bytes) -> None:
    harness = SaslHarness(scram)
    attempt, outcome = harness.begin()
    request, token = token_of(attempt)
    attempt.answer(request, SaslAuthenticateResponse(auth_bytes=first.replace(b"%s", token.rpartition(b"r=")[2])))
    assert isinstance(outcome.error, AuthenticationError)


def test_a_token_that_is_refused_is_acknowledged() -> None:
    harness = SaslHarness(lambda: OAuthBearerSaslClient("a.b."))
    attempt, outcome = harness.begin()
    request, token = token_of(attempt)
    assert token == b"n,,\x01auth=Bearer a.b.\x01\x01"
    attempt.answer(request, SaslAuthenticateResponse(auth_bytes=b'{"status":"invalid_token"}'))
    request, token = token_of(attempt)
    assert token == b"\x01"
    attempt.answer(request, SaslAuthenticateResponse(error_code=58, error_message='{"status":"invalid_token"}'))
    assert "invalid_token" in str(outcome.error)


def test_a_token_that_is_accepted() -> None:
    harness = SaslHarness(lambda: OAuthBearerSaslClient("a.b."))
    attempt, _ = harness.begin()
    attempt.answer(token_of(attempt)[0], SaslAuthenticateResponse())
    assert harness.client.is_ready(1)


def test_the_reason_of_a_refusal_is_told() -> None:
    harness = SaslHarness(plain)
    attempt, outcome = harness.begin()
    attempt.answer(token_of(attempt)[0], SaslAuthenticateResponse(error_code=58, error_message="Invalid username or password"))
    assert "Invalid username or password" in str(outcome.error)
    outcome = harness.send(HeartbeatRequest())
    harness.clock.advance(10)
    attempt = harness.attempts[-1].succeed()
    attempt.answer(attempt.requests()[0], SaslHandshakeResponse(error_code=33, mechanisms=["GSSAPI"]))
    assert "does not have the mechanism PLAIN enabled, but GSSAPI" in str(outcome.error)


def test_a_connection_is_replaced_before_its_session_ends() -> None:
    harness = SaslHarness(plain)
    attempt, first = harness.begin()
    attempt.answer(token_of(attempt)[0], SaslAuthenticateResponse(session_lifetime_ms=10_000))
    (sent,) = attempt.requests()
    harness.clock.advance(9)
    second = harness.send(HeartbeatRequest())
    assert not attempt.requests()  # it waits until the first is answered
    attempt.answer(sent, HeartbeatResponse())
    assert first.response.error_code == 0
    assert attempt.transport.is_aborted
    replacement = harness.attempts[-1].succeed()
    assert replacement is not attempt
    replacement.answer(replacement.requests()[0], SaslHandshakeResponse())
    replacement.answer(token_of(replacement)[0], SaslAuthenticateResponse())
    (sent,) = replacement.requests()
    replacement.answer(sent, HeartbeatResponse())
    assert second.response.error_code == 0


class Watched(FakeConnector):
    reconfigured = 0

    def reconfigure(self, config: KafkaConfig) -> None:
        self.reconfigured += 1


def test_new_settings_are_passed_on() -> None:
    inner, clients = Watched(), Clients(plain)
    connector = SaslConnector(inner, clients, None)
    connector.reconfigure(KafkaConfig.embedded({}))
    assert (inner.reconfigured, clients.validations) == (1, 2)


# Clients whose first token takes long.


class Slow(PlainSaslClient):
    prepared = 0

    def prepare(self) -> None:
        self.prepared += 1


def slow() -> Slow:
    return Slow("broker", "secret")


def test_a_connection_is_opened_when_its_client_is_prepared() -> None:
    client = slow()
    harness = SaslHarness(lambda: client)
    outcome = harness.send(HeartbeatRequest(group_id="g"))
    assert not harness.attempts
    ((work, prepared),) = harness.background
    work()
    prepared.callback(None)
    assert client.prepared == 1
    attempt = harness.attempts[-1].succeed()
    (chosen,) = attempt.requests()
    attempt.answer(chosen, SaslHandshakeResponse(mechanisms=["x"]))
    attempt.answer(token_of(attempt)[0], SaslAuthenticateResponse())
    (sent,) = attempt.requests()
    attempt.answer(sent, HeartbeatResponse(error_code=27))
    assert outcome.response.error_code == 27


def test_a_client_that_cannot_be_prepared_fails_the_request() -> None:
    harness = SaslHarness(slow)
    outcome = harness.send(HeartbeatRequest())
    harness.background[0][1].errback(Failure(ValueError("no ticket")))  # type: ignore[no-untyped-call]
    assert "no ticket" in str(outcome.error)
    assert not harness.attempts


def test_a_client_that_is_not_prepared_in_time_fails_the_request() -> None:
    harness = SaslHarness(slow)
    outcome = harness.send(HeartbeatRequest())
    harness.clock.advance(40)
    assert isinstance(outcome.error, ConnectError)
    harness.background[0][1].callback(None)  # too late
    assert not harness.attempts
