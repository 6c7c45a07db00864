"""Directories of embedded brokers that have none of their own: gone with the broker, whatever ended its process.

A process that is killed cannot remove its directory, so the next embedded broker of the same user does, unless the mark in it
(``Ownership``) says that its broker lives.
"""

import contextlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Final

from twisted_kafka.system.files.durability import mark_temporary, unmark_temporary
from twisted_kafka.system.files.ownership import Ownership, take_over

PREFIX: Final = "twisted-kafka-"


def make_temporary_directory(owner: object) -> tuple[Path, Callable[[], object]]:
    """Return a new directory and a function that removes it. The end of ``owner`` or of the program removes it at the latest.

    Directories of processes that were killed are removed first.
    """
    _remove_orphans(Path(tempfile.gettempdir()))
    directory = Path(tempfile.mkdtemp(prefix=PREFIX))
    mark_temporary(directory)
    return directory, weakref.finalize(owner, _remove, directory, Ownership(directory), os.getpid())


def _remove(directory: Path, ownership: Ownership, process_id: int) -> None:
    # A forked process also finalizes this broker when it ends, but the directory is not its own.
    if os.getpid() == process_id:
        ownership.release_before_removal()
        shutil.rmtree(directory, ignore_errors=True)
        unmark_temporary(directory)
        ownership.release()


def _remove_orphans(where: Path) -> None:
    for directory in where.glob(f"{PREFIX}*"):
        # Whatever is wrong with one of them, it is not this broker's business.
        with contextlib.suppress(OSError):
            _remove_if_orphan(directory)


def _remove_if_orphan(directory: Path) -> None:
    """Remove the directory unless its broker lives; raises OSError."""
    descriptor = take_over(directory)
    try:
        shutil.rmtree(directory)
    finally:
        if descriptor is not None:
            os.close(descriptor)
