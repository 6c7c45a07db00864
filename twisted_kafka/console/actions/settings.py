"""Changing the settings of a topic, a broker, a group, ..."""

from dataclasses import dataclass
from typing import Final

from twisted_kafka.config.dynamic import dynamic_rules
from twisted_kafka.config.prefixes import base_key
from twisted_kafka.console.actions.preview import Preview
from twisted_kafka.console.cluster.problems import problem
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.cluster.texts import counted
from twisted_kafka.console.queries.settings import TYPES, settings
from twisted_kafka.protocol.messages.administration.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from twisted_kafka.system.numbers import INT32_MAX, decimal

_SET, _DELETE = range(2)
HIDDEN: Final = "(hidden)"
"""The text in place of a secret value."""


def may_be_secret(kind: str, key: str) -> bool:
    """Whether the value of a key may be a password: also of a broker's key that is not known, as in the broker's own log."""
    base = base_key(key)
    return kind == "broker" and (base is None or dynamic_rules.is_secret(base))


@dataclass(frozen=True, slots=True)
class AlterSettings:
    """Sets some keys of a resource, and lets others have their defaults again."""

    kind: str
    """A key of ``queries.settings.TYPES``."""
    name: str
    set: tuple[tuple[str, str], ...] = ()
    delete: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for a type that does not exist, or if nothing would change."""
        if self.kind not in TYPES:
            raise ValueError(f"{self.kind!r} has no settings: choose one of {', '.join(TYPES)}")
        if not self.set and not self.delete:
            raise ValueError("nothing to change: name a key")

    def preview(self, session: Session) -> Preview:
        """Let the broker check it. Raises CommandError."""
        self._ask(session, validate_only=True)
        now = {each.key: each for each in settings(session, self.kind, self.name)}
        rows = []
        for key, new in (*self.set, *((key, None) for key in self.delete)):
            old = now.get(key)
            is_secret = old is not None and old.is_secret
            default = "(default)" if old is None or not old.others else old.others[0][1] or ""
            before = "" if old is None else HIDDEN if is_secret else old.value or ""
            after = HIDDEN if is_secret and new is not None else default if new is None else new
            rows.append((key, before, after))
        summary = f"change {counted(len(rows), 'setting')} of {self.kind} {self.name}"
        return Preview(summary, ("key", "now", "then"), tuple(rows))

    def do(self, session: Session) -> str:
        """Change them; return a sentence. Raises CommandError."""
        self._ask(session, validate_only=False)
        return f"{self.kind} {self.name} was changed"

    def _ask(self, session: Session, *, validate_only: bool) -> None:
        change = IncrementalAlterConfigsRequestAlterableConfig
        resource = IncrementalAlterConfigsRequestAlterConfigsResource(
            resource_type=TYPES[self.kind],
            resource_name=self.name,
            configs=[
                *(change(name=key, config_operation=_SET, value=value) for key, value in self.set),
                *(change(name=key, config_operation=_DELETE, value=None) for key in self.delete),
            ],
        )
        node = decimal(self.name, INT32_MAX) if self.kind in ("broker", "broker-logger") else None
        if node is not None:
            session.retrying(lambda: session.metadata([]))
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)

        def step() -> None:
            (result,) = session.ask(request, node).responses
            if result.error_code:
                raise problem(f"{self.kind} {self.name}", result.error_code, result.error_message)

        session.retrying(step)
