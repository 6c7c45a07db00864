"""In which order a broker's parts stop (Kafka: KafkaServer.shutdown)."""

from collections.abc import Callable
from typing import Final

from twisted.logger import Logger

# No new requests; let those under way end; write everything down; close the connections.
_ORDER: Final = (
    "ports",
    "request handlers",
    "control plane's request handler",
    "scheduler",
    "group coordinator",
    "replica manager",
    "log manager",
    "controller",
    "administration",
    "dynamic configs",
    "metadata store",
    "network threads",
    "metrics listener",
    "timer",
    "access log",
)

_log = Logger()


class Stops:
    """What stops each of the parts that have been started."""

    def __init__(self) -> None:
        self._stops: dict[str, Callable[[], object]] = {}

    def __setitem__(self, part: str, stop: Callable[[], object]) -> None:
        """Have ``stop`` stop the part from now on, instead of what did before."""
        if part not in _ORDER:
            raise ValueError(f"nothing says when the {part} stops")
        self._stops[part] = stop

    def run(self) -> None:
        """Stop what has been started, once; what goes wrong with a part is logged and keeps no other from stopping."""
        for part in _ORDER:
            stop = self._stops.pop(part, None)
            if stop is None:
                continue
            try:
                stop()
            except Exception:  # noqa: BLE001 the other parts have to be stopped too
                _log.failure("The {part} did not stop as it should", part=part)
