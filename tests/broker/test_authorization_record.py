"""Who may do what, as Apache Kafka answered when tests/oracle was last run: every API and version, allowed and denied."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.broker.authorization_record import guarded_broker, said
from tests.support.budget import STRIDE
from tests.support.cases import case
from tests.support.oracle.authorization_matrix import recorded
from tests.support.oracle.authorization_samples import SAMPLES

UNTOLD = Counter({"DescribeLogDirs": 4})
"""Errors that the answer has no field for: versions 1 and 2, asked by two who are denied."""


@pytest.mark.long
def test_the_answers_are_those_that_were_written_down(tmp_path: Path) -> None:
    expected = recorded()
    assert expected.keys() == {sample.name for sample in SAMPLES}
    asked = SAMPLES[::STRIDE]
    refused: Counter[str] = Counter()
    with guarded_broker(tmp_path) as (broker, guarded):
        for sample in asked:
            with case(sample=sample.name):
                found = said(broker, guarded, sample)
                assert found == expected[sample.name]
                refused[sample.key.title] += sum(errors(marks) for standing, marks in found.items() if standing != "super")
    lines = [json.loads(line) for path in (tmp_path / "access").rglob("*.jsonl") for line in path.read_text().splitlines()]
    logged = Counter(line["api"] for line in lines if line["error"] and line["principal"] == "User:alice")
    untold = {api: count for api, count in UNTOLD.items() if any(sample.key.title == api for sample in asked)}
    assert logged == refused + Counter(untold), "the access log has the error of each"


def errors(marks: Mapping[str, Sequence[str]]) -> int:
    """Return how many of the answers have an error."""
    count = 0
    for versions, found in marks.items():
        first, _, last = versions.partition("-")
        has_failed = any(not mark.partition("error_code=")[2].startswith("0") for mark in found if "error_code=" in mark)
        count += (int(last) - int(first) + 1) * has_failed
    return count
