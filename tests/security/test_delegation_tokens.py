from collections.abc import Iterator
from typing import Any

import pytest

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.metadata.embedded import SqliteStore
from twisted_kafka.metadata.store import StoreError
from twisted_kafka.network.requests.kafka_principal import KafkaPrincipal
from twisted_kafka.protocol.errors import (
    DelegationTokenExpiredError,
    DelegationTokenNotFoundError,
    DelegationTokenOwnerMismatchError,
    PolicyViolationError,
)
from twisted_kafka.security import delegation_tokens
from twisted_kafka.security.delegation_tokens import CHANGES, TOKENS, DelegationToken, DelegationTokenManager, TokenSettings
from twisted_kafka.timing.clock import ManualClock

ALICE, BOB, CAROL = (KafkaPrincipal("User", name) for name in ("alice", "bob", "carol"))
DAY_MS = 24 * 3600 * 1000
SETTINGS = TokenSettings("the-key-of-all-brokers", DAY_MS, 7 * DAY_MS, 3_600_000)
REAL_TOKEN = (
    b'{"issueTimestamp":1795243575537,"renewers":["User%3Aalice"],"tokenRequester":"User%3Aadmin",'
    b'"tokenId":"GzmV4fsXQAOWtBPjYVT0Jw","owner":"User%3Aadmin","expiryTimestamp":1795329976429,'
    b'"maxTimestamp":1795848375537,"version":3}'
)
"""As Apache Kafka 3.9 wrote it."""


EXPECTED_HMAC = (
    "9ecd663162dcfdb9f2cf719212c38bc4658e3becb6913e65db8c48ec102c4fb5"
    "039272c8ba9e908aaa4b60da5ddb00c8af9d9f6ba76670d3839c5f3f68eee547"
)


class Brokers:
    """Any number of brokers over one store."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = SqliteStore(":memory:", threaded=False)

    def start(self, settings: TokenSettings = SETTINGS) -> DelegationTokenManager:
        manager = DelegationTokenManager(self.store, self.clock, settings)
        manager.startup()
        return manager

    def pass_ms(self, ms: int) -> int:
        self.clock.advance_ms(ms)
        return self.clock.wall_ms()


@pytest.fixture
def brokers() -> Iterator[Brokers]:
    found = Brokers()
    yield found
    found.store.close()


def only(manager: DelegationTokenManager) -> DelegationToken:
    (token,) = manager.tokens()
    return token


def test_a_token_is_valid_for_the_shorter_of_both_times(brokers: Brokers) -> None:
    manager, now = brokers.start(), brokers.clock.wall_ms()
    times = []
    for lifetime_ms in (-1, 0, 1, 3 * DAY_MS, 8 * DAY_MS):
        token = manager.create(ALICE, BOB, [CAROL], lifetime_ms)
        assert (token.owner, token.requester, token.renewers, token.issued_ms) == (ALICE, BOB, (CAROL,), now)
        times.append((token.expires_ms - now, token.max_ms - now))
    week = (DAY_MS, 7 * DAY_MS)
    assert times == [week, week, (1, 1), (DAY_MS, 3 * DAY_MS), week]
    assert len({token.token_id for token in manager.tokens()}) == 5


def test_renewing(brokers: Brokers) -> None:
    manager = brokers.start()
    secret = manager.create(ALICE, ALICE, [BOB], 2 * DAY_MS).hmac
    max_ms = only(manager).max_ms
    now = brokers.pass_ms(1000)
    assert manager.renew(BOB, secret, 5000) == now + 5000
    assert manager.renew(ALICE, secret, -1) == now + DAY_MS
    assert manager.renew(ALICE, secret, 9 * DAY_MS) == max_ms
    assert only(manager).expires_ms == max_ms
    brokers.pass_ms(max_ms - now)
    assert manager.renew(ALICE, secret, 0) == max_ms
    brokers.pass_ms(1)
    with pytest.raises(DelegationTokenExpiredError):
        manager.renew(ALICE, secret, 5000)


def test_letting_a_token_expire(brokers: Brokers) -> None:
    manager = brokers.start()
    secret = manager.create(ALICE, ALICE, [], 0).hmac
    now = brokers.pass_ms(1000)
    assert manager.expire(ALICE, secret, 10) == now + 10
    brokers.pass_ms(11)
    with pytest.raises(DelegationTokenExpiredError):
        manager.expire(ALICE, secret, 10)
    assert manager.expire(ALICE, secret, -1) == brokers.clock.wall_ms()
    assert manager.tokens() == []
    with pytest.raises(DelegationTokenNotFoundError):
        manager.expire(ALICE, secret, -1)


def test_who_may_change_a_token(brokers: Brokers) -> None:
    manager = brokers.start()
    token = manager.create(ALICE, BOB, [CAROL], 0)
    for principal in (BOB, KafkaPrincipal("Group", "alice")):
        with pytest.raises(DelegationTokenOwnerMismatchError):
            manager.renew(principal, token.hmac, 1)
        with pytest.raises(DelegationTokenOwnerMismatchError):
            manager.expire(principal, token.hmac, -1)
    with pytest.raises(DelegationTokenNotFoundError):
        manager.renew(ALICE, token.hmac[:-1], 1)
    assert manager.renew(KafkaPrincipal("User", "carol", token_authenticated=True), token.hmac, 1)
    assert token.concerns({BOB[:2]})


def test_expired_tokens_are_removed_from_the_store(brokers: Brokers) -> None:
    manager = brokers.start()
    manager.create(ALICE, ALICE, [], 1000)
    kept = manager.create(ALICE, ALICE, [], 5000)
    brokers.pass_ms(1000)
    assert manager.remove_expired() == 0
    brokers.pass_ms(1)
    assert manager.remove_expired() == 1
    assert manager.tokens() == [kept]
    assert brokers.store.children(TOKENS) == [kept.token_id]


@pytest.mark.medium
def test_tokens_that_expire_together_are_removed_in_parts_while_others_change(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = brokers.start()
    for _ in range(250):
        manager.create(ALICE, ALICE, [], DAY_MS)
    brokers.pass_ms(DAY_MS + 1)
    batch, created = brokers.store.batch, []

    def beside(groups: Any) -> Any:
        created.append(manager.create(BOB, BOB, [], DAY_MS))  # it would wait for ever if the lock were held
        return batch(groups)

    monkeypatch.setattr(brokers.store, "batch", beside)
    assert manager.remove_expired() == 250
    assert manager.tokens() == sorted(created)
    assert len(created) == 3
    assert len(brokers.store.children(TOKENS)) == 3
    assert brokers.start().tokens() == manager.tokens()


@pytest.mark.medium
def test_tokens_take_no_more_room_than_they_may(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client chooses the renewers, and how many tokens it asks for; each broker keeps all in memory for days."""
    manager = brokers.start()
    with pytest.raises(PolicyViolationError, match="at most"):
        manager.create(ALICE, ALICE, [KafkaPrincipal("User", "x" * 100)] * 1_000, DAY_MS)
    assert brokers.store.children(TOKENS) == []
    monkeypatch.setattr(delegation_tokens, "MAX_BYTES", 10_000)

    def create_many() -> None:
        for _ in range(100):
            manager.renew(ALICE, manager.create(ALICE, ALICE, [], DAY_MS).hmac, 100)

    for _ in range(2):
        with pytest.raises(PolicyViolationError, match="There are"):
            create_many()
        assert 20 < len(manager.tokens()) < 100
        brokers.pass_ms(101)
        manager.remove_expired()
    assert manager.tokens() == []


def test_a_token_that_cannot_be_removed_is_removed_with_the_next_check(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = brokers.start()
    manager.create(ALICE, ALICE, [], DAY_MS)
    brokers.pass_ms(DAY_MS + 1)
    with monkeypatch.context() as patch:
        patch.setattr(brokers.store, "batch", lambda groups: [StoreError("no disk")] * len(groups))
        manager.remove_expired()
    assert len(manager.tokens()) == 1
    manager.remove_expired()
    assert (manager.tokens(), brokers.store.children(TOKENS)) == ([], [])


def test_brokers_know_each_others_tokens(brokers: Brokers) -> None:
    first, second = brokers.start(), brokers.start()
    token = first.create(ALICE, ALICE, [KafkaPrincipal("User", "CN=a/b, O=ü:x")], 0)
    brokers.store.pump()
    assert only(second) == token
    expires_ms = second.renew(ALICE, token.hmac, 7)
    brokers.store.pump()
    assert only(first).expires_ms == expires_ms
    first.expire(ALICE, token.hmac, -1)
    with pytest.raises(DelegationTokenNotFoundError):
        second.renew(ALICE, token.hmac, 7)
    brokers.store.pump()
    assert second.tokens() == []
    assert second.remove_expired() == 0


def test_tokens_survive_a_restart(brokers: Brokers) -> None:
    token = brokers.start().create(ALICE, BOB, [CAROL], 0)
    restarted = brokers.start()
    assert only(restarted) == token
    assert restarted.token(token.token_id) == token
    assert restarted.token("another") is None


def test_a_token_of_apache_kafka_is_read_and_written_as_it_was(brokers: Brokers) -> None:
    path = f"{TOKENS}/GzmV4fsXQAOWtBPjYVT0Jw"
    brokers.store.create(path, REAL_TOKEN, make_parents=True)
    manager = brokers.start()
    token = only(manager)
    assert (token.owner, token.requester, token.renewers) == (
        KafkaPrincipal("User", "admin"),
        KafkaPrincipal("User", "admin"),
        (ALICE,),
    )
    manager.renew(ALICE, token.hmac, 5)
    expires = f'"expiryTimestamp":{only(manager).expires_ms},'.encode()
    found = brokers.store.get(path)
    assert found is not None
    assert sorted(found[0].strip(b"{}").split(b",")) == sorted(
        REAL_TOKEN.replace(b'"expiryTimestamp":1795329976429,', expires).strip(b"{}").split(b",")
    )
    (change,) = brokers.store.children(CHANGES)
    assert change.startswith("token_change_")


def test_the_secret_is_that_of_apache_kafka(brokers: Brokers) -> None:
    # HmacSHA512 of the id, by openssl dgst -sha512 -hmac the-key-of-all-brokers
    brokers.store.create(f"{TOKENS}/GzmV4fsXQAOWtBPjYVT0Jw", REAL_TOKEN, make_parents=True)
    assert only(brokers.start()).hmac.hex() == EXPECTED_HMAC
    assert only(brokers.start(SETTINGS._replace(secret_key="another"))).hmac.hex() != EXPECTED_HMAC


def test_what_is_not_a_token_is_left_out(brokers: Brokers) -> None:
    brokers.store.create(f"{TOKENS}/broken", b"{", make_parents=True)
    brokers.store.create(f"{TOKENS}/GzmV4fsXQAOWtBPjYVT0Jw", REAL_TOKEN)
    brokers.store.create(f"{TOKENS}/nobody", REAL_TOKEN.replace(b"User%3Aadmin", b"admin"))
    manager = brokers.start()
    assert only(manager).token_id == "GzmV4fsXQAOWtBPjYVT0Jw"
    brokers.store.create(f"{CHANGES}/token_change_", b"\xff", sequence=True)
    brokers.store.pump()
    assert only(manager).token_id == "GzmV4fsXQAOWtBPjYVT0Jw"


def test_secrets_are_not_shown(brokers: Brokers) -> None:
    token = brokers.start().create(ALICE, ALICE, [], 0)
    assert str(token.hmac) not in repr(token)
    assert token.hmac.hex() not in repr(token)
    assert SETTINGS.secret_key not in repr(SETTINGS)


@pytest.mark.parametrize(
    ("keys", "secret"),
    [
        ({}, None),
        ({"delegation.token.secret.key": "new"}, "new"),
        ({"delegation.token.master.key": "old"}, "old"),
        ({"delegation.token.secret.key": "new", "delegation.token.master.key": "old"}, "new"),
    ],
)
def test_the_secret_turns_tokens_on(keys: dict[str, Any], secret: str | None) -> None:
    settings = TokenSettings.from_config(KafkaConfig({"listeners": "PLAINTEXT://localhost:0", **keys}))
    assert (settings and settings.secret_key) == secret
