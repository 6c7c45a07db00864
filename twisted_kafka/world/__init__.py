"""The seeded world: brokers, disks, network and users' code in one process, from one number."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twisted_kafka.world.world import World

__all__ = ["World"]


def __getattr__(name: str) -> Any:
    """Import the class when it is used: pytest loads the plug-in of this package also for tests without worlds."""
    if name == "World":
        from twisted_kafka.world.world import World

        return World
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
