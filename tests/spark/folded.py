"""Cells and documents of access-log lines."""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from twisted_kafka_spark import views
from twisted_kafka_spark.cells import bundles
from twisted_kafka_spark.cells.fold import Folding
from twisted_kafka_spark.cells.kinds import MINUTE_S
from twisted_kafka_spark.findings.find import find, in_order
from twisted_kafka_spark.pipeline.document import About, build
from twisted_kafka_spark.records.lines import LineReader
from twisted_kafka_spark.report.page import as_html


def cells(*parts: Iterable[str], grain_s: int = 0) -> pa.Table:
    """Fold each part by itself and merge what comes of it."""
    tables: bundles.Cells = []
    for lines in parts:
        reader = LineReader()
        tables += Folding(grain_s=grain_s).folded(reader.frames_of_block("".join(lines).encode()), reader)
    return bundles.wide(bundles.joined(tables).items())


def document(*parts: Iterable[str], grain_s: int = 0) -> dict[str, Any]:
    tables = views.compute(cells(*parts, grain_s=grain_s), MINUTE_S)
    found = build(tables, About("tests"), MINUTE_S, [finding.as_values() for finding in in_order(find(tables))])
    assert "<html" in as_html(found)
    return found
