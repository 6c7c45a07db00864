import json
from typing import Any

import pytest

from tests.access_log.samples import NOW_MS, request
from tests.support.traced_memory import traced_peak_bytes
from twisted_kafka.access_log.record import HOUR_AT, LIST_BYTES, LineMaker, api_name
from twisted_kafka.network.requests.kafka_principal import KafkaPrincipal
from twisted_kafka.network.requests.request_context import (
    ConnectionInfo,
    ResourceKind,
    ShareCount,
    TransactionNote,
    TransactionOutcome,
)
from twisted_kafka.timing.clock import ManualClock


@pytest.fixture
def lines() -> LineMaker:
    return LineMaker(3, ManualClock(NOW_MS), max_topics=2, max_partitions=3)


def test_a_line_has_every_field_in_order(lines: LineMaker) -> None:
    line = lines.line(request())
    assert line.endswith("}\n")
    assert line[HOUR_AT] == "2023-11-14T22"
    assert list(json.loads(line).items()) == [
        ("v", 2),
        ("time", "2023-11-14T22:13:20.123Z"),
        ("node", 3),
        ("listener", "INSIDE"),
        ("protocol", "PLAINTEXT"),
        ("connection", "127.0.0.1:9092-127.0.0.1:4000-0"),
        ("principal", "User:ANONYMOUS"),
        ("client_id", "app"),
        ("software", "unknown"),
        ("software_version", "unknown"),
        ("api", "Fetch"),
        ("api_key", 1),
        ("version", 11),
        ("correlation_id", 77),
        ("request_bytes", 50),
        ("response_bytes", 1234),
        ("request_queue_us", 10),
        ("local_us", 30),
        ("remote_us", 500),
        ("throttle_us", 0),
        ("response_queue_us", 4),
        ("send_us", 15),
        ("total_us", 559),
        ("error", None),
        ("topics", []),
        ("sequence", NOW_MS * 1000),
    ]


@pytest.mark.parametrize("client_id", [None, "", 'a"b\\c', "new\nline\x00", "\u00e9\U0001f600", "\ud800", "100%s"])
def test_any_client_id_makes_valid_json(lines: LineMaker, client_id: str | None) -> None:
    line = lines.line(request(client_id))
    assert line.isascii()
    assert line.count("\n") == 1
    assert json.loads(line)["client_id"] == client_id


def test_what_changes_during_a_connection_shows_in_its_next_line(lines: LineMaker) -> None:
    connection = ConnectionInfo("c-0", "L", "PLAINTEXT", "127.0.0.1")
    first = json.loads(lines.line(request("a", connection)))
    connection.software_name, connection.software_version = "librdkafka", "2.8"
    second = json.loads(lines.line(request("a", connection)))
    connection.principal = KafkaPrincipal("User", "me")
    third = json.loads(lines.line(request("b", connection)))
    assert (first["software"], second["software"], second["software_version"]) == ("unknown", "librdkafka", "2.8")
    assert (third["principal"], third["client_id"]) == ("User:me", "b")


def test_errors_are_named_and_topics_bounded(lines: LineMaker) -> None:
    made = request()
    for name in ("one", 'bad"/name', "three"):
        made.context.note_topic(name, (0, 7), 30, 400, 3 if name == "three" else 0)
    written = json.loads(lines.line(made))
    assert written["error"] == "UNKNOWN_TOPIC_OR_PARTITION"
    assert written["topics"] == [
        {"topic": "one", "partitions": 2, "records": 30, "bytes": 400, "error": None, "partition_ids": [0, 7]},
        {"topic": 'bad"/name', "partitions": 2, "records": 30, "bytes": 400, "error": None, "partition_ids": [0, 7]},
    ]
    assert written["topics_left_out"] == 1


def test_an_unknown_error_code_is_written_as_a_number(lines: LineMaker) -> None:
    made = request()
    made.context.note_error(9999)
    assert json.loads(lines.line(made))["error"] == "9999"


@pytest.mark.parametrize(
    ("note", "written"),
    [
        (TransactionNote("tx"), {"id": "tx"}),
        (TransactionNote("", timeout_ms=-1), {"id": "", "timeout_ms": -1}),
        (
            TransactionNote('a"\n\ud800', TransactionOutcome.TIMED_OUT, 12, 60_000),
            {"id": 'a"\n\ud800', "outcome": "timed-out", "duration_ms": 12, "timeout_ms": 60_000},
        ),
    ],
)
def test_a_transaction_is_before_the_number(lines: LineMaker, note: TransactionNote, written: dict[str, Any]) -> None:
    made = request()
    made.context.note_topic("orders", (0, 1), 0, 0)
    made.context.transaction = note
    found = json.loads(lines.line(made, weight=10))
    assert list(found)[-4:] == ["topics", "transaction", "sequence", "weight"]
    assert found["transaction"] == written


def test_a_transaction_that_no_request_ends_has_a_line_without_a_request(lines: LineMaker) -> None:
    note = TransactionNote("tx", TransactionOutcome.TIMED_OUT, 60_500)
    empty = {"topic": "", "partitions": 0, "records": 0, "bytes": 0, "error": None}
    line = lines.own_line(note, [(name, (0, 1), 0, 0, 0) for name in ("a", "b", "c")])
    assert line.endswith("}\n")
    assert line[HOUR_AT] == "2023-11-14T22"
    assert list(json.loads(line).items()) == [
        ("v", 2),
        ("time", "2023-11-14T22:13:20.123Z"),
        ("node", 3),
        ("topics", [{**empty, "topic": name, "partitions": 2, "partition_ids": [0, 1]} for name in ("a", "b")]),
        ("topics_left_out", 1),
        ("transaction", {"id": "tx", "outcome": "timed-out", "duration_ms": 60_500}),
        ("sequence", NOW_MS * 1000),
    ]
    assert json.loads(lines.line(request()))["sequence"] == NOW_MS * 1000 + 1


def test_counts_of_a_share_groups_records_are_after_the_group(lines: LineMaker) -> None:
    made = request()
    made.context.group = "g", "m", 4
    for records, most in ((10, 2), (5, 1)):
        made.context.note_share("orders", ShareCount.DELIVERY_COUNT, most)
        made.context.note_share("orders", ShareCount.ACQUIRED, records)
    made.context.note_share("orders", ShareCount.REDELIVERED, 0)
    for topic in ("a", "b"):
        made.context.note_share(topic, ShareCount.GAP, 1)
    made.context.note_decision(ResourceKind.GROUP, "g", "Read", True)
    found = json.loads(lines.line(made))
    assert list(found)[-7:] == ["group_id", "member_id", "generation", "share", "share_left_out", "decisions", "sequence"]
    assert found["share"] == [{"topic": "orders", "acquired": 15, "delivery_count": 2}, {"topic": "a", "gap": 1}]
    assert found["share_left_out"] == 1


def test_counts_are_numbers_that_readers_can_hold(lines: LineMaker) -> None:
    made = request()
    made.context.group = "g", "m", 4
    for _ in range(3):
        made.context.note_share("orders", ShareCount.REFUSED, 2**63)
    assert json.loads(lines.line(made))["share"] == [{"topic": "orders", "refused": 2**63 - 1}]


def test_records_that_are_lost_without_a_request_have_a_line(lines: LineMaker) -> None:
    line = lines.share_line(("g", "m", -1), [("a", (3,), 0, 0, 0)], {"a": {ShareCount.EXPIRED: 7, ShareCount.OVER_LIMIT: 2}})
    assert line.endswith("}\n")
    assert list(json.loads(line).items()) == [
        ("v", 2),
        ("time", "2023-11-14T22:13:20.123Z"),
        ("node", 3),
        ("topics", [{"topic": "a", "partitions": 1, "records": 0, "bytes": 0, "error": None, "partition_ids": [3]}]),
        ("group_id", "g"),
        ("member_id", "m"),
        ("share", [{"topic": "a", "expired": 7, "over_limit": 2}]),
        ("sequence", NOW_MS * 1000),
    ]


def test_what_else_a_request_is_about_is_between_topics_and_number(lines: LineMaker) -> None:
    made = request()
    context = made.context
    context.acks = -1
    context.group = 'g"1', "app-1", 7
    for name in ("one", None, "one", "three"):
        context.note_resource(ResourceKind.CLIENT_ID, name)
    context.transaction = TransactionNote("tx")
    found = list(json.loads(lines.line(made)).items())
    assert found[-8:-1] == [
        ("acks", -1),
        ("group_id", 'g"1'),
        ("member_id", "app-1"),
        ("generation", 7),
        ("resources", [{"type": "client-id", "name": "one"}, {"type": "client-id", "name": None}]),
        ("resources_left_out", 1),
        ("transaction", {"id": "tx"}),
    ]


def test_a_group_without_member_and_generation_has_only_its_id(lines: LineMaker) -> None:
    for made in (request(), request()):  # the second one from the cache
        made.context.group = "g", "", -1
        found = json.loads(lines.line(made))
        assert found["group_id"] == "g"
        assert not {"member_id", "generation", "acks", "resources"} & set(found)


def test_partition_ids_are_bounded_and_all_are_counted(lines: LineMaker) -> None:
    made = request()
    made.context.note_topic("t", (5, 4, 3, 2), 0, 0)
    made.context.note_topic("u", (), 0, 0)
    found = json.loads(lines.line(made))["topics"]
    assert [(each["partitions"], each.get("partition_ids")) for each in found] == [(4, [5, 4, 3]), (0, None)]


def test_apis_have_kafkas_names() -> None:
    assert [api_name(key) for key in (0, 2, 18, 23, 50)] == [
        "Produce",
        "ListOffsets",
        "ApiVersions",
        "OffsetForLeaderEpoch",
        "DescribeUserScramCredentials",
    ]


LONG = "\x01" * 32_000


def test_what_clients_choose_is_cut_and_still_distinguished(lines: LineMaker) -> None:
    def written(name: str) -> Any:
        connection = ConnectionInfo("c-0", "L", "PLAINTEXT", "127.0.0.1")
        connection.software_name = connection.software_version = name
        connection.principal = KafkaPrincipal("User", name)
        made = request(name, connection)
        context = made.context
        context.note_topic(name, (0,), 0, 0)
        context.note_resource(ResourceKind.USER, name)
        context.group = (name, name, 1)
        context.transaction = TransactionNote(name)
        line = lines.line(made)
        assert len(line) < 20_000
        return json.loads(line)

    one, other = written(LONG), written(LONG[1:] + "x")
    for name in ("client_id", "software", "software_version", "group_id", "member_id"):
        assert one[name][:259] == "\x01" * 256 + "..."
        assert one[name] != other[name]
    for found in (one["topics"][0]["topic"], one["resources"][0]["name"], one["transaction"]["id"], one["principal"]):
        assert len(found) == 256 + 3 + 16


@pytest.mark.medium
@pytest.mark.parametrize("kind", ["topics", "resources"])
def test_a_list_fits_its_line_and_says_what_is_left_out(kind: str) -> None:
    made = request()
    for number in range(1000):
        if kind == "topics":
            made.context.note_topic(f"{LONG}{number}", (0,), 0, 0)
        else:
            made.context.note_resource(ResourceKind.GROUP, f"{LONG}{number}")
    line = LineMaker(3, ManualClock(NOW_MS), max_topics=10_000, max_partitions=3).line(made)
    assert LIST_BYTES / 2 < len(line) < LIST_BYTES + 1000
    written = json.loads(line)
    assert len(written[kind]) + written[f"{kind}_left_out"] == 1000


@pytest.mark.medium
def test_nothing_is_kept_of_closed_connections_and_of_versions_that_no_api_has() -> None:
    lines = LineMaker(3, ManualClock(NOW_MS), 10, 10)

    def connect(number: int) -> None:
        connection = ConnectionInfo(f"c-{number}", "L", "PLAINTEXT", "127.0.0.1")
        made = request(LONG, connection)
        made.context.api_version = number
        made.context.note_topic(f"{LONG}{number}", (0,), 0, 0)
        made.context.group = (f"{LONG}{number}", LONG, 1)
        lines.line(made)

    connect(0)
    assert traced_peak_bytes(lambda: [connect(number) for number in range(1, 1000)]) < 18 << 20  # two caches of 8 MiB each


def test_an_open_connection_keeps_no_long_client_id(lines: LineMaker) -> None:
    connection = ConnectionInfo("c-0", "L", "PLAINTEXT", "127.0.0.1")
    lines.line(request(LONG, connection))
    assert connection.line_prefix is None
    lines.line(request("short", connection))
    first = connection.line_prefix
    lines.line(request("short", connection))
    assert connection.line_prefix is first is not None


def test_the_authorizers_decisions_are_before_the_transaction(lines: LineMaker) -> None:
    made = request()
    made.context.note_decision(ResourceKind.TOPIC, 'a"', "Read", False)
    made.context.note_decision(ResourceKind.CLUSTER, "kafka-cluster", "AlterConfigs", True)
    made.context.transaction = TransactionNote("tx")
    found = json.loads(lines.line(made))
    assert list(found)[-3:] == ["decisions", "transaction", "sequence"]
    assert found["decisions"] == [
        {"type": "topic", "name": 'a"', "operation": "Read", "allowed": False},
        {"type": "cluster", "name": "kafka-cluster", "operation": "AlterConfigs", "allowed": True},
    ]
    made.context.note_decision(ResourceKind.GROUP, "g", "Read", True)
    found = json.loads(lines.line(made))
    assert (len(found["decisions"]), found["decisions_left_out"]) == (2, 1)
    assert "decisions" not in json.loads(lines.line(request()))
