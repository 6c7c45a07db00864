"""How to reach a ZooKeeper ensemble: ``zookeeper.connect`` and the keys beside it, as a value."""

import ssl
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from typing_extensions import override

from twisted_kafka.system.numbers import MAX_PORT, decimal

DEFAULT_PORT: Final = 2181


class SaslCredentials(NamedTuple):
    """A broker's credentials for SASL/DIGEST-MD5, the mechanism of ZooKeeper's ``DigestLoginModule``."""

    username: str
    password: str

    @override
    def __repr__(self) -> str:
        return f"SaslCredentials({self.username!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperSettings:
    """The settings of a session."""

    hosts: str
    """``host:port`` pairs separated by commas."""
    chroot: str = ""
    """The path below which all nodes are; empty: the root."""
    session_timeout_ms: int = 18_000
    connection_timeout_ms: int = 18_000
    """How long the first connection may take, and how long a call waits for an answer or a new connection."""
    max_in_flight: int = 10
    """The maximum number of unanswered requests."""
    secure_acls: bool = False
    """Whether nodes that are created get Kafka's ACLs (``zookeeper.set.acl``)."""
    digest: str | None = field(default=None, repr=False)
    """``user:password`` for ZooKeeper's scheme ``digest``."""
    sasl: SaslCredentials | None = None
    tls: ssl.SSLContext | None = field(default=None, repr=False)

    def at_root(self) -> "ZooKeeperSettings":
        """Return the settings of the same ensemble without the chroot."""
        return ZooKeeperSettings(
            hosts=self.hosts,
            session_timeout_ms=self.session_timeout_ms,
            connection_timeout_ms=self.connection_timeout_ms,
            secure_acls=self.secure_acls,
            digest=self.digest,
            sasl=self.sasl,
            tls=self.tls,
        )


def split_connect(text: str) -> tuple[str, str]:
    """Return the hosts and the chroot of ``zookeeper.connect``: ``a:2181,b:2181/kafka``. Raises ValueError."""
    hosts, slash, path = text.strip().partition("/")
    chroot = (slash + path).rstrip("/")
    names = [host.strip() for host in hosts.split(",")]
    if not all(names):
        raise ValueError("must be host:port pairs separated by commas, with an optional path at the end")
    if any(part in ("", ".", "..") for part in chroot.split("/")[1:]):
        raise ValueError(f"has an invalid path {chroot!r}")
    for name in names:
        _, colon, port = name.rpartition(":")
        if colon and not name.endswith("]") and not decimal(port, MAX_PORT):
            raise ValueError(f"has an invalid port {port!r}")
    return ",".join(names), chroot
