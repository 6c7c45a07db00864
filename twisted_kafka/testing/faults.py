"""Faults of a broker under test, as rules: which requests, and what happens to them.

with broker.faults.inject(api="Produce", topic="orders", nth=2, error="NOT_LEADER_OR_FOLLOWER") as fault:
    ...
assert fault.fired == 1
"""

import contextlib
import dataclasses
import random
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from twisted_kafka.protocol.api import ApiKey, request_class, response_class
from twisted_kafka.protocol.codec import Message
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.testing.requests import api_key, api_name
from twisted_kafka.testing.subjects import Partition, apis_that_name

CLOSE_TIMES: Final = ("before", "after")
_MATCHES: Final = ("api", "version", "client_id", "principal", "topic", "partition", "group")
_ACTIONS: Final = ("error", "delay_ms", "close", "lose_response", "corrupt_response", "throttle_ms")
_EXCLUSIVE: Final = ("error", "close", "lose_response", "corrupt_response", "throttle_ms")
"""At most one of them; ``delay_ms`` goes with each."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request that has arrived, as rules see it."""

    key: int
    version: int
    client_id: str | None
    principal: str
    partitions: tuple[Partition, ...]
    groups: tuple[str, ...]
    message: Message | None


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Which requests, what happens to them, and how often. Raises ValueError, one line, if it can never match or does nothing.

    ``nth``: only the nth request that matches, or, with ``times``, as many from it on. ``probability``: each with this chance, by a
    generator that starts from ``seed``. ``where``: values of the request's fields.

    ``error`` is answered instead of handling: for the whole request, and nothing is stored. ``close="before"`` closes the
    connection instead of handling, ``close="after"`` instead of answering. ``lose_response``: it is handled, and no answer comes.
    ``corrupt_response``: the answer's bytes after the correlation id are wrong. ``throttle_ms``: the answer tells it, and the
    connection is not read so long. ``delay_ms``: the answer comes so much later by the broker's clock.
    """

    api: str | None = None
    version: int | None = None
    client_id: str | None = None
    principal: str | None = None
    topic: str | None = None
    partition: int | None = None
    group: str | None = None
    where: Mapping[str, object] = dataclasses.field(default_factory=dict)
    nth: int | None = None
    times: int | None = None
    probability: float = 1.0
    seed: int = 0
    error: str | None = None
    delay_ms: float = 0
    close: str | None = None
    lose_response: bool = False
    corrupt_response: bool = False
    throttle_ms: int = 0

    def __post_init__(self) -> None:
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

    def matches(self, arrival: Arrival) -> bool:
        """Whether it is about this request; how often it fires is not looked at."""
        about = (
            (self.api, api_name(arrival.key)),
            (self.version, arrival.version),
            (self.client_id, arrival.client_id),
            (self.principal, arrival.principal),
        )
        if any(wanted is not None and wanted != value for wanted, value in about):
            return False
        if (self.topic is not None or self.partition is not None) and not any(
            self.topic in (None, topic) and (self.partition is None or self.partition == index)
            for topic, index in arrival.partitions
        ):
            return False
        if self.group is not None and self.group not in arrival.groups:
            return False
        return all(getattr(arrival.message, name, None) == value for name, value in self.where.items())

    def __str__(self) -> str:
        changed = [field for field in dataclasses.fields(self) if getattr(self, field.name) != _default(field)]
        return " ".join(f"{field.name}={getattr(self, field.name)}" for field in changed)


def _default(field: "dataclasses.Field[Any]") -> object:
    return {} if field.name == "where" else field.default


def _check_api(rule: Rule, key: ApiKey | None) -> None:
    if key is None:
        if rule.version is not None or rule.where:
            raise ValueError(f"{'version' if rule.version is not None else 'where'} needs an api, as in api='Produce'")
        return
    low, high = request_class(key).VERSIONS
    if rule.version is not None and not low <= rule.version <= high:
        raise ValueError(f"{rule.api} has versions {low} to {high}, not {rule.version}")
    for what in ("topic", "partition", "group"):
        named = apis_that_name(what)
        if getattr(rule, what) is not None and rule.api not in named:
            raise ValueError(f"{rule.api} requests name no {what}; these do: {', '.join(named)}")
    names = [field.name for field in request_class(key).FIELDS]
    for name in rule.where:
        if name not in names:
            raise ValueError(f"{rule.api} requests have no field {name!r}, only {', '.join(names)}")


def _check_counts(rule: Rule) -> None:
    for name in ("nth", "times"):
        value = getattr(rule, name)
        if value is not None and value < 1:
            raise ValueError(f"{name}={value}: expected 1 or more; the first request that matches is nth=1")
    if not 0 < rule.probability <= 1:
        raise ValueError(f"probability={rule.probability}: expected more than 0, and at most 1")


def _check_action(rule: Rule, key: ApiKey | None) -> None:
    chosen = [name for name in _EXCLUSIVE if getattr(rule, name)]
    if len(chosen) > 1:
        raise ValueError(f"a rule does one of {' and '.join(chosen)}: make two rules")
    if not chosen and not rule.delay_ms:
        raise ValueError(f"a rule that does nothing: give one of {', '.join(_ACTIONS)}")
    if rule.delay_ms < 0 or rule.throttle_ms < 0:
        raise ValueError(f"{'delay_ms' if rule.delay_ms < 0 else 'throttle_ms'} cannot be negative")
    if rule.error is not None and (rule.error not in ErrorCode.__members__ or rule.error == "NONE"):
        import difflib

        near = difflib.get_close_matches(rule.error.upper(), ErrorCode.__members__, 1)
        raise ValueError(f"there is no error {rule.error!r}: {f'did you mean {near[0]!r}?' if near else 'see ErrorCode'}")
    if rule.close is not None and rule.close not in CLOSE_TIMES:
        raise ValueError(f"close={rule.close!r}: expected 'before' or 'after' (handling)")
    if rule.throttle_ms:
        if key is None:
            raise ValueError("throttle_ms needs an api, as in api='Produce'")
        if not any(field.name == "throttle_time_ms" for field in response_class(key).FIELDS):
            raise ValueError(f"{rule.api} responses tell no throttle time")


class Fault:
    """A rule that is in force, and how often it has fired."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self._random = random.Random(rule.seed)
        self._first = rule.nth or 1
        self._most = rule.times if rule.times is not None else 1 if rule.nth else None
        self.matched = 0
        """How many requests it was about."""
        self.fired = 0
        """To how many of them it happened."""

    def takes(self, arrival: Arrival) -> bool:
        """Whether it happens to this request. Called with the lock of its Faults."""
        if not self.rule.matches(arrival):
            return False
        self.matched += 1
        if self.matched < self._first or self.fired == self._most:
            return False
        if self.rule.probability < 1 and self._random.random() >= self.rule.probability:
            return False
        self.fired += 1
        return True

    def __repr__(self) -> str:
        return f"<Fault {self.rule}: fired {self.fired} of {self.matched} times>"


class Faults:
    """The rules in force, in the order in which they were added. Of those that match a request, the first that fires counts."""

    def __init__(self) -> None:
        self._faults: tuple[Fault, ...] = ()
        self._lock = threading.Lock()

    def add(self, rule: Rule) -> Fault:
        """Put a rule in force."""
        fault = Fault(rule)
        with self._lock:
            self._faults = (*self._faults, fault)
        return fault

    def remove(self, fault: Fault) -> None:
        """Repeal one. Does nothing if it is not in force."""
        with self._lock:
            self._faults = tuple(each for each in self._faults if each is not fault)

    def clear(self) -> None:
        """Repeal all."""
        with self._lock:
            self._faults = ()

    @contextlib.contextmanager
    def inject(self, **rule: Any) -> Iterator[Fault]:
        """Put a rule in force for a ``with`` block; the arguments are Rule's. Raises ValueError as Rule does."""
        fault = self.add(Rule.from_mapping(rule))
        try:
            yield fault
        finally:
            self.remove(fault)

    def __iter__(self) -> Iterator[Fault]:
        return iter(self._faults)

    def choose(self, arrival: Arrival) -> Rule | None:
        """Return the rule that fires for this request."""
        if not self._faults:
            return None
        with self._lock:
            return next((fault.rule for fault in self._faults if fault.takes(arrival)), None)
