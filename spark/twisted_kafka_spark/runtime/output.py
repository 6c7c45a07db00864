"""Write the files of a report wherever Spark can write: a path of this machine, or a URL of any of Hadoop's file systems."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from twisted_kafka_spark.runtime.folder import Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_remote(out: str) -> bool:
    """Return whether a path is a URL of another file system than this machine's."""
    return bool(urlsplit(out).scheme) and not out.startswith("file:")


def local(out: str) -> Path:
    """Return the path of this machine that a path, or a `file:` URL, names."""
    return Path(unquote(urlsplit(out).path) if out.startswith("file:") else out)


def check(out: str) -> None:
    """Raise NotADirectoryError unless the directory exists, if it is of this machine: Spark need not start to find out."""
    if not is_remote(out) and not local(out).absolute().parent.is_dir():
        raise NotADirectoryError(f"{local(out).absolute().parent} is not a directory; --out requires an existing one")


def with_suffix(out: str, suffix: str) -> str:
    """Return a path with another suffix."""
    folder, slash, name = out.rpartition("/")
    return f"{folder}{slash}{name.rpartition('.')[0] or name}{suffix}"


def write(spark: SparkSession, out: str, text: str) -> str:
    """Replace a file, by rename where the file system can; return its place, for people.

    On a cluster the driver may be on any machine (`--deploy-mode cluster`). There a path without a scheme is one of Hadoop's
    `fs.defaultFS`, as for Spark itself; if that is the machine's own, the place names the machine.
    """
    is_on_cluster = _is_on_cluster(spark)
    if is_remote(out) or (is_on_cluster and not out.startswith("file:")):
        folder, _, name = out.rpartition("/")
        there = Folder(spark, folder or ".")
        if not there.is_of_this_machine:
            there.replace(name, text.encode())
            return f"{there.url}/{name}"
    replace(local(out), text)
    return f"{local(out)} on {socket.gethostname()}" if is_on_cluster else str(local(out))


def replace(path: Path, text: str) -> None:
    """Replace a file of this machine atomically."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False) as new:
        new.write(text)
    os.chmod(new.name, 0o644)
    os.replace(new.name, path)


def _is_on_cluster(spark: SparkSession) -> bool:
    context: Any = spark.sparkContext
    return bool(context.getConf().get("spark.submit.deployMode", "client") == "cluster")
