"""A folder in any of Hadoop's file systems, this machine's included: its small files and the names in it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_OBJECT_STORES = ("s3a", "gs", "abfs", "abfss")
"""Schemes of stores in which a file appears when it is complete, and a rename is a copy."""


class Folder:
    """The operations of a folder that streams and rollups need, with Hadoop's classes. Names may contain slashes.

    `url`: the folder with its scheme; a path without one is in the default file system (`fs.defaultFS`).
    """

    def __init__(self, spark: SparkSession, path: str) -> None:
        jvm: Any = spark._jvm
        self._java = jvm
        where = self._java.org.apache.hadoop.fs.Path(path)
        self._system = where.getFileSystem(spark._jsc.hadoopConfiguration())
        self.url = str(self._system.makeQualified(where).toString()).rstrip("/")

    def write(self, name: str, content: bytes) -> None:
        """Write a file, replacing an existing one. `read` finds the old or the new contents, whenever this is interrupted."""
        new = self._at(_new(name))
        self._create(new, content)
        self._system.delete(self._at(name), False)  # not every file system renames onto an existing file
        if not self._system.rename(new, self._at(name)):
            raise OSError(f"{self.url}/{name} could not be written")

    @property
    def is_of_this_machine(self) -> bool:
        """Whether the folder is in the file system of this machine."""
        return self.url.startswith("file:")

    def replace(self, name: str, content: bytes) -> None:
        """Write a file, replacing an existing one, without a trace of how; on this machine a reader gets the old or the new one."""
        if self.url.partition(":")[0] in _OBJECT_STORES:
            self._create(self._at(name), content)
            return
        if not self.is_of_this_machine:
            self.write(name, content)
            return
        path = Path(unquote(urlsplit(self.url).path), name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as new:
            new.write(content)
        os.chmod(new.name, 0o644)
        os.replace(new.name, path)

    def _create(self, path: Any, content: bytes) -> None:
        stream = self._system.create(path, True)
        try:
            stream.write(bytearray(content))
        finally:
            stream.close()

    def read(self, name: str) -> bytes | None:
        """Return the contents of a file, None if it does not exist."""
        for found in (name, _new(name)):  # the new file is complete once the old one is deleted
            if self.exists(found):
                stream = self._system.open(self._at(found))
                try:
                    return bytes(self._java.org.apache.hadoop.shaded.org.apache.commons.io.IOUtils.toByteArray(stream))
                finally:
                    stream.close()
        return None

    def exists(self, name: str) -> bool:
        """Return whether there is a file or folder of this name."""
        return bool(self._system.exists(self._at(name)))

    def names(self, name: str = "") -> list[str]:
        """Return the names of the files and folders directly in this one, or in one in it, in any order."""
        if not self._system.exists(self._at(name)):
            return []
        return [status.getPath().getName() for status in self._system.listStatus(self._at(name))]

    def files(self, name: str) -> list[str]:
        """Return the names of the files in a folder of this name and in all below it; none if it does not exist."""
        if not self.exists(name):
            return []
        found, each = [], self._system.listFiles(self._at(name), True)
        while each.hasNext():
            found.append(str(each.next().getPath().toString()).removeprefix(f"{self.url}/"))
        return found

    def modified_ms(self, name: str) -> int:
        """Return when a file or folder was changed, in milliseconds since 1970."""
        return int(self._system.getFileStatus(self._at(name)).getModificationTime())

    def move(self, name: str, to: str) -> None:
        """Move a file to a name that does not exist yet; make the folders above it. Raises OSError."""
        self._system.mkdirs(self._at(to).getParent())
        if not self._system.rename(self._at(name), self._at(to)):
            raise OSError(f"{self.url}/{to} could not be written")

    def delete(self, name: str) -> None:
        """Delete a file, or a folder with all that is in it, if it exists."""
        self._system.delete(self._at(name), True)

    def _at(self, name: str) -> Any:
        return self._java.org.apache.hadoop.fs.Path(f"{self.url}/{name}".rstrip("/"))


def _new(name: str) -> str:
    folder, slash, base = name.rpartition("/")
    return f"{folder}{slash}.{base}.new"
