"""SCRAM credentials, and SASL requests where there is nothing to authenticate."""

from twisted_kafka.protocol.messages.administration.scram import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)
from twisted_kafka.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from twisted_kafka.tools.compare.talk import Talk, scenario

SHA_256, SHA_512 = 1, 2


@scenario(SaslHandshakeRequest)
def handshakes_on_plain_text(talk: Talk, version: int) -> None:
    for mechanism in ("PLAIN", "GSSAPI", ""):
        talk.ask(SaslHandshakeRequest(mechanism=mechanism), version)


@scenario(SaslAuthenticateRequest)
def tokens_on_plain_text(talk: Talk, version: int) -> None:
    for token in (b"\0alice\0secret", b""):
        talk.ask(SaslAuthenticateRequest(auth_bytes=token), version)


def put(user: str, mechanism: int = SHA_256, iterations: int = 4096, salt: bytes = b"salt", salted: bytes = b"x" * 32) -> object:
    return ScramCredentialUpsertion(name=user, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted)


def drop(user: str, mechanism: int = SHA_256) -> object:
    return ScramCredentialDeletion(name=user, mechanism=mechanism)


def alter(talk: Talk, version: int, *changes: object) -> None:
    upsertions = [each for each in changes if isinstance(each, ScramCredentialUpsertion)]
    deletions = [each for each in changes if isinstance(each, ScramCredentialDeletion)]
    talk.ask(AlterUserScramCredentialsRequest(upsertions=upsertions, deletions=deletions), version)


def describe(talk: Talk, version: int, *users: str) -> None:
    talk.ask(DescribeUserScramCredentialsRequest(users=[UserName(name=user) for user in users]), version)


@scenario(AlterUserScramCredentialsRequest)
def scram_credentials(talk: Talk, version: int) -> None:
    talk.ask(DescribeUserScramCredentialsRequest(users=None), version)
    alter(talk, version, put("alice"), put("alice", SHA_512, 16_384, salted=b"y" * 64), put("a/b,c=d é"))
    describe(talk, version)
    describe(talk, version, "alice", "a/b,c=d é", "nobody", "", "alice")
    describe(talk, version, "alice")
    alter(talk, version, put("alice", iterations=8192), drop("alice", SHA_512), drop("nobody"))
    talk.ask(DescribeUserScramCredentialsRequest(users=None), version)
    alter(talk, version, drop("alice"), drop("a/b,c=d é"))
    alter(talk, version, drop("alice"))
    describe(talk, version, "alice")
    alter(talk, version)


@scenario(AlterUserScramCredentialsRequest)
def scram_credentials_bad(talk: Talk, version: int) -> None:
    for changes in (
        (put(""),),
        (drop(""),),
        (put("u", 0),),
        (put("u", 3),),
        (drop("u", 3),),
        (put("u", iterations=4095), put("fine")),
        (put("u", iterations=16_385), drop("fine")),
        (put("u", iterations=-1), put("u", SHA_512)),
        (put("u"), put("u")),
        (put("u"), drop("u")),
        (put("u"), drop("u", SHA_512)),
        (put("u", 3), put("u", iterations=1)),
        (put("", 3), drop("v", 9), put("v", iterations=20_000)),
        (put("u", salt=b""), put("w", salted=b"x")),
    ):
        alter(talk, version, *changes)
    describe(talk, version)
    alter(talk, version, drop("u"), drop("w"))
    alter(talk, version, put("e", salted=b""))
    describe(talk, version, "e")
