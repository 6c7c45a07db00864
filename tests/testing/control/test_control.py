"""The control API over HTTP: faults, requests, records, groups, waits and the clock, as a test in another language uses them."""

import json
import socket
import threading
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import pytest

from tests.support.control_client import ControlClient
from tests.support.eventually import eventually
from twisted_kafka.client.one_request import ask
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.messages.coordinators.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from twisted_kafka.protocol.messages.coordinators.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from twisted_kafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from twisted_kafka.testing import Broker, Cluster, ControlServer, http_server
from twisted_kafka.testing.http_server import MAX_BODY_BYTES


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def control(broker: Broker) -> Iterator[ControlClient]:
    with ControlServer(broker) as server:
        yield ControlClient(server.url, server.token)


def heartbeat(broker: Broker, client_id: str, group: str = "g") -> int:
    """Have a client send a request; return the error that it is answered."""
    host, port = broker.bootstrap_servers.split(":")
    return int(ask((host, int(port)), HeartbeatRequest(group_id=group, member_id="m"), 3, client_id, 20).error_code)


def test_a_rule_fires_and_is_told_and_repealed(broker: Broker, control: ControlClient) -> None:
    added = control.post("/faults", api="Heartbeat", client_id="shop", error="REBALANCE_IN_PROGRESS", times=1)
    assert added["rule"] == {"api": "Heartbeat", "client_id": "shop", "times": 1, "error": "REBALANCE_IN_PROGRESS"}
    assert [heartbeat(broker, "other"), heartbeat(broker, "shop"), heartbeat(broker, "shop")] == [
        16,
        27,
        16,
    ]  # NOT_COORDINATOR: there is no topic of groups yet
    told = control.get(f"/faults/{added['id']}")
    assert (told["matched"], told["fired"], told["firings"]) == (2, 1, ["Heartbeat v3 from shop group g"])
    assert control.get("/faults")["faults"] == [told]
    assert control.delete(f"/faults/{added['id']}")["fired"] == 1
    assert control.get("/faults") == {"faults": []}
    several = control.send("POST", "/faults", b'[{"api": "Fetch", "delay_ms": 5}, {"disk": "full"}]').body["faults"]
    assert [each["rule"] for each in several] == [{"api": "Fetch", "delay_ms": 5}, {"disk": "full"}]
    assert control.delete("/faults")["faults"] == several
    assert list(broker.faults) == []


def test_requests_are_asked_for(broker: Broker, control: ControlClient) -> None:
    for client_id, group in (("shop", "a"), ("billing", "b"), ("shop", "b")):
        heartbeat(broker, client_id, group)
    everything = control.get("/requests")
    assert [(each["api"], each["client_id"], each["groups"]) for each in everything["requests"]] == [
        ("Heartbeat", "shop", ["a"]),
        ("Heartbeat", "billing", ["b"]),
        ("Heartbeat", "shop", ["b"]),
    ]
    first = everything["requests"][0]
    assert (first["version"], first["error"], first["outcome"], first["broker"]) == (3, "NOT_COORDINATOR", "answered", 1001)
    assert "Heartbeat v3 from shop group a -> NOT_COORDINATOR in " in first["line"]
    found = control.get("/requests", api="Heartbeat", client_id="shop", group="b", version=3, whole="true")["requests"]
    assert [(each["request"]["memberId"], each["response"]["errorCode"]) for each in found] == [("m", 16)]
    for name in ("field.memberId", "field.member_id"):
        assert len(control.get("/requests", api="Heartbeat", **{name: "m"})["requests"]) == 3
        assert control.get("/requests", api="Heartbeat", **{name: "n"})["requests"] == []
    assert control.get("/requests", error="NONE")["requests"] == []


def test_requests_are_read_on_from_where_they_were_read_to(broker: Broker, control: ControlClient) -> None:
    assert control.get("/requests") == {"requests": [], "next": "0", "more": False}
    for _ in range(3):
        heartbeat(broker, "shop")
    two = control.get("/requests", limit=2)
    assert (len(two["requests"]), two["more"]) == (2, True)
    third = control.get("/requests", since=two["next"])
    assert (len(third["requests"]), third["more"]) == (1, False)
    assert control.get("/requests", since=third["next"]) == {"requests": [], "next": third["next"], "more": False}
    control.delete("/requests")
    heartbeat(broker, "later")
    assert [each["client_id"] for each in control.get("/requests", since=third["next"])["requests"]] == ["later"]


def test_topics_and_records_go_in_and_out(control: ControlClient) -> None:
    made = control.post("/topics", name="orders", partitions=2, config={"retention.ms": 1000})
    assert made["partitions"][1] == {
        "partition": 1,
        "leader": 1001,
        "replicas": [1001],
        "isr": [1001],
        "start_offset": 0,
        "end_offset": 0,
    }
    record = {"key": "k", "value": {"base64": "/w=="}, "headers": [["h", "v"], ["none", None]], "timestamp_ms": 7}
    assert control.post("/topics/orders/records", partition=1, records=["a", record, None])["offset"] == 0
    read = control.get("/topics/orders/records")["records"]
    assert [(each["partition"], each["offset"], each["value"]) for each in read] == [
        (1, 0, "a"),
        (1, 1, {"base64": "/w=="}),
        (1, 2, None),
    ]
    assert read[1] == {"partition": 1, "offset": 1, **record}
    assert control.get("/topics/orders/records", partition=1, limit=1, **{"from": 1}) == {"records": [read[1]], "more": True}
    assert [each["name"] for each in control.get("/topics")["topics"]] == ["orders"]
    assert control.get("/topics/orders")["partitions"][1]["end_offset"] == 3
    control.delete("/topics/orders")
    assert control.get("/topics") == {"topics": []}


def join(broker: Broker, group: str) -> None:
    """Have a member join a group, be given a partition, and commit an offset."""
    host, port = broker.bootstrap_servers.split(":")

    def send(request: Message, version: int) -> Any:
        return ask((host, int(port)), request, version, "billing", 30)

    broker.wait_for(lambda: broker.coordinator_id(group), lambda seen: seen >= 0, "a coordinator")
    assignment = b"\x00\x00\x00\x00\x00\x01\x00\x06orders\x00\x00\x00\x01\x00\x00\x00\x00\xff\xff\xff\xff"
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff")]
    wanted = JoinGroupRequest(group_id=group, session_timeout_ms=10_000, protocol_type="consumer", protocols=protocols)
    wanted.rebalance_timeout_ms = 10_000
    joined = eventually(lambda: answer if (answer := send(wanted, 3)).error_code == 0 else None)
    given = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=assignment)]
    send(SyncGroupRequest(group_id=group, generation_id=joined.generation_id, member_id=joined.member_id, assignments=given), 2)
    offsets = [OffsetCommitRequestTopic(name="orders", partitions=[OffsetCommitRequestPartition(committed_offset=1)])]
    epoch = joined.generation_id
    commit = OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=epoch, member_id=joined.member_id, topics=offsets)
    committed = send(commit, 5)
    assert committed.topics[0].partitions[0].error_code == 0


def test_a_group_is_told_and_waited_for(broker: Broker, control: ControlClient) -> None:
    broker.create_topic("orders", partitions=2)
    broker.produce("orders", ["a", "b", "c"])
    broker.produce("orders", ["d"], partition=1)
    assert control.get("/groups/billing") == {"group": "billing", "state": "Dead", "members": [], "offsets": [], "lag": None}
    join(broker, "billing")
    assert control.post("/waits", group="billing", state="Stable")["seen"] == "Stable"
    told = control.get("/groups/billing")
    assert [(each["client_id"], each["assigned"]) for each in told["members"]] == [
        ("billing", [{"topic": "orders", "partition": 0}])
    ]
    assert told["offsets"] == [{"topic": "orders", "partition": 0, "committed": 1}]
    assert told["lag"] == 3, "two records after what was committed, and one of a partition without a commit"
    assert control.get("/groups") == {"groups": [{"group": "billing", "state": "Stable"}]}
    assert control.post("/waits", group="billing", lag=3, topic="orders")["seen"] == 3
    assert control.post("/waits", group="billing", topic="orders", committed=1)["seen"] == 1
    assert control.post("/waits", topic="orders", offset=2)["seen"] == 3
    assert control.post("/waits", leader_of="orders", partition=1)["seen"] == broker.broker_id
    control.post("/clock/advance", seconds=11)
    assert control.post("/waits", group="billing", state="Empty")["seen"] == "Empty"


def test_a_wait_hears_of_what_comes_later(broker: Broker, control: ControlClient) -> None:
    answers: list[Any] = []
    waiting = threading.Thread(
        target=lambda: answers.append(control.post("/waits", requests={"api": "Heartbeat", "group": "g"}, count=2))
    )
    waiting.start()
    heartbeat(broker, "shop")
    heartbeat(broker, "shop")
    waiting.join(30)
    assert answers == [{"wanted": "2 requests with api=Heartbeat, group=g", "seen": 2}]


def test_a_wait_in_vain_says_what_it_saw(broker: Broker, control: ControlClient) -> None:
    heartbeat(broker, "shop")
    answer = control.send("POST", "/waits", b'{"topic": "orders", "offset": 3, "timeout_s": 0.01}')
    assert answer.status == 504
    seen = "orders-0 has no offsets: UNKNOWN_TOPIC_OR_PARTITION, create the topic first, or check its name and the partition"
    assert answer.body["error"] == f"waited 0.01 s for end of orders-0 at 3 or more; the last value was {seen!r}"
    assert answer.body["seen"] == seen
    assert ["Heartbeat v3 from shop" in line for line in answer.body["requests"]] == [True]


def test_the_clock_is_held_advanced_and_set(broker: Broker, control: ControlClient) -> None:
    held = control.post("/clock/hold")
    assert (held["is_held"], broker.clock.is_held) == (True, True)
    assert control.post("/clock/advance", minutes=1, ms=5)["now_ms"] == held["now_ms"] + 60_005
    assert control.post("/clock/jump", hours=-1)["now_ms"] == held["now_ms"] + 60_005 - 3_600_000
    assert control.get("/clock")["now_ms"] == broker.clock.wall_ms()
    assert control.post("/clock/release")["is_held"] is False


def test_a_reset_forgets_all_but_the_rules_of_the_start_and_keeps_the_address() -> None:
    with Broker(rules=[{"api": "Fetch", "delay_ms": 1}]) as broker, ControlServer(broker) as server:
        control = ControlClient(server.url, server.token)
        address = control.get("/")["bootstrap_servers"]
        broker.create_topic("orders")
        control.post("/faults", disk="full")
        control.post("/clock/advance", days=3)
        heartbeat(broker, "shop")
        assert control.post("/reset")["bootstrap_servers"] == address == broker.bootstrap_servers
        assert control.get("/topics") == {"topics": []}
        assert [each["rule"] for each in control.get("/faults")["faults"]] == [{"api": "Fetch", "delay_ms": 1}]
        assert control.get("/requests")["requests"] == []
        assert abs(broker.clock.wall_ms() - Broker().clock.wall_ms()) < 60_000
        heartbeat(broker, "again")
        assert [each["client_id"] for each in control.get("/requests")["requests"]] == ["again"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "told"),
    [
        ("GET", "/nowhere", None, 404, "there is no such path: expected one of /, /reset, "),
        ("PUT", "/faults", {}, 405, "PUT is not for this path: expected GET or POST or DELETE"),
        (
            "POST",
            "/faults",
            {"api": "Fetsch", "delay_ms": 1},
            400,
            "the body: rule 1: there is no API 'Fetsch': did you mean 'Fetch'",
        ),
        ("POST", "/faults", [{"delay_ms": 1}, {}], 400, "the body: rule 2: a rule that does nothing"),
        ("POST", "/faults", 3, 400, "the body: rule 1 is 3: expected fields"),
        ("POST", "/faults?broker=9", {"delay_ms": 1}, 404, "no broker 9 runs: expected one of 1001"),
        ("GET", "/faults/77777777", None, 404, "no rule with the id '77777777' is in force"),
        ("GET", "/requests?api=Produce&field.ack=1", None, 400, "Produce requests have no field 'ack', only transactional_id"),
        ("GET", "/requests?field.acks=1", None, 400, "field.NAME needs an api"),
        ("GET", "/requests?topics=x", None, 400, "requests have no 'topics': expected api, client_id"),
        ("GET", "/requests?version=x", None, 400, "version is 'x': expected a whole number"),
        ("GET", "/requests?since=x", None, 400, "since is 'x': expected the 'next' of an earlier answer"),
        ("GET", "/requests?limit=-1", None, 400, 'limit is "-1": expected a whole number'),
        ("GET", "/requests?error=OOPS", None, 400, "there is no error 'OOPS'"),
        ("POST", "/topics", {"name": 3}, 400, "name is 3: expected a text"),
        ("POST", "/topics", {}, 400, "the body has no 'name': expected a text"),
        ("POST", "/topics", {"name": "t", "partition": 3}, 400, "the body has 'partition': expected name, partitions"),
        ("POST", "/topics", {"name": "a/b"}, 409, "cannot create topic 'a/b': INVALID_TOPIC_EXCEPTION"),
        ("POST", "/topics", {"name": "t", "partitions": 0}, 400, "partitions is 0: expected 1 to 1000"),
        ("POST", "/topics", [], 400, "the body is []: expected an object"),
        ("POST", "/topics", {"name": "t", "config": {"partitions": 2}}, 400, "config has 'partitions': expected topic settings"),
        ("GET", "/topics/none/records", None, 409, "topic 'none' cannot be read: UNKNOWN_TOPIC_OR_PARTITION"),
        ("POST", "/topics/none/records", {"records": []}, 400, "records is []: expected at least one"),
        ("POST", "/topics/none/records", {"records": [{"values": 1}]}, 400, "a record has 'values': expected key, value"),
        ("POST", "/topics/none/records", {"records": [3]}, 400, "3 is no value: expected a text, null or {'base64': ...}"),
        ("POST", "/topics/none/records", {"records": [{"headers": {}}]}, 400, "headers of a record: expected pairs"),
        (
            "POST",
            "/waits",
            {"group": "g"},
            400,
            "a wait is for one of state, offset, committed, lag, leader_of, requests, not for nothing",
        ),
        ("POST", "/waits", {"group": "g", "lag": 0, "timeout_s": 1e9}, 400, "timeout_s is 1000000000.0: expected 0 to 300"),
        ("POST", "/waits", {"requests": {"api": "X"}}, 400, "there is no API 'X'"),
        ("POST", "/waits", {"requests": {"api": ["Produce"]}}, 400, 'api is ["Produce"]: expected a text'),
        ("POST", "/clock/advance", {}, 400, "no time is given: expected some of ms, seconds, minutes, hours, days"),
        ("POST", "/clock/advance", {"hours": -1}, 400, "time cannot go back by 3600 s: use jump()"),
        ("POST", "/clock/advance", {"days": 1e300}, 400, "the wall clock would leave the years 1970 to 2262"),
        ("POST", "/topics/none/records", {"records": [{"timestamp_ms": 2**63}]}, 400, "timestamp_ms is 92233720368547"),
        ("POST", "/clock/advance", {"weeks": 1}, 400, "the body has 'weeks': expected ms, seconds"),
        ("POST", "/brokers/0/kill", None, 404, "there is no broker 0: expected one of "),
    ],
)
def test_what_is_wrong_is_told_in_one_line(
    control: ControlClient, method: str, path: str, body: Any, status: int, told: str
) -> None:
    answer = control.refused(method, path, body)
    assert (answer.status, answer.body[: len(told)]) == (status, told)


def test_a_body_that_is_no_json_and_one_that_is_too_long_are_refused(control: ControlClient) -> None:
    for body in (b"{", b"\xff", b"[" * 100_000):
        answer = control.send("POST", "/topics", body)
        assert (answer.status, answer.body["error"][:27]) == (400, "expected a body of JSON and")
    answer = control.send("POST", "/topics", b" " * (MAX_BODY_BYTES + 1))
    assert (answer.status, answer.body["error"]) == (413, f"the body is longer than {MAX_BODY_BYTES} bytes")


def test_who_has_no_token_is_refused(control: ControlClient) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer \xe9"}):
        answer = control.send("GET", "/", headers=headers)
        assert (answer.status, answer.body["error"][:46]) == (401, "expected the header 'Authorization: Bearer TOK")


def test_a_body_is_not_kept_for_who_has_no_token(control: ControlClient, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []

    class Content(BytesIO):
        def write(self, data: Any) -> int:
            written.append(len(data))
            return super().write(data)

    monkeypatch.setattr(http_server, "BytesIO", Content)
    assert control.send("POST", "/topics", b" " * 1000, headers={}).status == 401
    assert written == []
    assert control.send("POST", "/topics", b'{"name": "t"}').status == 200
    assert sum(written) == 13


def test_an_empty_token_is_none(broker: Broker) -> None:
    with pytest.raises(ValueError, match="the token is empty"):
        ControlServer(broker, token="")


def test_one_broker_goes_comes_back_and_freezes(broker: Broker, control: ControlClient) -> None:
    (it,) = control.get("/")["brokers"]
    control.post("/topics", name="orders")
    for end in ("kill", "stop"):
        assert control.post(f"/brokers/{it['id']}/{end}")["brokers"] == []
        assert control.refused("POST", f"/brokers/{it['id']}/{end}", None).status == 404
        assert control.post(f"/brokers/{it['id']}/start")["brokers"] == [it]
        assert [topic["name"] for topic in control.get("/topics")["topics"]] == ["orders"]
    control.post(f"/brokers/{it['id']}/freeze")
    answers: list[int] = []
    thread = threading.Thread(target=lambda: answers.append(heartbeat(broker, "shop")))
    thread.start()
    thread.join(0.2)
    assert answers == []
    control.post(f"/brokers/{it['id']}/thaw")
    thread.join(30)
    assert answers == [16]


def test_a_held_answer_is_released_and_a_group_rebalances(broker: Broker, control: ControlClient) -> None:
    added = control.post("/faults", api="Heartbeat", hold=True)
    answers: list[int] = []
    thread = threading.Thread(target=lambda: answers.append(heartbeat(broker, "shop")))
    thread.start()
    eventually(lambda: control.get(f"/faults/{added['id']}")["held"] == 1)
    assert control.post(f"/faults/{added['id']}/release")["held"] == 0
    thread.join(30)
    assert answers == [16]
    refused = control.refused("POST", "/groups/none/rebalance", None)
    assert (refused.status, refused.body) == (409, "group 'none' cannot rebalance: GROUP_ID_NOT_FOUND")


def test_brokers_stop_and_start_for_one_at_a_time() -> None:
    changes = ("/reset", "/brokers/1/kill", "/reset", "/brokers/1/stop", "/reset")
    with Cluster(2) as cluster, ControlServer(cluster) as server:
        control = ControlClient(server.url, server.token)
        answers: list[Any] = []
        threads = [threading.Thread(target=lambda path=path: answers.append(control.send("POST", path))) for path in changes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        # A broker that another has ended just now is not there to be ended; nothing else goes wrong.
        assert {answer.status for answer in answers} <= {200, 404}, answers
        control.post("/reset")
        assert [each["id"] for each in control.get("/")["brokers"]] == [1, 2]


def test_a_port_that_is_taken_is_told_in_one_line(broker: Broker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            OSError, match=rf"^cannot listen at 127\.0\.0\.1:{port}: Address already in use; stop what listens there"
        ):
            ControlServer(broker, port=port).start()


def test_a_wait_ends_with_the_server_and_leaves_no_thread(broker: Broker) -> None:
    before = set(threading.enumerate())
    server = ControlServer(broker, token="t")
    server.start()
    control = ControlClient(server.url, "t")
    ended = threading.Event()

    def wait() -> None:
        with pytest.raises((ConnectionError, AssertionError, OSError)):
            control.post("/waits", group="g", state="Stable", timeout_s=300)
        ended.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    broker.wait_for(lambda: len(set(threading.enumerate()) - before), lambda seen: seen >= 3, "the wait's thread")
    server.stop()
    assert ended.wait(30)
    waiting.join(30)
    assert set(threading.enumerate()) - before == set()


def test_an_unexpected_error_is_answered_and_logged(
    broker: Broker, control: ControlClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> list[str]:
        raise ZeroDivisionError("by a\nbug")

    monkeypatch.setattr(broker, "topics", fail)
    answer = control.refused("GET", "/topics")
    assert answer == (500, "ZeroDivisionError: by a bug")


def test_answers_are_json_of_the_types_that_they_say(broker: Broker, control: ControlClient) -> None:
    host, port = broker.bootstrap_servers.split(":")
    ask((host, int(port)), MetadataRequest(topics=[MetadataRequestTopic(name="orders")]), 5, "shop", 30)
    (told,) = control.get("/requests", api="Metadata", topic="orders", whole="true")["requests"]
    assert json.loads(json.dumps(told)) == told
    assert told["partitions"] == [{"topic": "orders", "partition": None}]
