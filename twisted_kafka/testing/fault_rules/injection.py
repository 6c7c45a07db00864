"""Rules in force for any kind of request: how often each fires, its held requests, and the blocks in which it counts."""

import abc
import dataclasses
import itertools
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Self, TypeVar

from typing_extensions import override

from twisted_kafka.system import machine
from twisted_kafka.testing.waiting import LOOK_S, WAIT_S, Aio, check_may_block, is_cancelled
from twisted_kafka.timing.clock import SystemClock

__tracebackhide__ = True

MAX_RULES: Final = 1000
"""At most this many rules are in force."""
MAX_FIRINGS: Final = 100
"""Only this many of a fault's latest firings are kept."""
_LATER: Final = ("delay_ms", "hold")
"""When an answer is sent: fields of each kind of rule."""
_WITHOUT_ANSWER: Final = frozenset({"lose_request", "hold_request", "call"})
"""Outcomes that cannot be combined with these."""


class BaseRule(abc.ABC):
    """The common part of rules about requests: the choice of the matching requests that they change. Each kind is a dataclass."""

    nth: int | None
    times: int | None
    probability: float
    seed: int
    close: str | None

    @abc.abstractmethod
    def matches(self, arrival: Any) -> bool:
        """Whether it is about this request; how often it fires is not looked at."""

    def known_for(self, arrival: Any) -> Self:
        """Return the rule with what this request's receiver knows."""
        return self

    @classmethod
    def _fields(cls) -> "tuple[dataclasses.Field[Any], ...]":
        return dataclasses.fields(cls)  # type: ignore[arg-type]

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Self:
        """Return the rule with these fields, as read from a file. Raises ValueError for an unknown one."""
        known = [field.name for field in cls._fields()]
        for name in values:
            if name not in known:
                raise ValueError(f"a rule has no {name!r}, only {', '.join(known)}")
        return cls(**values)

    def as_mapping(self) -> dict[str, Any]:
        """Return the fields that are not as they are by default, as ``from_mapping`` takes them."""
        values = {field.name: getattr(self, field.name) for field in self._fields() if not _is_default(self, field)}
        return {name: _plain(value) for name, value in values.items()}

    def _check_types(self, kinds: Mapping[str, Any], expected: Mapping[Any, str]) -> None:
        """Raise ValueError for a field of the wrong type, which rules from files can have: it would never match.

        ``kinds`` are the types of fields whose annotation is more precise than what can be checked. ``expected`` has words
        for types.
        """
        for field in self._fields():
            value, kind = getattr(self, field.name), kinds.get(field.name, field.type)
            if kind is Callable and value is None:
                continue
            is_right = isinstance(value, int | float if kind is float else kind)
            if not is_right or isinstance(value, bool) is not (kind is bool):
                raise ValueError(f"{field.name}={value!r}: expected {expected[kind]}")

    def _check_counts(self) -> None:
        for name in ("nth", "times"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name}={value}: expected 1 or more; the first request that matches is nth=1")
        if not 0 < self.probability <= 1:
            raise ValueError(f"probability={self.probability}: expected more than 0, and at most 1")

    @override
    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.as_mapping().items())


def check_outcome(rule: BaseRule, exclusive: Sequence[str], chosen: Sequence[str]) -> None:
    """Raise ValueError unless a rule does something, with at most one of the ``exclusive`` outcomes; it has the ``chosen``."""
    later = [name for name in _LATER if getattr(rule, name)]
    if len(chosen) > 1:
        raise ValueError(f"a rule does one of {' and '.join(chosen)}: make two rules")
    if not chosen and not later:
        raise ValueError(f"a rule that does nothing: give one of {', '.join((*exclusive, *_LATER))}")
    if len(later) > 1 or (later and (rule.close == "before" or not _WITHOUT_ANSWER.isdisjoint(chosen))):
        raise ValueError(f"{later[-1]} cannot be combined with {' and '.join([*chosen, *later[:-1]])}")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return getattr(value, "__qualname__", repr(value)) if callable(value) else value


def _is_default(rule: BaseRule, field: "dataclasses.Field[Any]") -> bool:
    default = {} if field.default is dataclasses.MISSING else field.default
    return bool(getattr(rule, field.name) == default)


R = TypeVar("R", bound=BaseRule)

_numbers: Final = itertools.count(1)


class Firing(Generic[R]):
    """One request that a rule was chosen for. It counts once the outcome is changed, or the change is held or scheduled.

    So a test that has waited for the fault can release it or advance the clock: nothing is still on its way.
    """

    def __init__(self, fault: "Fault[R]", arrival: Any) -> None:
        self.fault = fault
        self.arrival = arrival
        self.has_counted = False

    def count(self) -> None:
        """Count it, unless it counts already. Called before the answer is sent: a client that has it finds the fault fired."""
        self.fault.count(self)

    def hold(self, owner: object, call: Callable[[], object]) -> None:
        """Call ``call`` when the rule is released or removed (``Fault.hold``)."""
        self.fault.hold(owner, call, self)

    def delay(self, later: Callable[[float, Callable[[], object]], object], delay_ms: float, call: Callable[[], object]) -> None:
        """Give ``call`` to a timer, whose ``later`` takes a delay and a function."""

        def when_due() -> None:
            self.count()
            call()

        later(delay_ms, when_due)
        self.count()


class Fault(Generic[R]):
    """A rule in force, and how often it has fired."""

    def __init__(self, rule: R) -> None:
        self.rule = rule
        self._random = random.Random(rule.seed)
        self._first = rule.nth or 1
        self._most = rule.times if rule.times is not None else 1 if rule.nth else None
        self._held: list[tuple[object, Callable[[], object]]] | None = []
        self._lock = machine.Condition()
        self.follows: Fault[R] | None = None
        """The fault that has to be finished before this one fires (``BaseFaults.in_order``)."""
        self.errors: list[Exception] = []
        """What the rule's function raised."""
        self.number = next(_numbers)
        """The fault's number, unique in this process."""
        self.matched = 0
        """The number of requests that the rule matched."""
        self._taken = 0
        self.fired = 0
        """The number of requests whose outcome it changed. What it holds or delays counts once it is held or with the clock."""
        self.firings: deque[str] = deque(maxlen=MAX_FIRINGS)
        """A line for each of these requests, as in ``Produce v9 from shop orders-0``."""

    def takes(self, arrival: Any) -> bool:
        """Whether the fault is to fire for this request. Called with the lock of its Faults."""
        if self.follows is not None and not self.follows.is_finished:
            return False
        if not self.rule.known_for(arrival).matches(arrival):
            return False
        self.matched += 1
        if self.matched < self._first or self._taken == self._most:
            return False
        if self.rule.probability < 1 and self._random.random() >= self.rule.probability:
            return False
        self._taken += 1
        return True

    def count(self, firing: Firing[R]) -> None:
        """Count a firing once."""
        with self._lock:
            self._count(firing)

    def _count(self, firing: Firing[R]) -> None:
        if not firing.has_counted:
            firing.has_counted = True
            self.fired += 1
            self.firings.append(str(firing.arrival))
            self._lock.notify_all()

    @property
    def is_finished(self) -> bool:
        """Whether it takes no further request."""
        return self._most is not None and self._taken >= self._most

    def wait_for(self, fired: int = 1, timeout_s: float = WAIT_S) -> None:
        """Wait until ``fired`` is this number. The requests are then held, or their delays are on the clock.

        Raises TimeoutError, which says how often it has fired.
        """
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

    def hold(self, owner: object, call: Callable[[], object], firing: Firing[R] | None = None) -> None:
        """Call ``call`` when the rule is removed or ``owner`` stops; at once if it is removed already. Counts ``firing``.

        Connections bound the number of held requests.
        """
        with self._lock:
            if firing is not None:
                self._count(firing)
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


class BaseFaults(abc.ABC, Generic[R]):
    """The rules in force, in the order in which they were added. Only the first rule that fires for a request counts.

    ``str`` returns a line for each rule, with how often it fired.
    """

    rule_type: ClassVar[type[BaseRule]]
    """The class of its rules."""

    def __init__(self, rules: Iterable[R] = ()) -> None:
        self._faults: tuple[Fault[R], ...] = ()
        self._lock = machine.Lock()
        for rule in rules:
            self.add(rule)

    def check(self, rule: R) -> None:
        """Raise ValueError, one line, for a rule that can never match here."""

    def add(self, rule: R | Mapping[str, Any]) -> Fault[R]:
        """Put a rule in force. Raises ValueError like ``check``, and if ``MAX_RULES`` are in force already."""
        fault = self._made(self._rule_of(rule))
        self._put(fault)
        return fault

    def _made(self, rule: R) -> Fault[R]:
        self.check(rule)
        return Fault(rule)

    def _put(self, fault: Fault[R]) -> None:
        with self._lock:
            if len(self._faults) >= MAX_RULES:
                raise ValueError(f"{MAX_RULES} rules are in force: remove some first")
            self._faults = (*self._faults, fault)

    def remove(self, fault: Fault[R]) -> None:
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

    def add_in_order(self, *rules: R | Mapping[str, Any]) -> list[Fault[R]]:
        """Put rules in force one after the other: each fires only when those before it are finished.

        Raises ValueError like ``add``, and unless all but the last have ``times`` or ``nth``.
        """
        made = [self._rule_of(rule) for rule in rules]
        if not made:
            raise ValueError("there are no rules to put in order")
        for number, rule in enumerate(made[:-1], 1):
            if rule.times is None and rule.nth is None:
                raise ValueError(f"rule {number} of {len(made)} never ends, so that the next one never begins: give it times=1")
        added: list[Fault[R]] = []
        for rule in made:
            fault = self._made(rule)
            fault.follows = added[-1] if added else None
            self._put(fault)
            added.append(fault)
        return added

    def in_order(self, *rules: R | Mapping[str, Any]) -> "Injected[list[Fault[R]]]":
        """Put rules in force one after the other for a ``with`` block (``add_in_order``); its value is the list of the Faults."""
        return Injected(self, lambda: self.add_in_order(*rules), list)

    def inject(self, **rule: Any) -> "Injected[Fault[R]]":
        """Put a rule in force for a ``with`` block, whose value is the Fault; the arguments are the rule's.

        Raises ValueError as the rule does. The block ends with the first error that a function of the rule raised.
        """
        made = self._rule_of(rule)
        self.check(made)
        return Injected(self, lambda: self.add(made), lambda fault: [fault])

    def __iter__(self) -> Iterator[Fault[R]]:
        return iter(self._faults)

    @override
    def __str__(self) -> str:
        return "\n".join(map(str, self._faults)) or "no faults"

    @override
    def __repr__(self) -> str:
        lines = "".join(f"\n  {fault}" for fault in self._faults)
        return f"<{len(self._faults)} rules{':' if lines else ''}{lines}>"

    def choose(self, arrival: Any) -> Firing[R] | None:
        """Return the firing of the rule for this request."""
        if not self._faults:
            return None
        with self._lock:
            return next((Firing(fault, arrival) for fault in self._faults if fault.takes(arrival)), None)

    def _rule_of(self, rule: "R | Mapping[str, Any]") -> R:
        if isinstance(rule, self.rule_type):
            return rule
        if not isinstance(rule, Mapping):
            raise TypeError(f"{rule!r:.80} is of type {type(rule).__name__}: expected a Rule, or its fields as a mapping")
        return self.rule_type.from_mapping(rule)  # type: ignore[return-value]


V = TypeVar("V")


class Injected(Generic[V]):
    """Rules that are in force for a ``with`` block."""

    def __init__(self, faults: "BaseFaults[Any]", add: Callable[[], V], each: Callable[[V], list[Fault[Any]]]) -> None:
        self._faults = faults
        self._add = add
        self._each = each
        self._added: list[Fault[Any]] = []

    if not TYPE_CHECKING:  # a type checker has to find misspelt names

        def __getattr__(self, name: str) -> Any:
            """Say how the rules come into force."""
            text = f"a rule is not in force yet, and has no {name!r}: write `with kafka.faults.inject(...) as fault:`"
            raise AttributeError(text, name=name, obj=self)

    @override
    def __repr__(self) -> str:
        return f"<rules for a with block, {'in force' if self._added else 'not in force'}>"

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
