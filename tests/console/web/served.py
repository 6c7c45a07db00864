"""A console on a memory transport: the whole path of a request, with the clock turned by hand and no broker."""

import re
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from http.cookies import SimpleCookie
from typing import Any, NamedTuple
from urllib.parse import urlencode

from twisted.internet.testing import MemoryReactorClock, StringTransport

from tests.support.fake import Fake
from tests.support.security.scram_client import credential
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.console.web.application import Application
from twisted_kafka.console.web.context import ConsoleContext, ConsoleSettings
from twisted_kafka.console.web.guard import Guard
from twisted_kafka.console.web.listener import ConsoleSite
from twisted_kafka.console.web.users.passwords import Passwords
from twisted_kafka.network.requests.kafka_principal import KafkaPrincipal
from twisted_kafka.timing.clock import ManualClock

SASL = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "security.inter.broker.protocol": "SASL_PLAINTEXT"}
USERS = {"alice": "alice's password", "bob": "bob's"}
HOST = "localhost:8080"


class Reactor(MemoryReactorClock):
    def callFromThread(self, call: Callable[..., object], *args: Any) -> None:
        call(*args)


class Credentials(Fake):
    """The SCRAM credentials of two users, and how often somebody has looked."""

    def __init__(self) -> None:
        self.users = {("SCRAM-SHA-256", user): credential(password) for user, password in USERS.items()}

    def credential(self, mechanism: str, user: str) -> Any:
        return self.users.get((mechanism, user))

    def usual_iterations(self, mechanism: str) -> int:
        return 4096


class FakeSession(Fake):
    """A session that knows in whose name it asks."""

    handled_ns = 0

    def __init__(self, principal: KafkaPrincipal, address: str) -> None:
        self.principal = principal
        self.address = address
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


class Transport(StringTransport):
    """One whose connections end as those of TCP."""

    protocol: Any

    def written(self) -> bytes:
        return bytes(self.value())  # type: ignore[no-untyped-call]

    @property
    def answer(self) -> "Answer":
        return read(self.written())

    def loseConnection(self) -> None:
        if not self.disconnecting:
            self.disconnecting = True
            self.protocol.connectionLost()

    def abortConnection(self) -> None:
        self.loseConnection()


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    cookies: dict[str, str]
    body: str
    raw: bytes

    @property
    def token(self) -> str:
        return re.search(r'name="token" value="([^"]+)"', self.body)[1]


class Served:
    """Sends requests as a browser would: with its cookies, from the console's own pages unless told otherwise."""

    def __init__(self, properties: Mapping[str, str] = {}) -> None:
        config = KafkaConfig.embedded({"console.listener": "127.0.0.1:8080", **properties})
        self.clock = ManualClock()
        self.reactor = Reactor()  # type: ignore[no-untyped-call]
        self.credentials = Credentials()
        settings = ConsoleSettings.of(config)
        self.context = ConsoleContext(settings, self.clock, lambda: Passwords(self.credentials), None)
        self.sessions: list[FakeSession] = []
        self.waiting: list[Callable[[], object]] | None = None
        self.application = Application(self.context, self.open_session, self.reactor, self.submit)
        guard = Guard(settings.hosts, is_tls=settings.address.is_tls)
        self.site = ConsoleSite(self.application.render, guard, self.reactor, is_tls=settings.address.is_tls)
        self.scheme = "https" if settings.address.is_tls else "http"
        self.cookies: dict[str, str] = {}

    def open_session(self, principal: KafkaPrincipal, address: str) -> Any:
        self.sessions.append(FakeSession(principal, address))
        return self.sessions[-1]

    def submit(self, call: Callable[[], Any]) -> "Future[Any]":
        """Run a call at once, or, with ``waiting``, when the test says so."""
        future: Future[Any] = Future()

        def run() -> None:
            try:
                future.set_result(call())
            except Exception as error:  # noqa: BLE001 the future carries it
                future.set_exception(error)

        if self.waiting is None:
            run()
        else:
            self.waiting.append(run)
        return future

    def connect(self) -> Transport:
        transport = Transport()  # type: ignore[no-untyped-call]
        transport.protocol = self.site.buildProtocol(None)  # type: ignore[no-untyped-call]
        transport.protocol.makeConnection(transport)
        return transport

    def send(self, method: str, uri: str, headers: Mapping[str, str], body: bytes = b"") -> Transport:
        lines = [f"{method} {uri} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        if body or method == "POST":
            lines.append(f"Content-Length: {len(body)}")
        transport = self.connect()
        transport.protocol.dataReceived("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        return transport

    def get(self, uri: str, method: str = "GET", **headers: str) -> Answer:
        return self._answered(self.send(method, uri, self._headers(headers)))

    def post(self, uri: str, form: Mapping[str, str], **headers: str) -> Answer:
        own = {"origin": f"{self.scheme}://{HOST}", "content-type": "application/x-www-form-urlencoded"}
        return self._answered(self.send("POST", uri, self._headers({**own, **headers}), urlencode(form).encode()))

    def log_in(self, user: str = "alice", password: str | None = None, to: str = "/") -> Answer:
        token = self.get("/login").token
        known = USERS.get(user, "") if password is None else password
        return self.post("/login", {"token": token, "user": user, "password": known, "to": to})

    def _headers(self, given: Mapping[str, str]) -> dict[str, str]:
        cookies = {"cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())} if self.cookies else {}
        merged = {"host": HOST, **cookies, **{name.replace("_", "-"): value for name, value in given.items()}}
        return {name: value for name, value in merged.items() if value}

    def _answered(self, transport: Transport) -> Answer:
        answer = transport.answer
        for name, value in answer.cookies.items():
            self.cookies.pop(name, None)
            if value:
                self.cookies[name] = value
        return answer


def read(raw: bytes) -> Answer:
    head, _, body = raw.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    pairs = [(name.lower(), value) for name, _, value in (line.partition(": ") for line in lines)]
    cookies: SimpleCookie = SimpleCookie()
    for name, value in pairs:
        if name == "set-cookie":
            cookies.load(value)
    values = {name: morsel.value for name, morsel in cookies.items()}
    return Answer(int(status.split()[1]), dict(pairs), values, body.decode("utf-8", "replace"), raw)
