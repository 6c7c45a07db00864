"""Checks passwords against the broker's SCRAM credentials, and limits failed attempts."""

import hmac
import ipaddress
from collections import OrderedDict
from typing import Final, NamedTuple

from twisted_kafka.security.scram.credential_cache import CredentialCache
from twisted_kafka.security.scram.credentials import ScramCredential
from twisted_kafka.security.scram.formulas import SCRAM_MECHANISMS, ScramMechanism, client_key, salted_password, stored_key
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock

MOST_OF_ADDRESS: Final = 10
MOST_OF_USER: Final = 30
"""Failed logins in a row, of an address and for a user, after which each further one needs a pause."""
PAUSE_OF_ADDRESS_S: Final = 6
PAUSE_OF_USER_S: Final = 2
MOST_KNOWN: Final = 10_000
"""Addresses and users whose failures are known; the oldest is forgotten."""

_SALT: Final = b"of a user who does not exist"
_S: Final = 1_000_000_000


class Match(NamedTuple):
    """The credential that a password matches."""

    mechanism: str
    credential: ScramCredential


class Passwords:
    """Compares passwords. It takes tens of milliseconds, the same for all users, existing or not."""

    def __init__(self, credentials: CredentialCache) -> None:
        self._credentials = credentials

    def match(self, user: str, password: str) -> Match | None:
        """Return what the password matches, None if it is wrong or the user does not exist."""
        found = [self._compare(mechanism, user, password) for mechanism in SCRAM_MECHANISMS]
        return next((each for each in found if each is not None), None)

    def is_current(self, user: str, mechanism: str, credential: ScramCredential) -> bool:
        """Return whether a user still has a credential: the password has not changed, and the user is not deleted."""
        return self._credentials.credential(mechanism, user) == credential

    def _compare(self, mechanism: ScramMechanism, user: str, password: str) -> Match | None:
        credential = self._credentials.credential(mechanism.name, user)
        iterations = self._credentials.usual_iterations(mechanism.name) if credential is None else credential.iterations
        salt = _SALT if credential is None else credential.salt
        salted = salted_password(mechanism, password.encode("utf-8", "surrogatepass"), salt, iterations)
        computed = stored_key(mechanism, client_key(mechanism, salted))
        if credential is None or not hmac.compare_digest(computed, credential.stored_key):
            return None
        return Match(mechanism.name, credential)


class FailedLogins:
    """Counts failed logins by address and by user. A count falls by one after each pause. Any thread may call it."""

    def __init__(self, clock: IClock) -> None:
        self._clock = clock
        self._lock = machine.Lock()
        self._failures: OrderedDict[tuple[str, str], tuple[float, int]] = OrderedDict()

    def wait_s(self, address: str, user: str) -> int:
        """Return how many seconds the next attempt has to wait, 0 if it need not."""
        with self._lock:
            return max(self._wait_s(*each) for each in _limits(address, user))

    def note(self, address: str, user: str) -> None:
        """Count a failure."""
        with self._lock:
            for key, _, pause_s in _limits(address, user):
                self._failures[key] = (self._count(key, pause_s) + 1, self._clock.monotonic_ns())
                self._failures.move_to_end(key)
            while len(self._failures) > MOST_KNOWN:
                self._failures.popitem(last=False)

    def forgive(self, address: str, user: str) -> None:
        """Take a count back: the login has succeeded."""
        with self._lock:
            for key, _, pause_s in _limits(address, user):
                self._failures[key] = (max(0.0, self._count(key, pause_s) - 1), self._clock.monotonic_ns())

    def _count(self, key: tuple[str, str], pause_s: int) -> float:
        count, then_ns = self._failures.get(key, (0.0, 0))
        return max(0.0, count - (self._clock.monotonic_ns() - then_ns) / (pause_s * _S))

    def _wait_s(self, key: tuple[str, str], most: int, pause_s: int) -> int:
        surplus = self._count(key, pause_s) - most + 1
        return 0 if surplus <= 0 else max(1, round(surplus * pause_s))


def _limits(address: str, user: str) -> tuple[tuple[tuple[str, str], int, int], ...]:
    """Return the counts that a login belongs to, with their limits. The user's is high: others must not lock a user out."""
    return (
        (("address", _network(address)), MOST_OF_ADDRESS, PAUSE_OF_ADDRESS_S),
        (("user", user), MOST_OF_USER, PAUSE_OF_USER_S),
    )


def _network(address: str) -> str:
    """Return what one client has: its address, with IPv6 the network of 64 bits."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(ipaddress.ip_network((parsed, 64), strict=False)) if parsed.version == 6 else address
