"""Audit events: logins, refusals and changes of the cluster as OCSF 1.0 and CloudEvents 1.0."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("numpy")

from tests.spark.access_lines import line, topic
from twisted_kafka_spark.cli import main

KAFKAS = (
    '[2026-11-21 06:46:48,165] INFO Completed request:{"requestHeader":{"requestApiKey":19,"requestApiVersion":7,"correlationId":7,'
    '"clientId":"cli","requestApiKeyName":"CREATE_TOPICS"},"request":{"topics":[{"name":"fresh","numPartitions":3}]},"response":'
    '{"topics":[{"name":"fresh","errorCode":0}]},"connection":"127.0.0.1:9092-127.0.0.1:40000-0","totalTimeMs":1.5,'
    '"requestQueueTimeMs":0.5,"localTimeMs":1,"remoteTimeMs":0.0,"throttleTimeMs":0,"responseQueueTimeMs":0.0,"sendTimeMs":0.0,'
    '"securityProtocol":"SSL","principal":"User:admin","listener":"L"} (kafka.request.logger)\n'
)
WHO = {"v": 2, "principal": "User:eve", "client_id": "cli", "connection": "10.0.0.1:9092-10.6.6.6:51000-0", "sequence": 7}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    refused = topic("salaries", 0, "TOPIC_AUTHORIZATION_FAILED")
    lines = [
        line("DeleteTopics", 1, **WHO, topics=[topic("logs.raw.9", 0)]),
        line("CreateAcls", 2, **WHO, resources=[{"type": "topic", "name": "orders"}], error="CLUSTER_AUTHORIZATION_FAILED"),
        line("SaslAuthenticate", 3, **WHO, error="SASL_AUTHENTICATION_FAILED", protocol="SASL_PLAINTEXT"),
        line("SaslAuthenticate", 4, **WHO),
        line("Fetch", 5, **WHO, topics=[topic("orders", 1), refused]),
        line("ControlledShutdown", 6, **WHO, resources=[{"type": "broker", "name": "3"}]),
        line("Produce", 7, **WHO, topics=[topic("orders", 1)]),
        "torn\n",
    ]
    path = tmp_path / "node-1-000001.jsonl"
    path.write_text("".join(lines))
    return path


def events(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert main(["audit", *arguments]) == 0
    return [json.loads(text) for text in capsys.readouterr().out.splitlines()]


def test_ocsf_events_have_what_their_classes_require(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = events(capsys, str(log), "--as", "ocsf")
    assert [(each["class_uid"], each["activity_id"], each["status"]) for each in found] == [
        (6003, 4, "Success"),
        (6003, 1, "Failure"),
        (3002, 1, "Failure"),
        (3002, 1, "Success"),
        (6003, 2, "Failure"),
        (6002, 4, "Success"),
    ]
    for each in found:
        assert each["type_uid"] == each["class_uid"] * 100 + each["activity_id"]
        assert each["category_uid"] == each["class_uid"] // 1000
        assert (each["metadata"]["version"], each["metadata"]["uid"]) == ("1.0.0", "1-7")
        assert each["metadata"]["product"]["vendor_name"]
        assert each["time"] // 60_000 > 0
    deleted, _, failed, *_ = found
    assert deleted["actor"]["user"]["name"] == "eve"
    assert deleted["api"]["operation"] == "DeleteTopics"
    assert deleted["src_endpoint"] == {"ip": "10.6.6.6", "port": 51000}
    assert deleted["resources"] == [{"type": "topic", "name": "logs.raw.9"}]
    assert (failed["severity_id"], failed["is_cleartext"], failed["user"]["uid"]) == (3, True, "User:eve")
    assert found[-1]["app"]["uid"] == "3"


def test_cloud_events_have_the_required_attributes(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = events(capsys, str(log), "--as", "cloudevents")
    for each in found:
        assert {"specversion", "id", "source", "type"} <= set(each)
        assert each["specversion"] == "1.0"
    assert found[0]["subject"] == "topic/logs.raw.9"
    assert [each["data"]["granted"] for each in found] == [True, False, True, True, False, True]
    assert [each["type"].rpartition(".")[2] for each in found[2:]] == ["login", "login", "request", "lifecycle"]


def test_all_requests_and_periods(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(events(capsys, str(log), "--all")) == 7
    assert [each["api"]["operation"] for each in events(capsys, str(log), "--until", "2026-11-21T08:02")] == ["DeleteTopics"]
    assert events(capsys, str(log), "--since", "2026-11-21T08:08") == []


def test_events_of_apache_kafkas_own_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "kafka-request.log"
    path.write_text(KAFKAS)
    (found,) = events(capsys, str(path), "--as", "ocsf")
    assert (found["class_uid"], found["activity_id"], found["actor"]["user"]["uid"]) == (6003, 1, "User:admin")
    assert found["resources"] == [{"type": "topic", "name": "fresh"}]
    assert len(found["metadata"]["uid"]) == 32


def test_events_go_to_a_file(log: Path, tmp_path: Path) -> None:
    assert main(["audit", str(log), "--out", str(tmp_path / "events.json")]) == 0
    assert len((tmp_path / "events.json").read_text().splitlines()) == 6
    assert main(["audit", "s3a://bucket/log"]) == 1
