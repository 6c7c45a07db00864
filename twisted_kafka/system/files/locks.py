"""Locks on files that end with their process.

POSIX: ``lockf``, which Java's file locks use, too. Windows: the first byte, which Java's lock of a whole file contains.
"""

import errno
import os
from typing import Final

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]
    import msvcrt

IN_USE: Final = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)
"""The error numbers of a lock that another process holds."""


def try_lock(descriptor: int) -> None:
    """Lock an open file, until any descriptor of it is closed.

    Raises OSError, with a number of ``IN_USE`` if another process has locked the file.
    """
    if fcntl is not None:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    else:
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
