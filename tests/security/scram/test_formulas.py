"""SCRAM's formulas and messages: the example of RFC 7677, Kafka's stored credentials, hostile messages."""

import base64
import json
import random
from pathlib import Path

import pytest

from tests.support.fake import Fake
from tests.support.security.scram_client import ScramClient, credential
from twisted_kafka.security.sasl.scram import ScramSaslServer, ScramServerCallbackHandler
from twisted_kafka.security.scram.credentials import ScramCredential, make_credential, parse_credential
from twisted_kafka.security.scram.formulas import (
    SCRAM_MECHANISMS,
    SCRAM_SHA_256,
    client_key,
    client_proof,
    is_proof,
    salted_password,
)
from twisted_kafka.security.scram.messages import InvalidMessageError, parse_client_final, parse_client_first, sasl_name

ZOOKEEPER = Path(__file__).parents[2] / "data" / "zookeeper" / "tree-3.9.2.jsonl"


class OneUser(Fake):
    def __init__(self, found: ScramCredential) -> None:
        self.found = found

    def credential(self, mechanism: str, username: str) -> ScramCredential:
        return self.found

    def usual_iterations(self, mechanism: str) -> int:
        return self.found.iterations


def test_the_example_of_rfc_7677() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    found = make_credential(SCRAM_SHA_256, salt, salted_password(SCRAM_SHA_256, b"pencil", salt, 4096), 4096)
    nonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    server = ScramSaslServer(SCRAM_SHA_256, ScramServerCallbackHandler(OneUser(found)), lambda: nonce)
    first = server.evaluate(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first == f"r=rOprNGfwEbeRWgbNEkqO{nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
    final = f"c=biws,r=rOprNGfwEbeRWgbNEkqO{nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert server.evaluate(final.encode()) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert server.is_complete
    assert server.authorization_id == "user"


def test_kafkas_stored_credentials_are_read_and_written_alike() -> None:
    texts: dict[tuple[str, str], str] = {}
    for line in ZOOKEEPER.read_text().splitlines():
        node = json.loads(line)
        if node["path"].startswith("/config/users/") and "SCRAM" in (node["data"] or ""):
            user = node["path"].rpartition("/")[2]
            texts |= {(user, name): text for name, text in json.loads(node["data"])["config"].items() if name.startswith("SCRAM")}
    assert len(texts) == 3
    for (user, name), text in texts.items():
        found = parse_credential(text)
        assert found.encode() == text
        (mechanism,) = [each for each in SCRAM_MECHANISMS if each.name == name]
        salted = salted_password(mechanism, f"{user}-secret".encode(), found.salt, found.iterations)
        assert make_credential(mechanism, found.salt, salted, found.iterations) == found


@pytest.mark.parametrize("text", ["", "salt=eA==", "salt=eA==,stored_key=x,server_key=eA==,iterations=1", "a=b,c=d,e=f,g=h"])
def test_a_bad_credential_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(ValueError, match="SCRAM credential") as raised:
        parse_credential(text)
    assert not text or text not in str(raised.value)
    assert "eA" not in repr(ScramCredential(b"x", b"x", b"x", 4096))


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS)
def test_a_proof_is_for_one_exchange_and_one_key(mechanism: object) -> None:
    chance = random.Random(7)
    for known in SCRAM_MECHANISMS:
        salted = salted_password(known, b"secret", b"salt", 10)
        stored = make_credential(known, b"salt", salted, 10).stored_key
        proof = client_proof(known, client_key(known, salted), b"message")
        assert is_proof(known, stored, b"message", proof)
        assert not is_proof(known, stored, b"other", proof)
        assert not is_proof(known, stored, b"message", proof[:-1])
        assert not is_proof(known, stored, b"message", b"")
        for _ in range(50):
            changed = bytearray(proof)
            changed[chance.randrange(len(proof))] ^= 1 << chance.randrange(8)
            assert not is_proof(known, stored, b"message", bytes(changed))


def test_names_are_escaped() -> None:
    for name in ("alice", "a,b=c", "=2C", "é", "CN=x,O=y"):
        assert parse_client_first(f"n,,n={sasl_name(name)},r=abc".encode()).username == name


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"n,,n=,r=abc",
        b"n,,n=alice",
        b"n,,n=alice,r=",
        b"n,,n=al=ice,r=abc",
        b"n,,n=alice,r=a c",
        b"y,,n=alice,r=abc",
        b"p=tls-unique,,n=alice,r=abc",
        b"n,,n=alice,r=abc,",
        b"n,,n=\xff,r=abc",
        b"n,,n=a\0b,r=abc",
    ],
)
def test_bad_first_messages(message: bytes) -> None:
    with pytest.raises(InvalidMessageError):
        parse_client_first(message)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"c=biws",
        b"c=biws,r=abc",
        b"c=biws,r=abc,p=",
        b"c=biws,r=abc,p=*",
        b"c=biws,p=eA==,r=abc",
        b"c=eSws,r=abc,p=eA==",
        b"c=b,r=a,p=eA==",
    ],
)
def test_bad_final_messages(message: bytes) -> None:
    with pytest.raises(InvalidMessageError):
        parse_client_final(message, "n,,")


def test_what_the_authorization_id_was_is_bound() -> None:
    binding = base64.b64encode(b"n,a=alice,").decode()
    assert parse_client_final(f"c={binding},r=abc,p=eA==".encode(), "n,a=alice,").nonce == "abc"
    with pytest.raises(InvalidMessageError):
        parse_client_final(f"c={binding},r=abc,p=eA==".encode(), "n,,")


def test_the_test_client_knows_the_server_too() -> None:
    server = ScramSaslServer(SCRAM_SHA_256, ScramServerCallbackHandler(OneUser(credential("secret"))))
    client = ScramClient("alice", "secret")
    assert client.is_server(server.evaluate(client.final(server.evaluate(client.first()))))
