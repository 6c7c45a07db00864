"""The interpreter: what this broker does differently on PyPy, or without the interpreter lock.

Other modules ask these constants and never the interpreter's name, so that each difference is decided here.
"""

import sys
from collections.abc import Mapping
from typing import Final

IS_PYPY: Final[bool] = sys.implementation.name == "pypy"

HAS_INTERPRETER_LOCK: Final[bool] = getattr(sys, "_is_gil_enabled", lambda: True)()
"""Whether only one thread at a time executes Python code; false on a free-threaded build (PEP 703)."""

ARRAYS_ARE_SHARED: Final[bool] = HAS_INTERPRETER_LOCK
"""Whether a thread may read an ``array.array`` while another one appends to it.

Without the lock an append may move the items away under a reader, which then reads freed memory. Lists may be shared.
"""

EMULATES_C_API: Final[bool] = IS_PYPY
"""Whether extension modules run on an emulation of CPython's C API (PyPy's cpyext).

A call then costs microseconds, and, for each argument that is not bytes, kilobytes until the next major collection.
"""

HAS_CODEC_EXTENSIONS: Final[bool] = not EMULATES_C_API
"""Whether lz4 and zstandard are used. lz4's decompressor crashes PyPy 7.3; cramjam, which has wheels for it, does both there."""

NUMPY_PAYS: Final[bool] = not EMULATES_C_API
"""Whether numpy beats loops over bytes, which PyPy compiles."""

COLUMNS_PAY: Final[bool] = not IS_PYPY
"""Whether it beats a loop over records to take the same byte of many at once, as a slice."""

REUSED_BUFFER_BYTES: Final[int] = 16 * 1024 * 1024 if IS_PYPY else 0
"""Bytes of buffers of frames that are kept to be filled again.

On PyPy a buffer lives until the next major collection, and a new one costs more than to fill it. CPython frees it at once.
"""

LEAST_REUSED_BYTES: Final[int] = 1024 if IS_PYPY else 2**31
"""The smallest produce request that is put into a buffer although all of it has arrived.

PyPy passes the address of such a buffer to C, but copies ``bytes`` that the collector may move: each of checksum, patch and write
would make one or two more copies of a batch.
"""

MEMORY_SETTINGS: Final[Mapping[str, str]] = (
    {
        "PYPY_GC_NURSERY": "8MB",
        "PYPY_GC_MIN": "32MB",
        "PYPY_GC_MAJOR_COLLECT": "1.4",
        "PYPY_GC_INCREMENT_STEP": "4MB",
        "MALLOC_ARENA_MAX": "1",
        "MALLOC_MMAP_THRESHOLD_": "131072",
    }
    if IS_PYPY
    else {}
)
"""Environment variables for a process that is a broker. The interpreter and the C library read them only when they start.

PyPy's collector makes its nursery half as large as the processor's last-level cache, 240 MB on some machines, and starts its first
major collection at eight times that, later ones at 1.82 times the live data. A step of a major collection, during which all threads
wait, handles four times the nursery. Buffers come from malloc, which keeps freed memory in an arena for each thread, and between
used memory.
"""

RETURN_MEMORY_MS: Final[int] = 60_000 if IS_PYPY else 0
"""Milliseconds between two times at which freed memory is returned to the system; 0 for never.

Buffers of some kilobytes, which PyPy's collector frees long after their use, leave free pages between used ones.
"""

START_OPTIONS: Final[tuple[str, ...]] = ("--jit", "threshold=0,function_threshold=0") if IS_PYPY else ()
"""The interpreter's options while a broker imports its modules: PyPy's compiler is off, as it is with ``--jit off``.

What runs once is not worth compiling: it was a quarter of the processor time of a start.
"""
