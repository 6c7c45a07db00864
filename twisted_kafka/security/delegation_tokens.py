"""Delegation tokens: short-lived credentials that a client gets for itself, or for another user. (Kafka: DelegationTokenManager.)

A token is a node below ``/delegation_token/tokens``, as Apache Kafka writes it, so that either broker reads the other's. Its HMAC
is the secret that a client logs in with; it follows from the token's id and ``delegation.token.secret.key``, and is stored nowhere.
A notification below ``/delegation_token/token_changes`` names each token that changed (KIP-48, KIP-373).
"""

import base64
import hmac
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from twisted.logger import Logger
from typing_extensions import override

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.metadata.change_notifications import ChangeNotifications
from twisted_kafka.metadata.store import Create, Delete, IMetadataStore, NodeExistsError, NoNodeError, Operation, Set, StoreError
from twisted_kafka.metadata.znode_json import BadNodeError, desanitized, sanitized
from twisted_kafka.metadata.znodes_admin import TextNode, TokenNode
from twisted_kafka.network.requests.kafka_principal import KafkaPrincipal
from twisted_kafka.protocol.errors import (
    DelegationTokenExpiredError,
    DelegationTokenNotFoundError,
    DelegationTokenOwnerMismatchError,
    PolicyViolationError,
)
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock

TOKENS: Final = "/delegation_token/tokens"
CHANGES: Final = "/delegation_token/token_changes"
_CHANGE_PREFIX: Final = "token_change_"
_HASH: Final = "sha512"
MAX_TOKEN_BYTES: Final = 1 << 16
"""The largest token: the client chooses its renewers."""

MAX_BYTES: Final = 64 << 20
"""The most that all tokens take up in the store: about 200,000 usual ones, all of which a broker keeps in memory."""

_READ_AT_ONCE: Final = 1000
_REMOVED_AT_ONCE: Final = 100

_log = Logger()


Name = tuple[str, str]
"""The type and the name of a principal, however it logged in."""


class DelegationToken(NamedTuple):
    """A token. Times are in milliseconds since the epoch."""

    token_id: str
    owner: KafkaPrincipal
    """The principal of clients that log in with the token."""
    requester: KafkaPrincipal
    """The principal that created the token."""
    renewers: tuple[KafkaPrincipal, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int
    """It cannot be renewed beyond this."""
    hmac: bytes
    """The secret."""

    @override
    def __repr__(self) -> str:
        return f"DelegationToken({self.token_id!r}, owner={str(self.owner)!r}, expires_ms={self.expires_ms})"

    def has_expired(self, now_ms: int) -> bool:
        """Return whether nobody can log in with it any more."""
        return self.expires_ms < now_ms or self.max_ms < now_ms

    def may_be_changed_by(self, principal: KafkaPrincipal) -> bool:
        """Return whether a principal may renew it and let it expire: its owner and its renewers."""
        return is_among(principal, (self.owner, *self.renewers))

    def concerns(self, names: AbstractSet[Name]) -> bool:
        """Return whether its owner, its requester or a renewer is among the names (TokenInformation.ownerOrRenewer)."""
        return any(each[:2] in names for each in (self.owner, self.requester, *self.renewers))


class TokenSettings(NamedTuple):
    """The settings ``delegation.token.*``; times in milliseconds."""

    secret_key: str
    renew_ms: int
    """How long a token is valid after it was created or renewed."""
    max_lifetime_ms: int
    check_interval_ms: int
    """The time between two removals of expired tokens."""

    @override
    def __repr__(self) -> str:
        return f"TokenSettings(renew_ms={self.renew_ms}, max_lifetime_ms={self.max_lifetime_ms})"

    @classmethod
    def from_config(cls, config: KafkaConfig) -> "TokenSettings | None":
        """Return the broker's settings; None without a secret: there are no tokens then."""
        key = config.optional_string("delegation.token.secret.key") or config.optional_string("delegation.token.master.key")
        if not key:
            return None
        return cls(
            key,
            config.long("delegation.token.expiry.time.ms"),
            config.long("delegation.token.max.lifetime.ms"),
            config.long("delegation.token.expiry.check.interval.ms"),
        )


class DelegationTokenManager:
    """Makes, renews and removes tokens, and knows those of other brokers. Any thread may call it."""

    def __init__(self, store: IMetadataStore, clock: IClock, settings: TokenSettings) -> None:
        self.settings = settings
        self._store = store
        self._clock = clock
        self._lock = machine.Lock()  # changes come one at a time; the dictionaries may be read without it
        self._by_id: dict[str, DelegationToken] = {}
        self._by_hmac: dict[bytes, DelegationToken] = {}
        self._size_bytes = 0
        self._changes = ChangeNotifications(store, clock, CHANGES, self._notified, lambda action: action())

    def startup(self) -> None:
        """Read all tokens, and follow their changes. A token that cannot be read is logged and left out."""
        for path in (TOKENS, CHANGES):
            try:
                self._store.create(path, make_parents=True)
            except NodeExistsError:
                continue
        self._changes.startup()
        names = self._store.children(TOKENS)
        for start in range(0, len(names), _READ_AT_ONCE):
            self._load(names[start : start + _READ_AT_ONCE])

    def shutdown(self) -> None:
        """Stop following changes."""
        self._changes.shutdown()

    def token(self, token_id: str) -> DelegationToken | None:
        """Return a token, which may have expired; None if the id is unknown."""
        return self._by_id.get(token_id)

    def tokens(self) -> list[DelegationToken]:
        """Return all tokens that have not been removed, by id."""
        with self._lock:
            return sorted(self._by_id.values())

    def create(
        self, owner: KafkaPrincipal, requester: KafkaPrincipal, renewers: Sequence[KafkaPrincipal], max_lifetime_ms: int
    ) -> DelegationToken:
        """Create a token. A lifetime of 0 or less, or beyond the setting's, is that of the setting.

        Raises PolicyViolationError if the token, or all tokens together, would take too much room.
        """
        now_ms, settings = self._clock.wall_ms(), self.settings
        lifetime_ms = settings.max_lifetime_ms if max_lifetime_ms <= 0 else min(max_lifetime_ms, settings.max_lifetime_ms)
        token_id = base64.urlsafe_b64encode(machine.new_uuid().bytes).rstrip(b"=").decode()
        max_ms = now_ms + lifetime_ms
        expires_ms = min(max_ms, now_ms + settings.renew_ms)
        token = DelegationToken(token_id, owner, requester, tuple(renewers), now_ms, expires_ms, max_ms, self._hmac_of(token_id))
        data = _encoded(token)
        if len(data) > MAX_TOKEN_BYTES:
            raise PolicyViolationError(f"A delegation token has at most {MAX_TOKEN_BYTES} bytes with its renewers, not {len(data)}")
        with self._lock:
            if self._size_bytes + len(data) > MAX_BYTES:
                raise PolicyViolationError(f"There are {len(self._by_id)} delegation tokens, which have {self._size_bytes} bytes")
            self._write(token, Create(_path(token_id), data))
        _log.info("Created the delegation token {id} of {owner} for {requester}", id=token_id, owner=owner, requester=requester)
        return token

    def renew(self, principal: KafkaPrincipal, secret: bytes, period_ms: int) -> int:
        """Let a token be valid for ``period_ms`` from now, negative: the setting's time; return when it expires.

        Raises DelegationTokenNotFoundError, DelegationTokenOwnerMismatchError, DelegationTokenExpiredError.
        """
        with self._lock:
            token = self._changeable(principal, secret)
            return self._expire_after(token, self.settings.renew_ms if period_ms < 0 else period_ms)

    def expire(self, principal: KafkaPrincipal, secret: bytes, period_ms: int) -> int:
        """Let a token expire after ``period_ms``, negative: remove it now, even if it has expired; return when it expires.

        Raises as ``renew`` does.
        """
        with self._lock:
            token = self._changeable(principal, secret)
            if period_ms >= 0:
                return self._expire_after(token, period_ms)
            self._remove(token)
            return self._clock.wall_ms()

    def remove_expired(self) -> int:
        """Remove the tokens that have expired; return how many.

        There may be very many: other requests do not wait until they are removed from the store. Nobody can renew them.
        """
        now_ms = self._clock.wall_ms()
        with self._lock:
            expired = [token for token in self._by_id.values() if token.has_expired(now_ms)]
        for start in range(0, len(expired), _REMOVED_AT_ONCE):
            some = expired[start : start + _REMOVED_AT_ONCE]
            results = self._store.batch([_removal(each.token_id) for each in some])
            with self._lock:
                for token, result in zip(some, results, strict=True):
                    self._removed(token, result if isinstance(result, StoreError) else None)
        return len(expired)

    def _removed(self, token: DelegationToken, error: StoreError | None) -> None:
        """Take the outcome of a removal. One that failed is repeated with the next check."""
        if error is None or isinstance(error, NoNodeError):
            self._forget(token.token_id)
            _log.info("Removed the expired delegation token {id} of {owner}", id=token.token_id, owner=token.owner)
        else:
            _log.error("The expired delegation token {id} cannot be removed: {error}", id=token.token_id, error=error)

    def _changeable(self, principal: KafkaPrincipal, secret: bytes) -> DelegationToken:
        token = self._by_hmac.get(secret)
        if token is None:
            raise DelegationTokenNotFoundError
        if not token.may_be_changed_by(principal):
            raise DelegationTokenOwnerMismatchError
        return token

    def _expire_after(self, token: DelegationToken, period_ms: int) -> int:
        now_ms = self._clock.wall_ms()
        if token.has_expired(now_ms):
            raise DelegationTokenExpiredError
        expires_ms = min(token.max_ms, now_ms + period_ms)
        renewed = token._replace(expires_ms=expires_ms)
        self._write(renewed, Set(_path(token.token_id), _encoded(renewed)))
        _log.info("The delegation token {id} of {owner} expires at {ms}", id=token.token_id, owner=token.owner, ms=expires_ms)
        return expires_ms

    def _write(self, token: DelegationToken, operation: Operation) -> None:
        try:
            self._store.multi([operation, _notification(token.token_id)])
        except NoNodeError:  # another broker has removed it
            self._forget(token.token_id)
            raise DelegationTokenNotFoundError from None
        self._know(token)

    def _remove(self, token: DelegationToken) -> None:
        try:
            self._store.multi(_removal(token.token_id))
        except NoNodeError:
            _log.info("The delegation token {id} had been removed already", id=token.token_id)
        self._forget(token.token_id)
        _log.info("Removed the delegation token {id} of {owner}", id=token.token_id, owner=token.owner)

    def _notified(self, data: bytes) -> None:
        try:
            token_id = TextNode.decode(data).text
        except BadNodeError as error:
            _log.error("A notification of a delegation token is invalid and is ignored: {error}", error=error)
            return
        self._load([token_id])

    def _load(self, token_ids: Sequence[str]) -> None:
        with self._lock:
            for token_id, node in zip(token_ids, self._store.get_many([_path(each) for each in token_ids]), strict=True):
                if node is None:
                    self._forget(token_id)
                    continue
                try:
                    self._know(self._decoded(node[0]))
                except (BadNodeError, ValueError) as error:
                    _log.error("The delegation token {path} is invalid and is ignored: {error}", path=_path(token_id), error=error)

    def _know(self, token: DelegationToken) -> None:
        before = self._by_id.get(token.token_id)
        self._size_bytes += len(_encoded(token)) - (0 if before is None else len(_encoded(before)))
        self._by_id[token.token_id] = self._by_hmac[token.hmac] = token

    def _forget(self, token_id: str) -> None:
        token = self._by_id.pop(token_id, None)
        if token is not None:
            self._by_hmac.pop(token.hmac, None)
            self._size_bytes -= len(_encoded(token))

    def _decoded(self, data: bytes) -> DelegationToken:
        node = TokenNode.decode(data)
        return DelegationToken(
            node.token_id,
            _principal(node.owner),
            _principal(node.requester),
            tuple(_principal(each) for each in node.renewers),
            node.issued_ms,
            node.expires_ms,
            node.max_ms,
            self._hmac_of(node.token_id),
        )

    def _hmac_of(self, token_id: str) -> bytes:
        return hmac.digest(self.settings.secret_key.encode(), token_id.encode(), _HASH)


def is_among(principal: KafkaPrincipal, others: Sequence[KafkaPrincipal]) -> bool:
    """Return whether a principal is one of the others, however it logged in."""
    return principal[:2] in [each[:2] for each in others]


def _path(token_id: str) -> str:
    return f"{TOKENS}/{token_id}"


def _notification(token_id: str) -> Create:
    return Create(f"{CHANGES}/{_CHANGE_PREFIX}", TextNode(token_id).encode(), sequence=True)


def _removal(token_id: str) -> list[Operation]:
    return [Delete(_path(token_id)), _notification(token_id)]


def _encoded(token: DelegationToken) -> bytes:
    return TokenNode(
        token.token_id,
        _text(token.owner),
        _text(token.requester),
        [_text(each) for each in token.renewers],
        token.issued_ms,
        token.expires_ms,
        token.max_ms,
    ).encode()


def _text(principal: KafkaPrincipal) -> str:
    return sanitized(str(principal))


def _principal(text: str) -> KafkaPrincipal:
    return KafkaPrincipal.parse(desanitized(text))
