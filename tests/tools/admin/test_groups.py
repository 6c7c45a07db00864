"""``twisted-kafka groups``."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.eventually import eventually
from tests.tools.admin.cli import Cli
from twisted_kafka.client.connections.addresses import parse_address
from twisted_kafka.client.connections.socket_connection import SocketConnection
from twisted_kafka.protocol.messages.coordinators.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from twisted_kafka.protocol.messages.coordinators.groups import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)

pytestmark = pytest.mark.medium


@contextmanager
def member(cli: Cli, group: str, topic: str) -> Iterator[str]:
    """A classic consumer with partition 0 of a topic, in a group of its own; its member id."""
    cli.run("groups", "describe", group)  # which makes the broker create the topic of offsets
    with SocketConnection(parse_address(cli.server), "shop", 20) as connection:
        metadata = b"\0\0" + ConsumerProtocolSubscription(topics=[topic]).encode(0)
        protocols = [JoinGroupRequestProtocol(name="range", metadata=metadata)]
        join = JoinGroupRequest(
            group_id=group, session_timeout_ms=30_000, rebalance_timeout_ms=30_000, protocol_type="consumer", protocols=protocols
        )
        joined = eventually(lambda: each if not (each := connection.ask(join, 2, 20)).error_code else None)
        owned = ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=[0])
        assignment = b"\0\0" + ConsumerProtocolAssignment(assigned_partitions=[owned]).encode(0)
        mine = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=assignment)
        sync = SyncGroupRequest(group_id=group, generation_id=joined.generation_id, member_id=joined.member_id, assignments=[mine])
        assert connection.ask(sync, 2, 20).error_code == 0
        yield joined.member_id
        connection.ask(LeaveGroupRequest(group_id=group, member_id=joined.member_id), 2, 20)


def test_offsets_and_lag(cli: Cli) -> None:
    topic, group = cli.topic("-p", "2"), f"{cli.prefix}-billing"
    cli.ok("produce", topic, "-p", "0", "a", "b", "c")
    cli.ok("produce", topic, "-p", "1", "a")
    (first, second) = cli.json("groups", "reset", group, topic, "--to", "1", "--yes")
    assert (first["offset"], first["new_offset"], second["new_offset"]) == (None, 1, 1)
    (described,) = cli.json("groups", "describe", group)
    assert (described["state"], described["lag"], described["members"]) == ("Empty", 2, [])
    assert [(each["offset"], each["end_offset"], each["lag"]) for each in described["offsets"]] == [(1, 3, 2), (1, 1, 0)]
    head, header, *rows = cli.ok("groups", "describe", group).lines
    assert head == f"{group}: Empty, classic group, 0 members, lag 2"
    assert header.split() == ["TOPIC", "PARTITION", "OFFSET", "END", "OFFSET", "LAG", "MEMBER", "HOST"]
    assert rows[0].split() == [topic, "0", "1", "3", "2", "-", "-"]
    assert group in [each["group"] for each in cli.json("groups", "list")]


def test_offsets_are_moved(cli: Cli) -> None:
    topic, group = cli.topic("-p", "2"), f"{cli.prefix}-billing"
    cli.ok("produce", topic, "-p", "0", *"abcd")
    cli.ok("groups", "reset", group, topic, "--to", "latest", "-y")

    def offsets() -> list[int]:
        return [each["offset"] for each in cli.json("groups", "describe", group)[0]["offsets"]]

    assert offsets() == [4, 0]
    cli.ok("groups", "reset", group, f"{topic}:0", "--shift", "-3", "-y")
    assert offsets() == [1, 0]
    cli.ok("groups", "reset", group, "--shift", "9", "-y")
    assert offsets() == [4, 0]
    cli.ok("groups", "reset", group, "--to", "-1", "-y")
    assert offsets() == [3, 0]
    cli.json("groups", "reset", group, "--to", "earliest", "--dry-run")
    assert offsets() == [3, 0]
    assert "to count from: use --to" in cli.fails("groups", "reset", f"{group}2", topic, "--shift", "1", "-y")
    assert "name the topics" in cli.fails("groups", "reset", f"{group}2", "--to", "latest", "-y")


def test_a_member_is_shown_and_protects_its_group(cli: Cli) -> None:
    topic, group = cli.topic("-p", "1"), f"{cli.prefix}-billing"
    cli.ok("produce", topic, "a")
    with member(cli, group, topic) as member_id:
        (described,) = cli.json("groups", "describe", group)
        assert (described["state"], described["assignor"]) == ("Stable", "range")
        (row,) = described["offsets"]
        assert (row["topic"], row["partition"], row["offset"], row["member"]) == (topic, 0, None, member_id)
        (shown,) = cli.json("groups", "describe", group, "--members")
        assert [(each["member"], each["client"], each["partitions"]) for each in shown["members"]] == [
            (member_id, "shop", [f"{topic}-0"])
        ]
        assert "1 member: stop them first" in cli.fails("groups", "reset", group, topic, "--to", "earliest", "-y", status=2)
        assert cli.fails("groups", "delete", group, "-y").endswith("stop its members first")
        assert group in [each["group"] for each in cli.json("groups", "list", "--state", "Stable")]
    assert group not in [each["group"] for each in cli.json("groups", "list", "--state", "Stable")]


def test_groups_and_offsets_are_deleted(cli: Cli) -> None:
    topic, group = cli.topic("-p", "2"), f"{cli.prefix}-billing"
    cli.ok("groups", "reset", group, topic, "--to", "earliest", "-y")
    assert "this would delete 1 offset of group" in cli.fails("groups", "delete-offsets", group, f"{topic}:1")
    cli.ok("groups", "delete-offsets", group, f"{topic}:1", "-y")
    assert "has no offsets of" in cli.fails("groups", "delete-offsets", group, f"{topic}:1", "-y")
    assert cli.json("groups", "delete", group, "--dry-run") == [{"group": group, "state": "Empty", "members": 0, "offsets": 1}]
    assert f"this would delete 1 group ({group}) with 1 offset;" in cli.fails("groups", "delete", group)
    assert cli.ok("groups", "delete", group, "-y").lines == [f"group {group} was deleted"]
    assert f"there is no group '{group}'" in cli.fails("groups", "describe", group)


def test_a_misspelt_group(cli: Cli) -> None:
    topic, group = cli.topic(), f"{cli.prefix}-billing"
    cli.ok("groups", "reset", group, topic, "--to", "earliest", "-y")
    assert cli.fails("groups", "describe", group[:-1]).endswith(f"did you mean '{group}'?")
