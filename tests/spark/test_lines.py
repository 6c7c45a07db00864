"""Parsing lines into records: the broker's, Apache Kafka's, and others."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa

from tests.spark.access_lines import line, own_line, topic
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka_spark.records import kafka_names
from twisted_kafka_spark.records.kafka_log import record
from twisted_kafka_spark.records.lines import LineReader, Records
from twisted_kafka_spark.records.schema import (
    DECISION_FIELDS,
    FIELDS,
    RESOURCE_FIELDS,
    SHARE_FIELDS,
    TOPIC_FIELDS,
    TRANSACTION_FIELDS,
    markdown_table,
)

ROOT = Path(__file__).resolve().parents[2]
KAFKA_LOGS = sorted((ROOT / "tests" / "data" / "request_log").glob("*.log"))


def read(*texts: str) -> Records:
    reader = LineReader()
    batches = list(reader.records(pa.array([text.rstrip("\n") for text in texts])))
    reader.found.batches = batches
    return reader.found


def rows(found: Records) -> list[dict[Any, Any]]:
    return [row for batch in found.batches for row in batch.to_pylist()]


def test_a_line_keeps_all_its_values() -> None:
    entry = {**topic("orders", 3, "NOT_LEADER_OR_FOLLOWER"), "partition_ids": [0, 3]}
    resources = [{"type": "broker", "name": "1"}, {"type": "group", "name": None}]
    said = {"acks": -1, "group_id": "g", "member_id": "m", "generation": 3, "resources": resources, "resources_left_out": 2}
    text = line("Produce", 1, v=2, topics=[entry], error="NOT_LEADER_OR_FOLLOWER", **said, sequence=7)
    (found,) = rows(read(text))
    assert {name: value for name, value in found.items() if value is not None} == {
        name: value for name, value in json.loads(text).items() if value is not None
    }


def test_a_line_of_version_1_lacks_what_version_2_says() -> None:
    for texts in ((line("Produce", 1, topics=[topic("orders", 3)]),), (line("Produce", 1, topics=[topic("orders", 3)]), "torn")):
        (found,) = rows(read(*texts))
        assert found["topics"] == [{**topic("orders", 3), "partition_ids": None}]
        names = ("acks", "group_id", "member_id", "generation", "resources", "resources_left_out")
        assert [found[name] for name in names] == [None] * len(names)


def test_the_line_of_a_transaction_that_no_request_ends_keeps_all_its_values() -> None:
    text = own_line(1, topics=[{**topic("orders", 0), "partition_ids": [1]}], sequence=7)
    for texts in ((text,), (text, "torn"), (text, line("Fetch", 1))):  # by Arrow's reader, one by one, and with others
        found = rows(read(*texts))[0]
        assert {name: value for name, value in found.items() if value is not None} == {
            name: {**value, "timeout_ms": None} if name == "transaction" else value for name, value in json.loads(text).items()
        }


def test_unknown_fields_are_ignored_and_missing_ones_are_null() -> None:
    (found,) = rows(read(line("Fetch", 1, new_in_version_9={"a": [1]})))
    assert found["api"] == "Fetch"
    assert found["weight"] is None


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ('{"v":1,"time":"2026-1', "garbled"),
        ("\x00\x00\x00", "garbled"),
        ("", "garbled"),
        ("}{", "garbled"),
        ('{"level":"info","msg":"hello"}', "foreign"),
        ('{"api":"Fetch","time":"yesterday"}', "foreign"),
        ('{"time":"2026-11-21T08:15:30.250Z"}', "foreign"),
        ('{"time":"2026-11-21T08:15:30.250Z","transaction":{"id":"tx"}}', "foreign"),
        ('{"time":"2026-11-21T08:15:30.250Z","transaction":"begun"}', "foreign"),
        ('{"time":"yesterday","transaction":{"outcome":"aborted"}}', "foreign"),
        ('{"api":"Fetch","time":"2026-02-30T08:15:30.250Z"}', "foreign"),
        ('{"api":"Fetch","time":"2026-11-21T08:15:61.250Z"}', "foreign"),
        ('{"api":"Fetch","time":"2026-11-21T08:15:30.250Z","local_us":"much"}', "foreign"),
        ("[1, 2]", "foreign"),
        (
            "[2026-11-21 06:43:27,094] TRACE Sending FETCH response to client 3 of 12 bytes. (kafka.network.RequestChannel$)",
            "other",
        ),
        ('[2026-11-21 06:43:27,114] DEBUG Completed request:{"isForwarded":false,"requ', "garbled"),
    ],
)
@pytest.mark.parametrize("good", [1, 500])
def test_a_bad_line_is_counted_and_sampled_and_affects_no_other_line(bad: str, reason: str, good: int) -> None:
    found = read(*[line("Fetch", 1)] * good, bad, *[line("Produce", 2)] * good)
    assert found.refused == Counter({reason: 1})
    assert found.samples == {reason: bad[:200]}
    assert Counter(row["api"] for row in rows(found)) == {"Fetch": good, "Produce": good}


def test_an_incomplete_line_does_not_affect_the_next_one() -> None:
    whole = line("Fetch", 1)
    found = read(whole[: whole.index('"node"') + 7], whole)
    assert len(rows(found)) == 1
    assert found.refused["garbled"] == 1


@pytest.mark.parametrize("path", KAFKA_LOGS, ids=lambda path: path.stem)
def test_kafkas_own_request_log_is_read(path: Path) -> None:
    texts = path.read_text().splitlines()
    found = read(*texts)
    requests = [json.loads(text[text.index("{") : text.rindex("}") + 1]) for text in texts if "Completed request:" in text]
    assert found.refused["garbled"] == found.refused["foreign"] == 0
    assert found.refused["other"] == len(texts) - len(requests)
    names = {name: ApiKey[name].title for name in {each["requestHeader"]["requestApiKeyName"] for each in requests}}
    assert [(row["api"], row["client_id"], row["connection"]) for row in rows(found)] == [
        (names[each["requestHeader"]["requestApiKeyName"]], each["requestHeader"]["clientId"], each["connection"])
        for each in requests
    ]
    for row, each in zip(rows(found), requests, strict=True):
        assert row["local_us"] == round(each["localTimeMs"] * 1000)
        assert abs(row["total_us"] - each["totalTimeMs"] * 1000) < 8  # Kafka's sum was rounded by itself


FETCH_VERSION = {"2.8.2": 12, "3.3.2": 13, "3.7.1": 16}
BATCHES = {"orders": (18_711, 20_069, 17_601), "payments": (28_997,)}
"""The records that were produced and then fetched while each of these logs was written."""


@pytest.mark.parametrize("version", FETCH_VERSION)
def test_sizes_topics_and_errors_of_each_release(version: str) -> None:
    found = read(*(ROOT / "tests" / "data" / "request_log" / f"kafka-{version}.log").read_text().splitlines())
    records = rows(found)
    fetches = [row for row in records if row["api"] == "Fetch"]
    assert {row["version"] for row in fetches} == {FETCH_VERSION[version]}
    fetched, written = Counter[str](), Counter[str]()
    for row in records:
        for entry in row["topics"]:
            name = found.topic_ids.get(entry["topic"], entry["topic"])
            if row["api"] in ("Fetch", "Produce"):
                (fetched if row["api"] == "Fetch" else written)[name] += entry["bytes"]
    assert fetched == written == {name: sum(sizes) for name, sizes in BATCHES.items()}
    partitions = [{entry["topic"]: entry["partitions"] for entry in row["topics"]} for row in fetches]
    assert sorted(partitions[2].values()) == [1, 3]  # Kafka 2.8 names one of the topics twice
    assert {row["software"] for row in fetches} == {"confluent-kafka-python"}
    assert ("CreateTopics", "TOPIC_ALREADY_EXISTS", 0) in [
        (row["api"], row["error"], row["topics"][0]["partitions"]) for row in records if row["topics"]
    ]
    assert all(name for name in found.topic_ids.values())
    assert "A" * 22 not in found.topic_ids


def test_other_lines_of_a_kafka_that_logs_to_one_output_are_not_garbled() -> None:
    found = read(
        "[2026-11-21 15:48:15,146] INFO Registered kafka:type=kafka.Log4jController MBean (kafka.utils.Registration$)",
        "[2026-11-21 15:48:16,001] INFO KafkaConfig values:",
        "\tadvertised.listeners = null",
        "[2026-11-21 15:48:16] WARN torn",
        "half of a line",
    )
    assert found.refused == Counter({"other": 3, "garbled": 2})


def test_topics_and_errors_of_kafkas_log() -> None:
    text = (
        '[2026-11-21 06:46:48,165] INFO Completed request:{"isForwarded":false,"requestHeader":{"requestApiKey":0,'
        '"requestApiVersion":3,"correlationId":7,"clientId":null,"requestApiKeyName":"PRODUCE"},"request":{"acks":1,"topicData":[{"name":"a","partitionData":['
        '{"index":0,"recordsSizeInBytes":70},{"index":1,"recordsSizeInBytes":30}]},{"name":"b","partitionData":[{"index":0,'
        '"recordsSizeInBytes":5}]}]},"response":{"responses":[{"name":"a","partitionResponses":[{"index":0,"errorCode":0},{"index":1,'
        '"errorCode":6}]},{"name":"b","partitionResponses":[{"index":0,"errorCode":0}]}]},"connection":"c","totalTimeMs":1.5,'
        '"requestQueueTimeMs":0.5,"localTimeMs":1,"remoteTimeMs":0.0,"throttleTimeMs":0,"responseQueueTimeMs":0.0,"sendTimeMs":0.0,'
        '"securityProtocol":"SSL","principal":"User:x","listener":"L"} (kafka.request.logger)'
    )
    found = record(text, 3600, {})
    assert found is not None
    assert found["time"] == "2026-11-21T05:46:48.165Z"
    assert found["error"] == "NOT_LEADER_OR_FOLLOWER"
    assert [(each["topic"], each["partitions"], each["bytes"], each["error"]) for each in found["topics"]] == [
        ("a", 2, 70, "NOT_LEADER_OR_FOLLOWER"),
        ("b", 1, 5, None),
    ]


KAFKA_REQUEST = (
    '[2026-11-21 06:46:48,165] INFO Completed request:{{"requestHeader":{{"requestApiKey":0,"requestApiVersion":3,'
    '"correlationId":7,"clientId":"p","requestApiKeyName":"{api}"}},"request":{request},"response":{response},"connection":"c","totalTimeMs":1.5,'
    '"requestQueueTimeMs":0.5,"localTimeMs":1,"remoteTimeMs":0.0,"throttleTimeMs":0,"responseQueueTimeMs":0.0,"sendTimeMs":0.0,'
    '"securityProtocol":"SSL","principal":"User:x","listener":"L"}} (kafka.request.logger)'
)


@pytest.mark.parametrize(
    ("api", "request_json", "error", "transaction"),
    [
        ("END_TXN", '{"transactionalId":"tx","committed":true}', 0, {"id": "tx", "outcome": "committed"}),
        ("END_TXN", '{"transactionalId":"tx","committed":false}', 0, {"id": "tx", "outcome": "aborted"}),
        ("END_TXN", '{"transactionalId":"tx","committed":true}', 90, {"id": "tx"}),
        ("INIT_PRODUCER_ID", '{"transactionalId":"tx","transactionTimeoutMs":9}', 0, {"id": "tx", "timeout_ms": 9}),
        ("INIT_PRODUCER_ID", '{"transactionalId":null,"transactionTimeoutMs":9}', 0, None),
        ("ADD_OFFSETS_TO_TXN", '{"transactionalId":"tx","groupId":"g"}', 0, {"id": "tx"}),
        ("ADD_PARTITIONS_TO_TXN", '{"v3AndBelowTransactionalId":"tx","v3AndBelowTopics":[]}', 0, {"id": "tx"}),
        ("ADD_PARTITIONS_TO_TXN", '{"transactions":[{"transactionalId":"tx","verifyOnly":false}]}', 0, {"id": "tx"}),
        ("ADD_PARTITIONS_TO_TXN", '{"transactions":[{"transactionalId":"tx","verifyOnly":true}]}', 0, None),
        ("ADD_PARTITIONS_TO_TXN", '{"transactions":[{"transactionalId":"a"},{"transactionalId":"b"}]}', 0, None),
        ("ADD_PARTITIONS_TO_TXN", '{"transactions":[]}', 0, None),
        ("DESCRIBE_TRANSACTIONS", '{"transactionalIds":["tx"]}', 0, None),
        ("END_TXN", "null", 0, None),
    ],
)
def test_transactions_of_kafkas_log(api: str, request_json: str, error: int, transaction: dict[str, Any] | None) -> None:
    found = record(KAFKA_REQUEST.format(api=api, request=request_json, response=f'{{"errorCode":{error}}}'), 0, {})
    assert found is not None
    named = found["transaction"]
    assert (named and {name: value for name, value in named.items() if value is not None}) == transaction


def test_kafka_lists_the_topics_that_are_added_to_a_transaction() -> None:
    topics = {
        '{"v3AndBelowTransactionalId":"tx","v3AndBelowTopics":[{"name":"a","partitions":[0,1]}]}': (
            '{"resultsByTopicV3AndBelow":[{"name":"a","resultsByPartition":[{"partitionIndex":1,"partitionErrorCode":47}]}]}'
        ),
        '{"transactions":[{"transactionalId":"tx","topics":[{"name":"a","partitions":[0,1]}]}]}': (
            '{"resultsByTransaction":[{"topicResults":[{"name":"a","resultsByPartition":[{"partitionErrorCode":47}]}]}]}'
        ),
    }
    for request_json, response_json in topics.items():
        found = record(KAFKA_REQUEST.format(api="ADD_PARTITIONS_TO_TXN", request=request_json, response=response_json), 0, {})
        assert found is not None
        assert [(each["topic"], each["partitions"], each["error"]) for each in found["topics"]] == [
            ("a", 2, "INVALID_PRODUCER_EPOCH")
        ]


def test_transactions_in_the_logs_of_kafka_releases() -> None:
    texts = [text for path in KAFKA_LOGS for text in path.read_text().splitlines()]
    found = Counter((row["transaction"]["id"], row["transaction"]["outcome"]) for row in rows(read(*texts)) if row["transaction"])
    assert found["tx-2", "committed"] > 0


def test_names_are_those_of_the_broker() -> None:
    assert {key: ErrorCode(key).name for key in kafka_names.ERROR_NAMES if key in set(ErrorCode)} == {
        key: name for key, name in kafka_names.ERROR_NAMES.items() if key in set(ErrorCode)
    }
    assert [ApiKey(key).title for key in range(len(kafka_names.API_NAMES))] == list(kafka_names.API_NAMES)


def test_the_documentation_has_the_fields() -> None:
    document = (ROOT / "docs" / "access-log" / "format.md").read_text()
    assert markdown_table(FIELDS) in document
    assert markdown_table(TOPIC_FIELDS) in document
    assert markdown_table(SHARE_FIELDS) in document
    assert markdown_table(RESOURCE_FIELDS) in document
    assert markdown_table(DECISION_FIELDS) in document
    assert markdown_table(TRANSACTION_FIELDS) in document


def test_it_needs_neither_the_broker_nor_twisted() -> None:
    script = (
        "import sys, twisted_kafka_spark.cli, twisted_kafka_spark.records.lines, twisted_kafka_spark.report.page;"
        "sys.exit(any(name.split('.')[0] in ('twisted', 'twisted_kafka', 'zope') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT / "spark", check=False).returncode == 0
