"""Faults of a schema registry under test.

with registry.faults.inject(api="register", subject="orders-value", error=50001, times=1) as fault:
    ...
assert fault.fired == 1
"""

import dataclasses
import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from typing_extensions import override

from twisted_kafka.schema_registry.api import ROUTES
from twisted_kafka.schema_registry.errors import status_of
from twisted_kafka.testing.fault_rules.injection import BaseFaults, BaseRule, check_outcome

__tracebackhide__ = True

APIS: Final = tuple(dict.fromkeys(route.api for route in ROUTES))
"""The names of the operations."""
CLOSE_TIMES: Final = ("before", "after")
MAX_DELAY_MS: Final = 86_400_000
"""A day."""
_EXCLUSIVE: Final = ("error", "close", "lose_request", "lose_response", "half_response", "corrupt_response", "hold_request", "call")
"""A rule has at most one of these. Each can be combined with ``delay_ms`` or ``hold``, unless the request is not handled."""
_METHODS: Final = ("GET", "POST", "PUT", "DELETE")


@dataclass(frozen=True, slots=True)
class RegistryArrival:
    """A request that has arrived, as rules and the functions of rules see it."""

    api: str
    """The name of the operation; empty for an unknown path."""
    method: str
    path: str
    query: Mapping[str, str]
    subject: str | None
    version: str | None
    """As it is in the path: a number or ``latest``."""
    schema_id: int | None
    fields: Any
    """The body; None without one, and if it is no JSON."""
    client: str
    """The client's address, host:port."""
    user_agent: str

    @property
    def schema_type(self) -> str | None:
        """The type of the schema in the body."""
        if not isinstance(self.fields, dict) or "schema" not in self.fields:
            return None
        return str(self.fields.get("schemaType") or "AVRO")

    @override
    def __str__(self) -> str:
        return " ".join(filter(None, (self.api, self.method, self.path, f"from {self.client}")))


class RegistryAnswer(NamedTuple):
    """An answer that a test gives in the registry's place."""

    status: int
    body: Any
    """To be sent as JSON."""


RegistryCall = Callable[[RegistryArrival], "RegistryAnswer | Mapping[str, Any] | None"]
"""A function of the test: it returns the answer, the outcome as the fields of a RegistryRule, or None to let the request pass."""


@dataclass(frozen=True, kw_only=True)
class RegistryRule(BaseRule):
    """Selects requests to a registry and changes their outcome.

    Raises ValueError, one line, if it can never match or has no effect.

    ``api``: the name of the operation, ``register`` or ``getSchema``. ``where``: values of the body's fields. ``nth``, ``times``,
    ``probability`` and ``seed`` as in ``Rule``.

    ``error``: answer this error instead of handling the request: a code of Confluent's, 50001, or an HTTP status, 503.
    ``close="before"``: close the connection instead of handling the request. ``close="after"``: close it instead of answering.
    ``lose_request``: neither handle nor answer it. ``hold_request``: handle it when the Fault is released or removed.
    ``lose_response``: handle it, and send no answer. ``half_response``: send half of the answer, and close the connection.
    ``corrupt_response``: send wrong bytes. ``call``: let a function of the test decide. ``delay_ms``: answer this much later,
    by the broker's clock. ``hold``: answer when the Fault is released or removed.
    """

    api: str | None = None
    method: str | None = None
    subject: str | None = None
    schema_id: int | None = None
    schema_type: str | None = None
    where: Mapping[str, object] = dataclasses.field(default_factory=dict)
    nth: int | None = None
    times: int | None = None
    probability: float = 1.0
    seed: int = 0
    error: int | None = None
    delay_ms: float = 0
    hold: bool = False
    call: RegistryCall | None = None
    close: str | None = None
    lose_request: bool = False
    hold_request: bool = False
    lose_response: bool = False
    half_response: bool = False
    corrupt_response: bool = False

    def __post_init__(self) -> None:
        self._check_types({"where": Mapping, "call": Callable}, _EXPECTED)
        self._check_counts()
        if self.api is not None:
            check_api(self.api)
        if self.method is not None and self.method not in _METHODS:
            raise ValueError(f"method={self.method!r}: expected one of {', '.join(_METHODS)}")
        self._check_action()

    def _check_action(self) -> None:
        chosen = [name for name in _EXCLUSIVE if getattr(self, name)]
        check_outcome(self, _EXCLUSIVE, chosen)
        if not 0 <= self.delay_ms <= MAX_DELAY_MS:
            raise ValueError(f"delay_ms={self.delay_ms}: expected 0 to {MAX_DELAY_MS}")
        if self.close is not None and self.close not in CLOSE_TIMES:
            raise ValueError(f"close={self.close!r}: expected 'before' or 'after' (handling)")
        if self.error is not None and not 400 <= status_of(self.error) <= 599:
            raise ValueError(f"error={self.error}: expected a code like 50001, or an HTTP status from 400 to 599")

    @override
    def matches(self, arrival: RegistryArrival) -> bool:
        about = (
            (self.api, arrival.api),
            (self.method, arrival.method),
            (self.subject, arrival.subject),
            (self.schema_id, arrival.schema_id),
            (self.schema_type, arrival.schema_type),
        )
        if any(wanted is not None and wanted != value for wanted, value in about):
            return False
        fields = arrival.fields if isinstance(arrival.fields, dict) else {}
        return all(name in fields and fields[name] == value for name, value in self.where.items())


_EXPECTED: Final[Mapping[Any, str]] = {
    str | None: "a text",
    int | None: "a whole number",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    Mapping: "values by the names of fields, as in {schemaType: JSON}",
    Callable: "a function",
}


class RegistryFaults(BaseFaults[RegistryRule]):
    """The rules in force. Only the first rule that fires for a request counts."""

    rule_type = RegistryRule


def check_api(name: str) -> None:
    """Raise ValueError, one line, unless an operation has this name."""
    if name not in APIS:
        near = difflib.get_close_matches(name, APIS, 1, 0.5)
        raise ValueError(f"there is no API {name!r}: " + (f"did you mean {near[0]!r}?" if near else "names are like 'register'"))
