"""Logs in the log directories that belong to no topic: the metadata were lost, or the directories are another broker's."""

from typing import Final

from twisted.logger import Logger

from twisted_kafka.log.log_manager import LogManager
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.store import IMetadataStore

_log = Logger()

_NAMED: Final = 10
"""So many topics are named."""


def tell_of_unowned_logs(logs: LogManager, store: IMetadataStore) -> None:
    """Warn of logs whose topics the metadata store does not have. They stay, nobody can read them, and retention goes on."""
    topics = set(store.children(znodes.TOPICS))
    unowned = sorted({log.topic_partition.topic for log in logs.all_logs()} - topics)
    if unowned:
        _log.warn(
            "The log directories have logs of {count} topics that are not in the metadata, and cannot be read: {names}. Stop the "
            "broker if its metadata were lost: the defaults say when such logs are deleted",
            count=len(unowned),
            names=", ".join(unowned[:_NAMED]) + (", ..." if len(unowned) > _NAMED else ""),
        )
