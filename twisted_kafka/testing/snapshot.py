"""A copy of what a stopped broker has on disk, which is all that it knows after a start."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from twisted_kafka.broker.temporary_directory import make_temporary_directory


class Snapshot:
    """The log directories of a broker, with its metadata, at one time. It is gone when nothing refers to it any more."""

    def __init__(self, directories: Sequence[Path]) -> None:
        """Copy the directories of a broker that does not run."""
        self._kept, self._remove = make_temporary_directory(self)
        self._count = len(directories)
        for number, directory in enumerate(directories):
            shutil.copytree(directory, self._kept / str(number))

    def check(self, directories: Sequence[Path]) -> None:
        """Raise ValueError unless it can be put into these directories."""
        if len(directories) != self._count:
            raise ValueError(f"the snapshot is of {self._count} log directories, the broker has {len(directories)}")

    def put(self, directories: Sequence[Path]) -> None:
        """Replace what a broker that does not run has."""
        self.check(directories)
        for number, directory in enumerate(directories):
            shutil.rmtree(directory)
            shutil.copytree(self._kept / str(number), directory)
