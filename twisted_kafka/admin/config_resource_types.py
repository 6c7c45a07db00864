"""The types of resources with configs (Kafka: ConfigResource.Type)."""

from typing import Final

from twisted_kafka.protocol.errors import InvalidRequestError

TOPIC: Final = 2
BROKER: Final = 4
BROKER_LOGGER: Final = 8
CLIENT_METRICS: Final = 16
GROUP: Final = 32


def ensure_own_broker(name: str, broker_id: int, *, may_be_empty: bool = False) -> None:
    """Raise InvalidRequestError unless ``name`` is this broker's id: each broker describes its own configs and loggers.

    ``may_be_empty`` only changes the message: for the caller, an empty name stands for all brokers.
    """
    try:
        named = int(name)
    except ValueError:
        raise InvalidRequestError(f"The id of a broker must be an integer, not {name!r}") from None
    if named != broker_id:
        expected = f"{broker_id} or an empty name" if may_be_empty else str(broker_id)
        raise InvalidRequestError(f"Unexpected broker id {named}: this broker expects {expected}")
