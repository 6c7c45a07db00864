"""Create the archive of the classes that Spark loads (`python -m twisted_kafka_spark prepare`)."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from twisted_kafka_spark.runtime.class_cache import class_cache
from twisted_kafka_spark.runtime.java_home import ensure_java

_EXIT_TIMEOUT_S = 300
_ROWS = 2000


def prepare(master: str = "") -> Path:
    """Report on a small synthetic day, and follow it, while Java records the classes that it loads.

    Raises RuntimeError if Java did not write the archive.
    """
    from pyspark import SparkContext

    from twisted_kafka_spark.pipeline.job import Job, run
    from twisted_kafka_spark.pipeline.rollup import Selection
    from twisted_kafka_spark.runtime import session
    from twisted_kafka_spark.stream.follow import Following, follow
    from twisted_kafka_spark.stream.source import Source
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
            following = Following(Source(log), f"{directory}/followed", is_once=True)
            follow(spark, following, report=lambda findings: None)
    finally:
        spark.stop()
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(_EXIT_TIMEOUT_S)
    if not making.exists():
        raise RuntimeError("this Java did not write an archive of classes; reports work without it")
    os.replace(making, wanted)
    return wanted
