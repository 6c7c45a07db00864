"""The kinds of resources that have configs, by Kafka's ConfigResource codes."""

from typing import Final

from twisted_kafka.protocol.errors import InvalidRequestError

TOPIC: Final = 2
BROKER: Final = 4
BROKER_LOGGER: Final = 8
CLIENT_METRICS: Final = 16
GROUP: Final = 32


def ensure_own_broker(name: str, broker_id: int) -> None:
    """Raise InvalidRequestError unless ``name`` is this broker's id: other brokers' configs and loggers are theirs to tell."""
    try:
        named = int(name)
    except ValueError:
        raise InvalidRequestError(f"The id of a broker is a number, not {name!r}") from None
    if named != broker_id:
        raise InvalidRequestError(f"This is broker {broker_id}, ask broker {named} itself for its configs")
