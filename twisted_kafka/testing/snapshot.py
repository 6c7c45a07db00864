"""A copy of a stopped broker's files, which contain everything that it knows after a start."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from typing_extensions import override

from twisted_kafka.broker.temporary_directory import make_temporary_directory

_STAGE: Final = ".restoring"
"""The prefix of a temporary directory in each log directory: only there is it certain to be on the same file system.

The name has no dash, so it cannot be taken for a partition's."""


class SnapshotError(Exception):
    """A snapshot could not be taken or restored. The text is one line with the broker's state and the reason."""


class Snapshot:
    """A copy of a broker's log directories, with its metadata. It is deleted when nothing refers to it any more."""

    def __init__(self, directories: Sequence[Path]) -> None:
        """Copy the directories of a broker that does not run. Raises OSError."""
        self._kept, self._remove = make_temporary_directory(self)
        self._count = len(directories)
        try:
            for number, directory in enumerate(directories):
                shutil.copytree(directory, self._kept / str(number))
        except BaseException:
            self._remove()  # now: the broker may need the space to start again
            raise

    @override
    def __repr__(self) -> str:
        return f"<Snapshot of {self._count} directories>"

    def check(self, directories: Sequence[Path]) -> None:
        """Raise ValueError unless the snapshot can be restored into these directories."""
        if len(directories) != self._count:
            raise ValueError(f"the snapshot is of {self._count} log directories, the broker has {len(directories)}")

    @contextlib.contextmanager
    def put(self, directories: Sequence[Path]) -> Iterator[None]:
        """Replace a stopped broker's files for a ``with`` block; undo this if the block raises.

        Raises OSError when it cannot, with the old files in place. Raises SnapshotError if the old files cannot be put back.
        """
        with contextlib.ExitStack() as stages:
            places = []
            for number, directory in enumerate(directories):
                stage = Path(tempfile.mkdtemp(prefix=_STAGE, dir=directory))
                stages.callback(shutil.rmtree, stage, ignore_errors=True)
                shutil.copytree(self._kept / str(number), stage / "new")
                (stage / "old").mkdir()
                places.append((directory, stage))
            undo = contextlib.ExitStack()
            try:
                for directory, stage in places:
                    _swap(directory, stage, undo)
                yield
            except BaseException:
                try:
                    undo.close()
                except OSError as error:
                    stages.pop_all()
                    raise SnapshotError(f"what the broker had could not be put back, it is below {stage}: {error}") from error
                raise


def _swap(directory: Path, stage: Path, undo: contextlib.ExitStack) -> None:
    """Move the entries of a directory to ``old`` of its stage, and those of ``new`` into the directory; raises OSError."""
    for entry in _others(directory, stage):
        kept = stage / "old" / entry.name
        entry.rename(kept)
        undo.callback(kept.rename, entry)
    undo.callback(_empty, directory, stage)
    for entry in (stage / "new").iterdir():
        entry.rename(directory / entry.name)


def _empty(directory: Path, stage: Path) -> None:
    for entry in _others(directory, stage):
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _others(directory: Path, stage: Path) -> list[Path]:
    return [entry for entry in directory.iterdir() if entry != stage]


def first_line(error: Exception) -> str:
    """Return the reason in one line; an error of ``shutil.copytree`` has a list of them."""
    if isinstance(error, shutil.Error) and isinstance(error.args[0], list):
        first, *more = (why for _, _, why in error.args[0])  # which names the file
        return str(first) + (f" (and {len(more)} more)" if more else "")
    return str(error)
