"""Completes a compaction that a crash interrupted if the new segment was complete, and undoes it if not.

The cleaner writes a segment into files that end with ``.cleaned``. When they are durable, it renames them to ``.swap``, marks the
segments that they replace as deleted, and removes the suffix. (Kafka: LogLoader.removeTempFilesAndCollectSwapFiles.)
"""

import os
from io import FileIO
from pathlib import Path

from twisted.logger import Logger

from twisted_kafka.log.batch_headers import scan_headers
from twisted_kafka.log.files import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    is_foreign,
    offset_of_name,
    sync_directory,
)
from twisted_kafka.system.files.names import remove, rename

_SEGMENT_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

_log = Logger()


def complete_swaps(directory: Path) -> None:
    """Remove or rename all ``.cleaned`` and ``.swap`` files, and leave each record in one segment only; raises OSError."""
    names = [name for name in os.listdir(directory) if not is_foreign(name)]
    cleaned = [name for name in names if name.endswith(CLEANED_SUFFIX)]
    swaps = [name for name in names if name.endswith(SWAP_SUFFIX)]
    if not cleaned and not swaps:
        return
    # If a .cleaned file of a segment is left, its renaming to .swap was not complete: the old segments still exist.
    unfinished = min((offset_of_name(name) for name in cleaned), default=None)
    for name in list(swaps):
        if unfinished is not None and offset_of_name(name) >= unfinished:
            remove(directory / name)
            swaps.remove(name)
    # The .cleaned files last, as they mark the unfinished segments.
    sync_directory(directory)
    for name in cleaned:
        remove(directory / name)
    _remove_replaced(directory, names, swaps)
    sync_directory(directory)
    # The batches first, as in LogSegment.change_suffix. After a crash in between, the next start does the rest.
    logs = [name for name in swaps if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
    for name in logs:
        rename(directory / name, directory / name.removesuffix(SWAP_SUFFIX))
    sync_directory(directory)
    for name in set(swaps).difference(logs):
        rename(directory / name, directory / name.removesuffix(SWAP_SUFFIX))


def _remove_replaced(directory: Path, names: list[str], swaps: list[str]) -> None:
    logs = [name for name in swaps if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
    if not logs:
        return
    _log.info("Completing an interrupted compaction in {path}", path=str(directory))
    for log in logs:
        first, end = offset_of_name(log), _next_offset(directory / log)
        for name in names:
            if name.endswith(_SEGMENT_SUFFIXES) and first <= offset_of_name(name) < end:
                remove(directory / name)


def _next_offset(path: Path) -> int:
    """Return the offset after the last batch of a file; its base offset if the file has no batch."""
    last = offset_of_name(path.name) - 1
    with FileIO(path) as file:
        for header in scan_headers(file, 0, os.fstat(file.fileno()).st_size):
            last = header.last_offset
    return last + 1
