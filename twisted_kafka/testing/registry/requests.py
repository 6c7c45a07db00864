"""The record of the requests to a schema registry under test, with its answers.

assert registry.requests.of("register").where(subject="orders-value").count() == 1
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from typing_extensions import override

from twisted_kafka.testing.recorded.selections import OUTCOMES, BaseRequest, BaseRequests, BaseSelection
from twisted_kafka.testing.registry.rules import check_api

__tracebackhide__ = True


@dataclass(frozen=True, eq=False)
class RegistryRequest(BaseRequest):
    """One request and how it was answered. Do not change its fields and its response."""

    api: str
    """The name of the operation: ``register``; empty for an unknown path."""
    method: str
    path: str
    """Without the query."""
    query: Mapping[str, str]
    subject: str | None
    version: str | None
    """As it is in the path: a number or ``latest``."""
    schema_id: int | None
    schema_type: str | None
    """Of the schema in the body."""
    fields: Any
    """The body, JSON; None without one, and if it is no JSON."""
    status: int | None
    """The HTTP status; None if there was no answer."""
    response: Any
    """The answer, JSON, even if a fault kept it from the client."""
    error: int | None
    """The code of the answer's error: 40401; None if there is no error."""
    outcome: str
    """``answered``, ``dropped`` (not handled), ``lost``, ``half``, ``corrupt`` or ``closed``."""
    fault: str | None
    """The rule that changed the outcome."""
    client: str
    """The client's address, host:port."""
    user_agent: str
    arrived_ms: float
    """Since the registry was made, by the broker's clock."""
    answered_ms: float
    size_bytes: int

    @override
    def __repr__(self) -> str:
        return f"<{' '.join(str(self).split())}>"

    @override
    def __str__(self) -> str:
        result = self.error or (self.status if self.outcome == "answered" else self.outcome)
        return (
            f"{self.arrived_ms:9.1f} ms  {self.method} {self.path}{f'  {self.api}' if self.api else ''} from {self.client}"
            f"  -> {result} in {self.answered_ms - self.arrived_ms:.1f} ms{f'  (fault: {self.fault})' if self.fault else ''}"
        )

    @override
    def matches(self, name: str, value: object) -> bool:
        if name in _PROPERTIES:
            return bool(getattr(self, name) == value)
        return isinstance(self.fields, dict) and name in self.fields and bool(self.fields[name] == value)


_PROPERTIES: Final = (
    *("api", "method", "path", "subject", "version", "schema_id", "schema_type"),
    *("status", "error", "outcome", "fault", "client", "user_agent"),
)
_FIELDS: Final = (
    *("schema", "schemaType", "references", "metadata", "ruleSet", "id", "compatibility", "mode"),
    *("alias", "normalize", "compatibilityGroup", "defaultMetadata", "overrideMetadata", "defaultRuleSet", "overrideRuleSet"),
)
"""The fields of bodies. Those that are also properties are selected as such."""


class RegistrySelection(BaseSelection[RegistryRequest]):
    """Some of the recorded requests, oldest first. A selection is live: it also includes matching requests that arrive later."""

    def of(self, api: str) -> "RegistrySelection":
        """Return the requests of one operation, by its name. Raises ValueError for an unknown name."""
        self._check_api(api)
        return self._narrowed(api, self._wanted)

    def where(self, **wanted: object) -> "RegistrySelection":
        """Return the requests with these values of properties (``subject``, ``error``, ...) or of the body's fields, by name.

        Raises ValueError for a name that no request has, and for an unknown outcome.
        """
        for name, value in wanted.items():
            self._check(name, value)
        return self._narrowed(self._api, {**self._wanted, **wanted})

    @override
    def _narrowed(self, api: str | None, wanted: dict[str, object]) -> "RegistrySelection":
        return RegistrySelection(self._store, api, wanted)

    @override
    def _check_api(self, api: str) -> None:
        check_api(api)

    @override
    def _check(self, name: str, value: object) -> None:
        if name not in _PROPERTIES and name not in _FIELDS:
            near = difflib.get_close_matches(name, (*_PROPERTIES, *_FIELDS), 1)
            advice = f": did you mean {near[0]!r}?" if near else f", only {', '.join((*_PROPERTIES, *_FIELDS))}"
            raise ValueError(f"requests to a registry have no {name!r}{advice}")
        if name == "api":
            check_api(str(value))
        if name == "outcome" and value not in OUTCOMES:
            raise ValueError(f"there is no outcome {value!r}, only {', '.join(OUTCOMES)}")


class RegistryRequests(BaseRequests[RegistryRequest], RegistrySelection):
    """All answered requests, oldest first. Any thread may use it."""
