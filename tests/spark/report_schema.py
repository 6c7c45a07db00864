"""The JSON Schema of report.json: `python -m tests.spark.report_schema` writes docs/access-log/report.schema.json.

Its names and types are those of the reports of two days, one with incidents, and of an hour of a share group, so it needs no second
list of the document's fields.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from tests.spark.access_lines import line
from tests.spark.moments import at
from twisted_kafka_spark.cells.fold import Folding
from twisted_kafka_spark.pipeline.job import Job, run
from twisted_kafka_spark.runtime import session
from twisted_kafka_spark.synthetic.day import Day
from twisted_kafka_spark.synthetic.incidents import INCIDENTS

PATH = Path(__file__).resolve().parents[2] / "docs" / "access-log" / "report.schema.json"
MAPS = ("lines", "samples", "versions", "evidence", "requests", "failed", "series", "throttled")
"""Names of objects whose own names are data, such as those of APIs."""
ROWS = 20_000


def of_value(value: Any, name: str = "") -> dict[str, Any]:
    """Return the schema of a value."""
    if isinstance(value, dict):
        inner = {key: of_value(each, key) for key, each in value.items()}
        is_map = name in MAPS or any(not key.isidentifier() for key in inner)
        if is_map:
            return {"type": ["object"], "additionalProperties": merged(inner.values())}
        return {"type": ["object"], "properties": inner}
    if isinstance(value, list):
        return {"type": ["array"], "items": merged(of_value(each, name) for each in value)}
    if isinstance(value, bool):
        return {"type": ["boolean"]}
    if isinstance(value, int | float):
        return {"type": ["number"]}
    return {"type": ["null" if value is None else "string"]}


def merged(schemas: Any) -> dict[str, Any]:
    """Return the schema of values of which each has one of these."""
    found: dict[str, Any] = {}
    for each in schemas:
        for name, value in each.items():
            if name == "type":
                found["type"] = sorted({*found.get("type", ()), *value})
            elif name == "properties":
                mine = found.setdefault("properties", {})
                for key, inner in value.items():
                    mine[key] = merged([mine[key], inner]) if key in mine else inner
            else:
                found[name] = merged([found[name], value]) if name in found else value
    return found


def of_reports(documents: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the schema of reports: all top-level names are required, and more may come."""
    plain = [json.loads(json.dumps(document, default=str)) for document in documents]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "report.json of twisted-kafka report",
        **merged(map(of_value, plain)),
        "required": sorted(set.intersection(*(set(document) for document in plain))),
    }


def documents(spark: Any, directory: Path) -> list[dict[str, Any]]:
    """Return the reports of a day with incidents, compared with the hours before, of a quiet day, and of a share group."""
    found = []
    for name, incidents in (("incidents", INCIDENTS), ("quiet", ())):
        log = Day(ROWS, incidents)
        log.write(directory / name)
        period = Folding(since="2026-11-20T12:00:00", until="2026-11-20T20:00:00")
        found.append(run(spark, Job(paths=[str(directory / name)], folding=period, is_compared=True, group_by=("api", "error"))))
        found.append(run(spark, Job(paths=[str(directory / name)])))
    shares = directory / "shares.jsonl"
    shares.write_text("".join(_share_fetch(minute, member) for minute in range(60) for member in ("m-1", "m-2")))
    return [*found, run(spark, Job(paths=[str(shares)]))]


def _share_fetch(minute: int, member: str) -> str:
    share = [{"topic": "jobs", "acquired": 10, "accept": 9, "release": 1, "delivery_count": 2}]
    who = {"client_id": member, "principal": "User:jobs", "group_id": "workers", "member_id": member}
    return line("ShareFetch", 0, v=2, time=at(minute), generation=3, **who, share=share)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        started = session.start("local[2]")
        PATH.write_text(json.dumps(of_reports(documents(started, Path(place))), indent=1) + "\n")
        started.stop()
