"""The access log's lines about the records of share groups."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.support.share_client import RawClient, ShareMember, error_of, initialize, new_topic, set_group_configs
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.testing import Broker

pytestmark = pytest.mark.medium

ACCEPT, RELEASE, REJECT, RENEW, GAP = 1, 2, 3, 4, 0
LOCK_MS = 30_000
GROUP = "group"


def share_of(folder: Path) -> Iterator[tuple[Any, ...]]:
    """Yield API, member, session epoch, error and share of each line that has a share."""
    for path in sorted(folder.rglob("*.jsonl")):
        for line in map(json.loads, path.read_text().splitlines()):
            if line.get("group_id") == GROUP and "share" in line:
                (share,) = line["share"]
                assert share.pop("topic") == "topic"
                yield line.get("api"), line["member_id"], line.get("generation"), line.get("error"), share


def test_the_log_has_what_happens_to_records(tmp_path: Path) -> None:
    settings = {"share.coordinator.state.topic.num.partitions": 1, "access.log.dir": tmp_path, "access.log.write.interval.ms": 1}
    with Broker(settings) as broker, RawClient(broker.bootstrap_servers) as client:
        topic_id = new_topic(client, "topic")
        initialize(client, GROUP, topic_id)
        set_group_configs(client, GROUP, share_delivery_count_limit="2")
        for value in range(10):
            broker.produce("topic", str(value))

        def member(member_id: str) -> ShareMember:
            return ShareMember(broker.bootstrap_servers, GROUP, member_id, topic_id)

        with member("one") as one, member("two") as two:
            assert one.acquired() == [(0, 9, 1)]
            one.fetch((0, 0, [ACCEPT]), (1, 3, [REJECT, GAP, RENEW]), renews=True)
            assert error_of(one.acknowledge((4, 5, [RELEASE]))) == (0, 0)
            eventually(lambda: len(list(share_of(tmp_path))) == 3)  # a request's line comes after its answer
            broker.clock.advance(ms=LOCK_MS)
            eventually(lambda: any("expired" in share for *_, share in share_of(tmp_path)))
            assert two.acquired() == [(3, 9, 2)]
            assert error_of(one.acknowledge((6, 9, [ACCEPT]))) == (0, ErrorCode.INVALID_RECORD_STATE)
            one.fetch((6, 9, [ACCEPT]), max_wait_ms=0)
            assert error_of(two.acknowledge((3, 4, [RELEASE]))) == (0, 0)
            assert error_of(two.acknowledge((5, 5, [ACCEPT]), epoch=-1)) == (0, 0)
        broker.produce("topic", "10")
        with member("three") as three:
            assert three.acquired() == [(10, 10, 1)]
        found = eventually(lambda: lines if len(lines := list(share_of(tmp_path))) == 11 else None)
    fetch, acknowledge = "ShareFetch", "ShareAcknowledge"
    assert found == [
        (fetch, "one", 0, None, {"acquired": 10, "delivery_count": 1}),
        (fetch, "one", 1, None, {"accept": 1, "reject": 1, "renew": 1, "gap": 1}),
        (acknowledge, "one", 2, None, {"release": 2}),
        (None, "one", None, None, {"expired": 5}),
        (fetch, "two", 0, None, {"acquired": 7, "redelivered": 7, "delivery_count": 2}),
        (acknowledge, "one", 3, "INVALID_RECORD_STATE", {"refused": 4}),
        (fetch, "one", 4, "INVALID_RECORD_STATE", {"refused": 4}),
        (acknowledge, "two", 1, None, {"release": 2, "over_limit": 2}),
        (acknowledge, "two", None, None, {"accept": 1, "returned": 4, "over_limit": 4}),
        (fetch, "three", 0, None, {"acquired": 1, "delivery_count": 1}),
        (None, "three", None, None, {"returned": 1}),
    ]


def test_each_mistake_of_a_member_is_one_line() -> None:
    with Broker({"share.coordinator.state.topic.num.partitions": 1}) as broker, RawClient(broker.bootstrap_servers) as client:
        topic_id = new_topic(client, "topic")
        initialize(client, GROUP, topic_id)
        broker.produce("topic", "0")
        with (
            ShareMember(broker.bootstrap_servers, GROUP, "one", topic_id) as one,
            ShareMember(broker.bootstrap_servers, GROUP, "two", topic_id) as two,
        ):
            assert one.acquired() == [(0, 0, 1)]
            two.fetch(max_wait_ms=0)
            for _ in range(2):
                assert error_of(two.acknowledge((0, 0, [ACCEPT]))) == (0, ErrorCode.INVALID_RECORD_STATE)
                two.fetch((0, 0, [ACCEPT]), max_wait_ms=0)
                assert error_of(one.acknowledge((0, 0, [ACCEPT]), (0, 0, [ACCEPT]))) == (0, ErrorCode.INVALID_RECORD_STATE)
                assert error_of(one.acknowledge((9, 9, [ACCEPT]))) == (0, ErrorCode.INVALID_REQUEST)
                assert one.acknowledge((0, 0, [ACCEPT]), epoch=99).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
            assert error_of(one.acknowledge((0, 0, [ACCEPT]))) == (0, 0)
        lines = eventually(lambda: found if len(found := broker.diagnoses) >= 3 else None)
    words = "that group group has not given to it", "what no member of share group group may send", "a share session epoch that"
    assert len(lines) == len(words)
    assert [word for word in words if not any(word in line for line in lines)] == []
