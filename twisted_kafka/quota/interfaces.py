"""What the quotas need of others."""

from collections.abc import Callable
from typing import Protocol


class IConfigs(Protocol):
    """Configs of entities in the metadata store: the controller's ConfigRepository."""

    def config(self, entity_path: str) -> dict[str, str]:
        """Return an entity's config; empty when there is none."""

    def names(self, entity_type: str) -> list[str]:
        """Return the nodes of a type's entities."""

    def write(self, entity_path: str, config: dict[str, str]) -> None:
        """Set an entity's whole config and announce it."""

    def add_listener(self, entity_type: str, listener: Callable[[str, dict[str, str]], None]) -> None:
        """Have ``listener`` called after changes."""
