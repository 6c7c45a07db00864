"""Delegation tokens of Apache Kafka 3.9 and of this broker: the same requests of the same users, in every version."""

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.clients.clients import java_class_path
from tests.support.clients.served import ServedBroker
from tests.support.oracle.apache_kafka import ApacheKafka
from tests.support.ports import free_port
from tests.support.security.sasl_wire import Wire
from tests.support.security.scram_client import ScramClient
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.messages.administration.tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from twisted_kafka.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from twisted_kafka.security.scram.formulas import SCRAM_SHA_512

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

SECURITY = "org.apache.kafka.common.security"
PREFIX = "listener.name.sasl_plaintext"
USERS = ("admin", "alice", "bob", "carol")
DAY_MS = 24 * 3600 * 1000
SETTINGS: dict[str, object] = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    f"{PREFIX}.plain.sasl.jaas.config": f"{SECURITY}.plain.PlainLoginModule required "
    + " ".join(f'user_{name}="{name}-secret"' for name in USERS)
    + ";",
    f"{PREFIX}.scram-sha-512.sasl.jaas.config": f"{SECURITY}.scram.ScramLoginModule required;",
    "delegation.token.secret.key": "the-key",
    "delegation.token.expiry.time.ms": DAY_MS,
    "delegation.token.max.lifetime.ms": 7 * DAY_MS,
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[tuple[int, int]]]:
    """The plain-text and the SASL listener of Apache Kafka, and of this broker."""
    if java_class_path() is None:
        pytest.skip("Java or Maven is not installed")
    folder = tmp_path_factory.mktemp("tokens")
    theirs, mine = free_port(), free_port()
    kafka = ApacheKafka(folder / "kafka", **SETTINGS)  # type: ignore[arg-type]
    kafka.change(listeners=f"PLAINTEXT://{kafka.bootstrap},SASL_PLAINTEXT://127.0.0.1:{theirs}")
    ours = ServedBroker(folder / "data", *(f"{key}={value}" for key, value in SETTINGS.items()))
    ours.listeners += f",SASL_PLAINTEXT://127.0.0.1:{mine}"
    try:
        kafka.start()
        ours.start()
        yield [(kafka.port, theirs), (ours.port, mine)]
    finally:
        kafka.kill()
        ours.kill()


class Story:
    """What one broker answers; ids and secrets are numbered, times are relative to when the token was issued."""

    def __init__(self, ports: tuple[int, int]) -> None:
        self._plain_port, self._port = ports
        self.told: list[Any] = []
        self._seen: dict[Any, int] = {}
        self._issued_ms = 0

    def login(self, user: str) -> Wire:
        wire = Wire(self._port)
        wire.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert wire.send(SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{user}-secret".encode()), 2).error_code == 0
        return wire

    def login_with_token(self, token_id: str, secret: bytes) -> Wire:
        wire = Wire(self._port)
        wire.send(SaslHandshakeRequest(mechanism="SCRAM-SHA-512"), 1)
        client = ScramClient(token_id, base64.b64encode(secret).decode(), SCRAM_SHA_512)
        client.bare += ",tokenauth=true"
        answer = wire.send(SaslAuthenticateRequest(auth_bytes=client.first()), 2)
        if not answer.error_code:
            answer = wire.send(SaslAuthenticateRequest(auth_bytes=client.final(bytes(answer.auth_bytes))), 2)
        self.told.append(("login", answer.error_code, answer.session_lifetime_ms > 0))
        return wire

    def anonymous(self) -> Wire:
        return Wire(self._plain_port)

    def create(self, wire: Wire, version: int = 3, *, owner: str | None = None, renewers: Any = (), lifetime_ms: int = -1) -> Any:
        request = CreateDelegationTokenRequest(
            renewers=[CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in renewers],
            max_lifetime_ms=lifetime_ms,
        )
        if version >= 3:
            request.owner_principal_type, request.owner_principal_name = (None, None) if owner is None else ("User", owner)
        answer = wire.send(request, version)
        self._issued_ms = max(answer.issue_timestamp_ms, self._issued_ms)
        self.told.append(
            (
                answer.error_code,
                answer.principal_type,
                answer.principal_name,
                answer.token_requester_principal_type,
                answer.token_requester_principal_name,
                [self._since(answer.issue_timestamp_ms, each) for each in (answer.expiry_timestamp_ms, answer.max_timestamp_ms)],
                self._number(answer.token_id),
                len(answer.token_id),
                len(answer.hmac),
            )
        )
        return answer

    def change(self, wire: Wire, request: Message, version: int = 2) -> None:
        answer = wire.send(request, version)
        self.told.append((answer.error_code, self._since(self._issued_ms, answer.expiry_timestamp_ms)))

    def describe(self, wire: Wire, owners: list[str] | None, version: int = 3) -> None:
        named = (
            None
            if owners is None
            else [DescribeDelegationTokenOwner(principal_type="User", principal_name=each) for each in owners]
        )
        answer = wire.send(DescribeDelegationTokenRequest(owners=named), version)
        found = [
            (
                self._number(each.token_id),
                self._number(bytes(each.hmac)),
                each.principal_name,
                each.token_requester_principal_name,
                self._since(each.issue_timestamp, each.expiry_timestamp),
                self._since(each.issue_timestamp, each.max_timestamp),
                [(renewer.principal_type, renewer.principal_name) for renewer in each.renewers],
            )
            for each in answer.tokens
        ]
        self.told.append((answer.error_code, sorted(found)))

    def _number(self, value: Any) -> int:
        return self._seen.setdefault(value, len(self._seen))

    def _since(self, issued_ms: int, moment_ms: int) -> int:
        """In minutes: the two brokers are not asked in the same millisecond."""
        return -1 if moment_ms < 0 else (moment_ms - issued_ms) // 60_000


def a_token_in_each_version(story: Story) -> None:
    alice = story.login("alice")
    for version in range(4):
        token = story.create(alice, version, renewers=[("User", "bob")] * (version + 1))
        story.describe(alice, ["alice"], version)
        story.change(alice, RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=3 * DAY_MS), min(version, 2))
        story.change(alice, ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=3_600_000), min(version, 2))
        story.change(alice, ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1), min(version, 2))
        story.describe(alice, None, version)


def lifetimes(story: Story) -> None:
    alice = story.login("alice")
    for lifetime_ms in (-1, 0, 3_600_000, 3 * DAY_MS, 30 * DAY_MS):
        token = story.create(alice, lifetime_ms=lifetime_ms)
        for period_ms in (-1, 300_000, 2 * DAY_MS, 30 * DAY_MS):
            story.change(alice, RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=period_ms))
        story.change(alice, ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-5))


def who_may_change_and_see_a_token(story: Story) -> None:
    alice, bob, carol = map(story.login, ("alice", "bob", "carol"))
    token = story.create(alice, renewers=[("User", "bob")])
    for wire in (alice, bob, carol, story.login("admin")):
        story.describe(wire, None)
        story.describe(wire, [])
        story.describe(wire, ["alice"])
        story.describe(wire, ["bob", "carol"])
        story.change(wire, RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=3_600_000))
        story.change(wire, RenewDelegationTokenRequest(hmac=b"unknown", renew_period_ms=3_600_000))
        story.change(wire, RenewDelegationTokenRequest(hmac=b"", renew_period_ms=3_600_000))
        story.change(wire, ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=3_600_000))
    story.change(carol, ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1))
    story.change(bob, ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1))


def for_somebody_else(story: Story) -> None:
    alice, admin = story.login("alice"), story.login("admin")
    story.create(alice, owner="bob")
    story.create(alice, owner="alice")
    story.create(alice, owner="")
    token = story.create(admin, owner="bob", renewers=[("User", "carol")])
    for name in ("alice", "bob", "carol", "admin"):
        story.describe(story.login(name), ["bob"])
    for name in ("admin", "alice", "carol", "bob"):
        story.change(story.login(name), ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1))


def principals_that_are_no_users(story: Story) -> None:
    alice = story.login("alice")
    story.create(alice, renewers=[("User", "bob"), ("Group", "carol")])
    story.create(alice, renewers=[("", "")])
    story.create(alice, owner="bob", renewers=[("Group", "carol")])


def those_who_are_not_known_well_enough(story: Story) -> None:
    token = story.create(story.login("alice"))
    with_token = story.login_with_token(token.token_id, token.hmac)
    for wire in (story.anonymous(), with_token):
        story.create(wire)
        story.create(wire, owner="bob", renewers=[("Group", "carol")])
        story.describe(wire, None)
        story.describe(wire, [])
        story.change(wire, RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=1))
        story.change(wire, ExpireDelegationTokenRequest(hmac=b"unknown", expiry_time_period_ms=1))


STORIES = [
    a_token_in_each_version,
    lifetimes,
    who_may_change_and_see_a_token,
    for_somebody_else,
    principals_that_are_no_users,
    those_who_are_not_known_well_enough,
]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_both_brokers_tell_the_same_story(ports: list[tuple[int, int]], story: Any) -> None:
    theirs, ours = map(Story, ports)
    for each in (theirs, ours):
        story(each)
    assert ours.told == theirs.told
