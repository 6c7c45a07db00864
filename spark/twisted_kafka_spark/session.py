"""Start Spark for this job: quiet, fitted to the machine, with the Python that runs this."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from typing import TYPE_CHECKING

from twisted_kafka_spark import class_cache
from twisted_kafka_spark.java_home import ensure_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH_LINES = 1 << 16
"""Lines that a Python worker is given at a time."""
_MALLOC, _KEPT_BYTES = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"), 256 << 20
"""The workers' numpy takes and frees megabytes all the time: that glibc keeps them saves a third of the workers' time."""
_MEMORY_SHARE, _MEMORY_MIN_MB, _MEMORY_MAX_MB = 0.25, 1024, 8192


class SparkUnavailableError(RuntimeError):
    """Java or pyspark is missing or too old."""


def driver_memory_mb() -> int:
    """Return how much memory a local Spark is given: a quarter of the machine's, within bounds."""
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
        # The JVM only reads lines and merges cells: on one machine its second compiler costs more than it brings.
        "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 -XX:+UseParallelGC {java_options}".strip(),
        "spark.driver.maxResultSize": "0",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(2 * cores),
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.files.maxPartitionBytes": str(64 << 20),
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_LINES),
        "spark.sql.execution.pythonUDF.arrow.enabled": "true",
        "spark.python.sql.dataFrameDebugging.enabled": "false",
    }


def start(
    master: str = "", *, is_verbose: bool = False, application: str = "access log report", class_cache_out: str = ""
) -> SparkSession:
    """Start Spark, or take the session that spark-submit made; `master` empty: all cores of this machine.

    `class_cache_out`: where Java is to write the classes that it has loaded when it ends.

    Raises SparkUnavailableError, one line, when Java or pyspark is missing or too old.
    """
    try:
        import pandas  # noqa: F401
        import pyarrow  # noqa: F401
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SparkUnavailableError(f"{error.name} is not installed: pip install 'twisted_kafka[spark]'") from None
    builder = SparkSession.builder.appName(application)
    if "SPARK_ENV_LOADED" not in os.environ and not is_submitted():
        try:
            java_home = ensure_java()
        except RuntimeError as error:
            raise SparkUnavailableError(str(error)) from None
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder = builder.master(master or "local[*]")
        for key, value in settings(_cores(master), is_verbose, class_cache.options(java_home, class_cache_out)).items():
            builder = builder.config(key, value)
        for name in _MALLOC:
            os.environ.setdefault(name, str(_KEPT_BYTES))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if not is_verbose:
        warnings.filterwarnings("ignore", category=FutureWarning)
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
    session: SparkSession = _quietly(builder) if not is_verbose else builder.getOrCreate()
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(BATCH_LINES))
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return session


def is_submitted() -> bool:
    """Tell whether spark-submit started this process: it brings its own master and settings."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _cores(master: str) -> int:
    inside = master.partition("[")[2].rstrip("]")
    return int(inside) if inside.isdecimal() else (os.cpu_count() or 1)


def _quietly(builder: SparkSession.Builder) -> SparkSession:
    """Start Spark without what its launcher and its JVM say on standard error before any log level counts."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        session: SparkSession = builder.getOrCreate()
    finally:
        os.dup2(kept, 2)
        os.close(nowhere)
        os.close(kept)
    return session
