"""File names in a partition's directory, and crash-safe writes."""

import contextlib
import os
import re
from pathlib import Path

from twisted_kafka.protocol.topic_partition import LEGAL_TOPIC, MAX_PARTITION, MAX_TOPIC_LENGTH, TopicPartition
from twisted_kafka.system import machine
from twisted_kafka.system.files import disk
from twisted_kafka.system.files.durability import fsync, has_to_last
from twisted_kafka.system.files.file_io import write_at
from twisted_kafka.system.files.names import open_descriptor, remove, replace
from twisted_kafka.system.numbers import decimal
from twisted_kafka.system.platform import SYNCS_DIRECTORIES

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
UNFINISHED_SUFFIXES = (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX)
"""The suffixes of files that belong to an unfinished step."""
TEMPORARY_SUFFIX = ".tmp"
DELETED_DIRECTORY_SUFFIX = "-delete"
FUTURE_DIRECTORY_SUFFIX = "-future"
STRAY_DIRECTORY_SUFFIX = "-stray"
MAX_NAME_BYTES = 255
"""The limit of file systems."""

MAX_OFFSET = 2**63 - 1

_PARTITION_DIRECTORY = re.compile(r"(?P<topic>.+)-(?P<partition>0|[1-9][0-9]*)")
_MARKED_DIRECTORY = re.compile(r"(?P<name>.+-[0-9]+)\.[0-9a-zA-Z_-]+-(?:delete|future|stray)")
_WITH_OFFSETS = tuple(
    ending + suffix
    for ending in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX, SNAPSHOT_SUFFIX)
    for suffix in ("", CLEANED_SUFFIX, SWAP_SUFFIX)
)
"""How names of files end that begin with an offset."""


def offset_name(offset: int) -> str:
    """Return the 20 digits in the file names of the segment with this base offset."""
    return f"{offset:020d}"


def offset_of_name(name: str) -> int:
    """Return the offset in a file's name; raises ValueError for a name without an offset."""
    digits = name[: name.index(".")]
    offset = decimal(digits, MAX_OFFSET)
    if offset is None or len(digits) != len(offset_name(0)):
        raise ValueError(f"{name!r} does not begin with an offset of {len(offset_name(0))} digits")
    return offset


def is_foreign(name: str) -> bool:
    """Return whether a file ends like one of a segment but is not named after an offset: no broker has written it."""
    if not name.endswith((*_WITH_OFFSETS, CLEANED_SUFFIX, SWAP_SUFFIX)):
        return False
    try:
        offset_of_name(name)
    except ValueError:
        return True
    return name[name.index(".") :] not in _WITH_OFFSETS


def parse_partition_directory(name: str) -> TopicPartition:
    """Return the partition whose directory has this name, with or without a mark; raises ValueError for other directories.

    Only the name that a broker gives counts: ``topic-00`` is no directory of partition 0, and a topic has a legal name.
    """
    marked = _MARKED_DIRECTORY.fullmatch(name)
    match = _PARTITION_DIRECTORY.fullmatch(marked["name"] if marked else name)
    if match is None or not LEGAL_TOPIC.fullmatch(match["topic"]) or len(match["topic"]) > MAX_TOPIC_LENGTH:
        raise ValueError(f"{name!r} is not the directory of a partition: expected topic-partition")
    partition = int(match["partition"])
    if partition > MAX_PARTITION:
        raise ValueError(f"{name!r} is not the directory of a partition: {partition} is too large")
    return TopicPartition(match["topic"], partition)


def marked_directory_name(topic_partition: TopicPartition, suffix: str, *, may_cut: bool = True) -> str:
    """Return a new name for a partition's directory that is deleted, stray, or a future replica.

    ``may_cut`` shortens a topic name that is too long with the suffix: for directories whose name is never parsed again.
    """
    ending = f"-{topic_partition.partition}.{machine.new_uuid().hex}{suffix}"
    topic = topic_partition.topic
    return (topic[: MAX_NAME_BYTES - len(ending)] if may_cut else topic) + ending


def write_atomically(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Replace the file at ``path``: readers see the old or the new content, never a mixture, even after a crash.

    Without ``sync`` this holds for a crash of the process only; with it, for a power failure too. Raises OSError, and then the old
    content is there.
    """
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        fd = open_descriptor(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            write_at(fd, data, 0)
            if sync:
                fsync(fd, temporary)
        finally:
            os.close(fd)
        replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            remove_if_there(temporary)  # on a full disk, others need the space
        raise
    if sync:
        sync_directory(path.parent)


def sync_file(path: Path) -> None:
    """Make the content of the file at ``path`` durable, if there is one; raises OSError."""
    if not has_to_last(path):
        return
    with contextlib.suppress(FileNotFoundError):
        disk.sync_path(path)


def sync_directory(path: Path) -> None:
    """Make the names that were created, changed or removed in ``path`` durable; raises OSError."""
    if not has_to_last(path):
        return
    disk.sync_names(path)


def make_directory(path: Path) -> None:
    """Create a directory and its missing parents, if need be, and make its name durable; raises OSError."""
    if not path.is_dir():
        make_directory(path.parent)
        path.mkdir(exist_ok=True)
    if not has_to_last(path):
        return
    # Always, as the process that created it may have crashed before the sync. A parent that cannot be read is not this broker's.
    with contextlib.suppress(PermissionError):
        sync_directory(path.parent)


def sync_file_system(path: Path) -> None:
    """Write everything to the file system of ``path`` with one ``syncfs``, if the platform has it.

    It makes the fsyncs that follow fast, but does not replace them: their errors say which file failed. Raises OSError.
    """
    if not has_to_last(path) or not SYNCS_DIRECTORIES:
        return
    import ctypes

    syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if syncfs is None:
        return
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if syncfs(fd):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(path))
    finally:
        os.close(fd)


def remove_if_there(path: Path) -> None:
    """Remove the file at ``path``, if it exists; raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        remove(path)
