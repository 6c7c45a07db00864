"""The consoles of the other brokers: each shows its own broker's requests, clients, threads and rates."""

import re
from dataclasses import dataclass
from typing import Any, Final

from twisted_kafka.config.endpoints import ConsoleAddress, parse_console_address
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.console.cluster.problems import CommandError, NotNowError, TryAgainError
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.queries.settings import TYPES
from twisted_kafka.protocol.messages.administration.configs import DescribeConfigsRequest, DescribeConfigsResource

KEY: Final = "console.listener"
_ANY_ADDRESS: Final = ("", "0.0.0.0", "::")
_NAME: Final = re.compile(r"[A-Za-z0-9._:-]+")


@dataclass(frozen=True, slots=True)
class OtherConsole:
    """Where another broker's console is."""

    broker: int
    url: str
    """Without a slash at the end; empty if this browser cannot be sent there."""
    why: str = ""
    """Why it cannot."""


def consoles(session: Session, own: int) -> tuple[OtherConsole, ...]:
    """Return the consoles of all brokers but ``own``, by id. Raises CommandError if the cluster does not answer."""
    session.retrying(lambda: session.metadata([]))
    own_host = session.brokers[own].host if own in session.brokers else ""
    requests = {
        node: DescribeConfigsRequest(
            resources=[DescribeConfigsResource(resource_type=TYPES["broker"], resource_name=str(node), configuration_keys=[KEY])]
        )
        for node in sorted(session.brokers)
        if node != own
    }
    found = []
    for node, answer in sorted(session.ask_each(requests).items()):
        host = session.brokers[node].host
        url, why = _place(answer, host, is_same_machine=host == own_host)
        found.append(OtherConsole(node, url, why))
    return tuple(found)


def _place(answer: Any, host: str, *, is_same_machine: bool) -> tuple[str, str]:
    """Return a URL, or the reason for its lack. ``host`` is the broker's in the metadata."""
    if isinstance(answer, CommandError):
        is_silent = isinstance(answer, NotNowError | TryAgainError)
        return "", "it does not answer" if is_silent else "its address is not for you to see"
    (result,) = answer.results
    if result.error_code:
        return "", "its address is not for you to see"
    text = next((each.value for each in result.configs if each.name == KEY), None)
    if not text:
        return "", "it has none"
    try:
        return url_of(parse_console_address(KEY, text), host, is_same_machine=is_same_machine)
    except ConfigError:
        return "", "it has none"


def url_of(address: ConsoleAddress, host: str, *, is_same_machine: bool) -> tuple[str, str]:
    """Return the URL of a console, or the reason for its lack, for a broker that is at ``host``."""
    name = host if address.host in _ANY_ADDRESS else address.host
    if not address.port:
        return "", "its port is in its log"
    if not _NAME.fullmatch(name):
        return "", "its address is unusual"
    shown = f"[{name}]" if ":" in name else name
    if address.is_loopback and not is_same_machine:
        return "", f"at {shown}:{address.port} on {host}"
    return f"{'https' if address.is_tls else 'http'}://{shown}:{address.port}", ""
