"""Stray logs: logs in the log directories whose topics are not in the metadata."""

from typing import Final

from twisted.logger import Logger

from twisted_kafka.log.log_manager import LogManager
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.store import IMetadataStore

_log = Logger()

_MAX_NAMED: Final = 10
"""How many topics the warning names."""


def warn_of_stray_logs(logs: LogManager, store: IMetadataStore) -> None:
    """Warn of stray logs: the metadata were lost, or the directories are another broker's.

    The logs stay. Nobody can read them, and retention still deletes their segments.
    """
    topics = set(store.children(znodes.TOPICS))
    stray = sorted({log.topic_partition.topic for log in logs.all_logs()} - topics)
    if stray:
        _log.warn(
            "The log directories have logs of {count} topics that are not in the metadata and cannot be read: {names}. If the "
            "metadata were lost, stop the broker: retention deletes such logs by the broker's defaults",
            count=len(stray),
            names=", ".join(stray[:_MAX_NAMED]) + (", ..." if len(stray) > _MAX_NAMED else ""),
        )
