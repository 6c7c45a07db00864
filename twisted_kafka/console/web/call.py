"""What the handler of a page gets and returns. Handlers run on the console's pool, and may block."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.queries.consoles import OtherConsole
from twisted_kafka.console.web.context import ConsoleContext
from twisted_kafka.network.requests.kafka_principal import KafkaPrincipal
from twisted_kafka.system.numbers import INT64_MAX, decimal


@dataclass(frozen=True, slots=True)
class Viewer:
    """The person at the browser: a principal for the broker's authorizer, an address, and the cookie that forms belong to."""

    principal: KafkaPrincipal
    address: str
    user: str
    """The name of a user after the login; empty before."""
    cookie: str


class NotFoundError(Exception):
    """There is no such page."""


class BadFormError(Exception):
    """A field has a value that its page does not have. The message is one line."""


@dataclass(slots=True)
class Call:
    """A request for a page."""

    viewer: Viewer
    session: Session
    """Asks the broker in the viewer's name."""
    path: str
    query: Mapping[str, str]
    form: Mapping[str, str]
    context: ConsoleContext

    @property
    def consoles(self) -> tuple[OtherConsole, ...]:
        """The consoles of the other brokers."""
        return self.context.consoles(self.viewer.principal, self.session)

    def text(self, name: str, default: str = "") -> str:
        """Return a field of the query, without spaces around it."""
        return self.query.get(name, default).strip()

    def number(self, name: str, default: int, lowest: int = 0, highest: int = 2**63 - 1) -> int:
        """Return a number of the query, within limits; the default if it is no number."""
        return _within(self.query.get(name, ""), default, lowest, highest)

    def choice(self, name: str, values: tuple[str, ...]) -> str:
        """Return a field that has one of these values; the first one for any other."""
        value = self.query.get(name, "")
        return value if value in values else values[0]


@dataclass(frozen=True, slots=True)
class Page:
    """A page: a template and its values."""

    template: str
    values: Mapping[str, Any]
    status: int = 200
    is_live: bool = False
    """Whether its live block is sent again while somebody looks."""


@dataclass(frozen=True, slots=True)
class Redirect:
    """Another page, with a notice that it shows once, and cookies."""

    to: str
    notice: str = ""
    cookies: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Document:
    """A page that is made elsewhere, with headers of its own."""

    body: bytes
    headers: Mapping[str, str]


Outcome = Page | Redirect | Document
Handler = Callable[[Call], Outcome]


def _within(text: str, default: int, lowest: int, highest: int) -> int:
    digits = text.strip()
    number = decimal(digits.removeprefix("-"), INT64_MAX)
    if number is None:
        return default
    return min(highest, max(lowest, -number if digits.startswith("-") else number))
