"""What all pages share: the settings, the clock, what only this broker knows, and the notices that a next page shows."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.endpoints import ConsoleAddress
from twisted_kafka.console.web.passwords import FailedLogins, Passwords
from twisted_kafka.console.web.sessions import FormTokens, Sessions
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock

MOST_NOTICES: Final = 1_000


class ConsoleSettings(NamedTuple):
    """The settings of the console."""

    address: ConsoleAddress
    needs_login: bool
    may_write: bool
    """Whether any user may change anything."""
    idle_ms: int
    hosts: frozenset[str]
    broker_id: int
    has_authorizer: bool

    @classmethod
    def of(cls, config: KafkaConfig) -> "ConsoleSettings":
        """Read the settings. ``console.listener`` is set."""
        address = config.console_listener
        assert address is not None
        hosts = {address.host, *(each.host for each in config.advertised_listeners), *map(str, config.list("console.hosts"))}
        return cls(
            address,
            config.authenticates,
            config.boolean("console.write.enable"),
            config.int("console.session.timeout.ms"),
            frozenset(filter(None, hosts)),
            config.broker_id,
            bool(config.optional_string("authorizer.class.name")),
        )


class Notices:
    """One line for each browser, which its next page shows. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = machine.Lock()
        self._lines: OrderedDict[str, str] = OrderedDict()

    def put(self, cookie: str, line: str) -> None:
        """Keep a line; the oldest of others is forgotten beyond a limit."""
        with self._lock:
            self._lines[cookie] = line
            while len(self._lines) > MOST_NOTICES:
                self._lines.popitem(last=False)

    def take(self, cookie: str) -> str:
        """Return the line for a browser and forget it; empty without one."""
        with self._lock:
            return self._lines.pop(cookie, "")


class ConsoleContext:
    """What the pages of one console share."""

    def __init__(self, settings: ConsoleSettings, clock: IClock, passwords: Callable[[], Passwords], live: Any) -> None:
        """``passwords`` is called if users log in. ``live`` is what only this broker knows."""
        self.settings = settings
        self.clock = clock
        self.live = live
        self.sessions = Sessions(clock, settings.idle_ms)
        self.tokens = FormTokens()
        self.notices = Notices()
        self.failed_logins = FailedLogins(clock)
        self.port = settings.address.port
        """The port that is bound."""
        self._make_passwords = passwords
        self._passwords: Passwords | None = None

    @property
    def passwords(self) -> Passwords:
        """Checks passwords."""
        if self._passwords is None:
            self._passwords = self._make_passwords()
        return self._passwords

    def cookie_name(self, kind: str) -> str:
        """Return a cookie's name. Cookies of one host have no ports, so several consoles need several names."""
        prefix = "__Host-" if self.settings.address.is_tls else ""
        return f"{prefix}console-{kind}-{self.port}"

    def cookie(self, kind: str, value: str) -> str:
        """Return the header that sets a cookie; an empty value removes it."""
        secure = "; Secure" if self.settings.address.is_tls else ""
        end = "; Max-Age=0" if value == "" else ""
        return f"{self.cookie_name(kind)}={value}; Path=/; HttpOnly; SameSite=Lax{secure}{end}"
