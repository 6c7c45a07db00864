"""OAUTHBEARER over a SASL listener."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.security.sasl.sasl_stage import Client, SaslStage
from tests.support.security.tokens import NOW_S, Issuer, message, unsecured
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.timing.clock import ManualClock

JAAS = "listener.name.sasl.oauthbearer.sasl.jaas.config"
HANDLER = "listener.name.sasl.oauthbearer.sasl.server.callback.handler.class"
SIGNED = "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
GENERAL = "Authentication failed during authentication due to invalid credentials with SASL mechanism OAUTHBEARER"


def staged(**settings: str) -> SaslStage:
    clock = ManualClock()
    clock.advance_ms(NOW_S * 1000 - clock.wall_ms())
    return SaslStage({"sasl.enabled.mechanisms": "OAUTHBEARER", JAAS: f"{MODULE};", **settings}, clock)


def begun(stage: SaslStage) -> Client:
    client = stage.connect()
    assert client.handshake("OAUTHBEARER").error_code == 0
    return client


def token(**claims: Any) -> str:
    return unsecured(**{"sub": "alice", "exp": NOW_S + 60, **claims})


def refusal(client: Client, sent: bytes) -> str:
    assert client.authenticate(sent) is None
    answer = client.answer_after_delay(36, 2)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.principal == "User:ANONYMOUS"
    return answer.error_message


def test_a_token_gets_in_until_it_expires() -> None:
    stage = staged()
    client = begun(stage)
    assert client.authenticate(message(token(), "alice", traceId="1")).session_lifetime_ms == 60_000
    assert client.principal == "User:alice"
    stage.layer.advance_ms(60_001)
    assert client.heartbeat() is None
    assert client.transport.is_closed


def test_the_session_ends_with_what_comes_first() -> None:
    stage = staged(**{"connections.max.reauth.ms": "5000"})
    assert begun(stage).authenticate(message(token())).session_lifetime_ms == 5_000
    assert begun(stage).authenticate(message(token(exp=NOW_S + 2))).session_lifetime_ms == 2_000


def test_a_bad_token_is_answered_with_json_and_refused_when_the_client_has_read_it() -> None:
    client = begun(staged())
    answer = client.authenticate(message(token(exp=NOW_S - 1)))
    assert (answer.error_code, answer.auth_bytes) == (0, b'{"status":"invalid_token"}')
    assert client.principal == "User:ANONYMOUS"
    assert refusal(client, b"\x01") == '{"status":"invalid_token"}'


def test_a_missing_scope_is_named() -> None:
    client = begun(staged(**{JAAS: f'{MODULE} unsecuredValidatorRequiredScope="read";'}))
    assert json.loads(client.authenticate(message(token())).auth_bytes) == {"status": "insufficient_scope", "scope": "[read]"}


def test_a_good_token_cannot_follow_a_bad_one() -> None:
    client = begun(staged())
    client.authenticate(message(token(exp=NOW_S - 1)))
    assert refusal(client, message(token())) == GENERAL


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic abc\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer a\x01",
        b"y,,\x01auth=Bearer a\x01\x01",
        b"n,,\x01auth=Bearer \xff\x01\x01",
    ],
)
def test_garbage_is_refused(sent: bytes) -> None:
    assert refusal(begun(staged()), sent) == GENERAL


def test_who_wants_to_be_somebody_else_is_told_so() -> None:
    text = refusal(begun(staged()), message(token(), "bob"))
    assert "authorization id (bob) that is different from the token's principal name (alice)" in text


@pytest.mark.medium
def test_a_jwks_endpoint_means_signed_tokens(tmp_path: Path) -> None:
    issuer = Issuer()
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps(issuer.jwks))
    for class_name in ("", SIGNED):
        settings = {"sasl.oauthbearer.jwks.endpoint.url": path.as_uri()} | ({HANDLER: class_name} if class_name else {})
        stage = staged(**settings)
        signed = issuer.sign(sub="alice", iat=NOW_S, exp=NOW_S + 60)
        assert begun(stage).authenticate(message(signed)).session_lifetime_ms == 60_000
        assert b"invalid_token" in begun(stage).authenticate(message(token())).auth_bytes
        stage.listener.close()


@pytest.mark.medium
@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({HANDLER: SIGNED}, "sasl.oauthbearer.jwks.endpoint.url must be set"),
        (
            {"sasl.oauthbearer.jwks.endpoint.url": "file:///nowhere/jwks"},
            "for sasl.oauthbearer.jwks.endpoint.url: it does not answer",
        ),
        ({JAAS: f'{MODULE} unsecuredValidatorAllowableClockSkewMs="x";'}, f"Invalid value for {JAAS}: unsecuredValidator"),
    ],
)
def test_bad_settings_refuse_the_start(settings: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why) as raised:
        staged(**settings)
    assert "\n" not in str(raised.value)
