"""Start Spark for this job: quiet, configured for the machine, and with the current Python."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from twisted_kafka_spark.runtime import class_cache
from twisted_kafka_spark.runtime.java_home import ensure_java

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

BATCH_LINES = 1 << 16
"""Lines that a Python worker gets at a time."""
_MALLOC, _KEPT_BYTES = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"), 256 << 20
"""numpy in the workers allocates and frees megabytes all the time; letting glibc keep them saves a third of the workers' time."""
_JAVA_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:-DontCompileHugeMethods -XX:+UseSerialGC -XX:-UsePerfData "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
"""On one machine the JVM merges what Python counted: its second compiler and parallel garbage collection cost as much as they gain
for two million lines, and more than that for fewer. Cells have some forty columns, and Java compiles the long methods that Spark
makes for them only if it is told to. Verifying the byte code of some ten thousand classes, all from pyspark's jars, would take an
eighth of the start."""
_MEMORY_SHARE, _MEMORY_MIN_MB, _MEMORY_MAX_MB = 0.25, 1024, 8192


class SparkUnavailableError(RuntimeError):
    """Java or pyspark is missing or too old."""


def driver_memory_mb() -> int:
    """Return the memory for a local Spark in MB: a quarter of the machine's memory, within bounds."""
    try:
        whole_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (1 << 20)
    except (ValueError, OSError):
        whole_mb = 4 * _MEMORY_MIN_MB
    return max(_MEMORY_MIN_MB, min(_MEMORY_MAX_MB, int(whole_mb * _MEMORY_SHARE)))


def settings(cores: int, is_verbose: bool, java_options: str = "") -> dict[str, str]:
    """Return Spark's settings for one machine."""
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "INFO" if is_verbose else "OFF",
        "spark.driver.memory": f"{driver_memory_mb()}m",
        "spark.driver.extraJavaOptions": f"{_JAVA_OPTIONS} {java_options}".strip(),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(2 * cores),
        "spark.sql.files.maxPartitionBytes": str(64 << 20),
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_LINES),
        "spark.sql.execution.pythonUDF.arrow.enabled": "true",
        "spark.python.sql.dataFrameDebugging.enabled": "false",
    }


def start(
    master: str = "",
    *,
    is_verbose: bool = False,
    application: str = "access log report",
    class_cache_out: str = "",
    more: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start Spark, or use the session that spark-submit created; without `master`, Spark uses all cores of this machine.

    `class_cache_out`: the path to which Java writes the archive of loaded classes when it exits. `more`: settings that the user may
    have made otherwise; those of spark-submit cannot be changed.

    Raises SparkUnavailableError, with a message of one line, when Java or pyspark is missing or too old.
    """
    try:
        import pyarrow  # noqa: F401
        from pyspark import SparkConf
        from pyspark.errors import PySparkRuntimeError
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SparkUnavailableError(f"{error.name} is not installed: pip install 'twisted_kafka[spark]'") from None
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if not is_verbose:
        warnings.filterwarnings("ignore", category=FutureWarning)
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
    if "SPARK_ENV_LOADED" in os.environ or is_submitted():
        session: SparkSession = _quietly(SparkSession.builder.appName(application).getOrCreate, is_verbose)
        session.conf.set("spark.sql.session.timeZone", "UTC")  # the hours of rollups are UTC
        return session
    try:
        java_home = ensure_java()
    except RuntimeError as error:
        raise SparkUnavailableError(str(error)) from None
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    for name in _MALLOC:
        os.environ.setdefault(name, str(_KEPT_BYTES))
    mine = own_settings(master, is_verbose=is_verbose, java_options=class_cache.options(java_home, class_cache_out))
    mine |= {name: value for name, value in (more or {}).items() if name not in set_by_user()}
    conf = SparkConf().setAppName(application).setMaster(master or "local[*]").setAll(list(mine.items()))
    try:
        late: Any = _LateSession(conf, is_verbose)
    except PySparkRuntimeError as error:
        packages = mine.get("spark.jars.packages")
        if packages is None or "JAVA_GATEWAY_EXITED" not in str(error):
            raise
        raise SparkUnavailableError(f"Spark did not start: it may not have found {packages}, which --jars can replace") from None
    return cast("SparkSession", late)


def own_settings(master: str, *, is_verbose: bool = False, java_options: str = "") -> dict[str, str]:
    """Return the settings for one machine that the user has not made."""
    theirs = set_by_user()
    wanted = settings(_cores(master), is_verbose, java_options)
    return {name: value for name, value in wanted.items() if name not in theirs}


def set_by_user() -> set[str]:
    """Return the names of the settings in spark-defaults.conf and PYSPARK_SUBMIT_ARGS, which are not overridden."""
    directory = os.environ.get("SPARK_CONF_DIR") or os.path.join(os.environ.get("SPARK_HOME", ""), "conf")
    names = set(re.findall(r"--conf[ =]['\"]?([\w.]+)=", os.environ.get("PYSPARK_SUBMIT_ARGS", "")))
    with contextlib.suppress(OSError):
        for text in Path(directory, "spark-defaults.conf").read_text().splitlines():
            found = re.match(r"\s*(spark[\w.]*)[\s=:]", text)
            names |= {found[1]} if found else set()
    return names


class _LateSession:
    """A Spark session that is created on first use; until then there is only the Spark context.

    Creating a session starts Spark SQL, which takes nearly as long as the rest of Spark, and most reports do not need it.
    """

    def __init__(self, conf: SparkConf, is_verbose: bool) -> None:
        from pyspark import SparkContext

        self._is_verbose = is_verbose
        self._session: Any = None
        self.sparkContext: SparkContext = _quietly(lambda: SparkContext(conf=conf), is_verbose)

    def __getattr__(self, name: str) -> Any:
        if self._session is None:
            from pyspark.sql import SparkSession

            self._session = _quietly(SparkSession.builder.getOrCreate, self._is_verbose)
        return getattr(self._session, name)

    def stop(self) -> None:
        """Stop Spark."""
        (self._session or self.sparkContext).stop()


def is_submitted() -> bool:
    """Return whether spark-submit started this process, with its own master and settings."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _cores(master: str) -> int:
    inside = master.partition("[")[2].rstrip("]")
    return int(inside) if inside.isdecimal() else (os.cpu_count() or 1)


def _quietly(begin: Callable[[], Any], is_verbose: bool) -> Any:
    """Start Spark, suppressing what its launcher and its JVM print on standard error before the log level takes effect."""
    if is_verbose:
        return begin()
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        return begin()
    finally:
        os.dup2(kept, 2)
        os.close(nowhere)
        os.close(kept)
