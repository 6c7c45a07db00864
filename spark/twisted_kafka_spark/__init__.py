"""Reports on a Kafka broker's request log, with Spark.

In a notebook, with a session of your own: `document = run(spark, Job(paths=["kafka-data/access"]))` returns the report as plain
data, as it is in report.json, and `as_html(document)` the page. `roll_up(spark, Job(paths=[...], rollup_out="rollups"))` writes a
rollup.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twisted_kafka_spark.pipeline.job import Job, roll_up, run
    from twisted_kafka_spark.report.page import as_html

__all__ = ["Job", "as_html", "roll_up", "run"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is used: most commands and all workers need none of them."""
    if name not in __all__:
        raise AttributeError(name)
    if name == "as_html":
        from twisted_kafka_spark.report.page import as_html

        return as_html
    from twisted_kafka_spark.pipeline import job

    return getattr(job, name)
