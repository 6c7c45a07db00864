"""What quotas need from other packages."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol


class IConfigs(Protocol):
    """Configs of entities in the metadata store: the controller's ConfigRepository."""

    @property
    def change_lock(self) -> AbstractContextManager[object]:
        """Held by whoever reads a config in order to write it with a change."""

    def config(self, entity_path: str) -> dict[str, str]:
        """Return an entity's config, empty if there is none."""

    def names(self, entity_type: str) -> list[str]:
        """Return the node names of all entities of a type."""

    def write(self, entity_path: str, config: dict[str, str]) -> None:
        """Replace an entity's config and notify listeners."""

    def add_listener(self, entity_type: str, listener: Callable[[str, dict[str, str]], None]) -> None:
        """Call ``listener`` after each change."""
