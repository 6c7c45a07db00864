"""Listeners: NAME://host:port lists and the security protocol of each name (Kafka: CoreUtils.listenerListToEndPoints)."""

import re
import socket
from collections.abc import Mapping
from typing import NamedTuple

from twisted_kafka.config.errors import ConfigError
from twisted_kafka.system import machine
from twisted_kafka.system.numbers import MAX_PORT

PLAINTEXT = "PLAINTEXT"
CONSOLE = "CONSOLE"
"""The name of the console's listener in prefixes of settings: ``listener.name.console.ssl.keystore.location``."""
SECURITY_PROTOCOLS = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_END_POINT = re.compile(r"\s*([^:/\s]+)://(?:\[([0-9a-zA-Z%._:-]*)\]|([0-9a-zA-Z%._:-]*)):(\d{1,5})\s*")
_ADDRESS = re.compile(r"\s*(?:\[([0-9a-zA-Z%._:-]*)\]|([0-9a-zA-Z%._-]*)):(\d{1,5})\s*")
_CONSOLE = re.compile(r"\s*(?:(https?)://)?(.*?)/?\s*", re.DOTALL)


class EndPoint(NamedTuple):
    """An address of a broker; an empty `host` means all interfaces, `port` 0 any free port."""

    host: str
    port: int
    listener_name: str
    security_protocol: str

    @property
    def text(self) -> str:
        """NAME://host:port, the form in which listeners are configured."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener_name}://{host}:{self.port}"


def parse_protocol_map(key: str, text: str) -> dict[str, str]:
    """Return security protocols by listener name; raise ConfigError for a malformed pair or an unknown protocol."""
    protocols = {}
    for pair in filter(None, (item.strip() for item in text.split(","))):
        name, _, protocol = (part.strip().upper() for part in pair.partition(":"))
        if not name or protocol not in SECURITY_PROTOCOLS:
            allowed = "NAME:PROTOCOL with a protocol of " + ", ".join(SECURITY_PROTOCOLS)
            raise ConfigError(f"Invalid value {pair!r} for {key}: must be {allowed}")
        if name in protocols:
            raise ConfigError(f"Invalid value {text!r} for {key}: must contain {name} only once")
        protocols[name] = protocol
    return protocols


def parse_address(key: str, text: str) -> tuple[str, int]:
    """Return host and port of `host:port`; an empty host means all interfaces. Raise ConfigError for a malformed address."""
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match[3]) > MAX_PORT:
        raise ConfigError(f"Invalid value {text!r} for {key}: must be host:port with a port from 0 to {MAX_PORT}")
    return match[1] or match[2] or "", int(match[3])


class ConsoleAddress(NamedTuple):
    """Where the console listens; an empty ``host`` means all interfaces, ``port`` 0 any free port."""

    host: str
    port: int
    is_tls: bool

    @property
    def is_loopback(self) -> bool:
        """Whether only programs on this machine reach it."""
        return self.host.lower() == "localhost" or self.host == "::1" or self.host.startswith("127.")


def parse_console_address(key: str, text: str) -> ConsoleAddress:
    """Return the address of ``[http://|https://]host:port``; raise ConfigError for a malformed one."""
    match = _CONSOLE.fullmatch(text)
    assert match is not None, "every text has this form"
    host, port = parse_address(key, match[2])
    return ConsoleAddress(host, port, match[1] == "https")


def parse_end_points(key: str, text: str, protocols: Mapping[str, str]) -> tuple[EndPoint, ...]:
    """Return the end points that `text` lists; raise ConfigError when one is malformed or its name has no protocol."""
    end_points = []
    for item in filter(None, (item.strip() for item in text.split(","))):
        match = _END_POINT.fullmatch(item)
        if match is None or int(match[4]) > MAX_PORT:
            raise ConfigError(f"Invalid value {item!r} for {key}: must be NAME://host:port with a port from 0 to {MAX_PORT}")
        name = match[1].upper()
        if name not in protocols:
            raise ConfigError(f"Invalid value {item!r} for {key}: the name must be one of listener.security.protocol.map")
        end_points.append(EndPoint(match[2] or match[3] or "", int(match[4]), name, protocols[name]))
    return tuple(end_points)


def ensure_distinct(key: str, end_points: tuple[EndPoint, ...], *, ports: bool) -> None:
    """Raise ConfigError when two end points share a name or, with `ports`, a port on the same kind of address."""
    names = [end_point.listener_name for end_point in end_points]
    if len(set(names)) < len(names):
        raise ConfigError(f"Invalid value {_text(end_points)!r} for {key}: every listener must have a different name")
    if not ports:
        return
    taken = [(end_point.port, ":" in end_point.host) for end_point in end_points if end_point.port]
    if len(set(taken)) < len(taken):
        raise ConfigError(f"Invalid value {_text(end_points)!r} for {key}: every listener must have a different port")


def local_host_name() -> str:
    """Return this machine's canonical host name, `localhost` when it has none (InetAddress.getCanonicalHostName)."""
    name = machine.gethostname()
    try:
        found = machine.getaddrinfo(name, None, type=socket.SOCK_STREAM, flags=socket.AI_CANONNAME)
    except OSError:
        return "localhost"
    return found[0][3] or name


def _text(end_points: tuple[EndPoint, ...]) -> str:
    return ",".join(end_point.text for end_point in end_points)
