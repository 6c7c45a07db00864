"""The limit of open files of a process."""

from typing import Any, Final

from twisted.logger import Logger

try:
    import resource
except ImportError:  # Windows has no such limit
    resource: Any = None  # type: ignore[no-redef]

OPEN_FILES: Final = 10_240
"""The real limit of macOS for a process whose hard limit is "unlimited"."""

_log = Logger()


def allow_open_files() -> None:
    """Raise the soft limit to the hard limit, like a JVM.

    Every partition and connection needs file descriptors, and a log that cannot be opened takes its directory offline. The soft
    limit is often a few hundred.
    """
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in (hard, OPEN_FILES):
        if soft == wanted or (wanted == OPEN_FILES and soft > wanted):
            return
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return
        except (ValueError, OSError) as error:
            _log.info(
                "Open files are limited to {soft}; the limit cannot be raised to {wanted}: {error}",
                soft=soft,
                wanted=wanted,
                error=error,
            )
