"""Setting and removing quotas."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from twisted_kafka.console.actions.preview import Preview
from twisted_kafka.console.cluster.problems import problem
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.protocol.messages.administration.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponseEntryData,
    EntityData,
    OpData,
)

KEYS: Final = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)
_FRACTIONS: Final = ("request_percentage", "controller_mutation_rate")
"""The quotas that brokers do not round: others become 0 if they are nearly 0, and stop their clients."""
DEFAULT_NAME: Final = "(default)"
"""The name of the quota for users, client ids or addresses without one of their own."""

_EXACT, _DEFAULT = range(2)


@dataclass(frozen=True, slots=True)
class SetQuota:
    """Sets one quota of a user, a client id, both, or an address; or removes it."""

    key: str
    value: float | None
    """None: remove it."""
    user: str = ""
    client_id: str = ""
    ip: str = ""
    """Each a name, ``DEFAULT_NAME``, or empty if it does not count."""

    def __post_init__(self) -> None:
        """Raise ValueError if nothing is named, or for a quota or a value that cannot be."""
        if not self.user and not self.client_id and not self.ip:
            raise ValueError(f"name a user, a client id or an address, or {DEFAULT_NAME}")
        if self.key not in KEYS:
            raise ValueError(f"{self.key!r} is not a quota: choose one of {', '.join(KEYS)}")
        if self.value is not None and not (math.isfinite(self.value) and self.value > 0):
            raise ValueError(f"{self.value:g} is not a quota: expected a number above 0")
        if self.value is not None and self.value < 1 and self.key not in _FRACTIONS:
            raise ValueError(f"{self.value:g} is not a quota of {self.key}: expected a whole number")

    def preview(self, session: Session) -> Preview:
        """Let the broker check it; return the old and new value. Raises CommandError."""
        self._ask(session, validate_only=True)
        values = [each for entry in found(session, self._entity(), strict=True) for each in entry.values]
        before = next((each.value for each in values if each.key == self.key), None)
        row = self.key, "(none)" if before is None else f"{before:,g}", "(none)" if self.value is None else f"{self.value:,g}"
        warnings = ("there is no such quota: nothing will change",) if before is None and self.value is None else ()
        verb = "remove" if self.value is None else "set"
        return Preview(f"{verb} a quota of {self._who}", ("quota", "now", "then"), (row,), warnings)

    def do(self, session: Session) -> str:
        """Set it; return a sentence. Raises CommandError."""
        self._ask(session, validate_only=False)
        return f"the quota {self.key} of {self._who} was {'removed' if self.value is None else 'set'}"

    @property
    def _who(self) -> str:
        parts = (("user", self.user), ("client id", self.client_id), ("address", self.ip))
        return ", ".join(f"{what} {name}" for what, name in parts if name)

    def _entity(self) -> list[EntityData]:
        parts = (("user", self.user), ("client-id", self.client_id), ("ip", self.ip))
        return [EntityData(entity_type=kind, entity_name=None if name == DEFAULT_NAME else name) for kind, name in parts if name]

    def _ask(self, session: Session, *, validate_only: bool) -> None:
        change = OpData(key=self.key, remove=True) if self.value is None else OpData(key=self.key, value=self.value)
        alter(session, self._entity(), [change], validate_only=validate_only)


def alter(session: Session, entity: Sequence[EntityData], changes: Sequence[OpData], *, validate_only: bool) -> None:
    """Change quotas of one entity, or only let the broker check it. Raises CommandError."""
    entry = AlterClientQuotasRequestEntryData(entity=list(entity), ops=list(changes))
    request = AlterClientQuotasRequest(entries=[entry], validate_only=validate_only)

    def step() -> None:
        for result in session.ask_controller(request).entries:
            if result.error_code:
                error = problem("quotas", result.error_code, result.error_message)
                if {each.key for each in changes} - set(KEYS):
                    error.args = (f"{error}; quotas are {', '.join(KEYS)}",)
                raise error

    session.retrying(step)


def found(session: Session, entity: Sequence[EntityData], *, strict: bool) -> list[DescribeClientQuotasResponseEntryData]:
    """Return the quotas of an entity; unless ``strict``, also of entities with more parts. Raises CommandError."""
    components = [
        ComponentData(
            entity_type=each.entity_type, match_type=_DEFAULT if each.entity_name is None else _EXACT, match=each.entity_name
        )
        for each in entity
    ]

    def step() -> list[DescribeClientQuotasResponseEntryData]:
        response = session.ask(DescribeClientQuotasRequest(components=components, strict=strict))
        if response.error_code:
            raise problem("quotas", response.error_code, response.error_message)
        return response.entries or []

    return session.retrying(step)
