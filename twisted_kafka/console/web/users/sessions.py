"""Sessions of users who have logged in, and the tokens of forms.

The browser has the session's token in a cookie; the console keeps only its hash. A session ends some time after the last request,
12 hours after its start, when its user logs out, or when the user's credential has changed or is gone.
"""

import hashlib
import hmac
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from twisted_kafka.network.requests.kafka_principal import USER, KafkaPrincipal
from twisted_kafka.security.scram.credentials import ScramCredential
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock

MOST_SESSIONS: Final = 1_000
"""A further login ends the session that was used least recently."""
LIFETIME_MS: Final = 12 * 60 * 60 * 1000
"""A session's longest duration."""

_TOKEN_BYTES: Final = 32
_MS: Final = 1_000_000


@dataclass(slots=True)
class LoginSession:
    """A logged-in user."""

    user: str
    mechanism: str
    credential: ScramCredential
    """The credential that the password matched."""
    began_ns: int
    used_ns: int

    @property
    def principal(self) -> KafkaPrincipal:
        """The user as the broker's authorizer knows it."""
        return KafkaPrincipal(USER, self.user)


class Sessions:
    """The sessions by the hashes of their tokens. Any thread may call it."""

    def __init__(self, clock: IClock, idle_ms: int) -> None:
        self._clock = clock
        self._idle_ns = idle_ms * _MS
        self._lock = machine.Lock()
        self._sessions: OrderedDict[bytes, LoginSession] = OrderedDict()

    def begin(self, user: str, mechanism: str, credential: ScramCredential) -> str:
        """Begin a session; return its token."""
        token, now_ns = new_token(), self._clock.monotonic_ns()
        with self._lock:
            self._sessions[_hash(token)] = LoginSession(user, mechanism, credential, now_ns, now_ns)
            while len(self._sessions) > MOST_SESSIONS:
                self._sessions.popitem(last=False)
        return token

    def find(self, token: str, *, is_use: bool = True) -> LoginSession | None:
        """Return a token's session if it goes on. Unless ``is_use``, it ends as soon as without this call."""
        key, now_ns = _hash(token), self._clock.monotonic_ns()
        with self._lock:
            session = self._sessions.get(key)
            if session is None:
                return None
            if now_ns - session.used_ns > self._idle_ns or now_ns - session.began_ns > LIFETIME_MS * _MS:
                del self._sessions[key]
                return None
            if is_use:
                session.used_ns = now_ns
                self._sessions.move_to_end(key)
            return session

    def end(self, token: str) -> None:
        """End a session, if there is one."""
        with self._lock:
            self._sessions.pop(_hash(token), None)


class FormTokens:
    """Makes and checks the tokens of forms, which belong to the browser's cookie: a page elsewhere cannot know them."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(_TOKEN_BYTES)

    def token_of(self, cookie: str) -> str:
        """Return the token of forms for a browser's cookie."""
        return hmac.new(self._key, cookie.encode("utf-8", "surrogatepass"), "sha256").hexdigest()

    def is_token(self, cookie: str, token: str) -> bool:
        """Return whether a form's token belongs to the cookie, in constant time."""
        return hmac.compare_digest(self.token_of(cookie).encode(), token.encode("utf-8", "surrogatepass"))


def new_token() -> str:
    """Return a token that nobody can guess."""
    return secrets.token_urlsafe(_TOKEN_BYTES)


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
