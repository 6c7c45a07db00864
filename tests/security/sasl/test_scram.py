"""SCRAM over a SASL listener: who gets in, and what somebody in the middle can do with the messages."""

from typing import Any

import pytest

from tests.security.sasl.sasl_stage import Client, SaslStage
from tests.security.sasl.scram_stage import staged
from tests.support.security.scram_client import ScramClient, credential
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.security.scram.formulas import SCRAM_MECHANISMS, SCRAM_SHA_256, SCRAM_SHA_512

REFUSED = "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"


def begin(stage: SaslStage, scram: ScramClient) -> tuple[Client, bytes]:
    """Send the first message; return the server's."""
    client = stage.connect()
    assert client.handshake(scram.mechanism.name).error_code == 0
    return client, client.authenticate(scram.first()).auth_bytes


def refusal(client: Client, token: bytes) -> Any:
    assert client.authenticate(token) is None
    answer = client.answer_after_delay(36, 2)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.principal == "User:ANONYMOUS"
    return answer.error_message


@pytest.mark.parametrize("user", ["alice", "bob"])
def test_the_right_password_gets_in_and_the_server_proves_itself(user: str) -> None:
    stage = staged()
    for mechanism in SCRAM_MECHANISMS:
        scram = ScramClient(user, f"{user}-secret", mechanism)
        client, first = begin(stage, scram)
        answer = client.authenticate(scram.final(first))
        assert scram.is_server(answer.auth_bytes)
        assert client.principal == f"User:{user}"
        assert client.heartbeat().error_code == 0


def test_a_wrong_password_and_an_unknown_user_look_alike() -> None:
    stage = staged()
    for user in ("alice", "mallory"):
        scram = ScramClient(user, "wrong")
        client, first = begin(stage, scram)
        assert refusal(client, scram.final(first)) == REFUSED
    again = [begin(stage, ScramClient("mallory", "x"))[1].split(b",")[1:] for _ in range(2)]
    assert again[0] == again[1]  # the made-up salt does not change


def test_an_unknown_users_challenge_has_the_iterations_that_most_users_have() -> None:
    stage = staged()
    stage.credentials.iterations = 8192
    assert begin(stage, ScramClient("bob", "x"))[1].endswith(b",i=8192")
    assert begin(stage, ScramClient("mallory", "x"))[1].endswith(b",i=8192")
    token = ScramClient("no-such-token", "x")
    token.bare += ",tokenauth=true"
    assert begin(stage, token)[1].endswith(b",i=4096")  # as all tokens have


def test_the_mechanism_of_the_handshake_is_the_one_that_counts() -> None:
    stage = staged()
    client = stage.connect()
    client.handshake("SCRAM-SHA-512")
    scram = ScramClient("alice", "alice-secret", SCRAM_SHA_256)
    first = client.authenticate(scram.first()).auth_bytes
    assert "SCRAM-SHA-512" in refusal(client, scram.final(first))


def test_messages_of_another_exchange_are_worth_nothing() -> None:
    stage = staged()
    scram = ScramClient("alice", "alice-secret")
    client, first = begin(stage, scram)
    heard = scram.final(first)
    client.authenticate(heard)
    assert client.principal == "User:alice"
    other, other_first = begin(stage, ScramClient("alice", "?"))
    assert other_first != first  # the server's part of the nonce is new
    assert refusal(other, heard) == REFUSED
    alone = stage.connect()
    alone.handshake("SCRAM-SHA-256")
    assert refusal(alone, heard) == REFUSED


@pytest.mark.parametrize(
    "change", [{"nonce": "fyko+d2lbbFgONRv9qkxdawL"}, {"nonce": "other"}, {"binding": "eSws"}, {"binding": "biws,m=x"}]
)
def test_a_changed_final_message_is_refused(change: dict[str, str]) -> None:
    scram = ScramClient("alice", "alice-secret")
    client, first = begin(staged(), scram)
    assert refusal(client, scram.final(first, **change)) == REFUSED


def test_a_first_message_cannot_follow_another() -> None:
    scram = ScramClient("alice", "alice-secret")
    client, _ = begin(staged(), scram)
    assert refusal(client, scram.first()) == REFUSED


def test_who_wants_to_be_somebody_else_is_told_so() -> None:
    stage = staged()
    client = stage.connect()
    client.handshake("SCRAM-SHA-256")
    scram = ScramClient("alice", "alice-secret")
    scram.header = "n,a=bob,"
    expected = "Authentication failed: Client requested an authorization id that is different from username"
    assert refusal(client, scram.first()) == expected


def test_stored_credentials_with_too_few_iterations_are_not_used() -> None:
    stage = staged()
    stage.credentials.users["SCRAM-SHA-256", "old"] = credential("old-secret", iterations=4095)
    client = stage.connect()
    client.handshake("SCRAM-SHA-256")
    assert refusal(client, ScramClient("old", "old-secret").first()) == REFUSED


def test_a_delegation_token_logs_its_owner_in_until_it_expires() -> None:
    stage = staged()
    found = credential("token-hmac", SCRAM_SHA_512)
    stage.credentials.tokens["SCRAM-SHA-512", "token-1"] = found, "carol", stage.clock.wall_ms() + 5_000
    scram = ScramClient("token-1", "token-hmac", SCRAM_SHA_512)
    scram.bare += ",tokenauth=true"
    client, first = begin(stage, scram)
    answer = client.authenticate(scram.final(first))
    assert answer.session_lifetime_ms == 5_000
    assert client.principal == "User:carol"
    assert client.channel.connection.principal.token_authenticated
    stage.layer.advance_ms(5_001)
    assert client.heartbeat() is None
    assert client.transport.is_closed


def test_a_user_is_no_token_and_a_token_no_user() -> None:
    stage = staged()
    stage.credentials.tokens["SCRAM-SHA-256", "token-1"] = credential("token-hmac"), "carol", 0
    as_token = ScramClient("alice", "alice-secret")
    as_token.bare += ",tokenauth=true"
    as_user = ScramClient("token-1", "token-hmac")
    for scram in (as_token, as_user):
        client, first = begin(stage, scram)
        assert refusal(client, scram.final(first)) == REFUSED
