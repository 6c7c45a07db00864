"""Where a benchmark keeps its data, and how it ends: it leaves neither files nor brokers behind.

What it starts dies with it (`tests.processes`). Its files go when it ends, also when it is told to with SIGTERM, SIGHUP or
SIGINT; those of one that was killed go when the next one starts.
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
"""A file that is locked as long as the directory's owner lives."""


@contextlib.contextmanager
def scratch(parent: Path | None = None) -> Iterator[Path]:
    """Give a directory that goes with the benchmark, below ``parent`` or where temporary files are. On the main thread only."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    where = Path(tempfile.gettempdir()) if parent is None else parent
    _remove_orphans(where)
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=where) as name, (Path(name) / _OWNED).open("w") as owned:
        fcntl.flock(owned, fcntl.LOCK_EX)
        yield Path(name)


def _end(number: int, _: FrameType | None) -> None:
    # As an exception, so that everything is closed and removed on the way out.
    sys.exit(128 + number)


def _remove_orphans(where: Path) -> None:
    for owned in where.glob(f"{PREFIX}*/{_OWNED}"):
        with contextlib.suppress(OSError), owned.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(owned.parent)
