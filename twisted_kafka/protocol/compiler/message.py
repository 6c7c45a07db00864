"""The names that message declarations import: ``Message``, ``Struct``, ``field``."""

from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.compiler.schema import Struct, field

__all__ = ["Message", "Struct", "field"]
