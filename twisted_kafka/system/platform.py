"""What Windows does otherwise than POSIX systems. Other modules ask these constants, never the platform's name."""

import os
import sys
from typing import Final

IS_WINDOWS: Final = sys.platform == "win32"

KEEPS_OPEN_FILES: Final = not IS_WINDOWS
"""Whether an open file may be renamed, replaced and removed. On Windows that fails, for the file and for directories above it."""

HAS_DAEMONS: Final = not IS_WINDOWS
"""Whether a process can go to the background, and processes can be tied to each other by sessions and signals."""

SYNCS_DIRECTORIES: Final = not IS_WINDOWS
"""Whether names reach the disk when their directory is synced. NTFS has a journal for them, and a directory cannot be opened."""

BINARY: Final = getattr(os, "O_BINARY", 0)
"""The flag of ``os.open`` without which Windows translates line ends."""

SYNC_FLAGS: Final = (os.O_RDWR if IS_WINDOWS else os.O_RDONLY) | BINARY
"""How a file is opened to be synced."""

HAS_POSITIONS: Final = not IS_WINDOWS
"""Whether a file can be read and written at a position. Otherwise each call moves the position that all threads share."""

NOT_INHERITED: Final = getattr(os, "O_CLOEXEC", getattr(os, "O_NOINHERIT", 0))
