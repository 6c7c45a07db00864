"""The temporary directory of a benchmark, which leaves neither files nor processes behind.

Processes that it started end with it (`tests.support.processes`). Its files are removed when it ends, also by SIGTERM,
SIGHUP or SIGINT; those of a benchmark that was killed are removed when the next one starts.
"""

import contextlib
import fcntl
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

PREFIX = "kafka-bench-"
_OWNED = ".owned"
"""A file that is locked while the owner of the directory is running."""


@contextlib.contextmanager
def scratch(parent: Path | None = None) -> Iterator[Path]:
    """Yield a directory that is removed at the end, in ``parent`` or the temporary directory. For the main thread only."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    where = Path(tempfile.gettempdir()) if parent is None else parent
    _remove_orphans(where)
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=where) as name, (Path(name) / f"{_OWNED}.new").open("w") as owned:
        # Named only when it is locked: a file of that name without a lock is an orphan's.
        fcntl.flock(owned, fcntl.LOCK_EX)
        Path(owned.name).rename(Path(name) / _OWNED)
        yield Path(name)


def _end(number: int, _: FrameType | None) -> None:
    # Raises SystemExit, so that everything is closed and removed.
    sys.exit(128 + number)


def _remove_orphans(where: Path) -> None:
    for owned in where.glob(f"{PREFIX}*/{_OWNED}"):
        with contextlib.suppress(OSError), owned.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(owned.parent)
