"""Deletes logs: the directory is renamed at once, its files are deleted later, by the next start if necessary."""

from collections.abc import Callable
from pathlib import Path

from twisted_kafka.log.files import DELETED_DIRECTORY_SUFFIX, marked_directory_name, remove_if_there, sync_directory
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.protocol.errors import KafkaStorageError
from twisted_kafka.timing.scheduler import IScheduler


class LogRemover:
    """Deletes logs. On an I/O error, ``on_failure`` is called with the log directory and the error."""

    def __init__(self, scheduler: IScheduler, on_failure: Callable[[Path, OSError], None]) -> None:
        self._scheduler = scheduler
        self._on_failure = on_failure

    def remove(self, log: UnifiedLog) -> None:
        """Rename a log durably and close it; its files are deleted after ``file.delete.delay.ms``. Raises KafkaStorageError.

        A log that came back after a power failure would compete with the one that replaced it, in this directory or another.
        """
        doomed = log.parent / marked_directory_name(log.topic_partition, DELETED_DIRECTORY_SUFFIX)
        try:
            log.move_to(doomed)
            sync_directory(log.parent)
        except OSError as error:
            self._on_failure(log.parent, error)
            raise KafkaStorageError(f"cannot delete {log.topic_partition} in {log.parent}: {error}") from error
        finally:
            log.close_handles()
        self.remove_files(doomed, log.config.file_delete_delay_ms)

    def remove_files(self, path: Path, delay_ms: int) -> None:
        """Delete a renamed directory with everything in it, after ``delay_ms``."""

        def remove() -> None:
            try:
                _remove_directory(path)
            except OSError as error:
                self._on_failure(path.parent, error)

        self._scheduler.schedule_once("delete-log", remove, delay_ms)


def _remove_directory(path: Path) -> None:
    for child in list(path.iterdir()):
        if child.is_dir() and not child.is_symlink():
            _remove_directory(child)
        else:
            remove_if_there(child)
    path.rmdir()
