"""The keys of a JWKS endpoint, fetched at the start and then on a thread of its own. (Kafka: RefreshingHttpsJwks.)"""

import json
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, KeySet
from twisted.logger import Logger

from twisted_kafka.security.oauth.fetching import fetch
from twisted_kafka.system import machine
from twisted_kafka.system.threads import UNCAUGHT_ERRORS, make_thread
from twisted_kafka.timing.clock import IClock

ATTEMPTS: Final = 4
"""How often it is asked at the start before the start fails. Later, it is asked until it answers."""

EARLY_NS: Final = 60_000_000_000
"""The shortest interval of fetches that tokens with an unknown key cause."""

LEAST_PAUSE_MS: Final = 100
"""The shortest pause, whatever the settings are: with 0 it would ask all the time."""

_log = Logger()


class JwksSettings(NamedTuple):
    """Keys ``sasl.oauthbearer.jwks.endpoint.*``."""

    url: str
    refresh_ms: int
    backoff_ms: int
    backoff_max_ms: int


class JwksError(Exception):
    """The endpoint does not answer with keys."""


class Jwks:
    """The current keys. Any thread may ask for them; ``start`` and ``close`` are called once."""

    def __init__(self, settings: JwksSettings, clock: IClock, get: Callable[[str], bytes] = fetch) -> None:
        self._settings = settings
        self._now_ns = clock.monotonic_ns
        self._get = get
        self._wake = machine.Event()
        self._is_closed = False
        self._asked_early_ns: int | None = None
        self.keys: KeySet = KeySet([])

    def start(self) -> None:
        """Fetch the keys, now and from time to time. Raises JwksError if the endpoint does not answer."""
        for attempt in range(ATTEMPTS):
            try:
                self.refresh()
                break
            except JwksError:
                if attempt == ATTEMPTS - 1:
                    raise
                self._wake.wait(self.pause_s(attempt + 1))
        make_thread(self._run, "kafka-jwks-refresh").start()

    def refresh(self) -> None:
        """Fetch the keys; raise JwksError, after which the former ones are still used."""
        try:
            found: Any = json.loads(self._get(self._settings.url))
            keys = self._usable(found["keys"])
        except (OSError, ValueError, TypeError, KeyError, AttributeError, JoseError, RecursionError) as error:
            raise JwksError(f"{type(error).__name__}: {error}") from error
        self.keys = keys

    def _usable(self, found: Iterable[Any]) -> KeySet:
        """Return the keys that can be used: an issuer may have others, of another curve for example (RFC 7517, section 5)."""
        keys = []
        error: Exception = ValueError("it has no keys")
        for each in found:
            try:
                keys.append(JWKRegistry.import_key(each))
            except Exception as unusable:  # noqa: BLE001 libraries have many errors for a key
                error = unusable
                _log.warn("A key at {url} cannot be used: {why}", url=self._settings.url, why=f"{type(error).__name__}: {error}")
        if not keys:
            raise error
        return KeySet(keys)

    def refresh_early(self) -> None:
        """Fetch the keys soon: a token has an unknown key, which may be new."""
        now_ns = self._now_ns()
        if self._asked_early_ns is None or now_ns - self._asked_early_ns >= EARLY_NS:
            self._asked_early_ns = now_ns
            self._wake.set()

    def is_due(self) -> bool:
        """Return whether an early fetch of the keys is due, and clear that state."""
        found = self._wake.is_set()
        self._wake.clear()
        return found

    def close(self) -> None:
        """End the thread, once the endpoint has answered or its time is over if it is being asked. Does not wait for it."""
        self._is_closed = True
        self._wake.set()

    def _run(self) -> None:
        failures = 0
        while not self._is_closed:
            self._wake.wait(self.pause_s(failures))
            self.is_due()
            if self._is_closed:
                return
            try:
                self.refresh()
                failures = 0
            except JwksError as error:
                failures += 1
                if failures & (failures - 1) == 0:  # the first, second, fourth ...
                    _log.error("The keys at {url} cannot be fetched: {why}", url=self._settings.url, why=error)
            except Exception:  # noqa: BLE001 the thread must go on
                failures += 1
                UNCAUGHT_ERRORS.note(f"the fetching of the keys at {self._settings.url}")

    def pause_s(self, failures: int) -> float:
        """Return the pause before the next fetch, after this number of failures in a row."""
        settings = self._settings
        pause_ms = settings.refresh_ms
        if failures:
            pause_ms = min(settings.backoff_ms << min(failures - 1, 30), max(settings.backoff_ms, settings.backoff_max_ms))
        return max(LEAST_PAUSE_MS, pause_ms) / 1000
