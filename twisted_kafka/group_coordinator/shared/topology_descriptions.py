"""Readable descriptions of streams groups' topologies, which a plug-in keeps (KIP-1331).

The answer to a heartbeat asks one member for the description of its topology, and StreamsGroupTopologyDescriptionUpdate brings it.
``group.streams.topology.description.plugin.class`` names a Python class, ``package.module.Class``, a subclass of
``TopologyDescriptionPlugin``. Without one, no member is asked.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final, NamedTuple

from twisted.logger import Logger

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.python_class import instance_of
from twisted_kafka.group_coordinator.shared.group_coordinator_metrics import GroupCoordinatorMetrics
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.streams.streams_topology import TopologyDescription
from twisted_kafka.system import machine
from twisted_kafka.system.bounded import BoundedCache
from twisted_kafka.timing.clock import IClock

KEY: Final = "group.streams.topology.description.plugin.class"

NOT_STORED: Final = 1
"""The status of a topology description that nobody keeps."""
UNAVAILABLE: Final = 2
"""The status of a topology description that the plug-in fails to return."""
AVAILABLE: Final = 3
"""The status of a topology description in the same response."""

FIRST_BACKOFF_MS: Final = 30_000
"""How long after a member was asked for a description another one may be asked; twice as long after each further time."""
MAX_BACKOFF_MS: Final = 3_600_000
MOST_BYTES: Final = 1 << 20
"""The most memory for groups whose members were asked; a group that is forgotten is only asked sooner."""

_NS_PER_MS: Final = 1_000_000
_METHODS: Final = ("configure", "set_topology", "get_topology", "delete_topology", "close")

_log = Logger()


class TopologyDescriptionRefusedError(Exception):
    """A plug-in never keeps this description: no member is asked for it again until the topology changes."""


class TopologyDescriptionPlugin(ABC):
    """Keeps descriptions of topologies; called on any thread (Kafka: ``StreamsGroupTopologyDescriptionPlugin``)."""

    def configure(self, configs: Mapping[str, str]) -> None:  # noqa: B027 a plug-in without settings has nothing to do
        """Called first, with the broker's settings as text."""

    @abstractmethod
    def set_topology(self, group_id: str, topology_epoch: int, description: TopologyDescription) -> None:
        """Keep a group's description in the place of an older one.

        Raise TopologyDescriptionRefusedError to refuse it for good. After any other exception a member is asked again later.
        """

    @abstractmethod
    def get_topology(self, group_id: str, topology_epoch: int) -> TopologyDescription | None:
        """Return the description of a group's topology with this epoch, or None."""

    @abstractmethod
    def delete_topology(self, group_id: str) -> None:
        """Forget the description of a group that is deleted, if there is one. After an exception the group stays for now."""

    def close(self) -> None:  # noqa: B027 the same
        """Release resources, as the broker stops."""


class _Asked(NamedTuple):
    topology_epoch: int
    times: int
    until_ns: int


class TopologyDescriptions:
    """The plug-in, and when members are asked. Methods may be called on any thread; none raises an exception."""

    def __init__(self, plugin: TopologyDescriptionPlugin, clock: IClock, metrics: GroupCoordinatorMetrics) -> None:
        self._plugin = plugin
        self._clock = clock
        self._metrics = metrics
        self._lock = machine.Lock()
        self._asked: BoundedCache[str, _Asked] = BoundedCache(MOST_BYTES, lambda group_id, _: len(group_id))

    def may_ask(self, group_id: str, topology_epoch: int) -> bool:
        """Return whether a member may be asked for the description now; if so, no other one is for a while."""
        with self._lock:
            asked = self._asked.get(group_id)
            is_known = asked is not None and asked.topology_epoch == topology_epoch
            if asked is not None and is_known and self._clock.monotonic_ns() < asked.until_ns:
                return False
            self._back_off(group_id, topology_epoch)
            return True

    def _back_off(self, group_id: str, topology_epoch: int) -> None:
        asked = self._asked.get(group_id)
        times = asked.times + 1 if asked is not None and asked.topology_epoch == topology_epoch else 0
        delay_ms = min(FIRST_BACKOFF_MS << min(times, 10), MAX_BACKOFF_MS)
        self._asked.put(group_id, _Asked(topology_epoch, times, self._clock.monotonic_ns() + delay_ms * _NS_PER_MS))

    def put(self, group_id: str, topology_epoch: int, description: TopologyDescription) -> tuple[ErrorCode, str | None, bool]:
        """Give a description to the plug-in; return its error with a message, and whether that is for good."""
        try:
            self._plugin.set_topology(group_id, topology_epoch, description)
        except TopologyDescriptionRefusedError as error:
            self._asked.discard(group_id)
            self._metrics.description_called("set", False)
            return ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED, str(error), True
        except Exception as error:  # noqa: BLE001 the same
            _log.failure("Group {group}: the topology description was not kept", group=group_id)
            with self._lock:
                self._back_off(group_id, topology_epoch)
            self._metrics.description_called("set", False)
            return ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED, str(error), False
        self._asked.discard(group_id)
        self._metrics.description_called("set", True)
        return ErrorCode.NONE, None, True

    def get(self, group_id: str, topology_epoch: int) -> tuple[int, TopologyDescription | None]:
        """Return the status of a description, and the description if it is available."""
        try:
            found = self._plugin.get_topology(group_id, topology_epoch)
            wrong = None if found is None or isinstance(found, TopologyDescription) else type(found).__name__
            if wrong is not None:
                raise TypeError(f"get_topology() returned {wrong}")
        except Exception:  # noqa: BLE001 the plug-in is a user's; its failure is an answer
            _log.failure("Group {group}: the topology description is not available", group=group_id)
            self._metrics.description_called("get", False)
            return UNAVAILABLE, None
        self._metrics.description_called("get", True)
        return (NOT_STORED, None) if found is None else (AVAILABLE, found)

    def delete(self, group_id: str) -> ErrorCode:
        """Delete a group's description."""
        try:
            self._plugin.delete_topology(group_id)
        except Exception:  # noqa: BLE001 the plug-in is a user's; its failure is an answer
            _log.failure("Group {group}: the topology description was not deleted", group=group_id)
            self._metrics.description_called("delete", False)
            return ErrorCode.GROUP_DELETION_FAILED
        self._asked.discard(group_id)
        self._metrics.description_called("delete", True)
        return ErrorCode.NONE

    def close(self) -> None:
        """Close the plug-in."""
        try:
            self._plugin.close()
        except Exception:  # noqa: BLE001 the plug-in is a user's; its failure is an answer
            _log.failure("{key} failed to close", key=KEY)


def make_topology_descriptions(config: KafkaConfig, clock: IClock, metrics: GroupCoordinatorMetrics) -> TopologyDescriptions | None:
    """Return the plug-in that is configured, or None. Raises ConfigError."""
    name = config.optional_string(KEY)
    if not name:
        return None
    made = instance_of(name, KEY, _METHODS, lambda plugin: plugin.configure(dict(config.originals)))
    return TopologyDescriptions(made, clock, metrics)
