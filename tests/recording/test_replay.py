"""Recordings of real clients, replayed: alike against the same broker, told apart where a broker answers otherwise."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.shop import kafka, run_the_shop
from twisted_kafka.recording.differences import Comparison
from twisted_kafka.recording.recording import RecordingError, read_recording
from twisted_kafka.testing import Broker

pytestmark = pytest.mark.medium


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recording") / "shop.jsonl"
    with Broker() as broker:
        with broker.record(path) as recording:
            run_the_shop(broker.bootstrap_servers)
        assert (recording.written, recording.dropped) == (len(broker.requests), 0)
    return path


def changed(path: Path, to: Path, change: Any) -> Path:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines[1:]:
        change(line)
    to.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return to


def test_another_broker_answers_alike_though_its_ids_differ(shop: Path) -> None:
    with Broker() as broker:
        # Its next producer and topics have other ids than when this was recorded.
        kafka.KafkaProducer(bootstrap_servers=broker.bootstrap_servers).close()
        broker.create_topic("earlier")
        broker.requests.clear()
        report = broker.replay(shop)
        assert report.differences == [], str(report)
        assert [record.value for record in broker.records("orders")] == [b"1", b"two", b"\xff3"]
        assert broker.committed("g") == {("orders", 0): 3}
        assert broker.requests.of("Produce").count() == 3
        assert str(report).endswith(f"{report.sent} requests were sent, {report.sent} were answered as recorded, 0 were not sent")


def test_an_error_is_told_in_one_line(shop: Path) -> None:
    with Broker() as broker, broker.faults.inject(api="OffsetCommit", error="GROUP_AUTHORIZATION_FAILED", nth=1):
        (difference,) = broker.replay(shop).differences
    assert "OffsetCommit v" in difference
    assert difference.endswith("topics[orders].partitions[0].errorCode: NONE was recorded, now GROUP_AUTHORIZATION_FAILED")


@pytest.mark.parametrize("error", ["NOT_ENOUGH_REPLICAS", "CONCURRENT_TRANSACTIONS"])
def test_a_broker_that_is_not_ready_is_asked_again(shop: Path, error: str) -> None:
    api = "Produce" if error == "NOT_ENOUGH_REPLICAS" else "InitProducerId"
    with Broker() as broker, broker.faults.inject(api=api, error=error, times=2) as fault:
        report = broker.replay(shop)
        assert report.differences == [], str(report)
        assert fault.fired == 2
        assert [record.value for record in broker.records("orders")] == [b"1", b"two", b"\xff3"]


def test_a_record_that_is_not_fetched_any_more_is_told(shop: Path, tmp_path: Path) -> None:
    def other_value(line: dict[str, Any]) -> None:
        if line["api"] == "Fetch" and line["response"]["responses"]:
            for batch in line["response"]["responses"][0]["partitions"][0]["records"] or ():
                batch["records"][0]["value"] = "other"

    with Broker() as broker:
        found = broker.replay(changed(shop, tmp_path / "changed.jsonl", other_value)).differences
    assert "the record at 0 of orders-0 was (None, 'other'), now (None, '1')" in found


def test_a_connection_that_is_closed_is_told(shop: Path) -> None:
    with Broker() as broker, broker.faults.inject(api="Produce", close="before", nth=1):
        found = broker.replay(shop).differences
    assert any("Produce v" in each and each.endswith("the connection was closed instead of an answer") for each in found)


def test_what_is_secret_is_not_sent(shop: Path, tmp_path: Path) -> None:
    def hide(line: dict[str, Any]) -> None:
        if line["api"] == "LeaveGroup":
            line |= {"api": "SaslAuthenticate", "version": 2, "request": {"authBytes": {"hidden": True}}, "response": {}}

    with Broker() as broker:
        report = broker.replay(changed(shop, tmp_path / "changed.jsonl", hide))
    assert report.differences == []
    assert [each.partition(", ")[2] for each in report.left_out] == ["SaslAuthenticate v2: its secrets are not in the recording"]


def test_one_id_has_to_be_one_id() -> None:
    comparison = Comparison()
    assert list(comparison.differences({"memberId": "a"}, {"memberId": "x"})) == []
    assert list(comparison.differences({"memberId": "a"}, {"memberId": "y"})) == [
        "memberId: 'a' was recorded again, which was 'x', now 'y'"
    ]
    assert comparison.translated({"assignments": [{"memberId": "a"}, {"memberId": "b"}]}) == {
        "assignments": [{"memberId": "x"}, {"memberId": "b"}]
    }
    assert list(comparison.differences({"memberId": "c"}, {"memberId": ""})) == ["memberId: 'c' was recorded, now ''"]


def test_lists_are_compared_by_name() -> None:
    recorded = {"topics": [{"name": "a", "n": 1}, {"name": "b", "n": 2}], "replicaNodes": [1, 2, 3], "host": "one"}
    found = {"topics": [{"name": "b", "n": 3}, {"name": "c", "n": 4}], "replicaNodes": [7], "host": "other"}
    assert list(Comparison().differences(recorded, found)) == [
        "topics[a] was recorded, and is not there now",
        "topics[b].n: 2 was recorded, now 3",
        "topics[c] is there now, and was not recorded",
        "replicaNodes: 3 brokers were recorded, now 1",
    ]


def test_telemetry_has_ids_of_its_broker() -> None:
    comparison = Comparison()
    recorded = {"errorCode": 0, "clientInstanceId": "MJAAX57YQMmNcDqVSBScRg", "subscriptionId": -33378759}
    found = {"errorCode": 0, "clientInstanceId": "cA61r7OhQCmMUau5jRV8rg", "subscriptionId": -1978599100}
    assert not list(comparison.differences(recorded, found))
    assert list(comparison.differences(recorded, {**found, "subscriptionId": 5}))


HEADER = {"twisted_kafka_recording": 1}
LINE = {"at_ms": 0, "took_ms": 1, "connection": 1, "client": "c", "api": "ListTransactions", "version": 0}
FIELDS: Any = {"stateFilters": [], "producerIdFilters": []}


def written(path: Path, **more: Any) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in (HEADER, {**LINE, "request": FIELDS, "response": {}, **more})))
    return path


@pytest.mark.parametrize("more", [{"client": 5}, {"client": []}, {"client": "\ud800"}, {"version": -1}, {"version": 2**31}])
def test_a_header_that_no_client_sends_is_no_recording(tmp_path: Path, more: Any) -> None:
    with pytest.raises(RecordingError, match="line 2: "):
        list(read_recording(written(tmp_path / "bad.jsonl", **more)))


def test_a_request_that_nobody_can_encode_is_left_out_and_an_answer_that_nobody_can_compare_differs(tmp_path: Path) -> None:
    batch = {"magic": 2, "compression": "none", "records": [], "baseTimestamp": 2**70, "maxTimestamp": 0, "lastOffsetDelta": 0}
    topic = {"name": "t", "partitionData": [{"index": 0, "records": [batch]}]}
    produce = {"transactionalId": None, "acks": 1, "timeoutMs": 1, "topicData": [topic]}
    fetch = {"maxWaitMs": 0, "minBytes": 1, "topics": [], "forgottenTopicsData": []}
    with Broker() as broker:
        for more, why in (
            ({"request": {**FIELDS, "stateFilters": [5]}}, "cannot be encoded"),
            ({"api": "Produce", "version": 9, "request": produce}, "cannot be read"),
        ):
            (line,) = broker.replay(written(tmp_path / "bad.jsonl", **more)).left_out
            assert why in line
        responses = {"api": "Fetch", "version": 11, "request": fetch, "response": {"responses": [{"topic": "t"}]}}
        (line,) = broker.replay(written(tmp_path / "bad.jsonl", **responses)).differences
        assert "the recorded answer cannot be compared: KeyError" in line
