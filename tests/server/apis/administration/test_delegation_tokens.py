from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.apis.group_handlers import ask
from twisted_kafka.metadata.embedded import SqliteStore
from twisted_kafka.network.requests.kafka_principal import ANONYMOUS, KafkaPrincipal
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.errors import DelegationTokenDisabledError, ErrorCode
from twisted_kafka.protocol.messages.administration.tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from twisted_kafka.security.authorizer.acl_types import AclOperation, ResourceType
from twisted_kafka.security.delegation_tokens import DelegationTokenManager, TokenSettings
from twisted_kafka.server.apis.administration.delegation_tokens import DelegationTokenApis
from twisted_kafka.server.authorization import Authorization
from twisted_kafka.timing.clock import ManualClock

ALICE, BOB, CAROL = (KafkaPrincipal("User", name) for name in ("alice", "bob", "carol"))


class ListedAuthorizer:
    """Allows what is listed."""

    def __init__(self) -> None:
        self.allowed: set[tuple[AclOperation, ResourceType, str]] = set()
        self.logged: set[str] = set()
        """The names of what was denied, and is logged."""

    def authorize(self, context: Any, actions: Any) -> list[bool]:
        allowed = [(each.operation, each.resource_type, each.name) in self.allowed for each in actions]
        self.logged.update(
            each.name for each, is_allowed in zip(actions, allowed, strict=True) if each.logs_denied and not is_allowed
        )
        return allowed

    def authorize_by_resource_type(self, *args: Any) -> bool:
        return False


class Tokens:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = SqliteStore(":memory:", threaded=False)
        self.manager = DelegationTokenManager(self.store, self.clock, TokenSettings("key", 1000, 5000, 1000))
        self.manager.startup()
        self.authorizer = ListedAuthorizer()
        self.family = DelegationTokenApis(self.manager, Authorization(self.authorizer))

    def ask(self, request: Message, version: int, principal: KafkaPrincipal = ALICE, listener: str = "SASL_PLAINTEXT") -> Any:
        response, context = ask(self.family, request, version, listener=listener, principal=principal)
        assert context.error == response.error_code
        return response

    def create(self, owner: KafkaPrincipal | None = None, version: int = 3, **options: Any) -> Any:
        renewers = [CreatableRenewers(principal_type=each[0], principal_name=each[1]) for each in options.pop("renewers", ())]
        request = CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=0)
        if owner is not None:
            request.owner_principal_type, request.owner_principal_name = owner[:2]
        elif version >= 3:
            request.owner_principal_type = request.owner_principal_name = None
        return self.ask(request, version, **options)

    def described(self, owners: list[KafkaPrincipal] | None, principal: KafkaPrincipal) -> list[str]:
        request = DescribeDelegationTokenRequest(owners=None)
        if owners is not None:
            request.owners = [DescribeDelegationTokenOwner(principal_type=each[0], principal_name=each[1]) for each in owners]
        return [each.token_id for each in self.ask(request, 3, principal).tokens]


@pytest.fixture
def tokens() -> Iterator[Tokens]:
    found = Tokens()
    yield found
    found.store.close()


@pytest.mark.parametrize("version", range(4))
def test_a_token_in_every_version(tokens: Tokens, version: int) -> None:
    created = tokens.create(version=version, renewers=[BOB])
    now = tokens.clock.wall_ms()
    assert (created.error_code, created.principal_type, created.principal_name) == (0, "User", "alice")
    assert (created.issue_timestamp_ms, created.expiry_timestamp_ms, created.max_timestamp_ms) == (now, now + 1000, now + 5000)
    assert created.token_requester_principal_name == ("alice" if version >= 3 else "")
    (described,) = tokens.ask(DescribeDelegationTokenRequest(owners=None), version).tokens
    assert (described.token_id, described.hmac) == (created.token_id, created.hmac)
    assert [each.principal_name for each in described.renewers] == ["bob"]
    assert described.token_requester_principal_name == ("alice" if version >= 3 else "")


@pytest.mark.parametrize("version", range(3))
def test_renewing_and_expiring_in_every_version(tokens: Tokens, version: int) -> None:
    secret = tokens.create(renewers=[BOB]).hmac
    now = tokens.clock.wall_ms()

    def renew(principal: KafkaPrincipal, hmac: bytes = secret) -> tuple[int, int]:
        response = tokens.ask(RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=3000), version, principal)
        return response.error_code, response.expiry_timestamp_ms

    def expire(principal: KafkaPrincipal, period_ms: int) -> tuple[int, int]:
        response = tokens.ask(ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=period_ms), version, principal)
        return response.error_code, response.expiry_timestamp_ms

    assert renew(BOB) == (0, now + 3000)
    assert renew(CAROL) == (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, -1)
    assert renew(ALICE, b"unknown") == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, -1)
    assert expire(CAROL, 10) == (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, -1)
    assert expire(ALICE, 10) == (0, now + 10)
    tokens.clock.advance_ms(11)
    assert renew(ALICE) == (ErrorCode.DELEGATION_TOKEN_EXPIRED, -1)
    assert expire(ALICE, 10) == (ErrorCode.DELEGATION_TOKEN_EXPIRED, -1)
    assert expire(BOB, -1) == (0, now + 11)
    assert tokens.manager.tokens() == []


NOT_KNOWN_WELL = [
    ("PLAINTEXT", ANONYMOUS),
    ("PLAINTEXT", ALICE),
    ("SSL", ANONYMOUS),
    ("SASL_SSL", KafkaPrincipal("User", "alice", token_authenticated=True)),
]


@pytest.mark.parametrize(("listener", "principal"), NOT_KNOWN_WELL)
def test_who_may_not_ask(tokens: Tokens, listener: str, principal: KafkaPrincipal) -> None:
    secret = tokens.create().hmac
    for request, version in (
        (CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=0), 2),
        (RenewDelegationTokenRequest(hmac=secret, renew_period_ms=1), 2),
        (ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=-1), 2),
        (DescribeDelegationTokenRequest(owners=None), 3),
    ):
        response = tokens.ask(request, version, principal, listener)
        assert response.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert len(tokens.manager.tokens()) == 1


@pytest.mark.parametrize(("listener", "principal"), [("SSL", ALICE), ("SASL_SSL", ANONYMOUS), ("SASL_PLAINTEXT", ALICE)])
def test_who_may_ask(tokens: Tokens, listener: str, principal: KafkaPrincipal) -> None:
    assert tokens.create(listener=listener, principal=principal).error_code == 0


def test_a_token_for_somebody_else_needs_a_right(tokens: Tokens) -> None:
    refused = tokens.create(BOB)
    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert (refused.principal_name, refused.token_requester_principal_name, refused.hmac) == ("bob", "alice", b"")
    assert (refused.issue_timestamp_ms, refused.expiry_timestamp_ms, refused.max_timestamp_ms) == (-1, -1, -1)
    assert tokens.create(ALICE).error_code == 0
    tokens.authorizer.allowed.add((AclOperation.CREATE_TOKENS, ResourceType.USER, "User:bob"))
    created = tokens.create(BOB)
    assert (created.error_code, created.principal_name, created.token_requester_principal_name) == (0, "bob", "alice")


def test_renewers_are_users(tokens: Tokens) -> None:
    refused = tokens.create(renewers=[BOB, KafkaPrincipal("Group", "carol")])
    assert refused.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    assert tokens.manager.tokens() == []


def test_which_tokens_are_described(tokens: Tokens) -> None:
    own, shared = tokens.create().token_id, tokens.create(renewers=[BOB]).token_id
    bobs = tokens.create(principal=BOB).token_id
    assert tokens.described(None, ALICE) == sorted([own, shared])
    assert tokens.described(None, BOB) == sorted([shared, bobs])
    assert tokens.described([ALICE], BOB) == [shared]
    assert tokens.described([BOB], ALICE) == [shared]
    assert tokens.described([], ALICE) == []
    assert tokens.described(None, CAROL) == []
    tokens.authorizer.allowed = {(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, own)}
    assert tokens.described(None, CAROL) == [own]
    tokens.authorizer.allowed = {(AclOperation.DESCRIBE_TOKENS, ResourceType.USER, "User:bob")}
    assert tokens.described(None, CAROL) == [bobs]
    assert tokens.described([ALICE], CAROL) == []


def test_tokens_that_are_left_out_of_a_list_are_not_logged_as_denied(tokens: Tokens) -> None:
    """A request of a few bytes would write a line for each token of others."""
    for _ in range(20):
        tokens.create(principal=BOB)
    tokens.authorizer.logged.clear()
    assert tokens.described(None, ALICE) == []
    assert tokens.authorizer.logged == set()
    assert tokens.described([BOB], ALICE) == []
    assert tokens.authorizer.logged == {"User:bob"}


@pytest.mark.medium
def test_many_owners_are_looked_for_at_once(tokens: Tokens) -> None:
    created = [tokens.create().token_id for _ in range(100)]
    owners = [KafkaPrincipal("User", f"user-{number}") for number in range(5_000)]
    assert tokens.described([*owners, ALICE], ALICE) == sorted(created)


def test_a_broker_without_a_secret_has_no_tokens(tokens: Tokens) -> None:
    tokens.family = DelegationTokenApis(None, Authorization(tokens.authorizer))
    disabled = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert tokens.create().error_code == disabled
    assert tokens.create(listener="PLAINTEXT").error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert tokens.ask(RenewDelegationTokenRequest(hmac=b"", renew_period_ms=1), 2).error_code == disabled
    assert tokens.ask(ExpireDelegationTokenRequest(hmac=b"", expiry_time_period_ms=1), 2).error_code == disabled
    with pytest.raises(DelegationTokenDisabledError):
        tokens.ask(DescribeDelegationTokenRequest(owners=None), 3)
