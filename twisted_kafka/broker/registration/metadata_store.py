"""Opens the broker's metadata store: in ZooKeeper with ``zookeeper.connect``, else the embedded one in a log directory."""

from pathlib import Path
from typing import Final, NamedTuple

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.config.inter_broker_protocol import is_at_least
from twisted_kafka.log.directories.log_directory import LogDirectory, LogDirectoryError
from twisted_kafka.metadata.embedded import IN_PROCESS, SqliteStore
from twisted_kafka.metadata.store import IMetadataStore
from twisted_kafka.system.installation import install_command
from twisted_kafka.system.platform import HAS_DAEMONS
from twisted_kafka.timing.clock import IClock

OLDEST_CLUSTER: Final = "2.8-IV0"
"""The oldest ``inter.broker.protocol.version`` of a cluster."""

METADATA_FILE: Final = "metadata.sqlite"


def metadata_directory(config: KafkaConfig, directories: list[LogDirectory]) -> Path:
    """Return the directory of the metadata store: ``metadata.log.dir``, else the log directory that has it, else the first.

    Once there is a store, the order of log.dirs does not matter. Raises LogDirectoryError if there are two stores, or if one may
    be in an offline directory: a broker that started without its metadata would know no topic.
    """
    online = [directory.path for directory in directories if directory.is_online]
    offline = [directory.path for directory in directories if not directory.is_online]
    found = [path for path in online if (path / METADATA_FILE).exists()]
    named = config.optional_string("metadata.log.dir")
    if named is not None:
        wanted = Path(named).absolute()
        if wanted in offline:
            raise LogDirectoryError(f"metadata.log.dir={named} cannot be used, and it has the broker's metadata")
        others = [path for path in found if path != wanted]
        if others:
            raise LogDirectoryError(f"metadata.log.dir is {named}, but {others[0] / METADATA_FILE} has metadata: move it there")
        return wanted
    if len(found) > 1:
        raise LogDirectoryError(
            f"There are two metadata stores, in {found[0]} and in {found[1]}: set metadata.log.dir to the right one"
        )
    if found:
        return found[0]
    if offline:
        raise LogDirectoryError(f"{offline[0]} cannot be used, and the broker's metadata may be in it")
    return online[0]


class MetadataStore(NamedTuple):
    """An open store."""

    store: IMetadataStore
    directory: Path | None
    """Where the embedded store is."""


def open_metadata_store(
    config: KafkaConfig, directories: list[LogDirectory], clock: IClock, *, threaded: bool = True
) -> MetadataStore:
    """Open the store; raises ConfigError, LogDirectoryError and StoreUnavailableError."""
    connect = config.optional_string("zookeeper.connect")
    if connect:
        _refuse_embedded(config, directories)
        _refuse_old_brokers(config)
        if connect.startswith(IN_PROCESS):
            from twisted_kafka.metadata.shared import open_shared

            return MetadataStore(open_shared(connect, threaded=threaded), None)
        return MetadataStore(_in_zookeeper(config, clock, threaded=threaded), None)
    path = metadata_directory(config, directories)
    path.mkdir(parents=True, exist_ok=True)
    return MetadataStore(SqliteStore(path / METADATA_FILE, clock, threaded=threaded), path)


def _refuse_embedded(config: KafkaConfig, directories: list[LogDirectory]) -> None:
    """Raise ConfigError if there is an embedded store: without its metadata the broker would know none of its topics."""
    named = config.optional_string("metadata.log.dir")
    for path in [directory.path for directory in directories] + ([] if named is None else [Path(named)]):
        if (path / METADATA_FILE).exists():
            raise ConfigError(
                f"zookeeper.connect is set, but {path / METADATA_FILE} has the broker's metadata: copy them to ZooKeeper with "
                "'twisted-kafka metadata export' and 'import', and move the file away; or remove zookeeper.connect"
            )


def _refuse_old_brokers(config: KafkaConfig) -> None:
    """Raise ConfigError if the cluster is said to have brokers that know no AlterPartition, or no leader epochs in fetches."""
    if not is_at_least(config, OLDEST_CLUSTER):
        raise ConfigError(
            f"Invalid value {config.text('inter.broker.protocol.version')!r} for inter.broker.protocol.version: a broker in a "
            "cluster requires at least 2.8"
        )


def _in_zookeeper(config: KafkaConfig, clock: IClock, *, threaded: bool) -> IMetadataStore:
    if not HAS_DAEMONS:
        raise ConfigError("zookeeper.connect does not work on Windows: remove the line, and the broker keeps its own metadata")
    try:  # loaded only for brokers that need it
        from twisted_kafka.broker.registration.zookeeper_settings import zookeeper_settings
        from twisted_kafka.metadata.zookeeper.store import ZooKeeperStore
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "kazoo":
            raise
        raise ConfigError(
            f"zookeeper.connect requires kazoo: {install_command('zookeeper')}. Without a ZooKeeper, remove the line "
            "zookeeper.connect: the broker then keeps its own metadata"
        ) from None
    return ZooKeeperStore(zookeeper_settings(config), clock, threaded=threaded)
