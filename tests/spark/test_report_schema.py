"""docs/access-log/report.schema.json is the schema of today's reports."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")
pytest.importorskip("jsonschema")

import jsonschema

from tests.spark import report_schema

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_reports_have_the_documented_schema(spark: Any, tmp_path: Path) -> None:
    schema = json.loads(report_schema.PATH.read_text())
    found = report_schema.documents(spark, tmp_path)
    for document in found:
        jsonschema.validate(json.loads(json.dumps(document, default=str)), schema)
    names = schema["properties"]
    now = report_schema.of_reports(found)["properties"]
    assert set(names) == set(now), "run python -m tests.spark.report_schema"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**json.loads(json.dumps(found[0], default=str)), "clients": "none"}, schema)
