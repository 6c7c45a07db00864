"""Apache Kafka's request log as it is found in the field: old releases, JSON layouts, collectors of logs, time zones."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa

from twisted_kafka_spark.pipeline.job import Job, run
from twisted_kafka_spark.records.lines import LineReader
from twisted_kafka_spark.report.page import as_html
from twisted_kafka_spark.report.terminal import as_text

FIELD = Path(__file__).resolve().parents[1] / "data" / "field_request_logs"
PLAIN = (FIELD / "utc-offset.log").read_text().splitlines()[0].replace("+0200", "")
MESSAGE = PLAIN[PLAIN.index("Completed") : PLAIN.rindex(" (kafka.request.logger)")]
OLD = (FIELD / "before-2.8.log").read_text().splitlines()[0]


def read(*texts: str, utc_offset_s: int = 0) -> tuple[list[str], dict[str, int]]:
    """Return the times of the records, and the counts of the lines without one."""
    reader = LineReader(utc_offset_s)
    batches = list(reader.records(pa.array(texts)))
    return [row["time"] for batch in batches for row in batch.to_pylist()], dict(reader.found.refused)


@pytest.mark.parametrize(
    ("name", "first"), [("json-layout", "2026-11-21T10:00:00.000Z"), ("utc-offset", "2026-11-21T08:00:00.000Z")]
)
def test_requests_of_the_field_are_read(name: str, first: str) -> None:
    times, refused = read(*(FIELD / f"{name}.log").read_text().splitlines())
    assert (len(times), times[0], refused) == (3, first, {})


def test_the_report_says_that_requests_of_a_kafka_before_2_8_are_not_read(spark: Any) -> None:
    document = run(spark, Job(paths=[str(FIELD / "before-2.8.log")]))
    assert document["total"]["requests"] == 0
    title = "3 of 3 lines are requests of a Kafka before 2.8 and were not read"
    assert [(each["severity"], each["name"], each["title"]) for each in document["findings"]] == [
        ("critical", "unreadable-lines", title)
    ]
    assert title in as_html(document)
    assert "requests of a Kafka before 2.8" in as_text(document)


@pytest.mark.parametrize(
    "line",
    [
        OLD,
        OLD.replace(
            "RequestHeader(apiKey=PRODUCE, apiVersion=8, clientId=producer-1, correlationId=6)", "{api_key=0,api_version=1}"
        ),
        "[2014-03-01 10:00:00,000] TRACE Completed request:Name: FetchRequest; Version: 0; CorrelationId: 5 (kafka.request.logger)",
        json.dumps({"@timestamp": "2026-11-21T08:00:00.000Z", "message": OLD}),
    ],
)
@pytest.mark.parametrize("others", [[], [PLAIN] * 100])
def test_requests_of_a_kafka_before_2_8_are_counted(line: str, others: list[str]) -> None:
    times, refused = read(*others, line, *others)
    assert len(times) == 2 * len(others)
    assert refused == {"before-2.8": 1}


@pytest.mark.parametrize(
    ("zone", "time"),
    [
        ("", "09:00"),  # --utc-offset counts
        ("Z", "10:00"),
        ("+02", "08:00"),
        ("+0200", "08:00"),
        ("+02:00", "08:00"),
        (" -03:30", "13:30"),
        (" UTC", "10:00"),
        (" CEST", "08:00"),
        (" PDT", "17:00"),
        (" CST", "09:00"),  # of America, or of China
        ("123456Z", "10:00"),
        (" -5", "09:00"),  # no zone
    ],
)
def test_a_time_that_says_its_zone_is_read_as_it_says(zone: str, time: str) -> None:
    assert read(PLAIN.replace(",000]", f",000{zone}]"), utc_offset_s=3600) == ([f"2026-11-21T{time}:00.000Z"], {})


def test_the_time_of_a_container_runtime_has_a_zone() -> None:
    assert read(f"2026-11-21T08:00:00.123456789Z stdout F {PLAIN}", utc_offset_s=7200) == (["2026-11-21T08:00:00.123Z"], {})


def test_a_request_without_its_broker_or_key_is_read() -> None:
    start, stop = PLAIN.index('"request":') + len('"request":'), PLAIN.index(',"response":')
    for name in ("BROKER_REGISTRATION", "FIND_COORDINATOR"):
        line = (PLAIN[:start] + "{}" + PLAIN[stop:]).replace('"requestApiKeyName":"PRODUCE"', f'"requestApiKeyName":"{name}"')
        assert name in line
        assert read(line) == (["2026-11-21T10:00:00.000Z"], {})


ECS = {"@timestamp": "2026-11-21T10:00:00.250+0200", "log.level": "DEBUG", "message": MESSAGE, "log.logger": "kafka.request.logger"}
LAYOUTS: dict[str, Any] = {
    "ECS": ECS,
    "JsonLayout": {"instant": {"epochSecond": 1795248000, "nanoOfSecond": 250_000_000}, "level": "DEBUG", "message": MESSAGE},
    "GELF": {"version": "1.1", "short_message": MESSAGE, "timestamp": 1795248000.25},
    "milliseconds": {"timeMillis": 1795248000250, "message": MESSAGE},
    "json-file of Docker": {"log": PLAIN.replace("10:00:00,000", "08:00:00,250") + "\n", "stream": "stdout", "time": "yesterday"},
    "a layout in json-file": {"log": json.dumps(ECS) + "\n", "stream": "stdout", "time": "2026-11-21T09:00:00.000Z"},
    "an export of Elasticsearch": {"_index": "kafka", "_source": {"tags": ["a"], **ECS}},
}


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("prefix", ["", "kafka-1  | "])
def test_json_layouts_and_collectors_are_read(name: str, prefix: str) -> None:
    line = prefix + json.dumps(LAYOUTS[name])
    assert read(*[line] * 3) == (["2026-11-21T08:00:00.250Z"] * 3, {})


def test_other_lines_of_a_json_layout_are_not_foreign() -> None:
    layout = {"@timestamp": "2026-11-21T08:00:00.000Z", "level": "INFO", "loggerName": "kafka.log.LogCleaner", "message": "started"}
    docker = {"log": "[2026-11-21 08:00:00,000] INFO KafkaConfig values: (kafka.server.KafkaConfig)\n", "stream": "stdout"}
    rest = {"log": "\tadvertised.listeners = null\n", "stream": "stdout"}
    assert read(*map(json.dumps, (layout, docker, rest))) == ([], {"other": 3})
    assert read(json.dumps({"loggerName": "kafka", "timestamp": 1e300})) == ([], {"foreign": 1})


STRANGE = {
    "no time": json.dumps({"message": MESSAGE}),
    "a time beyond all calendars": json.dumps({"message": MESSAGE, "timestamp": 1e300}),
    "a torn object": json.dumps(ECS)[:-40],
    "the mark in a name": json.dumps({'Completed request:{"': 1}),
    "a number beyond the column": PLAIN.replace('"correlationId":271', '"correlationId":99999999999'),
    "a text that is a number": PLAIN.replace('"clientId":"shop"', '"clientId":5'),
    "an endless phase": PLAIN.replace("0.841", "1e999"),
    "the year 1": PLAIN.replace("2026-11-21 10", "0001-01-01 00").replace(",000]", ",000+0200]"),
    "a deep object": '{"a":' * 100_000,
}


@pytest.mark.parametrize("name", STRANGE)
@pytest.mark.parametrize("others", [0, 100])
def test_a_line_with_strange_values_affects_no_other(name: str, others: int) -> None:
    times, refused = read(*[PLAIN] * others, STRANGE[name], *[PLAIN] * others)
    assert len(times) == 2 * others
    assert Counter(refused) == {"garbled": 1}
