"""The directory of the embedded metadata store."""

from pathlib import Path
from typing import Final

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.log.directories.log_directory import LogDirectory, LogDirectoryError

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
