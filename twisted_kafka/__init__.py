"""A Kafka broker in Python on Twisted."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twisted_kafka.broker.broker import Broker

__version__ = "0.1.0"
__all__ = ["Broker", "__version__"]


def __getattr__(name: str) -> Any:
    # Imported when asked for: the parts of the package, and the start of twistd, do not need the whole broker.
    if name == "Broker":
        from twisted_kafka.broker.broker import Broker

        return Broker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
