"""Which bearer tokens are accepted: unsecured ones, signed ones, and those that somebody has changed."""

import json
from base64 import urlsafe_b64encode
from typing import Any

import pytest

from tests.support.security.tokens import NOW_S, Issuer, part, unsecured
from twisted_kafka.security.oauth.claims import InvalidTokenError
from twisted_kafka.security.oauth.jwks import EARLY_NS, LEAST_PAUSE_MS, Jwks, JwksError, JwksSettings
from twisted_kafka.security.oauth.signed import SignedTokens, TokenRules
from twisted_kafka.security.oauth.unsecured import UnsecuredTokens
from twisted_kafka.timing.clock import ManualClock

GOOD: dict[str, Any] = {"sub": "alice", "iat": NOW_S - 10, "exp": NOW_S + 60}
RULES = TokenRules(30_000, ("kafka",), "https://issuer", "scope", "sub")
SIGNED: dict[str, Any] = {**GOOD, "aud": "kafka", "iss": "https://issuer"}


def at_now() -> ManualClock:
    clock = ManualClock()
    clock.advance_ms(NOW_S * 1000 - clock.wall_ms())
    return clock


def test_an_unsecured_token_is_accepted() -> None:
    found = UnsecuredTokens({}, at_now()).validate(unsecured(**GOOD, scope=["a", "b"]))
    assert found == ("alice", (NOW_S + 60) * 1000, ["a", "b"])


@pytest.mark.parametrize(
    ("token", "why"),
    [
        ("", "three parts"),
        ("a.b", "three parts"),
        (f"{part({'alg': 'none'})}.{part(GOOD)}.c2ln", "signed"),
        (unsecured({"alg": "HS256"}, **GOOD), "signed"),
        (f"{part([])}.{part(GOOD)}.", "not an object"),
        ("e30.!!!.", "base64|JSON"),
        (unsecured(**{**GOOD, "sub": " "}), "sub"),
        (unsecured(**{**GOOD, "sub": 7}), "sub"),
        (unsecured(iat=NOW_S, exp=NOW_S + 60), "sub"),
        (unsecured(sub="alice"), "exp"),
        (unsecured(sub="alice", exp="soon"), "exp"),
        (unsecured(sub="alice", exp=True), "exp"),
        (unsecured(sub="alice", exp=1e300), "exp"),
        (unsecured(sub="alice", exp=float("inf")), "JSON"),
        (unsecured(sub="alice", exp=NOW_S), "expired"),
        (unsecured(sub="alice", iat=NOW_S + 1, exp=NOW_S + 60), "iat has not come"),
        (unsecured(sub="alice", nbf=NOW_S + 1, exp=NOW_S + 60), "nbf has not come"),
        (unsecured(sub="alice", iat=NOW_S, exp=NOW_S), "expired"),
        ("[" * 70_000, "three parts"),
    ],
)
def test_a_bad_unsecured_token_is_not(token: str, why: str) -> None:
    with pytest.raises(InvalidTokenError, match=why):
        UnsecuredTokens({}, at_now()).validate(token)


def test_the_options_of_the_login_module() -> None:
    options = {
        "unsecuredValidatorPrincipalClaimName": "name",
        "unsecuredValidatorScopeClaimName": "groups",
        "unsecuredValidatorRequiredScope": "read write",
        "unsecuredValidatorAllowableClockSkewMs": "5000",
    }
    tokens = UnsecuredTokens(options, at_now())
    claims = {"name": "bob", "exp": NOW_S - 4}
    assert tokens.validate(unsecured(**claims, groups="write read")).principal_name == "bob"
    with pytest.raises(InvalidTokenError) as raised:
        tokens.validate(unsecured(**claims, groups=["read"]))
    assert (raised.value.status, raised.value.scope) == ("insufficient_scope", "[read, write]")
    with pytest.raises(ValueError, match="unsecuredValidatorAllowableClockSkewMs"):
        UnsecuredTokens({"unsecuredValidatorAllowableClockSkewMs": "-1"}, at_now())


class Endpoint:
    """A JWKS endpoint, and what asks it."""

    def __init__(self, *issuers: Issuer) -> None:
        self.clock = at_now()
        self.answer: Any = {"keys": [key for issuer in issuers for key in issuer.jwks["keys"]]}
        self.asked = 0
        self.jwks = Jwks(JwksSettings("https://issuer/jwks", 3_600_000, 1, 1), self.clock, self._get)
        self.jwks.refresh()

    def _get(self, url: str) -> bytes:
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return json.dumps(self.answer).encode()

    def tokens(self, rules: TokenRules = RULES) -> SignedTokens:
        return SignedTokens(self.jwks, rules, self.clock)


ISSUER = Issuer()


@pytest.mark.medium
@pytest.mark.parametrize("kind", ["RS256", "PS512", "ES256"])
def test_a_signed_token_is_accepted(kind: str) -> None:
    issuer = Issuer("k", kind)
    found = Endpoint(ISSUER, issuer).tokens().validate(issuer.sign(**SIGNED, scope="read write"))
    assert found == ("alice", (NOW_S + 60) * 1000, ["read", "write"])


def test_audience_and_issuer_are_checked_if_they_are_set() -> None:
    other = ISSUER.sign(**{**SIGNED, "aud": ["x", "kafka"]})
    assert Endpoint(ISSUER).tokens().validate(other).principal_name == "alice"
    loose = RULES._replace(audiences=(), issuer=None, principal_claim="email")
    assert Endpoint(ISSUER).tokens(loose).validate(ISSUER.sign(**GOOD, email="a@b")).principal_name == "a@b"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"aud": "other"}, "audience"),
        ({"aud": None}, "audience"),
        ({"aud": {"kafka": 1}}, "audience"),
        ({"iss": "https://other"}, "issuer"),
        ({"exp": NOW_S - 31}, "expired"),
        ({"iat": None}, "iat"),
        ({"iat": NOW_S + 31}, "iat"),
        ({"nbf": NOW_S + 31}, "nbf"),
        ({"sub": ""}, "sub"),
        ({"sub": "\ud800"}, "sub"),
        ({"scope": [1]}, "scope"),
    ],
)
def test_a_signed_token_that_says_something_wrong_is_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidTokenError, match=why):
        Endpoint(ISSUER).tokens().validate(ISSUER.sign(**{**SIGNED, **changes}))


@pytest.mark.medium
def test_a_token_that_was_changed_or_not_signed_is_refused() -> None:
    tokens = Endpoint(ISSUER).tokens()
    good = ISSUER.sign(**SIGNED)
    header, _, signature = good.split(".")
    shared = {"alg": "HS256", "kid": ISSUER.key.kid}
    for bad in (
        f"{header}.{part({**SIGNED, 'sub': 'root'})}.{signature}",
        f"{header}.{good.split('.')[1]}.",
        unsecured(**SIGNED),
        unsecured({"alg": "none", "kid": ISSUER.key.kid}, **SIGNED),
        f"{part(shared)}.{part(SIGNED)}.{signature}",
        Issuer().sign(**SIGNED),  # another key with the same id
        f"{part([])}.{part(SIGNED)}.{signature}",
        f"{urlsafe_b64encode(b'[' * 40_000).decode()}.{part(SIGNED)}.{signature}",
        "garbage",
        "a.b.c",
        "",
        "é.é.é",
    ):
        with pytest.raises(InvalidTokenError):
            tokens.validate(bad)
    assert tokens.validate(good).principal_name == "alice"


@pytest.mark.medium
def test_an_unknown_key_has_the_keys_fetched_but_not_too_often() -> None:
    new = Issuer("key-2")
    endpoint = Endpoint(ISSUER)
    tokens = endpoint.tokens()
    with pytest.raises(InvalidTokenError, match="unknown"):
        tokens.validate(new.sign(**SIGNED))
    assert endpoint.jwks.is_due()
    endpoint.answer = new.jwks
    endpoint.jwks.refresh()
    assert tokens.validate(new.sign(**SIGNED)).principal_name == "alice"
    with pytest.raises(InvalidTokenError, match="unknown"):
        tokens.validate(ISSUER.sign(**SIGNED))
    assert not endpoint.jwks.is_due()
    endpoint.clock.advance_ms(EARLY_NS / 1e6)
    with pytest.raises(InvalidTokenError):
        tokens.validate(ISSUER.sign(**SIGNED, jti="again"))
    assert endpoint.jwks.is_due()


@pytest.mark.parametrize("answer", [OSError("refused"), [], {"keys": 1}, {"keys": [{"kty": "RSA"}]}, {}])
def test_an_endpoint_that_fails_leaves_the_keys_as_they_were(answer: Any) -> None:
    endpoint = Endpoint(ISSUER)
    endpoint.answer = answer
    with pytest.raises(JwksError):
        endpoint.jwks.refresh()
    assert endpoint.tokens().validate(ISSUER.sign(**SIGNED)).principal_name == "alice"
    with pytest.raises(JwksError):
        endpoint.jwks.start()
    assert endpoint.asked == 6


@pytest.mark.parametrize(
    "unusable",
    [{"kty": "EC", "crv": "secp256k2", "x": "AA", "y": "AA", "kid": "new"}, {"kty": "RSA"}, {"kty": []}, {}, 1],
)
def test_a_key_that_cannot_be_used_leaves_the_others(unusable: Any) -> None:
    endpoint = Endpoint(ISSUER)
    endpoint.answer = {"keys": [unusable, *ISSUER.jwks["keys"], unusable]}
    endpoint.jwks.refresh()
    assert endpoint.tokens().validate(ISSUER.sign(**SIGNED)).principal_name == "alice"


def test_settings_of_nothing_have_the_endpoint_asked_now_and_then_only() -> None:
    jwks = Jwks(JwksSettings("https://issuer/jwks", 0, 0, -1), at_now(), lambda _: b"")
    assert [jwks.pause_s(failures) for failures in (0, 1, 40)] == [LEAST_PAUSE_MS / 1000] * 3
    jwks = Jwks(JwksSettings("https://issuer/jwks", 3_600_000, 200, 1_000), at_now(), lambda _: b"")
    assert [jwks.pause_s(failures) for failures in (0, 1, 2, 3, 40)] == [3600, 0.2, 0.4, 0.8, 1]


def test_keys_that_are_nested_too_deeply_are_no_keys() -> None:
    jwks = Jwks(JwksSettings("https://issuer/jwks", 3_600_000, 1, 1), at_now(), lambda _: b"[" * 500_000)
    with pytest.raises(JwksError, match="RecursionError"):
        jwks.refresh()
