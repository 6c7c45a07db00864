"""Faults of a broker under test, as rules that select requests and change their outcome.

with broker.faults.inject(api="Produce", topic="orders", nth=2, error="NOT_LEADER_OR_FOLLOWER") as fault:
    ...
assert fault.fired == 1
"""

import dataclasses
import itertools
import random
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar

from typing_extensions import override

from twisted_kafka.protocol.api import ApiKey, request_class, response_class
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.compiler.types import uuid_from_text
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.server.error_counts import error_places
from twisted_kafka.testing.answers import DISK_ERRORS, LEADER_APIS
from twisted_kafka.testing.requests import api_key, api_name, sender_of
from twisted_kafka.testing.subjects import Partition, apis_that_name
from twisted_kafka.testing.waiting import LOOK_S, Aio, check_may_block, is_cancelled
from twisted_kafka.timing.clock import SystemClock

__tracebackhide__ = True

CLOSE_TIMES: Final = ("before", "after")
DISK_TROUBLES: Final = ("full", "stalled")
MAX_RULES: Final = 1000
"""At most this many rules are in force."""
MAX_DELAY_MS: Final = 86_400_000
"""A day: the longest delay, and the longest throttle time."""
MAX_BROKER_ID: Final = 2**31 - 1
MAX_FIRINGS: Final = 100
"""Only this many of a fault's latest firings are kept."""

_EXCLUSIVE: Final = (
    *("error", "close", "lose_request", "lose_response", "half_response", "corrupt_response", "throttle_ms", "leader", "disk"),
    *("hold_request", "call"),
)
"""A rule has at most one of these. Each can be combined with ``delay_ms`` or ``hold``, unless the request is not handled."""
_WITHOUT_ANSWER: Final = ("lose_request", "hold_request", "call")
"""These cannot be combined with ``delay_ms`` or ``hold``."""


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
class Rule:
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
        _check_types(self)
        key = None if self.api is None else api_key(self.api)
        _check_api(self, key)
        _check_counts(self)
        _check_action(self, key)

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Self:
        """Return the rule with these fields, as read from a file. Raises ValueError for an unknown one."""
        known = [field.name for field in dataclasses.fields(cls)]
        for name in values:
            if name not in known:
                raise ValueError(f"a rule has no {name!r}, only {', '.join(known)}")
        return cls(**values)

    def as_mapping(self) -> dict[str, Any]:
        """Return the fields that are not as they are by default, as ``from_mapping`` takes them."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if not _is_default(self, field)}
        return {name: _plain(value) for name, value in values.items()}

    def known_for(self, arrival: Arrival) -> "Rule":
        """Return the rule with the name of its ``topic_id``, if the topic still exists."""
        if self.topic_id is None:
            return self
        name = arrival.topic_name(uuid_from_text(self.topic_id))
        return self if name is None else dataclasses.replace(self, topic=name)

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

    @override
    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.as_mapping().items())


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return getattr(value, "__qualname__", repr(value)) if callable(value) else value


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


def _is_default(rule: Rule, field: "dataclasses.Field[Any]") -> bool:
    return bool(getattr(rule, field.name) == ({} if field.name == "where" else field.default))


def _affected(rule: Rule) -> Collection[int] | None:
    """Return the APIs that the rule can affect; None: all."""
    if rule.leader is not None:
        return LEADER_APIS
    return DISK_ERRORS if rule.disk is not None else None


def _check_types(rule: Rule) -> None:
    """Raise ValueError for a field of the wrong type, which rules from files can have: it would never match."""
    for field in dataclasses.fields(rule):
        value, kind = getattr(rule, field.name), _KINDS.get(field.name, field.type)
        if kind is Callable and value is None:
            continue
        is_right = isinstance(value, int | float if kind is float else kind)
        if not is_right or isinstance(value, bool) is not (kind is bool):
            raise ValueError(f"{field.name}={value!r}: expected {_EXPECTED[kind]}")


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


def _check_counts(rule: Rule) -> None:
    for name in ("nth", "times"):
        value = getattr(rule, name)
        if value is not None and value < 1:
            raise ValueError(f"{name}={value}: expected 1 or more; the first request that matches is nth=1")
    if not 0 < rule.probability <= 1:
        raise ValueError(f"probability={rule.probability}: expected more than 0, and at most 1")
    if rule.partition is not None and rule.partition < 0:
        raise ValueError(f"partition={rule.partition}: expected 0 or more")
    if rule.principal is not None and ":" not in rule.principal:
        raise ValueError(f"principal={rule.principal!r}: expected its type, too, as in 'User:{rule.principal}'")


def _check_action(rule: Rule, key: ApiKey | None) -> None:
    chosen = [name for name in _EXCLUSIVE if getattr(rule, name) or (name == "leader" and rule.leader is not None)]
    later = [name for name in ("delay_ms", "hold") if getattr(rule, name)]
    if len(chosen) > 1:
        raise ValueError(f"a rule does one of {' and '.join(chosen)}: make two rules")
    if not chosen and not later:
        raise ValueError(f"a rule that does nothing: give one of {', '.join((*_EXCLUSIVE, 'delay_ms', 'hold'))}")
    if len(later) > 1 or (later and (rule.close == "before" or set(chosen) & set(_WITHOUT_ANSWER))):
        raise ValueError(f"{later[-1]} cannot be combined with {' and '.join([*chosen, *later[:-1]])}")
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


_numbers: Final = itertools.count(1)


class Fault:
    """A rule in force, and how often it has fired."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self._random = random.Random(rule.seed)
        self._first = rule.nth or 1
        self._most = rule.times if rule.times is not None else 1 if rule.nth else None
        self._held: list[tuple[object, Callable[[], object]]] | None = []
        self._lock = threading.Condition()
        self.follows: Fault | None = None
        """The fault that has to be finished before this one fires (``Faults.in_order``)."""
        self.errors: list[Exception] = []
        """What the rule's function raised."""
        self.number = next(_numbers)
        """The fault's number, unique in this process."""
        self.matched = 0
        """The number of requests that the rule matched."""
        self.fired = 0
        """The number of requests whose outcome it changed."""
        self.firings: deque[str] = deque(maxlen=MAX_FIRINGS)
        """A line for each of these requests, as in ``Produce v9 from shop orders-0``."""

    def takes(self, arrival: Arrival) -> bool:
        """Whether the fault fires for this request. Called with the lock of its Faults."""
        if self.follows is not None and not self.follows.is_finished:
            return False
        if not self.rule.known_for(arrival).matches(arrival):
            return False
        self.matched += 1
        if self.matched < self._first or self.fired == self._most:
            return False
        if self.rule.probability < 1 and self._random.random() >= self.rule.probability:
            return False
        with self._lock:
            self.fired += 1
            self.firings.append(str(arrival))
            self._lock.notify_all()
        return True

    @property
    def is_finished(self) -> bool:
        """Whether it has fired as often as it can."""
        return self._most is not None and self.fired >= self._most

    def wait_for(self, fired: int = 1, timeout_s: float = 10.0) -> None:
        """Wait until the rule has fired this often. Raises TimeoutError, which says how often it has."""
        check_may_block("fault.wait_for")
        due_ns = SystemClock.monotonic_ns() + int(timeout_s * 1e9)
        with self._lock:
            while self.fired < fired:
                left_s = (due_ns - SystemClock.monotonic_ns()) / 1e9
                if left_s <= 0 or is_cancelled():
                    raise TimeoutError(f"waited {timeout_s:g} s for {fired} firings: {self}")
                self._lock.wait(min(left_s, LOOK_S))

    @property
    def aio(self) -> Aio:
        """The wait for an asyncio loop: ``await fault.aio.wait_for(1)``."""
        return Aio(self)

    @property
    def held(self) -> int:
        """The number of requests and answers that the rule holds now."""
        return len(self._held or ())

    def release(self) -> None:
        """Let go of all held requests and answers. The rule stays in force, and holds later ones."""
        with self._lock:
            held = self._held or []
            if self._held is not None:
                self._held = []
        for _, call in held:
            call()

    def hold(self, owner: object, call: Callable[[], object]) -> None:
        """Call ``call`` when the rule is removed or ``owner`` stops; at once if it is removed already.

        Connections bound the number of held requests.
        """
        with self._lock:
            if self._held is not None:
                self._held.append((owner, call))
                return
        call()

    def let_go(self, owner: object) -> None:
        """Release the requests held for one owner, a broker that stops."""
        with self._lock:
            due = [call for held_for, call in self._held or () if held_for is owner]
            if self._held is not None:
                self._held = [held for held in self._held if held[0] is not owner]
        for call in due:
            call()

    def drop_held(self, owner: object) -> None:
        """Forget the requests held for one owner, a broker that stops."""
        with self._lock:
            if self._held is not None:
                self._held = [held for held in self._held if held[0] is not owner]

    def end(self) -> None:
        """Release the held requests. Called when the rule is removed."""
        with self._lock:
            held, self._held = self._held, None
        for _, call in held or ():
            call()

    @override
    def __repr__(self) -> str:
        return f"<Fault {self}>"

    @override
    def __str__(self) -> str:
        return f"{self.rule}: fired {self.fired} of {self.matched} times"


class Faults:
    """The rules in force, in the order in which they were added. Only the first rule that fires for a request counts.

    ``str`` returns a line for each rule, with how often it fired.
    """

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
        self._faults: tuple[Fault, ...] = ()
        self._lock = threading.Lock()
        for rule in rules:
            self.add(rule)

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

    def add(self, rule: Rule | Mapping[str, Any]) -> Fault:
        """Put a rule in force. Raises ValueError like ``check``, and if ``MAX_RULES`` are in force already."""
        fault = self._made(_rule_of(rule))
        self._put(fault)
        return fault

    def _made(self, rule: Rule) -> Fault:
        self.check(rule)
        return Fault(rule)

    def _put(self, fault: Fault) -> None:
        with self._lock:
            if len(self._faults) >= MAX_RULES:
                raise ValueError(f"{MAX_RULES} rules are in force: remove some first")
            self._faults = (*self._faults, fault)

    def remove(self, fault: Fault) -> None:
        """Remove a rule. Does nothing if it is not in force."""
        with self._lock:
            self._faults = tuple(each for each in self._faults if each is not fault)
        fault.end()

    def clear(self) -> None:
        """Remove all rules."""
        with self._lock:
            faults, self._faults = self._faults, ()
        for fault in faults:
            fault.end()

    def let_go(self, owner: object) -> None:
        """Release the requests held for one owner; the rules stay in force."""
        for fault in self._faults:
            fault.let_go(owner)

    def drop_held(self, owner: object) -> None:
        """Forget the requests held for one owner, a broker that stops. The rules stay in force."""
        for fault in self._faults:
            fault.drop_held(owner)

    def add_in_order(self, *rules: Rule | Mapping[str, Any]) -> list[Fault]:
        """Put rules in force one after the other: each fires only when those before it are finished.

        Raises ValueError like ``add``, and unless all but the last have ``times`` or ``nth``.
        """
        made = [_rule_of(rule) for rule in rules]
        if not made:
            raise ValueError("there are no rules to put in order")
        for number, rule in enumerate(made[:-1], 1):
            if rule.times is None and rule.nth is None:
                raise ValueError(f"rule {number} of {len(made)} never ends, so that the next one never begins: give it times=1")
        added: list[Fault] = []
        for rule in made:
            fault = self._made(rule)
            fault.follows = added[-1] if added else None
            self._put(fault)
            added.append(fault)
        return added

    def in_order(self, *rules: Rule | Mapping[str, Any]) -> "Injected[list[Fault]]":
        """Put rules in force one after the other for a ``with`` block (``add_in_order``); its value is the list of the Faults."""
        return Injected(self, lambda: self.add_in_order(*rules), list)

    def inject(self, **rule: Any) -> "Injected[Fault]":
        """Put a rule in force for a ``with`` block, whose value is the Fault; the arguments are Rule's.

        Raises ValueError as Rule does. The block ends with the first error that a function of the rule raised.
        """
        made = Rule.from_mapping(rule)
        self.check(made)
        return Injected(self, lambda: self.add(made), lambda fault: [fault])

    def __iter__(self) -> Iterator[Fault]:
        return iter(self._faults)

    @override
    def __str__(self) -> str:
        return "\n".join(map(str, self._faults)) or "no faults"

    def choose(self, arrival: Arrival) -> Fault | None:
        """Return the fault that fires for this request."""
        if not self._faults:
            return None
        with self._lock:
            return next((fault for fault in self._faults if fault.takes(arrival)), None)


def _rule_of(rule: Rule | Mapping[str, Any]) -> Rule:
    if isinstance(rule, Rule):
        return rule
    if not isinstance(rule, Mapping):
        raise TypeError(f"{rule!r:.80} is of type {type(rule).__name__}: expected a Rule, or its fields as a mapping")
    return Rule.from_mapping(rule)


V = TypeVar("V")


class Injected(Generic[V]):
    """Rules that are in force for a ``with`` block."""

    def __init__(self, faults: Faults, add: Callable[[], V], each: Callable[[V], list[Fault]]) -> None:
        self._faults = faults
        self._add = add
        self._each = each
        self._added: list[Fault] = []

    if not TYPE_CHECKING:  # a type checker has to find misspelt names

        def __getattr__(self, name: str) -> Any:
            """Say how the rules come into force."""
            text = f"a rule is not in force yet, and has no {name!r}: write `with kafka.faults.inject(...) as fault:`"
            raise AttributeError(text, name=name, obj=self)

    def __enter__(self) -> V:
        value = self._add()
        self._added = self._each(value)
        return value

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        for fault in self._added:
            self._faults.remove(fault)
        if error is None:
            for fault in self._added:
                if fault.errors:
                    raise fault.errors[0]
