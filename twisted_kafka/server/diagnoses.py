"""Recognizes the mistakes of a first day by the errors that clients are answered, and says in one line what to do.

A row of ``SYMPTOMS`` is a mistake. Requests without an error are not looked at.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple

from twisted.logger import Logger

from twisted_kafka.config.endpoints import EndPoint
from twisted_kafka.network.log_rate_limit import LogRateLimit
from twisted_kafka.network.requests.request import Request
from twisted_kafka.network.requests.request_context import ConnectionInfo, RequestContext, ResourceKind
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock

WINDOW_NS: Final = 600 * 1_000_000_000
"""A client's mistake is reported once in this time."""
MAX_REMEMBERED: Final = 1_000
"""Most pairs of client (or connection) and mistake that are remembered; the oldest are dropped."""
MAX_LINES: Final = 100
"""Most lines that are kept, the latest ones."""
_MAX_NAMES: Final = 3
_MAX_NAME: Final = 249
"""Most characters shown of a name: the limit of topic names. Other and unchecked names may have 32,767."""

_log = Logger()


class Symptom(NamedTuple):
    """An error in responses of some APIs (empty: all), and its meaning for the operator of the client."""

    error: ErrorCode
    apis: tuple[ApiKey, ...]
    advice: str
    """Follows the client's name; its fields are those of ``_facts``."""
    after: int = 1
    """With this many answers on one connection it is a mistake: fewer are usual, and clients may share their name and address."""


_COMMITS: Final = (ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT)
_MEMBERS: Final = (*_COMMITS, ApiKey.HEARTBEAT, ApiKey.CONSUMER_GROUP_HEARTBEAT)
_SHARERS: Final = (ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE)
_TOO_SLOW: Final = (
    "is no member of group {group} any more: it handled records for longer than max.poll.interval.ms, or sent no heartbeat within "
    "session.timeout.ms. Raise the first, lower max.poll.records, or close consumers before their process ends"
)
_FENCED: Final = (
    "is fenced: a newer producer has transactional id {transactional_id}, or its transaction was aborted after "
    "transaction.timeout.ms. Give each process an id of its own, or shorten its transactions"
)
_NO_ACL: Final = "may not do {api}{about} as {principal}: give it an ACL (twisted-kafka acls create --principal {principal} ...)"

SYMPTOMS: Final = (
    Symptom(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        (ApiKey.METADATA,),
        "asks for{about}, which does not exist, and asking does not create it: create it, or set auto.create.topics.enable in the "
        "broker and allow.auto.create.topics in the consumer",
        after=3,
    ),
    Symptom(
        ErrorCode.MESSAGE_TOO_LARGE,
        (ApiKey.PRODUCE,),
        "sends a batch that is larger than max.message.bytes of{about}: raise that (broker: message.max.bytes), or lower "
        "max.request.size (librdkafka: message.max.bytes) in the producer",
    ),
    Symptom(
        ErrorCode.RECORD_LIST_TOO_LARGE,
        (ApiKey.PRODUCE,),
        "sends a batch that is larger than a segment of{about}: raise segment.bytes, or lower batch.size in the producer",
    ),
    Symptom(
        ErrorCode.INVALID_TIMESTAMP,
        (ApiKey.PRODUCE,),
        "sends records to{about} whose time is too far from the broker's: set the clock of the client's machine right, or "
        "message.timestamp.before.max.ms and message.timestamp.after.max.ms of the topic",
    ),
    Symptom(ErrorCode.INVALID_PRODUCER_EPOCH, (), _FENCED),
    Symptom(ErrorCode.PRODUCER_FENCED, (), _FENCED),
    Symptom(
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
        (),
        "wants transactions longer than transaction.max.timeout.ms: raise that, or lower the producer's transaction.timeout.ms",
    ),
    Symptom(
        ErrorCode.REBALANCE_IN_PROGRESS,
        (),
        "is in group {group}, which rebalances again and again: members join and leave, or handle records for longer than "
        "max.poll.interval.ms. Look at their logs, or give them a group.instance.id",
        after=10,
    ),
    Symptom(ErrorCode.UNKNOWN_MEMBER_ID, _MEMBERS, _TOO_SLOW),
    Symptom(ErrorCode.FENCED_MEMBER_EPOCH, _MEMBERS, _TOO_SLOW),
    Symptom(
        ErrorCode.UNKNOWN_MEMBER_ID,
        (ApiKey.STREAMS_GROUP_HEARTBEAT,),
        "is no member of streams group {group} any more: it sent no heartbeat within streams.session.timeout.ms, or did not give "
        "up its tasks within max.poll.interval.ms",
    ),
    Symptom(
        ErrorCode.STREAMS_INVALID_TOPOLOGY,
        (),
        "runs an application whose topology group {group} cannot use: compare its topics with the broker's answer in the log "
        "of Kafka Streams",
    ),
    Symptom(
        ErrorCode.INVALID_RECORD_STATE,
        _SHARERS,
        "acknowledges records of{about} that group {group} has not given to it, or no longer: their lock expired "
        "(share.record.lock.duration.ms), the broker started again, another member has them, or they were acknowledged before. "
        "Raise the duration, renew locks, or handle fewer records at a time",
    ),
    Symptom(
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        _SHARERS,
        "sends a share session epoch that the broker does not expect of a member of group {group}: two consumers have one member "
        "id, or the client library sends two requests at once",
    ),
    Symptom(
        ErrorCode.INVALID_REQUEST,
        _SHARERS,
        "sends what no member of share group {group} may send about{about}, such as acknowledgements that overlap or of records "
        "that were never fetched: a fault of the client library",
    ),
    Symptom(
        ErrorCode.ILLEGAL_GENERATION,
        _COMMITS,
        "commits for group {group} after it was rebalanced: commit in the rebalance listener, or handle fewer records at a time",
    ),
    Symptom(
        ErrorCode.FENCED_INSTANCE_ID,
        (),
        "shares its group.instance.id in group {group} with another member: give each member one of its own",
    ),
    Symptom(
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        (),
        "has no assignment strategy in common with the members of group {group}: compare partition.assignment.strategy, or take "
        "another group.id",
    ),
    Symptom(
        ErrorCode.INVALID_SESSION_TIMEOUT,
        (),
        "wants a session.timeout.ms outside of the broker's group.min.session.timeout.ms and group.max.session.timeout.ms",
    ),
    Symptom(
        ErrorCode.OFFSET_OUT_OF_RANGE,
        (ApiKey.FETCH,),
        "reads at an offset that{about} does not have: retention deleted it, or the topic was created again. auto.offset.reset "
        "decides where the consumer continues",
    ),
    Symptom(
        ErrorCode.ILLEGAL_SASL_STATE,
        (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE),
        "wants to authenticate, but listener {listener} is {security_protocol}: set security.protocol={security_protocol} in the "
        "client, or give the listener SASL",
    ),
    Symptom(
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        (),
        "asks for a SASL mechanism that listener {listener} does not have: compare sasl.mechanism with sasl.enabled.mechanisms",
    ),
    Symptom(
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        (),
        "cannot log in on listener {listener}: its user name or its password is wrong, or the broker does not know the user",
    ),
    Symptom(ErrorCode.TOPIC_AUTHORIZATION_FAILED, (), _NO_ACL),
    Symptom(ErrorCode.GROUP_AUTHORIZATION_FAILED, (), _NO_ACL),
    Symptom(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, (), _NO_ACL),
    Symptom(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, (), _NO_ACL),
    Symptom(
        ErrorCode.REBOOTSTRAP_REQUIRED,
        (ApiKey.API_VERSIONS,),
        "expected another broker or cluster on listener {listener}: an address was moved, or two brokers advertise the same one. "
        "Compare advertised.listeners with the addresses that lead to this broker (twisted-kafka doctor)",
    ),
    Symptom(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        (ApiKey.CREATE_TOPICS,),
        "wants more replicas than there are brokers: lower the replication factor, or start more",
    ),
    Symptom(
        ErrorCode.NOT_ENOUGH_REPLICAS,
        (ApiKey.PRODUCE,),
        "produces with acks=all to{about}, which has fewer replicas in sync than min.insync.replicas: a broker is down or slow",
        after=3,
    ),
)

_BY_ERROR: Final = {int(error): [row for row in SYMPTOMS if row.error is error] for error in {row.error for row in SYMPTOMS}}


class Diagnoses:
    """Logs a line for each mistake of a client, once in ``WINDOW_NS``, and keeps the latest lines."""

    def __init__(self, clock: IClock, ignored_client_id: str | None = None) -> None:
        """``ignored_client_id``: that client, a test's own, makes no mistakes."""
        self._clock = clock
        self._ignored_client_id = ignored_client_id
        self._lock = machine.Lock()
        self._rate = LogRateLimit(clock.monotonic_ns)
        self._seen: dict[tuple[str, object], tuple[int, int]] = {}
        self._lines: deque[str] = deque(maxlen=MAX_LINES)

    @property
    def lines(self) -> list[str]:
        """The latest lines, oldest first."""
        with self._lock:
            return list(self._lines)

    def request_completed(self, request: Request) -> None:
        """Look at a request that was answered an error (``IRequestObserver``)."""
        context = request.context
        counts = context.error_counts
        # Nearly all requests end here. A response of several codes that are all NONE has one count.
        if not context.error and (not counts or (len(counts) == 1 and 0 in counts)):
            return
        if context.client_id == self._ignored_client_id:
            return
        codes = set(counts or ()) | {context.error}
        if context.refusal is not None:
            self._request_refused(context, context.refusal)
            return
        for code in codes:
            for symptom in _BY_ERROR.get(code, ()):
                if not symptom.apis or context.api_key in symptom.apis:
                    client = _who(context.connection, context.client_id)
                    facts = _facts(context, code)
                    subject = symptom, facts["about"], facts["group"], facts["transactional_id"]
                    if symptom.after == 1 or self._is_often(context.connection_id, subject, symptom.after):
                        self._tell(client, subject, partial(symptom.advice.format, **facts))
                    break

    def _request_refused(self, context: RequestContext, why: str) -> None:
        connection = context.connection
        refused, wants = f"was disconnected: {why}", ""
        if connection.authenticator is not None and not connection.authenticator.has_been_authenticated:
            wants = (
                f" Listener {context.listener_name} wants clients to log in first: set "
                f"security.protocol={connection.security_protocol}, sasl.mechanism and a password in the client"
            )
        # KafkaApis logs what else it refuses, where it closes the connection.
        self._tell(_who(connection, context.client_id), why, lambda: refused + wants, is_logged=not wants)

    def unreachable(self, context: RequestContext, address: str) -> None:
        """Report a remote client that Metadata sends to an address that only this machine has."""
        told = (
            f"comes from elsewhere, and is sent to {address}, which is its own machine: set advertised.listeners to what clients "
            "reach, unless the broker's port is published there, as a container's is"
        )
        self._tell(_who(context.connection, context.client_id), address, lambda: told)

    def connection_refused(self, connection: ConnectionInfo, why: str) -> None:
        """Look at a connection that was closed because of what came over it (``IRefusalObserver``), which has been logged."""
        # Of a port scanner each connection sends other bytes: one line for each address.
        self._tell(_who(connection, None), connection.listener_name, lambda: f"was disconnected: {why}", is_logged=True)

    def _is_often(self, connection_id: str, mistake: object, after: int) -> bool:
        with self._lock:
            return self._counted(connection_id, mistake) >= after

    def _counted(self, who: str, mistake: object) -> int:
        """Count a mistake; return how many there have been in the window. Called with the lock."""
        now_ns = self._clock.monotonic_ns()
        since_ns, count = self._seen.pop((who, mistake), (now_ns, 0))
        if now_ns - since_ns >= WINDOW_NS:
            since_ns, count = now_ns, 0
        self._seen[who, mistake] = since_ns, count + 1
        if len(self._seen) > MAX_REMEMBERED:
            del self._seen[next(iter(self._seen))]
        return count + 1

    def _tell(self, client: str, mistake: object, advice: Callable[[], str], *, is_logged: bool = False) -> None:
        with self._lock:
            if self._counted(client, mistake) > 1:
                return
            line = f"{client} {advice()}"
            self._lines.append(line)
            # A client with a new name in each request is reported for each.
            more = self._rate.take_suppressed() if not is_logged and self._rate.allow() else None
        if more is not None:
            _log.warn("{line}{more}", line=line, more=more)


class AdvertisedAddresses:
    """Finds clients that Metadata sends to addresses only this machine has. Used if the broker advertises such addresses."""

    def __init__(self, diagnoses: Diagnoses, addresses: Mapping[str, str]) -> None:
        """``addresses``: the advertised address, host:port, by listener."""
        self._diagnoses = diagnoses
        self._addresses = addresses

    def request_completed(self, request: Request) -> None:
        """Look at a request (``IRequestObserver``)."""
        context = request.context
        if (
            context.api_key == ApiKey.METADATA
            and context.listener_name in self._addresses
            and not _is_local(context.client_address)
            and not context.connection_id.startswith(f"{context.client_address}:")  # from this machine to its own address
        ):
            self._diagnoses.unreachable(context, self._addresses[context.listener_name])


def advertised_to_others(listeners: Iterable[EndPoint], advertised: Iterable[EndPoint]) -> dict[str, str]:
    """Return the addresses that only this machine has, of listeners that others reach, by listener."""
    open_names = {each.listener_name for each in listeners if not _is_local(each.host)}
    local = (each for each in advertised if each.listener_name in open_names and _is_local(each.host))
    return {each.listener_name: f"{each.host}:{each.port}" for each in local}


def _is_local(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith(("127.", "::ffff:127."))


def _who(connection: ConnectionInfo, client_id: str | None) -> str:
    address = connection.client_address
    return f"Client {_shortened(client_id)!r} at {address}" if client_id else f"A client at {address}"


def _shortened(name: str) -> str:
    return name if len(name) <= _MAX_NAME else f"{name[:_MAX_NAME]}..."


def _shown(name: str) -> str:
    """Return a name, which a client may have chosen, as it may appear in a line of the log."""
    short = _shortened(name)
    return short if short.isprintable() else repr(short)


def _facts(context: RequestContext, code: int) -> dict[str, str]:
    """Return what advice can name."""
    noted = context.topics or ()
    named_topics = [name for kind, name in context.resources or () if kind is ResourceKind.TOPIC and name]
    topics = [topic for topic, _, _, _, error in noted if error == code] or [topic for topic, *_ in noted] or named_topics
    group, transaction = "-" if context.group is None else _shown(context.group[0]), context.transaction
    about = [_shown(each) for each in topics[:_MAX_NAMES]] + [f"{len(topics) - _MAX_NAMES} more"] * (len(topics) > _MAX_NAMES)
    named = f"topic {', '.join(about)}" if topics else f"group {group}" if context.group is not None else ""
    return {
        "about": f" {named}" if named else " its topic" if context.api_key in _OF_TOPICS else "",
        "api": ApiKey(context.api_key).title,
        "group": group,
        "listener": context.listener_name,
        "principal": _shown(str(context.principal)),
        "security_protocol": context.security_protocol,
        "transactional_id": _shown(transaction.transactional_id) if transaction is not None else "-",
    }


_OF_TOPICS: Final = (ApiKey.METADATA, ApiKey.PRODUCE, ApiKey.FETCH)
