"""Share groups and streams groups in a report: what happened to records by topic and member, and what a report finds about it."""

import json
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("numpy")

from tests.spark.access_lines import line
from tests.spark.folded import document
from tests.spark.moments import at
from tests.spark.searched import findings
from twisted_kafka_spark.records import kafka_log
from twisted_kafka_spark.report.page import as_html


def fetch(minute: int, member: str = "m-1", **counts: int) -> str:
    """Return the line of a ShareFetch; its client has the member's name."""
    share = [{"topic": "jobs", **counts}]
    who = {"client_id": f"client-of-{member}", "principal": "User:jobs", "group_id": "workers", "member_id": member}
    return line("ShareFetch", 0, v=2, time=at(minute), generation=3, **who, share=share)


def lost(minute: int, member: str = "m-1", **counts: int) -> str:
    """Return a line without a request."""
    fields = {"v": 2, "time": at(minute), "node": 1, "topics": [], "group_id": "workers", "member_id": member}
    return json.dumps(fields | {"share": [{"topic": "jobs", **counts}], "sequence": minute}, separators=(",", ":")) + "\n"


def heartbeat(minute: int, epoch: int, api: str = "StreamsGroupHeartbeat", **changes: Any) -> str:
    fields = {"group_id": "app", "member_id": "s-1", "generation": epoch} | changes
    return line(api, 0, v=2, time=at(minute), **fields)


HEALTHY = [fetch(minute, acquired=10, accept=10, delivery_count=1) for minute in range(60)]


def test_lines_without_a_request_are_read() -> None:
    found = document([*HEALTHY, lost(5, expired=4)])
    assert found["source"]["lines"]["read"] == 61
    (row,) = found["share_groups"]["members"]
    assert (row["acquired"], row["accept"], row["expired"]) == (600, 600, 4)
    assert (row["client_id"], row["principal"]) == ("client-of-m-1", "User:jobs")


def test_records_are_counted_by_topic_and_by_member() -> None:
    lines = [*HEALTHY, fetch(3, "m-2", acquired=5, redelivered=5, delivery_count=4, release=2, reject=1, renew=1, gap=1)]
    found = document([*lines, lost(9, "m-2", returned=3)])["share_groups"]
    (topic,) = found["topics"]
    assert (topic["group_id"], topic["topic"], topic["acquired"], topic["delivery_count"]) == ("workers", "jobs", 605, 4)
    second = found["members"][1]
    assert {name: second[name] for name in ("release", "reject", "renew", "gap", "returned")} == {
        "release": 2,
        "reject": 1,
        "renew": 1,
        "gap": 1,
        "returned": 3,
    }
    page = as_html(document(lines))
    assert "Records by group and topic" in page
    assert "client-of-m-2" in page
    assert "0 share groups" in as_html(document([line("Fetch", 0)]))


def test_a_healthy_share_group_has_no_finding() -> None:
    assert findings(HEALTHY) == []


def test_records_that_reach_the_delivery_limit_are_named() -> None:
    lines = [*HEALTHY, *(fetch(minute, "m-2", acquired=2, redelivered=2, delivery_count=5, release=2) for minute in range(20))]
    lines += [lost(minute, "m-2", over_limit=1, expired=1) for minute in range(10, 13)]
    (found,) = findings(lines)
    assert (found.name, found.evidence["group_id"], found.evidence["topic"]) == ("records-given-up", "workers", "jobs")
    assert (found.evidence["records"], found.evidence["member_id"], found.evidence["client_id"]) == (3, "m-2", "client-of-m-2")
    assert (found.first, found.last) == ("2026-11-21T00:10Z", "2026-11-21T00:12Z")
    assert found.evidence["highest delivery count"] == 5


def test_locks_that_expire_are_named_with_their_members() -> None:
    lines = [*HEALTHY, *(fetch(minute, "m-2", acquired=4, accept=1, delivery_count=1) for minute in range(30))]
    lines += [lost(minute, "m-2", expired=3) for minute in range(10, 30)]
    (found,) = findings(lines)
    assert (found.name, found.evidence["expired"], found.evidence["client_id"]) == ("expired-locks", 60, "client-of-m-2")
    assert (found.first, found.last) == ("2026-11-21T00:10Z", "2026-11-21T00:29Z")


def test_a_member_that_never_acknowledges_is_named_once() -> None:
    lines = [*HEALTHY, *(fetch(minute, "m-2", acquired=4, delivery_count=1) for minute in range(30))]
    lines += [lost(minute, "m-2", expired=4) for minute in range(1, 30)]
    (found,) = findings(lines)
    assert (found.name, found.evidence["member_id"], found.evidence["acquired"]) == ("never-acknowledged", "m-2", 120)


def test_streams_groups_are_in_the_table_of_groups() -> None:
    lines = [heartbeat(minute, 4 + minute // 10) for minute in range(30)] + [heartbeat(31, 0), heartbeat(32, -1)]
    lines += [heartbeat(3, 7, "ConsumerGroupHeartbeat", group_id="c"), heartbeat(3, 1, "JoinGroup", group_id="old")]
    lines += [heartbeat(4, 2, "ShareGroupHeartbeat", group_id="workers", member_id="m")]
    groups = {row["group_id"]: row for row in document(lines)["groups"]}
    found = {name: row["kind"] for name, row in groups.items()}
    assert found == {"app": "streams", "c": "consumer", "old": "classic", "workers": "share"}
    assert (groups["app"]["rebalances"], groups["app"]["members"]) == (2, 1)


def test_what_kafkas_own_log_says_of_share_groups_is_read() -> None:
    def kafka(api: str, key: int, request: dict[str, Any], response: dict[str, Any]) -> dict[str, Any]:
        phases = ("requestQueueTimeMs", "localTimeMs", "remoteTimeMs", "throttleTimeMs", "responseQueueTimeMs", "sendTimeMs")
        content = {
            "requestHeader": {
                "requestApiKeyName": api,
                "requestApiKey": key,
                "requestApiVersion": 1,
                "correlationId": 1,
                "clientId": "c",
            },
            "request": {"groupId": "workers", "memberId": "m-1", **request},
            "response": {"errorCode": 0, **response},
            **dict.fromkeys(phases, 1.0),
        }
        found = kafka_log.record(f"[2026-11-21 08:15:30,250] DEBUG Completed request:{json.dumps(content)}", 0, {})
        assert found is not None
        return found

    acknowledged = [{"firstOffset": 0, "lastOffset": 4, "acknowledgeTypes": [1]}]
    acknowledged += [{"firstOffset": 5, "lastOffset": 7, "acknowledgeTypes": [2, 3, 1]}]
    asked = {"topics": [{"topicId": "T", "partitions": [{"partitionIndex": 0, "acknowledgementBatches": acknowledged}]}]}
    acquired = [{"firstOffset": 8, "lastOffset": 17, "deliveryCount": 1}, {"firstOffset": 5, "lastOffset": 5, "deliveryCount": 3}]
    part = {"partitionIndex": 0, "errorCode": 0, "acknowledgeErrorCode": 0, "acquiredRecords": acquired}
    found = kafka("SHARE_FETCH", 78, asked, {"responses": [{"topicId": "T", "partitions": [part]}]})
    assert found["share"] == [
        {"topic": "T", "accept": 6, "release": 1, "reject": 1, "acquired": 11, "redelivered": 1, "delivery_count": 3}
    ]
    assert (found["group_id"], found["member_id"]) == ("workers", "m-1")
    failed = {"responses": [{"topicId": "T", "partitions": [{"partitionIndex": 0, "errorCode": 121}]}]}
    assert kafka("SHARE_ACKNOWLEDGE", 79, asked, failed)["share"] == [{"topic": "T", "refused": 8}]
    assert kafka("SHARE_FETCH", 78, {"topics": []}, {"responses": []})["share"] is None
