"""The archive of the classes that Spark loads (Java class data sharing). Loading classes takes half of Spark's start.

`python -m twisted_kafka_spark prepare` creates the file once. It is specific to one Java and one pyspark; Java ignores an archive
that does not match.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path


def cache_directory() -> Path:
    """Return the directory for files that can be recreated."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "twisted_kafka", "java")


def class_cache(java_home: Path) -> Path:
    """Return the path of the archive for this Java and this pyspark, whether it exists or not."""
    import pyspark

    java = (java_home / "bin" / "java").resolve()
    known = f"{java} {java.stat().st_mtime_ns} {Path(pyspark.__file__).parent}"
    return cache_directory() / f"spark-{pyspark.__version__}-{hashlib.blake2b(known.encode(), digest_size=6).hexdigest()}.jsa"


def options(java_home: Path, making: str = "") -> str:
    """Return the Java options that write the archive to the path `making`, or use the existing one."""
    if making:
        return f"-XX:ArchiveClassesAtExit={making} -Xlog:cds=off -Xlog:cds+dynamic=off"
    found = class_cache(java_home)
    return f"-XX:SharedArchiveFile={found} -Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off" if found.exists() else ""
