"""The files of a segment: batches, indexes by offset and time, aborted transactions; their names and renames."""

from pathlib import Path

from twisted_kafka.log.files import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_name,
    remove_if_there,
    sync_directory,
)
from twisted_kafka.log.segment.indexes import OffsetIndex, TimeIndex
from twisted_kafka.log.segment.transaction_index import TransactionIndex
from twisted_kafka.system.files.names import rename


class SegmentFiles:
    """The files named after ``base_offset`` in ``directory``; ``suffix`` marks files that are not part of a log yet."""

    __slots__ = ("_name", "_suffix", "base_offset", "directory", "offset_index", "time_index", "transaction_index")

    def __init__(self, directory: Path, base_offset: int, max_index_bytes: int, suffix: str) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self._name = name = offset_name(base_offset)
        self._suffix = suffix
        self.offset_index = OffsetIndex(directory / (name + INDEX_SUFFIX + suffix), base_offset, max_index_bytes)
        self.time_index = TimeIndex(directory / (name + TIME_INDEX_SUFFIX + suffix), base_offset, max_index_bytes)
        self.transaction_index = TransactionIndex(directory / (name + TRANSACTION_INDEX_SUFFIX + suffix))

    @property
    def path(self) -> Path:
        """The file of batches."""
        return self.directory / (self._name + LOG_SUFFIX + self._suffix)

    def move_to(self, directory: Path) -> None:
        """Use the new path of the log's directory, which was renamed."""
        self.directory = directory
        for index in (self.offset_index, self.time_index, self.transaction_index):
            index.path = directory / index.path.name

    def change_suffix(self, suffix: str) -> None:
        """Rename the files to end with another suffix; raises OSError.

        The file of batches gets a suffix last, and loses it first, durably. While it has one, the next start takes the other files
        without a suffix for those of replaced segments, and removes them.
        """
        paths = self._paths() if not suffix else reversed(self._paths())
        for path in paths:
            renamed = path.with_name(path.name.removesuffix(self._suffix) + suffix)
            if path == self.path:
                rename(path, renamed)
                if not suffix:
                    sync_directory(self.directory)
            elif path.exists():
                rename(path, renamed)
        for index in (self.offset_index, self.time_index, self.transaction_index):
            index.path = index.path.with_name(index.path.name.removesuffix(self._suffix) + suffix)
        self._suffix = suffix

    def mark_deleted(self) -> list[Path]:
        """Rename the files, so that the next start removes them if they are still there; returns the new paths. Raises OSError."""
        renamed = []
        for path in self._paths():
            marked = path.with_name(path.name + DELETED_SUFFIX)
            try:
                rename(path, marked)
            except FileNotFoundError:
                continue
            renamed.append(marked)
        return renamed

    def remove(self) -> None:
        """Remove the files at once; raises OSError."""
        for path in self._paths():
            remove_if_there(path)

    def remove_durably(self) -> None:
        """Remove the files; raises OSError.

        The batches are removed durably before their indexes, so that a start never finds them without their aborted transactions.
        """
        remove_if_there(self.path)
        sync_directory(self.directory)
        self.remove()

    def _paths(self) -> list[Path]:
        return [self.path, self.offset_index.path, self.time_index.path, self.transaction_index.path]
