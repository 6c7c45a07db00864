"""Faults of a broker under test, as rules that select requests and change their outcome.

with broker.faults.inject(api="Produce", topic="orders", nth=2, error="NOT_LEADER_OR_FOLLOWER") as fault:
    ...
assert fault.fired == 1
"""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from typing_extensions import override

from twisted_kafka.protocol.api import ApiKey, request_class, response_class
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.compiler.types import uuid_from_text
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.server.error_counts import error_places
from twisted_kafka.testing.fault_rules.answers import DISK_ERRORS, LEADER_APIS
from twisted_kafka.testing.fault_rules.injection import BaseFaults, BaseRule, check_outcome
from twisted_kafka.testing.recorded.requests import api_key, api_name, sender_of
from twisted_kafka.testing.recorded.subjects import Partition, apis_that_name

__tracebackhide__ = True

CLOSE_TIMES: Final = ("before", "after")
DISK_TROUBLES: Final = ("full", "stalled")
MAX_DELAY_MS: Final = 86_400_000
"""A day: the longest delay, and the longest throttle time."""
MAX_BROKER_ID: Final = 2**31 - 1

_EXCLUSIVE: Final = (
    *("error", "close", "lose_request", "lose_response", "half_response", "corrupt_response", "throttle_ms", "leader", "disk"),
    *("hold_request", "call"),
)
"""A rule has at most one of these. Each can be combined with ``delay_ms`` or ``hold``, unless the request is not handled."""


def _no_topic(topic_id: bytes) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request that has arrived, as rules and the functions of rules see it."""

    key: int
    """The API key."""
    version: int
    client_id: str | None
    principal: str
    connection: str
    partitions: tuple[Partition, ...]
    """Topics with the numbers of their partitions; the number is None if the request names only the topic."""
    groups: tuple[str, ...]
    message: Message | None
    """The request with its fields, as ``RecordedRequest.fields``; None if it could not be read."""
    node: int = -1
    """The id of the broker that received it."""
    topic_ids: tuple[bytes, ...] = ()
    topic_name: Callable[[bytes], str | None] = _no_topic

    @property
    def api(self) -> str:
        """Kafka's name of the API."""
        return api_name(self.key)

    @property
    def sender(self) -> int | None:
        """The id of the broker that sent it; None for clients."""
        return sender_of(self.client_id)

    @override
    def __str__(self) -> str:
        about = [topic if index is None else f"{topic}-{index}" for topic, index in self.partitions[:4]]
        about += [f"group {group}" for group in self.groups[:4]]
        return " ".join([f"{self.api} v{self.version} from {self.client_id or '-'}", *about])


Call = Callable[[Arrival], "Message | Mapping[str, Any] | None"]
"""A function of the test: it returns the response, the outcome as the fields of a Rule, or None to let the request pass."""


@dataclass(frozen=True, kw_only=True)
class Rule(BaseRule):
    """Selects requests and changes their outcome. Raises ValueError, one line, if it can never match or has no effect.

    ``node``: the broker that receives the request; ``sender``: another broker that sends it. ``topic_id``: Kafka's text of the id.
    ``nth``: only the nth matching request, or, with ``times``, that many from it on. ``probability``: each matching request with
    this chance, from a generator seeded with ``seed``. ``where``: values of the request's fields.

    ``error``: return this error instead of handling the request, and store nothing. With ``topic`` or ``partition``, only these
    fail where the API has an error for each, otherwise the whole request. ``close="before"``: close the connection instead of
    handling the request. ``close="after"``: close it instead of answering. ``lose_request``: neither handle nor answer the request,
    and keep the connection. ``hold_request``: handle it when the Fault is released or removed. ``lose_response``: handle the
    request, and send no answer. ``half_response``: send half of the answer, and close the connection. ``corrupt_response``: send
    wrong bytes after the correlation id. ``throttle_ms``: put this throttle time into the answer, and read nothing from the
    connection for as long. ``leader``: name this broker as the partitions' leader in Metadata, and answer reads and writes with
    NOT_LEADER_OR_FOLLOWER. ``disk="full"``: reject appends like a broker with a failed log directory. ``disk="stalled"``: handle
    appends only when the rule is removed. ``call``: let a function of the test decide. ``delay_ms``: answer this much later by the
    broker's clock. ``hold``: answer when the Fault is released or removed.
    """

    api: str | None = None
    version: int | None = None
    client_id: str | None = None
    principal: str | None = None
    connection: str | None = None
    node: int | None = None
    sender: int | None = None
    topic: str | None = None
    topic_id: str | None = None
    partition: int | None = None
    group: str | None = None
    where: Mapping[str, object] = dataclasses.field(default_factory=dict)
    nth: int | None = None
    times: int | None = None
    probability: float = 1.0
    seed: int = 0
    error: str | None = None
    delay_ms: float = 0
    hold: bool = False
    call: Call | None = None
    close: str | None = None
    lose_request: bool = False
    hold_request: bool = False
    lose_response: bool = False
    half_response: bool = False
    corrupt_response: bool = False
    throttle_ms: int = 0
    leader: int | None = None
    disk: str | None = None

    def __post_init__(self) -> None:
        self._check_types(_KINDS, _EXPECTED)
        key = None if self.api is None else api_key(self.api)
        _check_api(self, key)
        self._check_counts()
        _check_subjects(self)
        _check_action(self, key)

    @override
    def known_for(self, arrival: Arrival) -> "Rule":
        """Return the rule with the name of its ``topic_id``, if the topic still exists."""
        if self.topic_id is None:
            return self
        name = arrival.topic_name(uuid_from_text(self.topic_id))
        return self if name is None else dataclasses.replace(self, topic=name)

    @override
    def matches(self, arrival: Arrival) -> bool:
        """Whether it is about this request; how often it fires is not looked at."""
        about = (
            (self.api, api_name(arrival.key)),
            (self.version, arrival.version),
            (self.client_id, arrival.client_id),
            (self.principal, arrival.principal),
            (self.connection, arrival.connection),
            (self.node, arrival.node),
            (self.sender, arrival.sender),
        )
        if any(wanted is not None and wanted != value for wanted, value in about):
            return False
        affected = _affected(self)
        if affected is not None and arrival.key not in affected:
            return False
        if self.names_partitions and not self._asks_for_all(arrival) and not any(map(self.is_about, arrival.partitions)):
            return False
        if self.topic_id is not None and self.topic is None and uuid_from_text(self.topic_id) not in arrival.topic_ids:
            return False
        if self.group is not None and self.group not in arrival.groups:
            return False
        return all(getattr(arrival.message, name, None) == value for name, value in self.where.items())

    @property
    def names_partitions(self) -> bool:
        """Whether the rule names a topic or a partition."""
        return self.topic is not None or self.partition is not None

    def is_about(self, partition: Partition) -> bool:
        """Whether the rule applies to this partition of a request; the number None stands for all partitions of the topic."""
        topic, index = partition
        is_number = self.partition is None or self.partition == index or (index is None and self.leader is not None)
        return self.topic in (None, topic) and is_number

    def _asks_for_all(self, arrival: Arrival) -> bool:
        return self.leader is not None and arrival.key == ApiKey.METADATA and not arrival.partitions


_EXPECTED: Final[Mapping[Any, str]] = {
    str | None: "a text",
    int | None: "a whole number",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    Mapping: "values by the names of fields, as in {acks: -1}",
    Callable: "a function",
}


_KINDS: Final[Mapping[str, Any]] = {"where": Mapping, "call": Callable}
"""The types of fields whose annotation is more precise than what can be checked."""


def _affected(rule: Rule) -> Collection[int] | None:
    """Return the APIs that the rule can affect; None: all."""
    if rule.leader is not None:
        return LEADER_APIS
    return DISK_ERRORS if rule.disk is not None else None


def _check_api(rule: Rule, key: ApiKey | None) -> None:
    if key is None:
        if rule.version is not None or rule.where:
            raise ValueError(f"{'version' if rule.version is not None else 'where'} needs an api, as in api='Produce'")
        return
    low, high = request_class(key).VERSIONS
    if rule.version is not None and not low <= rule.version <= high:
        raise ValueError(f"{rule.api} has versions {low} to {high}, not {rule.version}")
    for what in ("topic", "topic_id", "partition", "group"):
        named = apis_that_name("topic" if what == "topic_id" else what)
        is_claimed = rule.leader is not None and key in LEADER_APIS
        if getattr(rule, what) is not None and rule.api not in named and not is_claimed:
            raise ValueError(f"{rule.api} requests name no {what}; these do: {', '.join(named)}")
    _check_where(rule, key)


def _check_where(rule: Rule, key: ApiKey) -> None:
    fields = {field.name: field for field in request_class(key).FIELDS}
    for name, value in rule.where.items():
        if name not in fields:
            raise ValueError(f"{rule.api} requests have no field {name!r}, only {', '.join(fields)}")
        field = fields[name]
        if rule.version is not None and not field.at(rule.version):
            raise ValueError(f"{rule.api} v{rule.version} has no field {name!r}: it is in versions from {field.since} on")
        default = field.make_default()
        if default is not None and value is not None and not isinstance(value, type(default)):
            raise ValueError(f"{name} of {rule.api} is never {value!r}: expected a value like {default!r}")


def _check_subjects(rule: Rule) -> None:
    if rule.partition is not None and rule.partition < 0:
        raise ValueError(f"partition={rule.partition}: expected 0 or more")
    if rule.principal is not None and ":" not in rule.principal:
        raise ValueError(f"principal={rule.principal!r}: expected its type, too, as in 'User:{rule.principal}'")


def _check_action(rule: Rule, key: ApiKey | None) -> None:
    chosen = [name for name in _EXCLUSIVE if getattr(rule, name) or (name == "leader" and rule.leader is not None)]
    check_outcome(rule, _EXCLUSIVE, chosen)
    if rule.topic_id is not None:
        _check_topic_id(rule)
    for name in ("delay_ms", "throttle_ms"):
        if not 0 <= getattr(rule, name) <= MAX_DELAY_MS:
            raise ValueError(f"{name}={getattr(rule, name)}: expected 0 to {MAX_DELAY_MS}")
    if rule.leader is not None and not -1 <= rule.leader <= MAX_BROKER_ID:
        raise ValueError(f"leader={rule.leader}: expected a broker's id, or -1 for none")
    _check_error(rule, key)
    if rule.close is not None and rule.close not in CLOSE_TIMES:
        raise ValueError(f"close={rule.close!r}: expected 'before' or 'after' (handling)")
    if rule.disk is not None and rule.disk not in DISK_TROUBLES:
        raise ValueError(f"disk={rule.disk!r}: expected 'full' or 'stalled'")
    affected = _affected(rule)
    if key is not None and affected is not None and key not in affected:
        what = "disk" if rule.disk is not None else "leader"
        raise ValueError(f"{what} does nothing to {rule.api}, but to {', '.join(ApiKey(each).title for each in affected)}")
    if rule.throttle_ms:
        if key is None:
            raise ValueError("throttle_ms needs an api, as in api='Produce'")
        if not any(field.name == "throttle_time_ms" for field in response_class(key).FIELDS):
            raise ValueError(f"{rule.api} responses have no throttle time")


def _check_topic_id(rule: Rule) -> None:
    if rule.topic is None:  # else ``known_for`` has added it
        try:
            uuid_from_text(rule.topic_id or "")
        except ValueError:
            raise ValueError(
                f"topic_id={rule.topic_id!r}: expected Kafka's text of it, as kafka.topic_id('orders') returns"
            ) from None


def _check_error(rule: Rule, key: ApiKey | None) -> None:
    if rule.error is None:
        return
    if rule.error not in ErrorCode.__members__ or rule.error == "NONE":
        import difflib

        near = difflib.get_close_matches(rule.error.upper(), ErrorCode.__members__, 1)
        raise ValueError(f"there is no error {rule.error!r}: {f'did you mean {near[0]!r}?' if near else 'see ErrorCode'}")
    if key is not None and not error_places(response_class(key)):
        raise ValueError(f"{rule.api} responses have no error code: take close or delay_ms instead")
    if rule.where.get("acks") == 0 and key == ApiKey.PRODUCE:
        raise ValueError("Produce with acks=0 is not answered, so it gets no error: take close='before' instead")


class Faults(BaseFaults[Rule]):
    """The rules in force, in the order in which they were added. Only the first rule that fires for a request counts.

    ``str`` returns a line for each rule, with how often it fired.
    """

    rule_type = Rule

    def __init__(
        self,
        rules: Iterable[Rule] = (),
        served: Callable[[int], tuple[int, int] | None] | None = None,
        nodes: Callable[[], Collection[int]] = tuple,
    ) -> None:
        """``served`` returns the first and last version of an API that the broker serves, or None if it does not serve the API.

        Without ``served``, all APIs are served. ``nodes`` returns the ids of the brokers that receive requests, none while they
        are unknown. Raises ValueError for a rule about an API or version that is not served, or about another broker.
        """
        self._served = served
        self._nodes = nodes
        super().__init__(rules)

    @override
    def check(self, rule: Rule) -> None:
        """Raise ValueError, one line, for a rule about an API, a version or a broker that is not there."""
        nodes = self._nodes()
        if rule.node is not None and nodes and rule.node not in nodes:
            raise ValueError(
                f"node={rule.node}: the rule can never match; requests here are for {', '.join(map(str, sorted(nodes)))}"
            )
        if self._served is not None and rule.api is not None:
            versions = self._served(api_key(rule.api))
            if versions is None:
                raise ValueError(f"this broker does not serve {rule.api}, so the rule can never match: take another persona")
            if rule.version is not None and not versions[0] <= rule.version <= versions[1]:
                raise ValueError(f"this broker serves {rule.api} v{versions[0]} to v{versions[1]}, not v{rule.version}")
