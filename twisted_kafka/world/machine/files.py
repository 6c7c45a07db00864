"""Names files that a program of a world would write outside of its own directory: another seed would find them."""

import builtins
import io
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from twisted_kafka.world.machine.loop import EscapeError
from twisted_kafka.world.machine.scheduler import Scheduler

_WRITING: Final = frozenset("wax+")
_WRITE_FLAGS: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES: Final = ("rename", "replace", "unlink", "remove", "rmdir", "mkdir", "truncate", "link", "symlink")
_OWN: Final = ("__pycache__",)
"""Directories that Python itself writes to."""


def _check(directory: Path | None, path: object, what: str) -> None:
    """Raise EscapeError unless a program may change this file."""
    if directory is None or not isinstance(path, (str, bytes, os.PathLike)):
        return
    place = os.path.abspath(os.fsdecode(path))
    if place == os.devnull or place.startswith(f"{directory}{os.sep}") or any(each in place for each in _OWN):
        return
    raise EscapeError(f"a program of a world {what} {place}: its files are below program.directory")


def guards(scheduler: Scheduler) -> Iterable[tuple[Any, str, Callable[..., Any]]]:
    """Return the functions that open and change files, with a check for programs: the module, the name, and the replacement."""

    def directory_here() -> Path | None:
        actor = scheduler.actor_here()
        found: Path | None = getattr(actor.owner, "files", None) if actor is not None else None
        return found

    real_open, real_os_open = builtins.open, os.open

    def open_(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if not _WRITING.isdisjoint(mode):
            _check(directory_here(), file, "writes")
        return real_open(file, mode, *args, **kwargs)

    def os_open(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        if flags & _WRITE_FLAGS:
            _check(directory_here(), path, "writes")
        return real_os_open(path, flags, *args, **kwargs)

    def checked(real: Callable[..., Any]) -> Callable[..., Any]:
        def change(path: Any, *args: Any, **kwargs: Any) -> Any:
            _check(directory_here(), path, "changes")
            return real(path, *args, **kwargs)

        return change

    changes = [(os, name, checked(getattr(os, name))) for name in _CHANGES if hasattr(os, name)]
    return [(builtins, "open", open_), (io, "open", open_), (os, "open", os_open), *changes]
