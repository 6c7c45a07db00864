"""Takes from a Python on Linux what one on Windows does not have, and enforces Windows' rules for files.

A process with this folder on its PYTHONPATH imports it first. ``os.name`` stays: paths are those of Linux. The list of what is
missing is from the documentation of Python: functions with an availability that leaves Windows out. The rules are those of
CreateFile for files that Python opens: one that is open cannot be renamed, replaced or removed, nor can a directory above it; a
directory cannot be opened; a file is synced only if it is open for writing; bytes need O_BINARY.
"""

import errno
import fcntl
import io
import os
import select
import shutil
import signal
import socket
import sys
import sysconfig
import tempfile
import time
import types
from importlib import import_module
from typing import Any

# These look for modules and functions of the platform when they are imported there.
for _name in [
    "asyncio",
    "concurrent.futures.process",
    "ctypes.util",
    "execnet",
    "faulthandler",
    "getpass",
    "multiprocessing.popen_fork",
    "multiprocessing.util",
    "pathlib",
    "pytest",
    "sqlite3",
    "subprocess",
    "tarfile",
    "tempfile",
    "twisted.internet.fdesc",
    "twisted.internet.posixbase",
    "twisted.internet.process",
    "twisted.internet.selectreactor",
    "twisted.python.lockfile",
    "urllib.request",
    "uuid",
    "webbrowser",
    "zipfile",
]:
    import_module(_name)
sysconfig.get_config_vars()
# twistd is another program there.
_runtime: Any = import_module("twisted.python.runtime")
_runtime.platformType = "win32"
import_module("twisted.scripts.twistd")
_runtime.platformType = "posix"

_MISSING_MODULES = "fcntl grp pty pwd resource termios tty twisted.internet.epollreactor twisted.internet.pollreactor"
_MISSING = {
    os: "chown chroot copy_file_range ctermid eventfd eventfd_read eventfd_write fchown fdatasync forkpty geteuid getgid getegid "
    "getloadavg getpgid getpriority initgroups killpg lchown mkfifo mknod nice pidfd_open pipe2 posix_fadvise posix_fallocate "
    "posix_spawn pwritev readv sched_getaffinity sched_setaffinity setgid setpgid setresuid setsid setuid splice statvfs sync "
    "wait3 wait4 writev O_CLOEXEC O_DIRECT O_DIRECTORY O_NOFOLLOW O_SYNC EFD_CLOEXEC EFD_NONBLOCK",
    select: "epoll poll",
    socket: "MSG_DONTWAIT MSG_MORE MSG_NOSIGNAL SO_BINDTODEVICE SO_REUSEPORT SOCK_CLOEXEC SOCK_NONBLOCK TCP_CORK TCP_INFO "
    "TCP_USER_TIMEOUT",
    signal: "SIGHUP SIGUSR1 SIGUSR2 SIGQUIT SIGPIPE pthread_kill pthread_sigmask sigtimedwait sigwait",
    time: "CLOCK_BOOTTIME pthread_getcpuclockid",
}
"""Python's own modules and pytest call others later: fork, register_at_fork, sysconf, SIGALRM. The tests of the log replace
pread, pwrite and sendfile. So these stay, and the broker asks `system.platform` whether to use them."""

O_BINARY = 0x8000
_SHARING_VIOLATION = "The process cannot access the file because it is being used by another process"
_open, _fsync, _locks = os.open, os.fsync, types.SimpleNamespace(fcntl=fcntl)


def _open_below(path: str) -> str | None:
    """Return a file at or below a path that this process has open; a file that brokers own, that any process has open."""
    wanted = os.path.realpath(path)
    whose = [f"/proc/{name}/fd" for name in os.listdir("/proc") if name.isdigit()] if path.endswith(".owned") else ["/proc/self/fd"]
    for folder in whose:
        try:
            numbers = os.listdir(folder)
        except OSError:
            continue
        for number in numbers:
            try:
                found = os.readlink(f"{folder}/{number}")
            except OSError:
                continue
            if found == wanted or found.startswith(wanted + "/"):
                return found
    return None


def _refuse_open(*paths: object) -> None:
    for path in paths:
        text = os.fspath(path) if not isinstance(path, int) else None  # type: ignore[call-overload]
        if isinstance(text, bytes):
            text = os.fsdecode(text)
        if text is not None and not text.startswith(("/proc/", "/dev/null")) and _open_below(text) is not None:
            raise PermissionError(errno.EACCES, _SHARING_VIOLATION, text)


def _guarded(name: str, count: int) -> None:
    original = getattr(os, name)

    def guarded(*arguments: object, **more: object) -> object:
        if sys._getframe(1).f_globals.get("__name__") != "tempfile":  # which asks Windows to delete the file when it is closed
            _refuse_open(*arguments[:count])
        if name == "rename" and os.path.lexists(arguments[1]):  # type: ignore[arg-type]
            raise FileExistsError(errno.EEXIST, "Cannot create a file when that file already exists", os.fspath(arguments[1]))  # type: ignore[call-overload]
        return original(*arguments, **more)

    setattr(os, name, guarded)


def _open_as_windows(path: object, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
    if os.path.isdir(path):  # type: ignore[arg-type]
        raise PermissionError(errno.EACCES, "Permission denied", path)
    descriptor = _open(path, flags & ~O_BINARY, mode, dir_fd=dir_fd)  # type: ignore[arg-type]
    is_ours = str(sys._getframe(1).f_globals.get("__name__")).startswith("twisted_kafka")
    assert flags & O_BINARY or not is_ours, "without O_BINARY Windows translates the line ends of what is written"
    return descriptor


def _fsync_as_windows(descriptor: object) -> None:
    number = descriptor if isinstance(descriptor, int) else descriptor.fileno()  # type: ignore[attr-defined]
    if _locks.fcntl.fcntl(number, _locks.fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    _fsync(number)


def _locking(descriptor: int, mode: int, size: int) -> None:
    """msvcrt.locking."""
    _locks.fcntl.lockf(descriptor, _locks.fcntl.LOCK_EX | _locks.fcntl.LOCK_NB, size)


class _Missing:
    """An attribute that is not there, although a base class has it."""

    def __get__(self, instance: object, owner: object = None) -> object:
        raise AttributeError("Windows does not have it")


for _name, _count in (("rename", 2), ("replace", 2), ("unlink", 1), ("remove", 1), ("rmdir", 1)):
    _guarded(_name, _count)
os.open, os.fsync = _open_as_windows, _fsync_as_windows  # type: ignore[assignment]
os.O_BINARY = O_BINARY  # type: ignore[attr-defined]
tempfile._bin_openflags |= O_BINARY  # type: ignore[attr-defined]
shutil._use_fd_functions = False  # type: ignore[attr-defined]
_msvcrt = types.ModuleType("msvcrt")
_msvcrt.locking, _msvcrt.LK_NBLCK = _locking, 2  # type: ignore[attr-defined]
sys.modules["msvcrt"] = _msvcrt
for _name in _MISSING_MODULES.split():
    sys.modules[_name] = None
for _module, _names in _MISSING.items():
    for _name in _names.split():
        if hasattr(_module, _name):
            delattr(_module, _name)
for _name in ("sendmsg", "recvmsg", "recvmsg_into"):
    setattr(socket.socket, _name, _Missing())
setattr(io, "_WindowsConsoleIO", type("_WindowsConsoleIO", (), {}))  # noqa: B010 pytest looks for it
sys.platform = "win32"
