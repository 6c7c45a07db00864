"""Names files that a program of a world would write outside of its own directory: another seed would find them."""

import builtins
import io
import os
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from twisted_kafka.world.machine.disk import path_of
from twisted_kafka.world.machine.loop import EscapeError
from twisted_kafka.world.machine.scheduler import Scheduler

_WRITING: Final = frozenset("wax+")
_WRITE_FLAGS: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES: Final = ("unlink", "remove", "rmdir", "mkdir", "truncate", "chmod", "chown", "utime", "mkfifo", "mknod")
"""Functions of ``os`` that change the file of their first argument."""
_MOVES: Final = ("rename", "replace")
_LINKS: Final = ("link", "symlink")
"""Only their second argument is changed."""
_IN_MEMORY: Final = ("", ":memory:")
_WRITES: Final = "writes"
"""What is done to the file at the end of symbolic links."""
_OWN: Final = ("__pycache__",)
"""Directories that Python itself writes to."""


def _check(directory: Path | None, path: object, what: str, parent_fd: int | None = None) -> None:
    """Raise EscapeError unless a program may change this file, whose path may be relative to an open directory."""
    if directory is None or not isinstance(path, (str, bytes, os.PathLike)):
        return
    parent = "" if parent_fd is None else path_of(parent_fd) or ""
    whole = os.path.join(parent, os.fsdecode(path))
    folder, name = os.path.split(whole)
    place = os.path.realpath(whole) if what == _WRITES else os.path.join(os.path.realpath(folder), name)
    if place == os.devnull or place.startswith(f"{os.path.realpath(directory)}{os.sep}") or any(each in place for each in _OWN):
        return
    raise EscapeError(f"a program of a world {what} {place}: its files are below program.directory")


def guards(scheduler: Scheduler) -> Iterable[tuple[Any, str, Callable[..., Any]]]:
    """Return the functions that open and change files, with a check for programs: the module, the name, and the replacement."""

    def directory_here() -> Path | None:
        actor = scheduler.actor_here()
        found: Path | None = getattr(actor.owner, "files", None) if actor is not None else None
        return found

    real_open, real_os_open, real_connect = builtins.open, os.open, sqlite3.connect

    def open_(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if not _WRITING.isdisjoint(mode):
            _check(directory_here(), file, _WRITES)
        return real_open(file, mode, *args, **kwargs)

    def os_open(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & _WRITE_FLAGS:
            _check(directory_here(), path, _WRITES, dir_fd)
        return real_os_open(path, flags, mode, dir_fd=dir_fd)

    def connect(database: Any, *args: Any, **kwargs: Any) -> Any:
        if database not in _IN_MEMORY:
            _check(directory_here(), database, _WRITES)
        return real_connect(database, *args, **kwargs)

    def checked(real: Callable[..., Any]) -> Callable[..., Any]:
        def change(path: Any, *args: Any, **kwargs: Any) -> Any:
            _check(directory_here(), path, "changes", kwargs.get("dir_fd"))
            return real(path, *args, **kwargs)

        return change

    def checked_move(real: Callable[..., Any], *, is_link: bool) -> Callable[..., Any]:
        def move(src: Any, dst: Any, *args: Any, **kwargs: Any) -> Any:
            directory = directory_here()
            if not is_link:
                _check(directory, src, "changes", kwargs.get("src_dir_fd"))
            _check(directory, dst, "changes", kwargs.get("dst_dir_fd", kwargs.get("dir_fd")))
            return real(src, dst, *args, **kwargs)

        return move

    changes = [(os, name, checked(getattr(os, name))) for name in _CHANGES if hasattr(os, name)]
    moves = [
        (os, name, checked_move(getattr(os, name), is_link=name in _LINKS)) for name in (*_MOVES, *_LINKS) if hasattr(os, name)
    ]
    return [(builtins, "open", open_), (io, "open", open_), (os, "open", os_open), (sqlite3, "connect", connect), *changes, *moves]
