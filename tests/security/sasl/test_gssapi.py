"""GSSAPI: whole exchanges with tickets of a real KDC, and what does not get in."""

import random
from collections.abc import Iterator
from typing import Any

import pytest
from twisted.logger import capturedLogs, formatEvent

from tests.security.sasl.sasl_stage import DELAY_MS, Client, SaslStage
from tests.support.kdc import REALM
from tests.support.security.kerberos_realm import LOGIN_MODULE, NO_LAYER, GssapiClient, Realm, running_realm
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.network.requests.kafka_principal import KafkaPrincipal
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.security.principal_builder import AuthenticationContext

AUTHENTICATE = int(ApiKey.SASL_AUTHENTICATE)
JAAS = "listener.name.sasl.gssapi.sasl.jaas.config"
RULES = "sasl.kerberos.principal.to.local.rules"
GENERAL = "Authentication failed during authentication due to invalid credentials with SASL mechanism GSSAPI"


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    with running_realm(tmp_path_factory.mktemp("realm")) as running:
        yield running


def stage_of(realm: Realm, **changed: str) -> SaslStage:
    return SaslStage({**realm.settings("sasl"), **changed})


def log_in(client: Client, gssapi: GssapiClient, wants_proof: bool = True, **choice: Any) -> Any:
    """Return the answer to the last token."""
    assert client.handshake("GSSAPI").error_code == 0
    answer = bytes(client.authenticate(gssapi.first()).auth_bytes)
    if wants_proof:
        answer = bytes(client.authenticate(gssapi.second(answer)).auth_bytes)
    assert gssapi.offered(answer) == NO_LAYER
    return client.authenticate(gssapi.choose(**choice))


def refused(stage: SaslStage, client: Client, token: bytes) -> str:
    """Return what a client is told about a token that is refused."""
    assert client.authenticate(token) is None
    answer = client.answer_after_delay(AUTHENTICATE, 2)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.principal == "User:ANONYMOUS"
    stage.layer.advance_ms(1000)
    assert client.transport.is_closed
    return str(answer.error_message)


@pytest.mark.parametrize("wants_proof", [True, False])
def test_a_client_with_a_ticket_gets_in_by_its_short_name(realm: Realm, wants_proof: bool) -> None:
    stage = stage_of(realm)
    for user, name in (("alice", "User:alice"), ("admin/desk", "User:admin")):
        client = stage.connect()
        answer = log_in(client, GssapiClient(realm, user, wants_proof=wants_proof), wants_proof)
        assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (0, b"", 0)
        assert client.heartbeat().error_code == 0
        assert client.principal == name


@pytest.mark.parametrize("wants_proof", [True, False])
def test_tokens_without_headers(realm: Realm, wants_proof: bool) -> None:
    """The last token has no answer then, as in Kafka."""
    stage, gssapi = stage_of(realm), GssapiClient(realm, "alice", wants_proof=wants_proof)
    client = stage.connect()
    client.handshake("GSSAPI", version=0)
    answer = client.send_frame(gssapi.first())
    if wants_proof:
        answer = client.send_frame(gssapi.second(answer))
    assert gssapi.offered(answer) == NO_LAYER
    before = client.transport.written
    client.send_frame(gssapi.choose())
    assert client.transport.written == before
    assert client.heartbeat().error_code == 0
    assert stage.guarded.callers == ["User:alice"]
    assert stage.layer.processor.stats.successful_authentications == 1


def test_nobody_becomes_another_by_an_authorization_id(realm: Realm) -> None:
    stage = stage_of(realm)
    for authorization_id in ("bob", f"bob@{REALM}", "alice", "é"):
        client = stage.connect()
        assert log_in(client, GssapiClient(realm, "alice"), authorization_id=authorization_id).error_code == 0
        assert client.principal == "User:alice"


class Authorizing:
    """A callback handler that lets alice be bob."""

    def configure(self, configs: object, mechanism: str, jaas_entries: object) -> None:
        assert mechanism == "GSSAPI"

    def handle(self, callback: Any) -> None:
        assert callback.authentication_id == f"alice@{REALM}"
        if callback.authorization_id == "boom":
            raise RuntimeError("out of order")
        callback.is_authorized = 1 if callback.authorization_id == "one" else callback.authorization_id == f"bob@{REALM}"
        callback.authorized_id = callback.authorization_id

    def close(self) -> None:
        pass


def test_a_callback_handler_authorizes(realm: Realm) -> None:
    stage = stage_of(realm, **{"sasl.server.callback.handler.class": f"{__name__}.Authorizing"})
    client = stage.connect()
    assert log_in(client, GssapiClient(realm, "alice"), authorization_id=f"bob@{REALM}").error_code == 0
    assert client.principal == "User:bob"
    with capturedLogs() as logged:
        for authorization_id in ("c" * 1_000, "", "carol", "one", "boom"):
            client = stage.connect()
            assert log_in(client, GssapiClient(realm, "alice"), authorization_id=authorization_id) is None
            assert client.principal == "User:ANONYMOUS"
    assert max(len(formatEvent(event) or "") for event in logged if "log_failure" not in event) < 500


def test_rules_make_the_name(realm: Realm) -> None:
    stage = stage_of(realm, **{RULES: "RULE:[2:$2-$1]/U,RULE:[1:$1](alice)"})
    for user, name in (("alice", "User:alice"), ("admin/desk", "User:DESK-ADMIN")):
        client = stage.connect()
        assert log_in(client, GssapiClient(realm, user)).error_code == 0
        assert client.principal == name


@pytest.mark.parametrize(
    ("user", "why"), [("bob", "No rules apply to bob@"), ("deep/er/name", "Malformed Kerberos name: deep/er/name@")]
)
def test_who_has_no_short_name_does_not_get_in(realm: Realm, user: str, why: str) -> None:
    stage = stage_of(realm, **{RULES: "RULE:[1:$1](alice)"})
    client = stage.connect()
    with capturedLogs() as logged:
        assert log_in(client, GssapiClient(realm, user)) is None
    assert client.answer_after_delay(AUTHENTICATE, 2).error_message == GENERAL
    assert client.principal == "User:ANONYMOUS"
    assert any(why in (formatEvent(event) or "") for event in logged)
    assert not any("log_failure" in event for event in logged)


class Builder:
    """A ``principal.builder.class``."""

    def __init__(self) -> None:
        self.contexts: list[AuthenticationContext] = []

    def build(self, context: AuthenticationContext) -> KafkaPrincipal:
        self.contexts.append(context)
        return KafkaPrincipal("Robot", context.authorization_id or "")


def test_the_operators_class_gets_the_whole_name_and_the_short_one(realm: Realm) -> None:
    stage = stage_of(realm, **{RULES: "RULE:[1:$1](alice)/U"})
    builder = stage.listener._principals = Builder()
    for user in ("alice", "admin/desk"):
        client = stage.connect()
        assert log_in(client, GssapiClient(realm, user)).error_code == 0
        assert client.principal == f"Robot:{user}@{REALM}"
    assert [(each.mechanism, each.principal_name) for each in builder.contexts] == [("GSSAPI", "ALICE"), ("GSSAPI", None)]


def test_a_ticket_for_another_service_is_refused_without_saying_why(realm: Realm) -> None:
    stage = stage_of(realm)
    client = stage.connect()
    client.handshake("GSSAPI")
    with capturedLogs() as logged:
        assert refused(stage, client, GssapiClient(realm, "alice", "http@localhost").first()) == GENERAL
    (line,) = [text for text in map(formatEvent, logged) if text and text.startswith("Failed authentication")]
    assert "http/localhost" in line


@pytest.mark.parametrize("token", [b"", b"\0", b"garbage", b"\x60\x06\x06\x01\x01" + b"x" * 20, b"\x60" + b"\xff" * 400])
def test_garbage_establishes_nothing(realm: Realm, token: bytes) -> None:
    stage = stage_of(realm)
    client = stage.connect()
    client.handshake("GSSAPI")
    assert refused(stage, client, token) == GENERAL


@pytest.mark.parametrize("layer", [b"", b"\x01", b"\0\0\0\0", b"\x02\0\0\0", b"\x04\0\0\0", b"\x07\0\0\0", b"\x03\xff\xff\xff"])
def test_a_layer_that_was_not_offered_is_refused(realm: Realm, layer: bytes) -> None:
    stage, gssapi = stage_of(realm), GssapiClient(realm, "alice")
    client = stage.connect()
    assert log_in(client, gssapi, layer=layer) is None
    assert client.answer_after_delay(AUTHENTICATE, 2).error_message == GENERAL
    assert client.principal == "User:ANONYMOUS"


@pytest.mark.parametrize("case", ["choice before the offer", "no choice", "choice not wrapped", "choice of another context"])
def test_steps_cannot_be_left_out_or_changed(realm: Realm, case: str) -> None:
    stage, gssapi, another = stage_of(realm), GssapiClient(realm, "alice"), GssapiClient(realm, "alice", wants_proof=False)
    another.first()
    client = stage.connect()
    client.handshake("GSSAPI")
    answer = bytes(client.authenticate(gssapi.first()).auth_bytes)
    request = gssapi.second(answer)
    if case == "choice before the offer":
        wrong = gssapi.choose()
    else:
        assert gssapi.offered(bytes(client.authenticate(request).auth_bytes)) == NO_LAYER
        wrong = {"no choice": b"", "choice not wrapped": NO_LAYER, "choice of another context": another.choose()}[case]
    assert refused(stage, client, wrong) == GENERAL


def test_a_replay_is_disconnected_without_an_answer(realm: Realm) -> None:
    """Kafka's clients try again then, and fail for good if they are told that their credentials are wrong."""
    for version, token_of in ((1, Client.authenticate), (0, Client.send_frame)):
        stage = stage_of(realm)
        token = GssapiClient(realm, "alice").first()
        client = stage.connect()
        client.handshake("GSSAPI", version)
        assert token_of(client, token)
        replay = stage.connect()
        replay.handshake("GSSAPI", version)
        before = replay.transport.written
        with capturedLogs() as logged:
            assert not token_of(replay, token)
        assert replay.transport.is_closed
        assert replay.transport.written == before
        assert any("replay" in (formatEvent(event) or "") for event in logged)


def test_reauthentication_is_for_the_same_principal(realm: Realm) -> None:
    stage = stage_of(realm, **{"connections.max.reauth.ms": "10000"})
    client = stage.connect()
    assert log_in(client, GssapiClient(realm, "alice")).session_lifetime_ms == 10_000
    stage.layer.advance_ms(9_000)
    assert log_in(client, GssapiClient(realm, "alice")).session_lifetime_ms == 10_000
    stage.layer.advance_ms(9_000)
    assert client.heartbeat().error_code == 0
    assert log_in(client, GssapiClient(realm, "bob")) is None
    assert "User.alice: User.bob" in client.answer_after_delay(AUTHENTICATE, 2).error_message
    assert client.principal == "User:alice"


def test_a_new_keytab_is_used_at_once(realm: Realm) -> None:
    stage = stage_of(realm)
    assert log_in(stage.connect(), GssapiClient(realm, "alice")).error_code == 0
    realm.administer(f"ktadd -k {realm.broker_keytab} kafka/localhost")  # changes the key
    fresh = GssapiClient(realm, "bob")
    assert log_in(stage.connect(), fresh).error_code == 0


# Settings.


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("storeKey=true", "it must have useKeyTab=true"),
        ("useKeyTab=true", "it must have storeKey=true"),
        ("useKeyTab=true storeKey=true useTicketCache=true", "useTicketCache is not supported"),
        ("useKeyTab=true storeKey=true principal=a", "it must have keyTab"),
        ("useKeyTab=true storeKey=true keyTab=x", "it must have the principal"),
        ('useKeyTab=true storeKey=true keyTab=x principal="*"', "it must have the principal"),
        ('useKeyTab=true storeKey=true keyTab="/no/such" principal=a', "a cannot log in with /no/such ("),
        ('useKeyTab=true storeKey=true keyTab="KEYTAB" principal=nobody', "(No key table entry found for nobody@"),
        ('useKeyTab=true storeKey=true keyTab="KEYTAB" principal="kafka/localhost" serviceName=other', "must equal serviceName in"),
    ],
)
def test_a_login_that_cannot_work_refuses_the_start_in_one_line(realm: Realm, options: str, why: str) -> None:
    options = options.replace("KEYTAB", str(realm.broker_keytab))
    with pytest.raises(ConfigError) as raised:
        stage_of(realm, **{JAAS: f"{LOGIN_MODULE} required {options};"})
    assert why in str(raised.value)
    assert JAAS in str(raised.value)
    assert "\n" not in str(raised.value)


def test_other_settings_that_cannot_work(realm: Realm) -> None:
    for changed, why in (
        ({"sasl.kerberos.service.name": ""}, "sasl.kerberos.service.name must be set"),
        ({RULES: "RULE:[1:$1](["}, f"Invalid value for {RULES}: 'RULE:[1:$1](['"),
        ({f"listener.name.sasl.{RULES}": "NONE"}, f"Invalid value for listener.name.sasl.{RULES}: 'NONE'"),
        ({JAAS: "x.PlainLoginModule required;"}, "it must have an entry of Krb5LoginModule"),
    ):
        with pytest.raises(ConfigError) as raised:
            stage_of(realm, **changed)
        assert why in str(raised.value)


def test_rules_of_a_listener_change_while_it_runs(realm: Realm) -> None:
    stage = stage_of(realm)
    changed = KafkaConfig.embedded({**stage.config.originals, f"listener.name.sasl.{RULES}": "RULE:[1:$1]/U"})
    stage.listener.validate_reconfiguration(changed)
    stage.listener.reconfigure(changed)
    client = stage.connect()
    assert log_in(client, GssapiClient(realm, "alice")).error_code == 0
    assert client.principal == "User:ALICE"


# Somebody who has no ticket, but everything that others have sent.


class Eavesdropper:
    """Tokens of whole exchanges of alice's, and what can be made of them."""

    def __init__(self, realm: Realm, stage: SaslStage, seed: int) -> None:
        self.chance = random.Random(seed)
        self._heard: list[bytes] = [GssapiClient(realm, "alice", "http@localhost").first()]
        for wants_proof in (True, False):
            client, gssapi = stage.connect(), GssapiClient(realm, "alice", wants_proof=wants_proof)
            client.handshake("GSSAPI")
            self._say(client, gssapi.first())
            if wants_proof:
                self._say(client, gssapi.second(self._heard[-1]))
            self._say(client, gssapi.choose())
            assert client.principal == "User:alice"

    def _say(self, client: Client, token: bytes) -> None:
        self._heard += [token, bytes(client.authenticate(token).auth_bytes)]

    def token(self, told: bytes) -> bytes:
        """Return something to send; ``told`` is what the broker has sent last."""
        chance = self.chance
        data = bytearray(chance.choice((told, told, *self._heard, chance.randbytes(chance.randrange(600)), NO_LAYER)))
        kind = chance.randrange(6)
        if kind == 0 and data:
            del data[chance.randrange(len(data)) :]
        elif kind == 1 and data:
            data[chance.randrange(len(data))] ^= chance.randrange(1, 256)
        elif kind == 2:
            data += chance.randbytes(chance.randrange(1, 10))
        return bytes(data)


def walk(realm: Realm, seed: int, exchanges: int) -> int:
    """Let the eavesdropper try; return how many contexts were open to it, because it has got hold of a token that was not used."""
    stage, opened = stage_of(realm), 0
    eavesdropper = Eavesdropper(realm, stage, seed)
    chance = eavesdropper.chance
    for _ in range(exchanges):
        client, told = stage.connect(), b""
        is_raw = chance.random() < 0.3
        client.handshake("GSSAPI", version=0 if is_raw else 1)
        for step in range(chance.randrange(1, 5)):
            token = eavesdropper.token(told)
            if step == 0 and chance.random() < 0.6:
                token = GssapiClient(realm, "alice", wants_proof=chance.random() < 0.5).first()
                opened += 1
            elif step == 1 and chance.random() < 0.5:
                token = b""  # on to the choice
            answer = client.send_frame(token) if is_raw else client.authenticate(token)
            if not answer:
                break
            told = answer if is_raw else bytes(answer.auth_bytes)
        client.heartbeat()
        stage.layer.advance_ms(DELAY_MS + 1)
        stage.layer.advance_ms(1000)
        assert client.principal == "User:ANONYMOUS", seed
        assert not stage.guarded.callers, seed
        assert client.transport.is_closed, seed
    return opened


def test_what_others_have_sent_lets_nobody_in(realm: Realm) -> None:
    with capturedLogs():
        assert walk(realm, 1, 200) > 50


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_in_many_attempts_what_others_have_sent_lets_nobody_in(realm: Realm) -> None:
    with capturedLogs():
        for seed in range(10, 60):
            assert walk(realm, seed, 2_000) > 500
