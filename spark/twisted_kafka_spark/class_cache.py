"""Keep the classes that Spark loads in the form that Java maps into memory (class data sharing): half of the start is to load them.

The file is made once, by `python -m twisted_kafka_spark prepare`, and belongs to one Java and one pyspark; Java passes over a file
that does not fit.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

_EXIT_TIMEOUT_S = 300
_ROWS = 2000


def cache_directory() -> Path:
    """Return where files are kept that can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "twisted_kafka", "java")


def class_cache(java_home: Path) -> Path:
    """Return the path of the file for this Java and this pyspark, whether it is there or not."""
    import pyspark

    java = (java_home / "bin" / "java").resolve()
    known = f"{java} {java.stat().st_mtime_ns} {Path(pyspark.__file__).parent}"
    return cache_directory() / f"spark-{pyspark.__version__}-{hashlib.blake2b(known.encode(), digest_size=6).hexdigest()}.jsa"


def options(java_home: Path, making: str = "") -> str:
    """Return Java's options: to write the file `making`, or to use the one that is there."""
    if making:
        return f"-XX:ArchiveClassesAtExit={making} -Xlog:cds=off -Xlog:cds+dynamic=off"
    found = class_cache(java_home)
    return f"-XX:SharedArchiveFile={found} -Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off" if found.exists() else ""


def prepare(master: str = "") -> Path:
    """Make the file: report on a small made-up day, and follow it, while Java notes the classes.

    Raises RuntimeError when Java did not write it.
    """
    from pyspark import SparkContext

    from twisted_kafka_spark import session
    from twisted_kafka_spark.arguments import parser
    from twisted_kafka_spark.java_home import ensure_java
    from twisted_kafka_spark.job import Job, run
    from twisted_kafka_spark.rollup import Selection
    from twisted_kafka_spark.stream.follow import follow
    from twisted_kafka_spark.synthetic.day import Day

    wanted = class_cache(ensure_java())
    wanted.parent.mkdir(parents=True, exist_ok=True)
    making = wanted.with_suffix(f".{os.getpid()}.jsa")
    spark = session.start(master, class_cache_out=str(making))
    try:
        with tempfile.TemporaryDirectory() as directory:
            log = f"{directory}/log"
            Day(_ROWS).write(Path(log))
            run(spark, Job(paths=[log], rollup_out=f"{directory}/rollup"))
            run(spark, Job(paths=[log], selection=Selection("api = 'Fetch'")))
            options = parser().parse_args(["follow", log, "--once", "--out", f"{directory}/followed"])
            follow(spark, options, trigger_s=1, tell=lambda finding: None)
    finally:
        spark.stop()
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(_EXIT_TIMEOUT_S)
    if not making.exists():
        raise RuntimeError("this Java wrote no archive of classes; reports work without it")
    os.replace(making, wanted)
    return wanted
