"""The same exchanges with GSSAPI over listeners of Apache Kafka 3.9 and of this broker, which are the same principal of a realm."""

import itertools
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.oracle.sasl_logins import handshake, served, token
from tests.support.clients.clients import java_class_path
from tests.support.clients.served import ServedBroker
from tests.support.oracle.apache_kafka import ApacheKafka
from tests.support.ports import free_port
from tests.support.security.kerberos_realm import NO_LAYER, GssapiClient, Realm, running_realm
from tests.support.security.sasl_wire import Wire
from twisted_kafka.protocol.messages.sasl import SaslAuthenticateRequest

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

REAUTH_MS = 4_000
CLOCK_SKEW_S = 1
SHORT_TICKET_S = 3
PREFIX = "listener.name.sasl_plaintext"
RULES = "RULE:[2:$1-$2],RULE:[1:$1@$0](bob@.*)s/@.*//U,RULE:[1:$1](alice),RULE:[1:$1](hasty.*)s/-.*//"
OPEN_JAVA = "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED"
"""Without it Kafka cannot see, on Java 17, which of Kerberos's errors are transient, as it can on Java 8."""

_numbers = itertools.count()


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    with running_realm(tmp_path_factory.mktemp("realm"), clock_skew_s=CLOCK_SKEW_S) as running:
        yield running


@pytest.fixture(scope="module")
def ports(realm: Realm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """The SASL_PLAINTEXT listeners of Apache Kafka and of this broker."""
    if java_class_path() is None:
        pytest.skip("Java or Maven is not installed")
    folder = tmp_path_factory.mktemp("gssapi")
    theirs, mine = free_port(), free_port()
    settings = {
        **realm.settings("sasl_plaintext"),
        "sasl.kerberos.principal.to.local.rules": RULES,
        f"{PREFIX}.gssapi.connections.max.reauth.ms": str(REAUTH_MS),
    }
    kafka = ApacheKafka(folder / "kafka", **settings)  # type: ignore[arg-type]
    kafka.change(listeners=f"PLAINTEXT://{kafka.bootstrap},SASL_PLAINTEXT://127.0.0.1:{theirs}")
    ours = ServedBroker(folder / "data", *(f"{key}={text}" for key, text in settings.items()))
    ours.listeners += f",SASL_PLAINTEXT://127.0.0.1:{mine}"
    try:
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("JAVA_TOOL_OPTIONS", f"{os.environ['JAVA_TOOL_OPTIONS']} {OPEN_JAVA}")
            kafka.start()
        ours.start()
        yield theirs, mine
    finally:
        kafka.kill()
        ours.kill()


Story = Callable[[Realm, Wire], list[Any]]


def step(wire: Wire, data: bytes) -> tuple[Any, bytes]:
    """Send a token; return what can be compared of the answer, and the answer's token."""
    answer = wire.send(SaslAuthenticateRequest(auth_bytes=data), 2)
    if answer is None:
        return None, b""
    told = bytes(answer.auth_bytes)
    return (answer.error_code, answer.error_message, len(told), answer.session_lifetime_ms), told


def exchange(user: str = "alice", wants_proof: bool = True, layer: bytes = NO_LAYER, authorization_id: str = "") -> Story:
    """Log in, or try to."""

    def tell(realm: Realm, wire: Wire) -> list[Any]:
        gssapi = GssapiClient(realm, user, wants_proof=wants_proof)
        found = [handshake(wire, "GSSAPI")]
        answer, told = step(wire, gssapi.first())
        if wants_proof:
            gssapi.second(told)
            found.append(answer and answer[:2])  # the proof has a random subkey and sequence number, of one byte or another
            answer, told = step(wire, b"")
        found += [answer, gssapi.offered(told)[:1]]
        answer, _ = step(wire, gssapi.choose(layer, authorization_id))
        return [*found, answer, served(wire)]

    return tell


def raw(wants_proof: bool) -> Story:
    def tell(realm: Realm, wire: Wire) -> list[Any]:
        gssapi = GssapiClient(realm, "alice", wants_proof=wants_proof)
        found = [handshake(wire, "GSSAPI", 0)]
        told = wire.frame(gssapi.first())
        if wants_proof:
            told = wire.frame(gssapi.second(told or b""))
        found.append(gssapi.offered(told or b"")[:1])
        choice = gssapi.choose()
        wire.socket.sendall(len(choice).to_bytes(4, "big") + choice)
        return [*found, served(wire)]  # the choice has no answer

    return tell


def first(data: bytes | Callable[[Realm], bytes], version: int = 1) -> Story:
    """Begin with a token."""

    def tell(realm: Realm, wire: Wire) -> list[Any]:
        sent = data if isinstance(data, bytes) else data(realm)
        return [handshake(wire, "GSSAPI", version), token(wire, sent) if version else wire.frame(sent), served(wire)]

    return tell


def choice(data: Callable[[Realm, GssapiClient], bytes]) -> Story:
    """Choose a layer with another token than the right one."""

    def tell(realm: Realm, wire: Wire) -> list[Any]:
        gssapi = GssapiClient(realm, "alice", wants_proof=False)
        found = [handshake(wire, "GSSAPI"), step(wire, gssapi.first())[0]]
        return [*found, token(wire, data(realm, gssapi)), served(wire)]

    return tell


def early_choice(realm: Realm, wire: Wire) -> list[Any]:
    gssapi = GssapiClient(realm, "alice")
    found = [handshake(wire, "GSSAPI")]
    answer, told = step(wire, gssapi.first())
    gssapi.second(told)
    return [*found, answer and answer[:2], token(wire, gssapi.choose()), served(wire)]


def replay(version: int) -> Story:
    """Use a token twice."""

    def tell(realm: Realm, wire: Wire) -> list[Any]:
        sent = GssapiClient(realm, "alice").first()
        peer = wire.socket.getpeername()[1]
        before = Wire(peer)
        handshake(before, "GSSAPI")
        assert step(before, sent)[0][0] == 0
        return [handshake(wire, "GSSAPI", version), token(wire, sent) if version else wire.frame(sent), served(wire)]

    return tell


def hasty(realm: Realm) -> str:
    """Return a new user, whose tickets expire soon."""
    user = f"hasty-{next(_numbers)}"
    realm.administer(f'addprinc -randkey -maxlife "{SHORT_TICKET_S} seconds" {user}', f"ktadd -k {realm.users_keytab} {user}")
    return user


def short_ticket(realm: Realm, wire: Wire) -> list[Any]:
    """Log in with a ticket that expires before the session: it does not end earlier because of that."""
    return exchange(hasty(realm))(realm, wire)


def expired(realm: Realm) -> bytes:
    """Return a token made with a ticket that has expired since."""
    made = GssapiClient(realm, hasty(realm)).first()
    time.sleep(SHORT_TICKET_S + CLOCK_SKEW_S + 1.5)
    return made


def again(user: str) -> Story:
    def tell(realm: Realm, wire: Wire) -> list[Any]:
        return [exchange()(realm, wire), exchange(user)(realm, wire)]

    return tell


def later(realm: Realm, wire: Wire) -> list[Any]:
    found = exchange()(realm, wire)
    time.sleep(REAUTH_MS / 1000 + 0.2)
    return [*found, served(wire)]


def not_a_name(realm: Realm) -> bytes:
    return GssapiClient(realm, "alice", "http@localhost").first()


STORIES: dict[str, Story] = {
    "a user": exchange(),
    "a user who wants no proof": exchange(wants_proof=False),
    "a name with two components": exchange("admin/desk"),
    "a rule with a replacement": exchange("bob"),
    "own authorization id": exchange(authorization_id="alice@TEST.EXAMPLE"),
    "another's authorization id": exchange(authorization_id="bob@TEST.EXAMPLE"),
    "layer: integrity": exchange(layer=b"\x02\0\0\0"),
    "layer: confidentiality": exchange(layer=b"\x04\0\0\0"),
    "layer: none": exchange(layer=b"\0\0\0\0"),
    "layer: a large buffer": exchange(layer=b"\x01\xff\xff\xff"),
    "raw tokens": raw(True),
    "raw tokens, no proof": raw(False),
    "raw garbage": first(b"garbage", 0),
    "garbage": first(b"garbage"),
    "empty": first(b""),
    "half of a token": first(lambda realm: GssapiClient(realm, "alice").first()[:300]),
    "a changed token": first(lambda realm: GssapiClient(realm, "alice").first()[:-3] + b"xyz"),
    "another service": first(not_a_name),
    "a ticket that expires before the session": short_ticket,
    "an expired ticket": first(expired),
    "a replay": replay(1),
    "a raw replay": replay(0),
    "the choice before the offer": early_choice,
    "no choice": choice(lambda realm, gssapi: b""),
    "a choice that is not wrapped": choice(lambda realm, gssapi: NO_LAYER),
    "a choice of garbage": choice(lambda realm, gssapi: b"x" * 40),
    "a choice that is too short": choice(lambda realm, gssapi: gssapi.choose(b"\x01")),
    "again": again("alice"),
    "again as another": again("bob"),
    "session expired": later,
}


ANSWERED_HERE = "a choice that is too short"
"""Java fails otherwise than Kafka expects, and Kafka closes the connection; here the client is told that it is refused."""


@pytest.mark.parametrize("name", STORIES)
def test_both_tell_the_same(realm: Realm, ports: tuple[int, int], name: str) -> None:
    theirs, ours = (STORIES[name](realm, Wire(port)) for port in ports)
    if name == ANSWERED_HERE:
        assert (theirs.pop(2), ours.pop(2)[0]) == (None, 58)
    assert ours == theirs
