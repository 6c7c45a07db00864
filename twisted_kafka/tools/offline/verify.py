"""Checks the log directory of a stopped broker: its files, and whether they are consistent with each other. Nothing is modified.

An *error* means that data is damaged or cannot be consumed. A *note* is repaired by the next start, as after any crash.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from twisted_kafka.log.checkpoints import (
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    MalformedCheckpointError,
    OffsetCheckpoint,
)
from twisted_kafka.log.directories.log_directory import CLEAN_SHUTDOWN_FILE
from twisted_kafka.log.directories.meta_properties import MetaPropertiesError, read_meta_properties
from twisted_kafka.log.files import (
    DELETED_DIRECTORY_SUFFIX,
    FUTURE_DIRECTORY_SUFFIX,
    STRAY_DIRECTORY_SUFFIX,
    parse_partition_directory,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.tools.offline.verify_partition import Finding, PartitionCheck, error, note

MARKED: Final = (DELETED_DIRECTORY_SUFFIX, STRAY_DIRECTORY_SUFFIX, FUTURE_DIRECTORY_SUFFIX)
CHECKPOINTS: Final = (RECOVERY_POINT_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT, CLEANER_CHECKPOINT)


class Bounds(NamedTuple):
    """The first offset of a partition's log, and the offset after its last."""

    first_offset: int
    end_offset: int


def verify(directory: Path, *, with_records: bool = True) -> Iterator[Finding]:
    """Check a log directory; yield the findings. With ``with_records`` every record is decompressed and parsed too."""
    try:
        if read_meta_properties(directory) is None:
            has_logs = any(_is_partition(each.name) for each in directory.iterdir())
            yield (note if has_logs else error)(directory, "there is no meta.properties: is this a log directory?")
            if not has_logs:
                return
    except MetaPropertiesError as problem:
        yield error(directory / "meta.properties", problem)
    was_clean = (directory / CLEAN_SHUTDOWN_FILE).exists()
    if not was_clean:
        yield note(directory, "the broker was not shut down cleanly: its next start recovers the ends of the logs")
    bounds: dict[TopicPartition, Bounds] = {}
    for path in sorted(each for each in directory.iterdir() if each.is_dir()):
        if path.name.endswith(MARKED):
            yield note(path, "is scheduled for deletion, stray, or being moved: not checked")
            continue
        try:
            partition = parse_partition_directory(path.name)
        except ValueError:
            yield note(path, "is not a partition directory: not checked")
            continue
        check = PartitionCheck(path, was_clean=was_clean, with_records=with_records)
        yield from check.findings()
        bounds[partition] = Bounds(check.first_offset, check.end_offset)
    yield from _checkpoints(directory, bounds)


def _is_partition(name: str) -> bool:
    try:
        parse_partition_directory(name)
    except ValueError:
        return False
    return True


def _checkpoints(directory: Path, bounds: dict[TopicPartition, Bounds]) -> Iterator[Finding]:
    for name in CHECKPOINTS:
        path = directory / name
        try:
            offsets = OffsetCheckpoint(path).read()
        except MalformedCheckpointError as problem:
            yield error(path, problem)
            continue
        for partition, offset in offsets.items():
            name = f"{partition.topic}-{partition.partition}"
            known = bounds.get(partition)
            if known is None:
                yield note(path, f"contains {name}, which does not exist")
            elif offset > known.end_offset:
                yield error(path, f"has offset {offset} for {name}, which ends at {known.end_offset}")
