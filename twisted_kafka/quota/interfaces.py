"""What quotas need from other packages."""

from collections.abc import Callable
from typing import Protocol


class IConfigs(Protocol):
    """Configs of entities in the metadata store: the controller's ConfigRepository."""

    def config(self, entity_path: str) -> dict[str, str]:
        """Return an entity's config, empty if the entity has no config."""

    def names(self, entity_type: str) -> list[str]:
        """Return the node names of all entities of a type."""

    def change(self, entity_path: str, alter: Callable[[dict[str, str]], dict[str, str] | None]) -> None:
        """Replace an entity's config by the result of ``alter``, maybe in several attempts, and notify listeners."""

    def add_listener(self, entity_type: str, listener: Callable[[str, dict[str, str]], None]) -> None:
        """Call ``listener`` after each change."""
