"""Takes from a Python on Linux what one on macOS does not have. A process with this folder on its PYTHONPATH imports it first.

The list is from the documentation of Python: functions with an availability that leaves macOS out.
"""

import fcntl
import os
import resource
import select
import signal
import socket
import sys
import sysconfig
import time
from importlib import import_module

# These look for modules and libraries of macOS when they are imported there.
for _name in ("asyncio", "ctypes.util", "multiprocessing.util", "subprocess", "urllib.request", "uuid"):
    import_module(_name)
sysconfig.get_config_vars()

_MISSING = {
    os: "copy_file_range eventfd eventfd_read eventfd_write fdatasync memfd_create pidfd_open pipe2 posix_fadvise posix_fallocate "
    "sched_getaffinity sched_setaffinity setresuid splice EFD_CLOEXEC EFD_NONBLOCK O_DIRECT",
    select: "epoll",
    socket: "MSG_MORE MSG_NOSIGNAL SO_BINDTODEVICE SOCK_CLOEXEC SOCK_NONBLOCK TCP_CORK TCP_INFO TCP_USER_TIMEOUT",
    signal: "sigtimedwait sigwaitinfo",
    resource: "prlimit",
    time: "CLOCK_BOOTTIME",
}

for _module, _names in _MISSING.items():
    for _name in _names.split():
        if hasattr(_module, _name):
            delattr(_module, _name)
setattr(fcntl, "F_FULLFSYNC", 51)  # noqa: B010 Linux answers EINVAL, as macOS does for some file systems
sys.platform = "darwin"
