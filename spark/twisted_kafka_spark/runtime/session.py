"""Start Spark for this job: quiet, configured for the machine, and with the current Python."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import re
import shlex
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from twisted_kafka_spark.runtime import class_cache
from twisted_kafka_spark.runtime.java_home import ensure_java

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

BATCH_LINES = 1 << 16
"""Lines that a Python worker gets at a time."""
_MALLOC, _KEPT_BYTES = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"), 256 << 20
"""numpy in the workers allocates and frees megabytes all the time; letting glibc keep them saves a third of the workers' time."""
_COMPILED = "-XX:TieredStopAtLevel=1 -XX:-DontCompileHugeMethods"
"""The JVM only moves what Python counted: its second compiler costs more than it gains, a third of the CPU time for five million
lines on a cluster. Cells have some forty columns, and Java compiles the long methods that Spark makes for them only with the
second option."""
_JAVA_OPTIONS = f"{_COMPILED} -XX:+UseSerialGC -XX:-UsePerfData -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
"""Parallel garbage collection costs as much as it gains for two million lines, and more than that for fewer. Verifying the byte
code of some ten thousand classes, all from pyspark's jars, would take an eighth of the start."""
_ZONE = ("spark.sql.session.timeZone", "UTC")
"""Not a matter of taste: the hours of rollups are UTC."""
NO_CONNECT = (
    "Spark Connect does not have the RDDs and file systems that this needs: use a session of the cluster itself (--master, or "
    "SparkSession.builder.master), or query the tables that `rollup` writes, which work over Connect"
)
_SUBMITTED = {
    "--master": "spark.master",
    "--driver-memory": "spark.driver.memory",
    "--driver-java-options": "spark.driver.extraJavaOptions",
}
"""Options of spark-submit that are settings which we make, too."""
_PACKAGES = "spark.jars.packages"
_LISTS = {"spark.jars", _PACKAGES}
_DEFAULT_FILE_SYSTEM = "spark.hadoop.fs.defaultFS"
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


def settings(master: str, is_verbose: bool, java_options: str = "") -> dict[str, str]:
    """Return Spark's settings for this machine, or for its driver on this machine if the master is elsewhere."""
    found = {
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "INFO" if is_verbose else "OFF",
        "spark.driver.memory": f"{driver_memory_mb()}m",
        "spark.driver.extraJavaOptions": f"{_JAVA_OPTIONS} {java_options}".strip(),
        "spark.sql.files.maxPartitionBytes": str(64 << 20),
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_LINES),
        "spark.sql.execution.pythonUDF.arrow.enabled": "true",
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # By TCP, Java and Python wait for each other's acknowledgements in each task, 25 ms.
        "spark.python.unix.domain.socket.enabled": "true",
        # What is kept on disk is merged by as many tasks as it has bytes for, and not by spark.sql.shuffle.partitions.
        "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "true",
    }
    if is_local(master):
        found |= {
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": str(2 * _cores(master)),
        }
    else:
        found["spark.executor.extraJavaOptions"] = _COMPILED
    return found


def start(
    master: str = "",
    *,
    conf: Sequence[str] = (),
    is_verbose: bool = False,
    application: str = "access log report",
    class_cache_out: str = "",
    more: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start Spark, or use the session that spark-submit created.

    Without `master`, it is that of the user's settings, otherwise all cores of this machine. `conf`: settings, `NAME=VALUE`, before
    those of spark-defaults.conf. `class_cache_out`: the path to which Java writes the archive of loaded classes when it exits.
    `more`: settings that the user may have made otherwise, or lists to add to; those of spark-submit cannot be changed.
    Workers elsewhere get this package, so they only need Python with pyarrow and numpy.

    Raises SparkUnavailableError, with a message of one line, when Java or pyspark is missing or too old.
    """
    try:
        import pyarrow  # noqa: F401
        from pyspark import SparkConf
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SparkUnavailableError(f"{error.name} is not installed: pip install {error.name}") from None
    theirs = set_by_user(conf)
    if master.startswith("sc:") or "SPARK_REMOTE" in os.environ or "spark.remote" in theirs:
        raise SparkUnavailableError(NO_CONNECT)
    os.environ.setdefault("PYSPARK_PYTHON", theirs.get("spark.pyspark.python", sys.executable))
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if not is_verbose:
        warnings.filterwarnings("ignore", category=FutureWarning)
        for logger in ("py4j", "SQLQueryContextLogger"):  # the error is raised, too
            logging.getLogger(logger).setLevel(logging.CRITICAL + 1)
    if "SPARK_ENV_LOADED" in os.environ or is_submitted():
        session: SparkSession = _quietly(SparkSession.builder.appName(application).getOrCreate, is_verbose)
        for name, value in parsed(conf).items():
            session.conf.set(name, value)
        session.conf.set(*_ZONE)
        return session
    try:
        java_home = ensure_java()
    except RuntimeError as error:
        raise SparkUnavailableError(str(error)) from None
    master = master or theirs.get("spark.master", "local[*]")
    if is_local(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    for name in _MALLOC:
        os.environ.setdefault(name, str(_KEPT_BYTES))
    mine = own_settings(master, theirs, is_verbose=is_verbose, java_options=class_cache.options(java_home, class_cache_out))
    mine |= {**parsed(conf), **added(theirs, more or {})}
    whole = {**mine, **dict([_ZONE])}
    made = SparkConf().setAppName(application).setMaster(master).setAll(list(whole.items()))
    late: Any = _started(made, mine.get(_PACKAGES), is_verbose)
    if not is_local(master):
        _ship(late.sparkContext)
    return cast("SparkSession", late)


def _started(made: SparkConf, packages: str | None, is_verbose: bool) -> _LateSession:
    from pyspark.errors import PySparkRuntimeError

    try:
        return _LateSession(made, is_verbose)
    except PySparkRuntimeError as error:
        if packages is None or "JAVA_GATEWAY_EXITED" not in str(error):
            raise
        raise SparkUnavailableError(f"Spark did not start: it may not have found {packages}, which --jars can replace") from None


@contextmanager
def prepared(spark: SparkSession) -> Iterator[None]:
    """Let a session of somebody else have the time zone of rollups, and its own again in the end.

    Raises RuntimeError for a session of Spark Connect.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise RuntimeError(NO_CONNECT)
    if isinstance(spark, _LateSession):
        yield
        return
    with setting(spark, *_ZONE):
        yield


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """Change a setting of a session for a while."""
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, str(before))


def own_settings(master: str, theirs: Mapping[str, str], *, is_verbose: bool = False, java_options: str = "") -> dict[str, str]:
    """Return the settings that the user has not made."""
    return {name: value for name, value in settings(master, is_verbose, java_options).items() if name not in theirs}


def set_by_user(conf: Sequence[str] = ()) -> dict[str, str]:
    """Return the settings in spark-defaults.conf, PYSPARK_SUBMIT_ARGS and `conf`, which are not overridden."""
    import pyspark

    words = [part for word in shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "")) for part in _option(word)]
    submitted = list(itertools.pairwise(words))
    home = os.environ.get("SPARK_HOME") or os.path.dirname(pyspark.__file__)
    file = Path(os.environ.get("SPARK_CONF_DIR") or f"{home}/conf", "spark-defaults.conf")
    file = next((Path(value) for option, value in submitted if option == "--properties-file"), file)
    found: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for text in file.read_text().splitlines():
            if setting := re.match(r"\s*(spark[\w.]*)[\s=:]+(.*)", text):
                found[setting[1]] = setting[2].strip()
    for option, value in submitted:
        if option == "--conf":
            found |= parsed([value])
        elif option in _SUBMITTED:
            found[_SUBMITTED[option]] = value
    return found | parsed(conf)


def _option(word: str) -> list[str]:
    """Return `--option=value` as two words, and other words as they are."""
    return word.split("=", 1) if word.startswith("--") else [word]


def added(theirs: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """Return the settings to add: settings that the user has not made, and the user's lists with the missing items."""
    found = {name: value for name, value in more.items() if name not in theirs}
    for name in _LISTS & theirs.keys() & more.keys():
        lacking = more[name].rpartition(":")[0] if name == _PACKAGES else more[name]
        if lacking not in theirs[name]:
            found[name] = f"{theirs[name]},{more[name]}"
    return found


def parsed(conf: Sequence[str]) -> dict[str, str]:
    """Return settings of the form `spark.NAME=VALUE` by name; raise ValueError for any other text."""
    for text in conf:
        if not re.match(r"spark\.[\w.-]+=", text):
            raise ValueError(f"{text!r} is not a setting such as spark.executor.memory=4g")
    return {name: value for name, _, value in (text.partition("=") for text in conf)}


def is_local(master: str) -> bool:
    """Return whether Spark runs on this machine only."""
    return master.startswith("local") or not master


def may_have_other_default(conf: Sequence[str] = ()) -> bool:
    """Return whether paths without a scheme may be elsewhere than on this machine: whether somebody has configured Hadoop."""
    is_configured = any(name in os.environ for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"))
    return is_configured or is_submitted() or _DEFAULT_FILE_SYSTEM in set_by_user(conf)


def _ship(context: SparkContext) -> None:
    """Send this package to the workers. They fetch the file when they start, so it is kept until Spark stops."""
    package = Path(__file__).parent.parent
    path = Path(context._temp_dir, f"{package.name}.zip")
    with zipfile.ZipFile(path, "w") as file:
        for source in sorted(package.rglob("*.py")):
            file.write(source, source.relative_to(package.parent))
    context.addPyFile(str(path))


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
