"""A folder whose files are written atomically, on this machine or in a file system that only Hadoop's classes support."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from twisted_kafka_spark.records.pieces import local_path
from twisted_kafka_spark.records.read import is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Folder(Protocol):
    """The operations of a folder that streams need. Names may contain slashes."""

    url: str
    """The URL of the folder for Spark."""

    def write(self, name: str, content: bytes) -> None:
        """Write a file, replacing an existing one; after a crash it exists completely or not at all."""

    def read(self, name: str) -> bytes | None:
        """Return the contents of a file, None if it does not exist."""

    def names(self, under: str) -> list[str]:
        """Return the names of the files and folders directly in the folder `under`, in any order."""

    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""


class _Local:
    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self.url = self._path.as_uri()

    def write(self, name: str, content: bytes) -> None:
        path = self._path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as new:
            new.write(content)
            new.flush()
            os.fchmod(new.fileno(), 0o644)
            os.fsync(new.fileno())
        os.replace(new.name, path)

    def read(self, name: str) -> bytes | None:
        try:
            return (self._path / name).read_bytes()
        except FileNotFoundError:
            return None

    def names(self, under: str) -> list[str]:
        try:
            return os.listdir(self._path / under)
        except FileNotFoundError:
            return []

    def delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path / name)


class _Hadoop:
    def __init__(self, spark: SparkSession, url: str) -> None:
        self._java: Any = spark._jvm
        self.url = url.rstrip("/")
        self._system = self._at("").getFileSystem(spark._jsc.hadoopConfiguration())

    def write(self, name: str, content: bytes) -> None:
        new = self._at(f"{name.rpartition('/')[0]}/.{name.rpartition('/')[2]}.new")
        stream = self._system.create(new, True)
        try:
            stream.write(bytearray(content))
        finally:
            stream.close()
        self._system.delete(self._at(name), False)  # if this is interrupted, the batch is repeated
        if not self._system.rename(new, self._at(name)):
            raise OSError(f"{self.url}/{name} could not be written")

    def read(self, name: str) -> bytes | None:
        if not self._system.exists(self._at(name)):
            return None
        stream = self._system.open(self._at(name))
        try:
            return bytes(self._java.org.apache.hadoop.shaded.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def names(self, under: str) -> list[str]:
        if not self._system.exists(self._at(under)):
            return []
        return [status.getPath().getName() for status in self._system.listStatus(self._at(under))]

    def delete(self, name: str) -> None:
        self._system.delete(self._at(name), False)

    def _at(self, name: str) -> Any:
        return self._java.org.apache.hadoop.fs.Path(f"{self.url}/{name}".rstrip("/"))


def folder(spark: SparkSession, path: str) -> Folder:
    """Return the folder at a path or URL; it is created by the first write."""
    return _Hadoop(spark, path) if is_remote(path) else _Local(Path(local_path(path)))
