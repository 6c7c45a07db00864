"""Classes that settings name, and that fail in the middle of a secret: what the broker logs then must not show it."""

from collections.abc import Mapping, Sequence
from typing import Any


class Policy:
    """A policy that fails on every change of a broker's configs."""

    def configure(self, configs: Mapping[str, str]) -> None: ...

    def validate(self, order: Any) -> None:
        if order.entity_path.startswith("brokers/"):
            raise RuntimeError("the policy is broken")

    def close(self) -> None: ...


class Handler:
    """A callback handler that fails on every login."""

    def configure(self, configs: Mapping[str, str], mechanism: str, jaas_entries: Sequence[Any]) -> None: ...

    def handle(self, callback: object) -> None:
        raise RuntimeError("the callback handler is broken")

    def close(self) -> None: ...
