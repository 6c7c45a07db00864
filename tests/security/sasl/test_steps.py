"""Who gets in and who does not: whole exchanges over a SASL listener, as a client sees them."""

import random
import struct

import pytest
from twisted.logger import capturedLogs, formatEvent

from tests.security.sasl.sasl_stage import ALICE, BOB, DELAY_MS, Client, SaslStage
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.api_versions import ApiVersionsRequest
from twisted_kafka.protocol.messages.coordinators.groups import HeartbeatRequest
from twisted_kafka.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

HANDSHAKE, AUTHENTICATE, HEARTBEAT = int(ApiKey.SASL_HANDSHAKE), int(ApiKey.SASL_AUTHENTICATE), int(ApiKey.HEARTBEAT)
FUZZ_STEPS = 10_000
MANY_FUZZ_STEPS = 10_000_000


def test_a_client_asks_for_versions_chooses_a_mechanism_and_gets_in() -> None:
    stage = SaslStage()
    client = stage.connect()
    assert client.versions().error_code == 0
    assert client.handshake().mechanisms == ["PLAIN"]
    answer = client.authenticate(ALICE)
    assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms, answer.error_message) == (0, b"", 0, "")
    assert client.heartbeat().error_code == 0
    assert stage.guarded.callers == ["User:alice"]
    stats = stage.layer.processor.stats
    assert (stats.successful_authentications, stats.successful_authentications_no_reauth) == (1, 0)


def test_tokens_without_headers_follow_a_handshake_of_version_0() -> None:
    stage = SaslStage()
    client = stage.connect()
    assert client.handshake(version=0).error_code == 0
    before = client.transport.written
    client.send_frame(ALICE)
    assert client.transport.written[len(before) :] == b"\0\0\0\0"  # an empty token
    assert client.heartbeat().error_code == 0
    assert stage.guarded.callers == ["User:alice"]
    assert stage.layer.processor.stats.successful_authentications_no_reauth == 1


def test_a_token_may_look_like_a_request() -> None:
    stage = SaslStage()
    client = stage.connect()
    client.handshake(version=0)
    client.send_frame(struct.pack(">hhih", HEARTBEAT, 4, 1, -1) + b"\0" + HeartbeatRequest().encode(4))
    assert not stage.guarded.callers
    stage.layer.advance_ms(DELAY_MS)
    assert client.transport.is_closed


def test_a_refused_token_without_header_is_not_answered() -> None:
    stage = SaslStage()
    client = stage.connect()
    client.handshake(version=0)
    before = client.transport.written
    client.send_frame(b"\0alice\0wrong")
    stage.layer.advance_ms(DELAY_MS - 1)
    assert not client.transport.is_closed
    stage.layer.advance_ms(1)
    assert client.transport.is_closed
    assert client.transport.written == before


@pytest.mark.parametrize(
    ("token", "text"),
    [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0mallory\0alice-secret", "Authentication failed: Invalid username or password"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"\0\0alice-secret", "Authentication failed: username not specified"),
        (
            b"bob\0alice\0alice-secret",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        (
            b"alice",
            "Invalid SASL/PLAIN response: expected 3 tokens, got 1",
        ),
    ],
)
def test_a_client_is_told_after_the_delay_why_it_does_not_get_in(token: bytes, text: str) -> None:
    stage = SaslStage()
    client = stage.connect()
    client.handshake()
    assert client.authenticate(token) is None
    answer = client.answer_after_delay(AUTHENTICATE, 2)
    assert (answer.error_code, answer.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, text)
    assert client.transport.has_ended_sending
    assert client.authenticate(ALICE) is None  # too late
    stage.layer.advance_ms(1000)
    assert client.transport.is_closed
    assert client.principal == "User:ANONYMOUS"
    assert stage.layer.processor.stats.failed_authentications == 1
    assert [request.context.error for request in stage.layer.observer.completed][-1] == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_an_unknown_mechanism_is_answered_with_those_that_are_enabled() -> None:
    stage = SaslStage()
    client = stage.connect()
    assert client.handshake("GSSAPI") is None
    answer = client.answer_after_delay(HANDSHAKE, 1)
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, ["PLAIN"])
    stage.layer.advance_ms(1000)
    assert client.transport.is_closed


def test_a_request_before_the_handshake_closes_the_connection() -> None:
    stage = SaslStage()
    for asks_first in (False, True):
        client = stage.connect()
        if asks_first:
            client.versions()
        assert client.heartbeat() is None
        assert client.answer_after_delay(HEARTBEAT, 4) is None
        assert client.transport.is_closed
    assert not stage.guarded.callers


def test_a_request_instead_of_a_token_is_answered_as_by_kafka() -> None:
    stage = SaslStage()
    client = stage.connect()
    client.handshake()
    assert client.heartbeat() is None
    assert client.answer_after_delay(HEARTBEAT, 4).error_code == ErrorCode.ILLEGAL_SASL_STATE
    stage.layer.advance_ms(1000)
    assert client.transport.is_closed
    assert not stage.guarded.callers


def test_requests_of_several_connections_are_not_taken_together_with_those_of_strangers() -> None:
    stage = SaslStage()
    known, stranger, other = stage.connect(), stage.connect(), stage.connect()
    known.log_in(ALICE)
    other.log_in(BOB)
    data = struct.pack(">hhih", HEARTBEAT, 0, 7, -1) + HeartbeatRequest().encode(0)
    frame = struct.pack(">i", len(data)) + data
    for client in (known, stranger, other):
        client.channel.dataReceived(frame)
    stage.run()
    stage.layer.advance_ms(DELAY_MS)
    assert sorted(stage.guarded.callers) == ["User:alice", "User:bob"]
    assert stranger.transport.is_closed
    assert stranger.transport.written == b""


def test_sasl_requests_of_the_authenticated_are_illegal_but_harmless() -> None:
    client = SaslStage().connect()
    client.log_in()
    assert client.handshake().error_code == ErrorCode.ILLEGAL_SASL_STATE
    answer = client.authenticate(BOB)
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert answer.error_message == "SaslAuthenticate request received after successful authentication"
    assert client.versions().error_code == 0
    assert client.heartbeat().error_code == 0
    assert client.principal == "User:alice"


def test_versions_are_told_once_and_an_unknown_version_does_not_count() -> None:
    stage = SaslStage()
    client = stage.connect()
    frame = struct.pack(">hhih", int(ApiKey.API_VERSIONS), 99, 1, -1) + b"\0" + ApiVersionsRequest().encode(3)
    assert client.send_frame(frame)[4:6] == struct.pack(">h", ErrorCode.UNSUPPORTED_VERSION)
    assert client.versions(0).error_code == 0
    assert client.versions(0) is None
    stage.layer.advance_ms(DELAY_MS)
    assert client.transport.is_closed


def test_the_number_of_requests_is_limited() -> None:
    stage = SaslStage()
    client = stage.connect()
    bad = ApiVersionsRequest(client_software_name="-", client_software_version="1")  # answered INVALID_REQUEST: no step ahead
    answered = 0
    while not client.transport.is_closed and answered < 100:
        answered += client.send(bad, 3) is not None
        stage.layer.advance_ms(DELAY_MS)
    assert answered == 20


def test_a_request_may_be_large_only_from_the_authenticated() -> None:
    stage = SaslStage({"sasl.server.max.receive.size": "2000"})
    stranger = stage.connect()
    stranger.handshake()
    with capturedLogs() as logged:
        assert stranger.authenticate(b"\0alice\0" + b"x" * 3000) is None
    assert stranger.transport.is_closed
    assert any("larger than 2000" in (formatEvent(event) or "") for event in logged)
    known = stage.connect()
    known.log_in()
    assert known.send(HeartbeatRequest(group_id="g" * 3000), 4).error_code == 0


def test_what_a_callback_handler_raises_lets_nobody_in() -> None:
    stage = SaslStage({"listener.name.sasl.plain.sasl.server.callback.handler.class": f"{__name__}.BrokenHandler"})
    for name in (b"boom", b"one"):
        client = stage.connect()
        client.handshake()
        assert client.authenticate(b"\0" + name + b"\0secret") is None
        answer = client.answer_after_delay(AUTHENTICATE, 2)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert client.principal == "User:ANONYMOUS"
    assert stage.connect().log_in(b"\0truly\0secret").error_code == 0


class BrokenHandler:
    """A callback handler that raises, or answers with something that is not True."""

    def configure(self, configs: object, mechanism: str, jaas_entries: object) -> None:
        assert mechanism == "PLAIN"

    def handle(self, callback: object) -> None:
        name = callback.username  # type: ignore[attr-defined]
        if name == "boom":
            raise RuntimeError("out of order")
        callback.is_authenticated = 1 if name == "one" else True  # type: ignore[attr-defined]

    def close(self) -> None:
        pass


# Re-authentication (KIP-368).

REAUTH = {"connections.max.reauth.ms": "10000"}


def test_a_session_has_a_lifetime_and_is_renewed() -> None:
    stage = SaslStage(REAUTH)
    client = stage.connect()
    assert client.log_in().session_lifetime_ms == 10_000
    stage.layer.advance_ms(9_000)
    client.heartbeat()
    assert client.handshake().error_code == 0
    stage.layer.advance_ms(40)
    assert client.authenticate(ALICE).session_lifetime_ms == 10_000
    stage.layer.advance_ms(9_000)
    assert client.heartbeat().error_code == 0
    stats = stage.layer.processor.stats
    assert (stats.successful_reauthentications, stats.reauthentication_ms, stats.max_reauthentication_ms) == (1, 40, 40)
    assert stats.successful_authentications == 1


def test_a_session_that_has_ended_is_closed_on_its_next_request() -> None:
    stage = SaslStage(REAUTH)
    client = stage.connect()
    client.log_in()
    stage.layer.advance_ms(10_001)
    assert client.heartbeat() is None
    assert client.transport.is_closed
    assert not stage.guarded.callers
    assert stage.layer.processor.stats.expired_connections_killed == 1


def test_a_client_may_reauthenticate_after_its_session_has_ended() -> None:
    stage = SaslStage(REAUTH)
    client = stage.connect()
    client.log_in()
    stage.layer.advance_ms(20_000)
    client.log_in()
    assert client.heartbeat().error_code == 0


def test_old_clients_are_served_until_their_session_ends() -> None:
    stage = SaslStage(REAUTH)
    client = stage.connect()
    client.handshake()
    assert client.authenticate(ALICE, version=0).error_code == 0
    stage.layer.advance_ms(9_999)
    assert client.heartbeat().error_code == 0
    assert stage.layer.processor.stats.successful_authentications_no_reauth == 1


def test_neither_principal_nor_mechanism_may_change() -> None:
    stage = SaslStage(REAUTH)
    client = stage.connect()
    client.log_in()
    assert client.handshake().error_code == 0
    assert client.authenticate(BOB) is None
    answer = client.answer_after_delay(AUTHENTICATE, 2)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "Cannot change principals during re-authentication from User.alice: User.bob"
    assert client.principal == "User:alice"
    stats = stage.layer.processor.stats
    assert (stats.failed_reauthentications, stats.failed_authentications) == (1, 0)


def test_nothing_else_is_served_during_a_reauthentication() -> None:
    stage = SaslStage(REAUTH)
    client = stage.connect()
    client.log_in()
    client.handshake()
    assert client.heartbeat() is None
    assert client.answer_after_delay(HEARTBEAT, 4).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert not stage.guarded.callers


def test_a_second_reauthentication_within_a_second_is_illegal() -> None:
    client = SaslStage(REAUTH).connect()
    client.log_in()
    client.log_in()
    assert client.handshake().error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.heartbeat().error_code == 0


# The log.


def test_failures_are_logged_once_a_second_with_a_count_and_without_secrets() -> None:
    stage = SaslStage()
    with capturedLogs() as logged:
        for _ in range(5):
            client = stage.connect()
            client.handshake()
            client.authenticate(b"\0alice\0wrong-secret")
        (log, delay_ms), *others = stage.scheduled
        assert (delay_ms, others) == (1000, [])
        stage.layer.advance_ms(1000)
        log()
    lines = [formatEvent(event) or "" for event in logged]
    (first,) = [line for line in lines if line.startswith("Failed authentication")]
    assert "Authentication failed: Invalid username or password" in first
    assert "4 more failed authentications from 127.0.0.1" in lines
    assert not any("secret" in line for line in lines)


# Anything in any order.


def walk(seed: int, steps: int) -> int:
    """Take random steps, most of them plausible, and compare each with what may get in; return how many logins there were."""
    chance = random.Random(seed)
    stage = SaslStage(REAUTH if seed % 2 else None)
    logins = taken = 0
    while taken < steps:
        client, names = stage.connect(), set[str]()
        for _ in range(chance.randrange(1, 12)):
            taken += 1
            names |= _random_step(chance, client)
            allowed = {"User:ANONYMOUS"} | {f"User:{name}" for name in names}
            assert client.principal in allowed, seed
            before = len(stage.guarded.callers)
            if chance.random() < (0.05 if client.principal == "User:ANONYMOUS" else 0.5):
                client.heartbeat()
            assert all(caller in allowed - {"User:ANONYMOUS"} for caller in stage.guarded.callers[before:]), seed
            if chance.random() < 0.2:
                stage.layer.advance_ms(chance.choice((1, DELAY_MS, 5_000, 11_000)))
            if client.transport.is_closed:
                break
        logins += client.principal != "User:ANONYMOUS"
        client.channel.close()
        stage.guarded.callers.clear()
        stage.layer.observer.completed.clear()
    return logins


def _random_step(chance: random.Random, client: Client) -> set[str]:
    """Do something; return whose right password was sent with it."""
    right = {"alice": ALICE, "bob": BOB}
    name = chance.choice(("alice", "alice", "bob"))
    token = chance.choice((right[name], right[name], b"\0" + name.encode() + b"\0wrong", b"", b"\0\0", right[name] + b"x"))
    sent = {name} if token == right[name] else set()
    kind = chance.randrange(8)
    if chance.random() < 0.6:  # something that may lead on
        authenticator = client.channel.connection.authenticator
        kind = 5 if authenticator.expects_token else 3 if authenticator.is_token_due else 1
    if kind == 0:
        client.versions(chance.randrange(5))
    elif kind in (1, 2):
        client.handshake(chance.choice(("PLAIN", "PLAIN", "PLAIN", "GSSAPI", "")), chance.randrange(2))
        return set()
    elif kind in (3, 4):
        client.authenticate(token, chance.randrange(3))
        return sent
    elif kind == 5:
        client.send_frame(token)
        return sent
    elif kind == 6:
        version = chance.randrange(2)
        message = chance.choice((SaslHandshakeRequest(mechanism="PLAIN"), SaslAuthenticateRequest(auth_bytes=token)))
        body = bytearray(message.encode(version))
        if body:
            body[chance.randrange(len(body))] = chance.randrange(256)
        client.send_frame(struct.pack(">hhih", message.KEY, chance.randrange(-1, 4), 1, -1) + bytes(body))
        return sent
    else:
        client.send_frame(chance.randbytes(chance.randrange(40)))
    return set()


@pytest.mark.medium
def test_random_steps_let_nobody_in_without_the_right_password() -> None:
    with capturedLogs():
        assert walk(1, FUZZ_STEPS // 2) > 50
        assert walk(2, FUZZ_STEPS // 2) > 50


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_ten_million_random_steps_let_nobody_in_without_the_right_password() -> None:
    with capturedLogs():
        for seed in range(10, 110):
            assert walk(seed, MANY_FUZZ_STEPS // 100) > 1000
