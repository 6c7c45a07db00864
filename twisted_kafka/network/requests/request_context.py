"""The context of a request: its header, its connection, and the notes of its handler for metrics and the access log."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from twisted_kafka.network.requests.authenticator import IAuthenticator
from twisted_kafka.network.requests.kafka_principal import ANONYMOUS, KafkaPrincipal
from twisted_kafka.system.numbers import INT64_MAX

TopicNote = tuple[str, tuple[int, ...], int, int, int]
"""What a request did to one topic: name, ids of its partitions, records, bytes, error code."""
GroupNote = tuple[str, str, int]
"""The group that a request is about: group id, member id (may be empty), generation or member epoch (-1: none)."""


class ResourceKind(StrEnum):
    """The types of resources that requests name besides topics and groups, as in Kafka's configs, quotas and ACLs."""

    TOPIC = "topic"
    GROUP = "group"
    USER = "user"
    """A principal: ``User:alice``."""
    CLIENT_ID = "client-id"
    IP = "ip"
    BROKER = "broker"
    BROKER_LOGGER = "broker-logger"
    CLIENT_METRICS = "client-metrics"
    CLUSTER = "cluster"
    TRANSACTIONAL_ID = "transactional-id"
    DELEGATION_TOKEN = "delegation-token"
    FEATURE = "feature"
    ANY = "any"
    """Only in ACL filters."""


ResourceNote = tuple[ResourceKind, str | None]
"""A resource; None for all of the type, or for the default of the type."""


DecisionNote = tuple[ResourceKind, str, str]
"""A question to the authorizer: the type and the name of a resource, and the operation by Kafka's name, ``DescribeConfigs``."""


class ShareCount(StrEnum):
    """The counts of a topic's records in a share group that the access log has; docs/access-log/format.md defines them."""

    ACQUIRED = "acquired"
    REDELIVERED = "redelivered"
    DELIVERY_COUNT = "delivery_count"
    """The highest one of acquired records, not a count of records."""
    ACCEPT = "accept"
    RELEASE = "release"
    REJECT = "reject"
    RENEW = "renew"
    GAP = "gap"
    REFUSED = "refused"
    EXPIRED = "expired"
    RETURNED = "returned"
    OVER_LIMIT = "over_limit"


ShareCounts = dict[ShareCount, int]


class TransactionOutcome(StrEnum):
    """How a transaction ended."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    """Its producer aborted it."""
    FENCED = "fenced"
    """A new producer with the same transactional id aborted it."""
    TIMED_OUT = "timed-out"
    """The coordinator aborted it."""
    STUCK = "stuck"
    """It has not ended: its outcome is decided, but a partition refuses the marker."""


class TransactionNote(NamedTuple):
    """A request's transactional id, and its details for the access log; a detail that the request does not have is None."""

    transactional_id: str
    outcome: TransactionOutcome | None = None
    """Set if a transaction ended."""
    duration_ms: int | None = None
    """Time from the beginning of the transaction to its end."""
    timeout_ms: int | None = None
    """The timeout of the id's transactions."""


class ConnectionInfo:
    """The properties of a connection. Only authentication and ApiVersions change them."""

    __slots__ = (
        "authenticator",
        "client_address",
        "client_id",
        "connection_id",
        "is_closed",
        "is_privileged_listener",
        "line_prefix",
        "listener_name",
        "on_closed",
        "principal",
        "quota_sensors",
        "security_protocol",
        "software_name",
        "software_version",
    )

    def __init__(
        self,
        connection_id: str,
        listener_name: str,
        security_protocol: str,
        client_address: str,
        is_privileged_listener: bool = False,
    ) -> None:
        self.connection_id = connection_id
        self.listener_name = listener_name
        self.security_protocol = security_protocol
        self.client_address = client_address
        self.is_privileged_listener = is_privileged_listener
        self.principal: KafkaPrincipal = ANONYMOUS
        self.authenticator: IAuthenticator | None = None
        """The authenticator on a SASL listener; None without authentication, or if TLS has authenticated the client."""
        self.quota_sensors: Any = None
        """The sensors of the client's quotas, kept here by ``RequestThrottler``."""
        self.line_prefix: Any = None
        """The beginning of all access-log lines of the connection; ``LineMaker`` keeps it here."""
        self.on_closed: Callable[[], object] | None = None
        """Called on a handler's thread when the connection is closed. Set by handlers that keep something until then."""
        self.is_closed = False
        self.client_id: str | None = None
        """The client id of its ApiVersions request; each request has its own."""
        self.software_name = "unknown"
        self.software_version = "unknown"


class RequestContext:
    """What a handler knows about a request besides its body (Kafka: RequestContext)."""

    __slots__ = (
        "acks",
        "api_key",
        "api_version",
        "client_id",
        "connection",
        "conversion",
        "correlation_id",
        "decisions",
        "denials",
        "error",
        "error_counts",
        "give_up",
        "group",
        "is_frame_free",
        "is_special",
        "refusal",
        "resources",
        "shares",
        "topics",
        "transaction",
    )

    def __init__(
        self, api_key: int, api_version: int, correlation_id: int, client_id: str | None, connection: ConnectionInfo
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.connection = connection
        self.topics: list[TopicNote] | None = None
        self.transaction: TransactionNote | None = None
        """Set by the handlers of requests that name one transactional id."""
        self.group: GroupNote | None = None
        """Set by the handlers of requests that are about one group."""
        self.acks: int | None = None
        """Set by Produce."""
        self.resources: dict[ResourceNote, None] | None = None
        """Further resources that the request is about, in order."""
        self.shares: dict[str, ShareCounts] | None = None
        """Counts of a share group's records, by topic. Set by ShareFetch and ShareAcknowledge."""
        self.decisions: dict[DecisionNote, bool] | None = None
        """What the authorizer was asked, with its answers, in order; None if it was not asked."""
        self.error = 0
        self.error_counts: Mapping[int, int] | None = None
        """Counts by error code of the response, including NONE; None if the response has one code, ``error``."""
        self.conversion: tuple[int, int] | None = None
        """Nanoseconds and bytes of memory that record conversion took; None if no records were converted."""
        self.give_up: Callable[[], object] | None = None
        """Ends the wait for the answer, as the client has gone. Set by handlers of requests that may wait long."""
        self.denials: Any = None
        """Denials that the audit log does not have yet; ``end`` writes them."""
        self.refusal: str | None = None
        """Why the connection is closed instead of an answer; None if it stays open, or if a handler gives the reason."""
        self.is_frame_free = False
        """Whether the bytes of the request may be overwritten when its handler returns: a later response needs none of them."""
        self.is_special = False
        """Whether it counts separately in the metrics: a follower's fetch, or a verification by AddPartitionsToTxn."""

    def note_topic(self, topic: str, partitions: tuple[int, ...], records: int, size_bytes: int, error: int = 0) -> None:
        """Record for the access log what this request did to a topic. The first error recorded is the request's."""
        if self.topics is None:
            self.topics = [(topic, partitions, records, size_bytes, error)]
        else:
            self.topics.append((topic, partitions, records, size_bytes, error))
        if error and not self.error:
            self.error = int(error)

    def note_resource(self, kind: ResourceKind, name: str | None) -> None:
        """Record for the access log a resource that this request is about; see ``ResourceNote``."""
        if self.resources is None:
            self.resources = {}
        self.resources[kind, name] = None

    def note_share(self, topic: str, count: ShareCount, records: int) -> None:
        """Record for the access log what happened to records in a share group: add them to a count, if there are any."""
        if not records:
            return
        if self.shares is None:
            self.shares = {}
        counts = self.shares.setdefault(topic, {})
        before = counts.get(count, 0)
        # A client may acknowledge any offsets, of which there are more than a reader's numbers can count.
        counts[count] = max(before, records) if count is ShareCount.DELIVERY_COUNT else min(before + records, INT64_MAX)

    def note_decision(self, kind: ResourceKind, name: str, operation: str, is_allowed: bool) -> None:
        """Record for the access log what the authorizer decided about a resource."""
        if self.decisions is None:
            self.decisions = {}
        self.decisions[kind, name, operation] = is_allowed

    def note_error(self, error: int) -> None:
        """Record an error code of the response. The first one is the request's error in metrics and the access log."""
        if not self.error:
            self.error = int(error)

    def note_conversion(self, time_ns: int, temporary_bytes: int) -> None:
        """Add what the conversion of one partition's records took to the request's total."""
        before = self.conversion or (0, 0)
        self.conversion = before[0] + time_ns, before[1] + temporary_bytes

    @property
    def connection_id(self) -> str:
        """``local:port-remote:port-index``."""
        return self.connection.connection_id

    @property
    def listener_name(self) -> str:
        """The listener that accepted the connection."""
        return self.connection.listener_name

    @property
    def security_protocol(self) -> str:
        """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
        return self.connection.security_protocol

    @property
    def principal(self) -> KafkaPrincipal:
        """The principal of the connection."""
        return self.connection.principal

    @property
    def client_address(self) -> str:
        """The client's IP address."""
        return self.connection.client_address

    @property
    def software_name(self) -> str:
        """The client library's name from its ApiVersions request (KIP-511)."""
        return self.connection.software_name

    @property
    def software_version(self) -> str:
        """The client library's version from its ApiVersions request (KIP-511)."""
        return self.connection.software_version

    @property
    def is_privileged_listener(self) -> bool:
        """Whether this listener accepts the controller's requests."""
        return self.connection.is_privileged_listener
