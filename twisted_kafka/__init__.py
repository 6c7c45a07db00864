"""A Kafka broker in Python on Twisted."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twisted_kafka.broker.broker import Broker, StartError, StartInterruptedError
    from twisted_kafka.config.errors import ConfigError

    __version__: str

__all__ = ["Broker", "ConfigError", "StartError", "StartInterruptedError", "__version__"]


def __getattr__(name: str) -> Any:
    # Imported on first use: a part of the package, and the start of twistd, do not need the whole broker.
    if name in ("Broker", "StartError", "StartInterruptedError"):
        from twisted_kafka.broker import broker

        return getattr(broker, name)
    if name == "ConfigError":
        from twisted_kafka.config.errors import ConfigError

        return ConfigError
    if name == "__version__":
        from twisted_kafka.system.installation import installed_version

        return installed_version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
