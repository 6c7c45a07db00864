"""Configs that are kept in the metadata store: topics', brokers', users', clients', and who wants to hear of their changes."""

from collections.abc import Callable, Iterable
from typing import Final

from twisted.logger import Logger

from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.store import IMetadataStore, IWatch, NoNodeError, WatchEvent
from twisted_kafka.metadata.worker import SerialWorker
from twisted_kafka.metadata.znode_json import BadNodeError
from twisted_kafka.metadata.znodes import ConfigChangeNode, ConfigNode
from twisted_kafka.timing.clock import IClock

Listener = Callable[[str, dict[str, str]], None]
"""Called with the entity's name (``orders``, ``1``, ``<default>``, ``alice/clients/app``) and its config."""


_CHANGE_PREFIX = "config_change_"

SHUTDOWN_TIMEOUT_S: Final = 10.0
"""How long a stop waits for a change that is being applied."""

CHANGES_KEPT_MS: Final = 15 * 60 * 1000
"""So long a broker that was away for a moment finds what was announced meanwhile (Kafka: ZkNodeChangeNotificationListener)."""


class ConfigRepository:
    """Reads dynamic configs, and tells listeners what ``/config/changes`` announces.

    Listeners are called on a thread of their own, one after the other: they look up host names and wait for other threads,
    which must not keep the store's watches waiting (Kafka: the thread of ZkNodeChangeNotificationListener).
    """

    log = Logger()

    def __init__(self, store: IMetadataStore, clock: IClock, *, threaded: bool = True) -> None:
        """With ``threaded=False`` listeners are called only by ``pump()``."""
        self._store = store
        self._clock = clock
        self._listeners: dict[str, list[Listener]] = {}
        self._last_change: str | None = None
        self._watch: IWatch | None = None
        self._worker = SerialWorker("config-change-thread", threaded=threaded)
        self._is_queued = False

    def config(self, entity_path: str) -> dict[str, str]:
        """Return the config of ``topics/<topic>``, ``brokers/<id>`` ...; empty when there is none."""
        return self.configs([entity_path])[0]

    def configs(self, entity_paths: Iterable[str]) -> list[dict[str, str]]:
        """Return several entities' configs."""
        paths = [znodes.config_path(path) for path in entity_paths]
        return [
            {} if node is None else self._decoded(path, node[0])
            for path, node in zip(paths, self._store.get_many(paths), strict=True)
        ]

    def topic_config(self, topic: str) -> dict[str, str]:
        """Return the topic's own settings."""
        return self.config(f"topics/{topic}")

    def broker_config(self, broker_id: int | None) -> dict[str, str]:
        """Return a broker's dynamic settings, or with None those for all brokers."""
        return self.config(f"brokers/{znodes.DEFAULT_ENTITY if broker_id is None else broker_id}")

    def names(self, entity_type: str) -> list[str]:
        """Return the entities of a type (``topics``, ``ips`` ...) that have a node of their own, as the nodes are called."""
        try:
            return self._store.children(znodes.config_path(entity_type))
        except NoNodeError:
            return []

    def write(self, entity_path: str, config: dict[str, str]) -> None:
        """Set an entity's whole config and announce it, to this broker too (Kafka: AdminZkClient.changeEntityConfig)."""
        path = znodes.config_path(entity_path)
        data = ConfigNode(config).encode()
        try:
            self._store.set(path, data)
        except NoNodeError:
            self._store.create(path, data, make_parents=True)
        change = ConfigChangeNode(entity_path).encode()
        self._store.create(f"{znodes.CONFIG_CHANGES}/{_CHANGE_PREFIX}", change, sequence=True, make_parents=True)

    def _decoded(self, path: str, data: bytes) -> dict[str, str]:
        try:
            return ConfigNode.decode(data).config
        except BadNodeError as error:
            self.log.error("The config in {path} is passed over: {error}", path=path, error=error)
            return {}

    def add_listener(self, entity_type: str, listener: Listener) -> None:
        """Call ``listener`` on the config-change thread after changes of that type: ``topics``, ``brokers``, ``users`` ..."""
        self._listeners.setdefault(entity_type, []).append(listener)

    def startup(self) -> None:
        """Begin to follow changes; those announced before are history, for every config is read when it is first needed."""
        try:
            changes = self._store.children(znodes.CONFIG_CHANGES)
        except NoNodeError:
            changes = []
        self._last_change = changes[-1] if changes else None
        self._purge(changes)
        self._watch = self._store.watch(znodes.CONFIG_CHANGES, self._changed)

    def shutdown(self) -> None:
        """Stop following changes; those whose event has come are still applied."""
        if self._watch is not None:
            self._watch.cancel()
        if not self._worker.close(SHUTDOWN_TIMEOUT_S):
            self.log.warn("A config change is still being applied after {seconds} s", seconds=SHUTDOWN_TIMEOUT_S)

    def pump(self) -> int:
        """Apply the changes that wait, on this thread; return how often there were some. Only with ``threaded=False``."""
        return self._worker.pump()

    def _changed(self, _: WatchEvent) -> None:
        # One that waits sees what came meanwhile, so there is never more than one.
        if not self._is_queued:
            self._is_queued = True
            self._worker.submit(self._apply_changes)

    def _apply_changes(self) -> None:
        self._is_queued = False
        # Names end in a growing number of ten digits: those after the last one seen are new.
        last = self._last_change
        changes = self._store.children(znodes.CONFIG_CHANGES)
        new = [name for name in changes if last is None or name > last]
        if not new:
            return
        self._last_change = new[-1]
        for node in self._store.get_many([f"{znodes.CONFIG_CHANGES}/{name}" for name in new]):
            if node is not None:
                self._announce(node[0])
        self._purge(changes)

    def _purge(self, changes: Iterable[str]) -> None:
        """Delete announcements that are older than anybody needs; ``changes`` are in their order."""
        now_ms = self._clock.wall_ms()
        for name in changes:
            path = f"{znodes.CONFIG_CHANGES}/{name}"
            stat = self._store.exists(path)
            if stat is not None and now_ms - stat.ctime_ms <= CHANGES_KEPT_MS:
                return
            try:
                self._store.delete(path)
            except NoNodeError:  # another broker was faster
                continue

    def _announce(self, data: bytes) -> None:
        try:
            entity_path = ConfigChangeNode.decode(data).entity_path
        except BadNodeError as error:
            self.log.error("A config change is passed over: {error}", error=error)
            return
        entity_type, _, name = entity_path.partition("/")
        for listener in self._listeners.get(entity_type, ()):
            listener(name, self.config(entity_path))
