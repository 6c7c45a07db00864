"""The dynamic configs of topics, brokers, users and clients in the metadata store, and notifications of their changes."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

from twisted.logger import Logger

from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.change_notifications import ChangeNotifications
from twisted_kafka.metadata.store import (
    BadVersionError,
    Create,
    Delete,
    IMetadataStore,
    InvalidPathError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Operation,
    Set,
    Stat,
    StoreDisconnectedError,
    StoreError,
    check_path,
    children_of,
    split_path,
)
from twisted_kafka.metadata.worker import SerialWorker
from twisted_kafka.metadata.znode_json import BadNodeError
from twisted_kafka.metadata.znodes import ConfigChangeNode, ConfigNode
from twisted_kafka.protocol.errors import InvalidRequestError
from twisted_kafka.system import machine
from twisted_kafka.system.client_text import bounded_text
from twisted_kafka.timing.clock import IClock

_log = Logger()

Listener = Callable[[str, dict[str, str]], None]
"""Called with the entity's name (``orders``, ``1``, ``<default>``, ``alice/clients/app``) and its config."""


READ_AT_ONCE: Final = 1_000
"""How many configs ``each`` reads with one request to the store."""

MAX_CHANGE_ATTEMPTS: Final = 100
"""How often a change is tried while others change the same config."""

_QUOTAS: Final = tuple(f"{znodes.config_path(entity_type)}/" for entity_type in ("users", "clients", "ips"))
"""Above the nodes that go with the last entry of their configs."""

SHUTDOWN_TIMEOUT_S: Final = 10.0
"""How long ``shutdown`` waits for a change that is being applied."""


class ConfigRepository:
    """Reads dynamic configs, and calls listeners for the changes that ``/config/changes`` notifies of.

    Listeners are called one by one on a separate thread: they look up host names and wait for other threads, which must not delay
    the store's watches (Kafka: the thread of ZkNodeChangeNotificationListener).
    """

    def __init__(self, store: IMetadataStore, clock: IClock, *, threaded: bool = True) -> None:
        """With ``threaded=False`` listeners are called only by ``pump()``."""
        self._store = store
        self._listeners: dict[str, list[Listener]] = {}
        self._worker = SerialWorker("config-change-thread", threaded=threaded)
        self._changes = ChangeNotifications(store, clock, znodes.CONFIG_CHANGES, self._notify_listeners, self._worker.submit)

    def config(self, entity_path: str) -> dict[str, str]:
        """Return the config of an entity such as ``topics/<topic>`` or ``brokers/<id>``; empty if it has no config."""
        return self.configs([entity_path])[0]

    def configs(self, entity_paths: Iterable[str]) -> list[dict[str, str]]:
        """Return the configs of several entities."""
        paths = [_path_of(path) for path in entity_paths]
        return [
            {} if node is None else self._decoded(path, node[0])
            for path, node in zip(paths, self._store.get_many(paths), strict=True)
        ]

    def each(self, entity_paths: Iterable[str]) -> Iterator[dict[str, str]]:
        """Yield the configs of any number of entities: they are read in parts, with one request to the store for each part."""
        paths = iter(entity_paths)
        while some := list(islice(paths, READ_AT_ONCE)):
            yield from self.configs(some)

    def topic_config(self, topic: str) -> dict[str, str]:
        """Return the topic's config overrides."""
        return self.config(f"topics/{topic}")

    def broker_config(self, broker_id: int | None) -> dict[str, str]:
        """Return a broker's dynamic settings, or those of all brokers for None."""
        return self.config(f"brokers/{znodes.DEFAULT_ENTITY if broker_id is None else broker_id}")

    def names(self, entity_type: str) -> list[str]:
        """Return the node names of the entities of a type (``topics``, ``ips`` ...) that have a config."""
        return children_of(self._store, znodes.config_path(entity_type))

    def write(self, entity_path: str, config: dict[str, str]) -> None:
        """Replace an entity's whole config and notify all brokers, this one too (Kafka: AdminZkClient.changeEntityConfig)."""
        self.change(entity_path, lambda _: config)

    def change(self, entity_path: str, alter: Callable[[dict[str, str]], dict[str, str] | None]) -> None:
        """Replace an entity's config by the result of ``alter``, and notify all brokers; writes nothing if that is None.

        If somebody else changes the config at the same time, ``alter`` is called again. Raises StoreError, and the exceptions of
        ``alter``.
        """
        path = _path_of(entity_path)
        for _ in range(MAX_CHANGE_ATTEMPTS):
            found = self._store.get(path)
            config = alter({} if found is None else self._decoded(path, found[0]))
            if config is None:
                return
            change = ConfigChangeNode(entity_path).encode()
            operations = self._replacement(path, found, config)
            try:
                self._store.multi([*operations, Create(znodes.CONFIG_CHANGE_PREFIX, change, sequence=True)])
            except (BadVersionError, NodeExistsError, NoNodeError, NotEmptyError):
                continue
            return
        raise StoreError(f"{path} was changed {MAX_CHANGE_ATTEMPTS} times by others at the same moment")

    def _replacement(self, path: str, found: tuple[bytes, Stat] | None, config: dict[str, str]) -> list[Operation]:
        """Return the operation that replaces the config of a node; ``found`` is the present one."""
        if not config and path.startswith(_QUOTAS) and not children_of(self._store, path):
            return [] if found is None else self._deletion(path, found[1].version)
        data = ConfigNode(config).encode()
        if found is not None:
            return [Set(path, data, found[1].version)]
        return [*map(Create, self._missing_parents(path)), Create(path, data)]

    def _deletion(self, path: str, version: int) -> list[Operation]:
        """Return the operations that delete a node; for a user's client also empty nodes above (Kafka: tryCleanQuotaNodes)."""
        operations: list[Operation] = [Delete(path, version)]
        clients, name = split_path(path)
        user = split_path(clients)[0]
        if split_path(user)[0] != znodes.config_path("users") or children_of(self._store, clients) != [name]:
            return operations
        operations.append(Delete(clients))
        found = self._store.get(user)
        if found is not None and children_of(self._store, user) == ["clients"] and not (found[0] and self._decoded(user, found[0])):
            operations.append(Delete(user, found[1].version))
        return operations

    def _missing_parents(self, path: str) -> list[str]:
        """Return the ancestors of the node that do not exist, the root's child first."""
        missing = []
        parent = split_path(path)[0]
        while parent != "/" and self._store.exists(parent) is None:
            missing.append(parent)
            parent = split_path(parent)[0]
        return missing[::-1]

    def _decoded(self, path: str, data: bytes) -> dict[str, str]:
        try:
            return ConfigNode.decode(data).config
        except BadNodeError as error:
            _log.error("The config in {path} is invalid and is ignored: {error}", path=path, error=error)
            return {}

    def add_listener(self, entity_type: str, listener: Listener) -> None:
        """Call ``listener`` on the config-change thread after changes of this type: ``topics``, ``brokers``, ``users`` ..."""
        self._listeners.setdefault(entity_type, []).append(listener)

    def startup(self) -> None:
        """Start following changes. Earlier ones need no action, because every config is read when it is first needed."""
        self._changes.startup()

    def shutdown(self) -> None:
        """Stop following changes; those whose event has arrived are still applied."""
        self._changes.shutdown()
        if not self._worker.close(SHUTDOWN_TIMEOUT_S):
            _log.warn("A config change is still being applied after {seconds} s", seconds=SHUTDOWN_TIMEOUT_S)

    def apply_changes(self, timeout_s: float) -> None:
        """Wait until all changes so far are applied by this broker. Raises TimeoutError."""
        applied = machine.Event()
        self._worker.submit(self._changes.pass_on)
        self._worker.submit(applied.set)
        if not applied.wait(timeout_s):
            raise TimeoutError(f"config changes were not applied in {timeout_s:g} s")

    def pump(self) -> int:
        """Apply waiting changes on this thread; return how many actions ran. Only with ``threaded=False``."""
        return self._worker.pump()

    def _notify_listeners(self, data: bytes) -> None:
        try:
            entity_path = ConfigChangeNode.decode(data).entity_path
        except BadNodeError as error:
            _log.error("A config change notification is invalid and is ignored: {error}", error=error)
            return
        entity_type, _, name = entity_path.partition("/")
        for listener in self._listeners.get(entity_type, ()):
            try:
                listener(name, self.config(entity_path))
            except StoreDisconnectedError:  # all of this is done again when there is a connection
                raise
            except Exception:  # noqa: BLE001 the other listeners and later changes do not depend on this one
                _log.failure("Failed to apply a change of the config {path}", path=entity_path)


def _path_of(entity_path: str) -> str:
    """Return where an entity's config is; raise InvalidRequestError for a name that no node can have: clients choose it."""
    path = znodes.config_path(entity_path)
    try:
        check_path(path)
    except InvalidPathError:
        raise InvalidRequestError(f"There can be no config of this name: {bounded_text(entity_path)!r}") from None
    return path
