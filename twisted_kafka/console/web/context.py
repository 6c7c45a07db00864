"""What all pages share: the settings, the clock, what only this broker knows, and the notices that a next page shows."""

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from typing import Final, Generic, NamedTuple, TypeVar

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.endpoints import ConsoleAddress
from twisted_kafka.console.cluster.problems import CommandError
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.live.lag_history import LagHistory
from twisted_kafka.console.live.live import Counts, Live
from twisted_kafka.console.queries.consoles import OtherConsole, consoles
from twisted_kafka.console.queries.findings import Finding, findings
from twisted_kafka.console.web.places import Places
from twisted_kafka.console.web.report_run import ReportRuns
from twisted_kafka.console.web.users.passwords import FailedLogins, Passwords
from twisted_kafka.console.web.users.sessions import FormTokens, Sessions
from twisted_kafka.network.requests.kafka_principal import KafkaPrincipal
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock

MOST_NOTICES: Final = 1_000
MOST_COUNTS: Final = 150
"""Most points of the broker's counters over time."""
COUNTS_INTERVAL_NS: Final = 1_000_000_000
MOST_PRINCIPALS: Final = 50
"""Most principals whose results are kept."""
FINDINGS_S: Final = 10
"""Findings are looked for again after this time: they read the state of the whole cluster."""
CONSOLES_S: Final = 60
"""The other brokers' consoles are looked for again after this time."""

_T = TypeVar("_T")

_AUTHORIZATION: Final = ("super.users", "allow.everyone.if.no.acl.found")


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
    access_log_directory: str | None
    authorization: Mapping[str, str]
    """Settings that decide where no entry does, which brokers do not show."""

    @property
    def warning(self) -> str:
        """A line for the operator of a console that is open to other machines; empty if it has a login, or a loopback address."""
        if self.needs_login or self.address.is_loopback:
            return ""
        may = "see and change" if self.may_write else "see"
        return (
            f"The console at {self.address.host} has no login: everybody who reaches it may {may} everything. "
            "Set up SASL or an authorizer, or take 127.0.0.1 for console.listener"
        )

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
            config.optional_string("access.log.dir") if config.boolean("access.log.enable") else None,
            {key: config.originals[key] for key in _AUTHORIZATION if key in config.originals},
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


class ForSomeTime(Generic[_T]):
    """Results of queries, one for each principal, that are asked for again after some seconds. Any thread may call it."""

    def __init__(self, clock: IClock, seconds: int) -> None:
        self._clock = clock
        self._age_ns = seconds * 1_000_000_000
        self._lock = machine.Lock()
        self._kept: OrderedDict[str, tuple[int, _T]] = OrderedDict()

    def get(self, viewer: KafkaPrincipal, make: Callable[[], _T]) -> _T:
        """Return the kept result if it is not too old, otherwise the result of ``make``, whose errors it raises."""
        key, now_ns = str(viewer), self._clock.monotonic_ns()
        with self._lock:
            known = self._kept.get(key)
        if known is not None and now_ns < known[0]:
            return known[1]
        made = make()
        with self._lock:
            self._kept[key] = now_ns + self._age_ns, made
            self._kept.move_to_end(key)
            while len(self._kept) > MOST_PRINCIPALS:
                self._kept.popitem(last=False)
        return made


class ConsoleContext:
    """What the pages of one console share."""

    def __init__(self, settings: ConsoleSettings, clock: IClock, passwords: Callable[[], Passwords], live: Live) -> None:
        """``passwords`` is called if users log in. ``live`` is what only this broker knows."""
        self.settings = settings
        self.clock = clock
        self.live = live
        self.sessions = Sessions(clock, settings.idle_ms)
        self.tokens = FormTokens()
        self.reports = ReportRuns(settings.access_log_directory, clock)
        self.notices = Notices()
        self.places = Places()
        self.lags = LagHistory(clock)
        """The lag of groups over time, as pages have shown it; their names have the principal before them."""
        self.failed_logins = FailedLogins(clock)
        self.port = settings.address.port
        """The port that is bound."""
        self._make_passwords = passwords
        self._lock = machine.Lock()
        self._counts: deque[Counts] = deque(maxlen=MOST_COUNTS)
        self._findings = ForSomeTime[tuple[Finding, ...]](clock, FINDINGS_S)
        self._consoles = ForSomeTime[tuple[OtherConsole, ...]](clock, CONSOLES_S)
        self._passwords: Passwords | None = None

    @property
    def passwords(self) -> Passwords:
        """Checks passwords."""
        if self._passwords is None:
            self._passwords = self._make_passwords()
        return self._passwords

    def counts(self, session: Session) -> list[Counts]:
        """Return the broker's counters over time, the latest last, as far as somebody has looked. Raises CommandError."""
        latest = self.live.counts(session)
        with self._lock:
            if not self._counts or latest.at_ns - self._counts[-1].at_ns >= COUNTS_INTERVAL_NS:
                self._counts.append(latest)
            return list(self._counts)

    def findings(self, viewer: KafkaPrincipal, session: Session) -> tuple[Finding, ...]:
        """Return the findings that the viewer may see, some seconds old; ``session`` is the viewer's. Raises CommandError."""

        def make() -> tuple[Finding, ...]:
            try:
                own = self.live.diagnoses(session), self.live.certificates(session)
            except CommandError:  # not for this viewer
                own = (), []
            return findings(session, *own)

        return self._findings.get(viewer, make)

    def consoles(self, viewer: KafkaPrincipal, session: Session) -> tuple[OtherConsole, ...]:
        """Return the consoles of the other brokers, as far as the viewer may know them; none if the cluster does not answer."""
        try:
            return self._consoles.get(viewer, lambda: consoles(session, self.settings.broker_id))
        except CommandError:
            return ()

    def cookie_name(self, kind: str) -> str:
        """Return a cookie's name. Cookies of one host have no ports, so several consoles need several names."""
        prefix = "__Host-" if self.settings.address.is_tls else ""
        return f"{prefix}console-{kind}-{self.port}"

    def cookie(self, kind: str, value: str) -> str:
        """Return the header that sets a cookie; an empty value removes it."""
        secure = "; Secure" if self.settings.address.is_tls else ""
        end = "; Max-Age=0" if value == "" else ""
        return f"{self.cookie_name(kind)}={value}; Path=/; HttpOnly; SameSite=Lax{secure}{end}"
