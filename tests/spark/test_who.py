"""Who did what: administration, readers and writers of topics, groups, and grouping by topic and group."""

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("numpy")

from tests.spark.access_lines import line, topic
from tests.spark.folded import cells, document
from twisted_kafka_spark import views
from twisted_kafka_spark.cells import bundles
from twisted_kafka_spark.cells.fold import Folding
from twisted_kafka_spark.cells.kinds import MINUTE_S
from twisted_kafka_spark.records.lines import LineReader


def test_every_change_of_the_cluster_is_in_the_report() -> None:
    who = {"v": 2, "principal": "User:eve", "client_id": "cli", "connection": "10.0.0.1:9092-10.6.6.6:1-0"}
    users = [{"type": "user", "name": "User:bob"}, {"type": "user", "name": None}]
    lines = [
        line("DeleteTopics", 3, **who, topics=[topic("logs.raw.9", 0), topic("logs.raw.8", 0)]),
        line("CreateAcls", 2, **who, resources=[{"type": "topic", "name": "orders"}], error="CLUSTER_AUTHORIZATION_FAILED"),
        line("AlterClientQuotas", 4, **who, resources=users),
        line("Fetch", 5, **who, topics=[topic("orders", 1)]),
    ]
    found = document(lines)["administration"]
    assert [(row["at"][-5:], row["api"], row["about"], row["error"]) for row in found] == [
        ("08:02", "CreateAcls", "topic orders", "CLUSTER_AUTHORIZATION_FAILED"),
        ("08:03", "DeleteTopics", "topic logs.raw.9, topic logs.raw.8", None),
        ("08:04", "AlterClientQuotas", "user User:bob, user (default)", None),
    ]
    assert {(row["principal"], row["client_id"], row["address"], row["node"]) for row in found} == {
        ("User:eve", "cli", "10.6.6.6", 1)
    }


def test_a_principal_that_changes_something_all_day_does_not_push_the_others_out_of_the_list() -> None:
    lines = [
        line("DeleteRecords", n % 60, v=2, principal="User:purge", topics=[topic(f"topic-{n:04}", 0)])
        for n in range(views.MOST_CHANGES + 50)
    ]
    lines += [line("DeleteAcls", 59, v=2, principal="User:eve", connection="zz", resources=[{"type": "topic", "name": "z"}])]
    found = views.compute(cells(lines), MINUTE_S)["change"]
    assert len(found) == views.MOST_CHANGES
    assert [row["note"] for row in found if row["principal"] == "User:eve"] == ["topic z"]


def test_readers_and_writers_of_a_topic_are_named_with_their_groups() -> None:
    lines = [line("Produce", minute, client_id="writer", topics=[topic("orders", 7)]) for minute in (1, 9)]
    lines += [line("Fetch", 5, client_id="reader", topics=[topic("orders", 5), topic("other", 1)])]
    lines += [line("OffsetCommit", 6, v=2, client_id="reader", group_id="billing", member_id="m", topics=[topic("orders", 0)])]
    found = {(row["topic"], row["does"]): row for row in document(lines)["lineage"]}
    writer, reader = found["orders", "writes"], found["orders", "reads"]
    assert (writer["client_id"], writer["bytes"], writer["first"][-5:], writer["last"][-5:]) == ("writer", 140, "08:01", "08:09")
    assert (reader["client_id"], reader["groups"], found["other", "reads"]["groups"]) == ("reader", ["billing"], [])


def test_groups_have_members_joins_commits_and_topics() -> None:
    of = {"v": 2, "group_id": "billing"}
    lines = [line("JoinGroup", 1, **of, member_id=member) for member in ("a", "b")]
    lines += [line("OffsetCommit", 2, **of, member_id="a", topics=[topic("orders", 0)], error="UNKNOWN_MEMBER_ID")]
    lines += [line("LeaveGroup", 3, **of, member_id="b"), line("Fetch", 3)]
    (found,) = document(lines)["groups"]
    counts = {name: found[name] for name in ("members", "joins", "leaves", "commits", "failed", "requests")}
    assert counts == {"members": 2, "joins": 2, "leaves": 1, "commits": 1, "failed": 1, "requests": 4}
    assert (found["topics"], found["first"][-5:], found["last"][-5:]) == (["orders"], "08:01", "08:03")


def test_requests_are_grouped_by_topic_and_by_group() -> None:
    lines = [
        line("Fetch", 1, topics=[topic("orders", 1), topic("audit", 1)]),
        line("Metadata", 1),
        line("Heartbeat", 1, v=2, group_id="g", member_id="m", generation=1),
    ]
    reader = LineReader()
    for keys, rows in ((("topic", "api"), {("orders", "Fetch"), ("audit", "Fetch"), (None, "Metadata"), (None, "Heartbeat")}),):
        folded = Folding(group_by=keys).folded(reader.frames_of_block("".join(lines).encode()), reader)
        found = views.compute(bundles.wide(bundles.joined(folded).items()), MINUTE_S, keys)["group_by"]
        assert {(row["topic"], row["api"]) for row in found} == rows
    folded = Folding(group_by=("group_id",)).folded(reader.frames_of_block("".join(lines).encode()), reader)
    found = views.compute(bundles.wide(bundles.joined(folded).items()), MINUTE_S, ("group_id",))["group_by"]
    assert {(row["group_id"], row["requests"]) for row in found} == {(None, 2), ("g", 1)}
