"""The same exchanges over SASL listeners of Apache Kafka 3.9 and of this broker: what each is answered, and who is disconnected."""

import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.oracle.sasl_logins import handshake, served, token
from tests.support.clients.clients import java_class_path
from tests.support.clients.served import ServedBroker
from tests.support.oracle.apache_kafka import ApacheKafka
from tests.support.ports import free_port
from tests.support.security.sasl_wire import Wire
from tests.support.security.scram_client import SALT, ScramClient
from tests.support.security.tokens import message, unsecured
from twisted_kafka.protocol.messages.administration.scram import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from twisted_kafka.protocol.messages.api_versions import ApiVersionsRequest
from twisted_kafka.protocol.messages.metadata import MetadataRequest
from twisted_kafka.protocol.messages.sasl import SaslAuthenticateRequest
from twisted_kafka.security.scram.formulas import SCRAM_MECHANISMS, salted_password

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

SECURITY = "org.apache.kafka.common.security"
ALICE, BOB = b"\0alice\0alice-secret", b"\0bob\0bob-secret"
UNKNOWN_VERSION = struct.pack(">hhihbb", 18, 99, 1, -1, 0, 0)
"""An ApiVersions request of a version that neither knows."""
REAUTH_MS = 3_000
PREFIX = "listener.name.sasl_plaintext"
SETTINGS = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
    f"{PREFIX}.plain.sasl.jaas.config": f'{SECURITY}.plain.PlainLoginModule required user_alice="alice-secret" '
    'user_bob="bob-secret";',
    f"{PREFIX}.scram-sha-256.sasl.jaas.config": f"{SECURITY}.scram.ScramLoginModule required;",
    f"{PREFIX}.scram-sha-512.sasl.jaas.config": f"{SECURITY}.scram.ScramLoginModule required;",
    f"{PREFIX}.oauthbearer.sasl.jaas.config": f"{SECURITY}.oauthbearer.OAuthBearerLoginModule required "
    'unsecuredLoginStringClaim_sub="broker" unsecuredValidatorRequiredScope="read write";',
    f"{PREFIX}.plain.connections.max.reauth.ms": str(REAUTH_MS),
    f"{PREFIX}.sasl.server.max.receive.size": "4000",
    "sasl.server.max.receive.size": "4000",
}


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """The SASL_PLAINTEXT listeners of Apache Kafka and of this broker, with the same users."""
    if java_class_path() is None:
        pytest.skip("Java or Maven is not installed")
    folder = tmp_path_factory.mktemp("sasl")
    theirs, mine = free_port(), free_port()
    kafka = ApacheKafka(folder / "kafka", **SETTINGS)  # type: ignore[arg-type]
    kafka.change(listeners=f"PLAINTEXT://{kafka.bootstrap},SASL_PLAINTEXT://127.0.0.1:{theirs}")
    supported = {key: text for key, text in SETTINGS.items() if key != f"{PREFIX}.sasl.server.max.receive.size"}
    ours = ServedBroker(folder / "data", *(f"{key}={text}" for key, text in supported.items()))
    ours.listeners += f",SASL_PLAINTEXT://127.0.0.1:{mine}"
    try:
        kafka.start()
        ours.start()
        for port in (kafka.port, ours.port):
            add_users(Wire(port))
        yield theirs, mine
    finally:
        kafka.kill()
        ours.kill()


def add_users(wire: Wire) -> None:
    upsertions = [
        ScramCredentialUpsertion(
            name="alice",
            mechanism=each.number,
            iterations=4096,
            salt=SALT,
            salted_password=salted_password(each, b"alice-secret", SALT, 4096),
        )
        for each in SCRAM_MECHANISMS
    ]
    answer = wire.send(AlterUserScramCredentialsRequest(upsertions=upsertions), 0)
    assert [each.error_code for each in answer.results] == [0]


Story = Callable[[Wire], list[Any]]


def versions(wire: Wire, version: int = 3) -> Any:
    answer = wire.send(ApiVersionsRequest(client_software_name="oracle", client_software_version="1"), version)
    return None if answer is None else answer.error_code


def with_plain(data: bytes, version: int = 2) -> Story:
    return lambda wire: [versions(wire), handshake(wire), token(wire, data, version), served(wire)]


def again(*steps: Callable[[Wire], Any]) -> Story:
    """Log in, and then take steps."""
    return lambda wire: [handshake(wire), token(wire, ALICE), *(step(wire) for step in steps)]


def with_scram(user: str, password: str, **changes: str) -> Story:
    def tell(wire: Wire) -> list[Any]:
        client = ScramClient(user, password)
        found = [handshake(wire, "SCRAM-SHA-256")]
        answer = wire.send(SaslAuthenticateRequest(auth_bytes=client.first()), 2)
        if answer is None or answer.error_code:
            return [*found, "refused", None if answer is None else (answer.error_code, answer.error_message)]
        final = token(wire, client.final(bytes(answer.auth_bytes), **changes))
        if final is not None and not final[0]:
            return [*found, final[0], client.is_server(final[2]), final[3], served(wire)]
        return [*found, "refused", final and final[:2]]

    return tell


def with_oauth(changes: dict[str, Any], authorization_id: str = "", **extensions: str) -> Story:
    claims = {"sub": "alice", "scope": ["read", "write"], "iat": 1_700_000_000, "exp": 4_000_000_000, **changes}
    bearer = unsecured(**{name: value for name, value in claims.items() if value is not None})

    def tell(wire: Wire) -> list[Any]:
        found = [handshake(wire, "OAUTHBEARER")]
        answer = token(wire, message(bearer, authorization_id, **extensions))
        if answer is not None and answer[2]:
            return [*found, answer, token(wire, b"\x01")]
        return [*found, answer and (*answer[:3], answer[3] > 10**12), served(wire)]

    return tell


def later(wire: Wire) -> str:
    time.sleep(REAUTH_MS / 1000 + 0.2)
    return "later"


def token_of_scram(wire: Wire) -> Any:
    return token(wire, b"n,,n=alice,r=x")


STORIES: dict[str, Story] = {
    "plain": with_plain(ALICE),
    "plain, authenticate v0": with_plain(ALICE, 0),
    "plain, authenticate v1": with_plain(ALICE, 1),
    "wrong password": with_plain(b"\0alice\0wrong"),
    "wrong password, authenticate v0": with_plain(b"\0alice\0wrong", 0),
    "unknown user": with_plain(b"\0mallory\0x"),
    "no password": with_plain(b"\0alice\0"),
    "no user": with_plain(b"\0\0alice-secret"),
    "other authorization id": with_plain(b"bob\0alice\0alice-secret"),
    "own authorization id": with_plain(b"alice\0alice\0alice-secret"),
    "two parts": with_plain(b"alice\0alice-secret"),
    "four parts": with_plain(b"\0alice\0alice-secret\0"),
    "empty token": with_plain(b""),
    "not UTF-8": with_plain(b"\0al\xffice\0alice-secret"),
    "unknown mechanism": lambda wire: [handshake(wire, "CRAM-MD5"), served(wire)],
    "unknown mechanism v0": lambda wire: [handshake(wire, "CRAM-MD5", 0), served(wire)],
    "lower case": lambda wire: [handshake(wire, "plain"), served(wire)],
    "no handshake": lambda wire: [served(wire)],
    "token without handshake": lambda wire: [token(wire, ALICE)],
    "versions twice": lambda wire: [versions(wire), versions(wire)],
    "versions after the handshake": lambda wire: [handshake(wire), versions(wire)],
    "versions v0 after an unknown one": lambda wire: [
        wire.frame(struct.pack(">hhihbb", 18, 99, 1, -1, 0, 0)) is None,
        versions(wire, 0),
    ],
    "metadata after versions": lambda wire: [versions(wire), served(wire)],
    "metadata instead of a token": lambda wire: [handshake(wire), wire.send(MetadataRequest(topics=None), 9) is None, served(wire)],
    "handshake twice": lambda wire: [handshake(wire), handshake(wire), served(wire)],
    "raw token": lambda wire: [handshake(wire, version=0), wire.frame(ALICE), served(wire)],
    "wrong raw token": lambda wire: [handshake(wire, version=0), wire.frame(b"\0alice\0no"), served(wire)],
    "authenticate after v0": lambda wire: [handshake(wire, version=0), token(wire, ALICE), served(wire)],
    "raw token after v1": lambda wire: [handshake(wire), wire.frame(ALICE), served(wire)],
    "garbage": lambda wire: [wire.frame(b"\xff" * 20)],
    "large token": lambda wire: [handshake(wire), token(wire, b"x" * 5000)],
    "handshake too soon": again(handshake, lambda wire: token(wire, ALICE), handshake, served),
    "token after login": again(lambda wire: token(wire, BOB), served),
    "again": again(handshake, lambda wire: token(wire, ALICE), served),
    "again as another": again(handshake, lambda wire: token(wire, BOB), served),
    "again with a wrong password": again(handshake, lambda wire: token(wire, b"\0alice\0x"), served),
    "again with another mechanism": again(
        lambda wire: handshake(wire, "SCRAM-SHA-256"), lambda wire: token(wire, b"n,,n=alice,r=x")
    ),
    "metadata while authenticating again": again(handshake, served),
    "versions while authenticating again": again(handshake, versions),
    "session expired": again(later, served),
    "session expired, then again": again(later, handshake, lambda wire: token(wire, ALICE), served),
    "scram": with_scram("alice", "alice-secret"),
    "scram, wrong password": with_scram("alice", "wrong"),
    "scram, unknown user": with_scram("mallory", "wrong"),
    "scram, own nonce": with_scram("alice", "alice-secret", nonce="fyko+d2lbbFgONRv9qkxdawL"),
    "oauth": with_oauth({}),
    "oauth, authorization id": with_oauth({}, "alice"),
    "oauth, other authorization id": with_oauth({}, "bob"),
    "oauth, extensions": with_oauth({}, traceId="x"),
    "oauth, expired": with_oauth({"exp": 1}),
    "oauth, not yet": with_oauth({"iat": 4_000_000_000, "exp": 4_000_000_001}),
    "oauth, no name": with_oauth({"sub": None}),
    "oauth, one scope": with_oauth({"scope": "read"}),
    "oauth, no scope": with_oauth({"scope": None}),
    "oauth, signed": lambda wire: [handshake(wire, "OAUTHBEARER"), token(wire, message("a.b.c")), token(wire, b"\x01")],
    "oauth, no token": lambda wire: [handshake(wire, "OAUTHBEARER"), token(wire, b"n,,\x01\x01")],
    "oauth, garbage": lambda wire: [handshake(wire, "OAUTHBEARER"), token(wire, b"hello")],
    "scram, garbage": lambda wire: [handshake(wire, "SCRAM-SHA-512"), token(wire, b"hello")],
}


ANSWERED_HERE = "again with another mechanism"
"""Apache Kafka closes the connection without an answer; here the client is told why."""


@pytest.mark.parametrize("name", STORIES)
def test_both_tell_the_same(ports: tuple[int, int], name: str) -> None:
    theirs, ours = (STORIES[name](Wire(port)) for port in ports)
    if name == ANSWERED_HERE:
        assert theirs.pop() is None
        code, text, *_ = ours.pop()
        assert code == 58
        assert "is not supported for re-authentication" in text
    assert ours == theirs
