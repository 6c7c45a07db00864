"""Pieces of files with local paths, on this machine or on each machine of a cluster, which the tasks read themselves.

Spark's own readers cost more than all of the parsing; they are only used for file systems that Python cannot access (`read`).
"""

from __future__ import annotations

import bz2
import contextlib
import errno
import gzip
import json
import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK_BYTES = 2 << 20
"""Bytes of lines that are parsed at a time; they fit into the CPU's cache."""
LONGEST_LINE_BYTES = 16 << 20
"""The rest of a longer line in a compressed file is left out: a file of a megabyte may hold a line of a gigabyte."""
PARQUET, ZSTD = ".parquet", ".zst"
PACKED = (".gz", ".bz2", ZSTD)
PACKED_TIMES = 12
"""How many times larger lines are than a compressed file of them."""
_LARGEST_TASK_BYTES, _SMALLEST_TASK_BYTES = 64 << 20, 4 << 20
_FILE_BYTES = 1 << 20
"""The cost of opening a file, as the equivalent number of bytes read."""
_TASKS_PER_CORE = 4
_TAIL_BYTES = 1 << 16
_HEAD_BYTES = 1 << 16
_TABLE_ROWS = 4096


class Piece(NamedTuple):
    """The lines of a file that begin at or after byte `start` and before `stop`.

    A compressed file is read as a whole, unless the piece `is_inner`: then the bytes are those of its content.
    """

    path: str
    start: int
    stop: int
    is_inner: bool = False


def local_path(path: str) -> str:
    """Return the path of a `file:` URL; other paths are returned unchanged."""
    return unquote(urlsplit(path).path) if path.startswith("file:") else path


def is_open(path: str) -> bool:
    """Return whether a broker still writes the file: its name begins with a dot until it is closed."""
    return path.rpartition("/")[2].startswith(".")


def closed_name(path: str) -> str:
    """Return the path that an open file has after it was closed."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}{name.removeprefix('.')}"


def file_size(path: str) -> tuple[str, int]:
    """Return a file's current path and size, for an open file up to its last complete line. It may have been closed meanwhile."""
    try:
        with open(path, "rb") as file:
            return path, _whole_lines_end(file) if is_open(path) else os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        with contextlib.suppress(OSError):
            return closed_name(path), os.path.getsize(closed_name(path))
    except OSError:
        pass
    return path, 0  # the task that reads it reports the error


def head(path: str) -> bytes:
    """Return the beginning of a file's lines, or nothing if it cannot be read."""
    try:
        with opened(path) if path.endswith(PACKED) else open(path, "rb") as file:
            found: bytes = file.read(_HEAD_BYTES)
            return found
    except (OSError, EOFError):
        return b""


def lines_end(path: str, size: int) -> int:
    """Return where the last complete line of a file ends."""
    try:
        with open(path, "rb") as file:
            return min(size, _whole_lines_end(file))
    except OSError:
        return size  # the task that reads it reports the error


def _whole_lines_end(file: BinaryIO) -> int:
    end = file.seek(0, os.SEEK_END)
    while end:
        start = max(0, end - _TAIL_BYTES)
        file.seek(start)
        newline = file.read(end - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def tasks(
    files: Iterable[tuple[str, int]], cores: int, divide: Callable[[Piece], Iterable[Piece]] = lambda piece: (piece,)
) -> list[list[Piece]]:
    """Divide files, given with their sizes, into pieces, and the pieces into tasks with about equal work.

    A task's cells grow with its lines, so the uncompressed size counts. `divide`: returns what to read of a piece.
    """
    sized = list(files)
    whole = sum(lines_bytes(path, size) + _FILE_BYTES for path, size in sized)
    limit = min(_LARGEST_TASK_BYTES, max(_SMALLEST_TASK_BYTES, whole // max(1, cores * _TASKS_PER_CORE)))
    made: list[list[Piece]] = []
    filled = 0
    for path, size in sized:
        for piece, weight in ((part, weight) for whole, weight in _cut(path, size, limit) for part in divide(whole)):
            if not made or filled + weight > limit:
                made.append([])
                filled = 0
            made[-1].append(piece)
            filled += weight + _FILE_BYTES
    return made


def lines_bytes(path: str, size: int) -> int:
    """Return about how many bytes of lines a file of this size has."""
    return PACKED_TIMES * size if path.endswith(PACKED) else size


def _cut(path: str, size: int, limit: int) -> Iterator[tuple[Piece, int]]:
    if path.endswith((*PACKED, PARQUET)):
        yield Piece(path, 0, size), lines_bytes(path, size)
    else:
        for start in range(0, max(size, 1), limit):
            yield Piece(path, start, min(start + limit, size)), min(limit, size - start)


def blocks(piece: Piece) -> Iterator[bytes]:
    """Yield the complete lines of a piece, about `BLOCK_BYTES` at a time.

    A file that is damaged or truncated yields the lines before the damage, and a line with the error, which counts as garbled; so
    does a file that cannot be read or does not exist any more. One that was closed or archived since it was listed is read as it is
    now.
    """
    try:
        yield from _blocks(piece)
    except FileNotFoundError:
        yield from _moved(piece)
    except OSError as error:
        yield _unreadable(piece, error)


def _blocks(piece: Piece) -> Iterator[bytes]:
    if piece.path.endswith(PARQUET):
        yield from _lines_of_table(piece.path)
        return
    if not piece.path.endswith(PACKED):
        with open(piece.path, "rb") as file:
            yield from _lines_between(file, piece.start, piece.stop)
        return
    with opened(piece.path) as file:
        found = whole_lines(file, piece.path.rpartition(".")[2])
        yield from _lines_within(found, piece.start, piece.stop) if piece.is_inner else found


def _moved(piece: Piece) -> Iterator[bytes]:
    """Yield the lines of a piece whose file the broker has closed or archived since it was listed."""
    plain = closed_name(piece.path)
    packed, table = plain + ZSTD, plain.removesuffix(".jsonl") + PARQUET
    try:
        if os.path.exists(plain):
            yield from _blocks(piece._replace(path=plain))
        elif os.path.exists(packed):
            with opened(packed) as file:
                yield from _lines_within(whole_lines(file, "zst"), piece.start, piece.stop)
        elif os.path.exists(table):
            if not piece.start:  # one piece yields all lines
                yield from _lines_of_table(table)
        else:
            raise FileNotFoundError(errno.ENOENT, "it was deleted")
    except OSError as error:
        yield _unreadable(piece, error)


def _unreadable(piece: Piece, error: OSError) -> bytes:
    return f"cannot read {piece.path}: {error.strerror or error}".replace("\n", " ").encode() + b"\n"


def _lines_of_table(path: str) -> Iterator[bytes]:
    """Yield the records of a Parquet file as lines; raise OSError where it is damaged."""
    for batch in _batches(path):
        yield "".join(f"{json.dumps(row, default=str)}\n" for row in batch.to_pylist()).encode()


def _batches(path: str) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(_TABLE_ROWS):
                batch.validate(full=True)
                yield batch
    except pa.ArrowException as error:
        raise OSError(str(error)) from None


def is_damaged(path: str) -> bool:
    """Return whether a Parquet file, which may be gone by now, cannot be read to its end."""
    try:
        for _ in _batches(path):
            pass
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def opened(path: str) -> Any:
    """Open a compressed file for reading."""
    if path.endswith(ZSTD):
        import pyarrow as pa

        return pa.input_stream(path, compression="zstd")
    return (gzip.open if path.endswith(".gz") else bz2.open)(path)


def _lines_within(blocks_of_lines: Iterable[bytes], start: int, stop: int) -> Iterator[bytes]:
    """Yield the lines that begin at or after `start` and before `stop`, of a file that can only be read as a whole."""
    position = 0
    for block in blocks_of_lines:
        first, end = (_line_from(block, at - position) for at in (start, stop))
        if first < end:
            yield block[first:end]
        position += len(block)


def _line_from(block: bytes, at: int) -> int:
    """Return where the first line begins that begins at or after `at`."""
    return (block.find(b"\n", at - 1) + 1 or len(block)) if at > 0 else 0


def _lines_between(file: BinaryIO, start: int, stop: int) -> Iterator[bytes]:
    """Yield the lines that begin at or after `start` and before `stop`; a line continued at `start` is in the previous piece."""
    position = start
    if start:
        file.seek(start - 1)
        position += len(file.readline()) - 1
    while position < stop:
        data = file.read(min(BLOCK_BYTES, stop - position))
        if not data:
            return
        if not data.endswith(b"\n"):
            data += file.readline()
        position += len(data)
        yield data


def whole_lines(stream: Any, form: str) -> Iterator[bytes]:
    """Yield the complete lines of a stream of bytes that may be damaged."""
    rest = b""
    try:
        while data := stream.read(BLOCK_BYTES):
            cut = data.rfind(b"\n") + 1
            if cut:
                yield rest + data[:cut]
                rest = data[cut:]
            else:
                rest += data[: max(0, LONGEST_LINE_BYTES - len(rest))]
    except (OSError, EOFError) as error:
        rest += b"\n" if rest else b""
        rest += f"{form}: {error}".replace("\n", " ").encode()
    if rest:
        yield rest
