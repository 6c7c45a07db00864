"""``twisted-kafka acls``, ``users`` and ``quotas``."""

import hashlib

import pytest

from tests.support.eventually import eventually
from tests.tools.admin.cli import Cli


@pytest.mark.medium
def test_acls(cli: Cli) -> None:
    topic, user = f"{cli.prefix}-orders", f"User:{cli.prefix}"
    rows = cli.json("acls", "create", "--principal", user, "--operation", "read,describe-configs", "--topic", topic)
    assert rows[0] == {
        "resource": "Topic",
        "name": topic,
        "pattern": "Literal",
        "principal": user,
        "host": "*",
        "operation": "Read",
        "permission": "Allow",
    }
    assert [each["operation"] for each in rows] == ["Read", "DescribeConfigs"]
    cli.ok(
        "acls",
        "create",
        "--principal",
        user,
        "--operation",
        "all",
        "--topic",
        cli.prefix,
        "--prefixed",
        "--deny",
        "--host",
        "10.0.0.1",
    )
    listed = eventually(lambda: rows if len(rows := cli.json("acls", "list", "--topic", topic)) == 3 else None)
    assert {(each["pattern"], each["permission"], each["host"]) for each in listed} == {
        ("Literal", "Allow", "*"),
        ("Prefixed", "Deny", "10.0.0.1"),
    }
    assert len(cli.json("acls", "list", "--principal", user, "--operation", "read")) == 1
    assert len(cli.json("acls", "list", "--topic", topic, "--permission", "deny")) == 1
    assert len(cli.json("acls", "delete", "--principal", user, "--dry-run")) == 3
    assert "this would delete 2 ACLs; nothing has changed" in cli.fails("acls", "delete", "--topic", topic)
    assert cli.ok("acls", "delete", "--topic", topic, "--yes").lines == ["deleted 2 ACLs"]
    assert cli.ok("acls", "delete", "--principal", user, "-y").lines == ["deleted 1 ACL"]
    eventually(lambda: not cli.json("acls", "list", "--principal", user))
    assert cli.ok("acls", "delete", "--principal", user, "-y").lines == ["no entry matches"]


def test_acls_of_producers_and_consumers(cli: Cli) -> None:
    user = ["--principal", f"User:{cli.prefix}"]
    made = cli.json("acls", "create", *user, "--topic", "a", "--producer", "--transactional-id", "t")
    assert [(each["resource"], each["operation"]) for each in made] == [
        ("Topic", "Write"),
        ("Topic", "Describe"),
        ("Topic", "Create"),
        ("TransactionalId", "Write"),
        ("TransactionalId", "Describe"),
    ]
    made = cli.json("acls", "create", *user, "--topic", "a", "--group", "g", "--consumer")
    assert [(each["resource"], each["operation"]) for each in made] == [("Topic", "Read"), ("Topic", "Describe"), ("Group", "Read")]
    cli.ok("acls", "delete", *user, "-y")


def test_wrong_options_of_acls(cli: Cli) -> None:
    user = ["--principal", "User:x"]
    assert "expected TYPE:NAME, as in User:alice" in cli.fails("acls", "create", "--principal", "alice", "--cluster", status=2)
    assert "name a resource and operations" in cli.fails("acls", "create", *user, "--topic", "t", status=2)
    assert "unknown operation 'reed'" in cli.fails("acls", "create", *user, "--topic", "t", "--operation", "reed", status=2)
    assert "--consumer needs a --group" in cli.fails("acls", "create", *user, "--topic", "t", "--consumer", status=2)
    assert "or use --all" in cli.fails("acls", "delete", "-y", status=2)


@pytest.mark.medium
def test_users(cli: Cli) -> None:
    user = f"{cli.prefix}-alice"
    done = cli.ok("users", "set-password", user, stdin=b"secret\n")
    assert done.lines == [f"{user} can log in with SCRAM-SHA-512"]
    cli.ok("users", "set-password", user, "-m", "SCRAM-SHA-256", "--iterations", "8192", stdin=b"secret\n")
    rows = eventually(lambda: rows if len(rows := cli.json("users", "list", user)) == 2 else None)
    assert rows == [
        {"user": user, "mechanism": "SCRAM-SHA-256", "iterations": 8192},
        {"user": user, "mechanism": "SCRAM-SHA-512", "iterations": 4096},
    ]
    assert f"this would delete 2 passwords of {user}" in cli.fails("users", "delete", user)
    cli.ok("users", "delete", user, "-m", "SCRAM-SHA-256", "-y")
    eventually(lambda: len(cli.json("users", "list", user)) == 1)
    cli.ok("users", "delete", user, "-y")
    said = eventually(lambda: run.err if (run := cli.run("users", "list", user)).status else None)
    assert "there is no SCRAM user" in said
    assert "the password is empty" in cli.fails("users", "set-password", user, stdin=b"\n", status=2)
    assert "--iterations must be from 4096" in cli.fails("users", "set-password", user, "--iterations", "1", status=2)


@pytest.mark.medium
def test_quotas(cli: Cli) -> None:
    user, client = f"{cli.prefix}-alice", "shop"
    both = ["--user", user, "--client-id", client]
    rows = eventually(
        lambda: (
            rows
            if (rows := cli.json("quotas", "alter", *both, "-s", "producer_byte_rate=1024", "--set", "request_percentage=12.5"))
            else None
        )
    )
    expected = {"user": user, "client_id": client, "ip": None}
    found = eventually(lambda: rows if len(rows := cli.json("quotas", "list", "--user", user)) == 2 else None)
    assert found == [
        {**expected, "key": "producer_byte_rate", "value": 1024.0},
        {**expected, "key": "request_percentage", "value": 12.5},
    ]
    assert rows[0]["user"] == user
    cli.ok("quotas", "alter", *both, "-d", "request_percentage")
    eventually(lambda: len(cli.json("quotas", "list", *both)) == 1)
    assert (
        "the quotas could be changed" in cli.ok("quotas", "alter", "--default-user", "-s", "consumer_byte_rate=1", "--dry-run").text
    )
    assert "; quotas are producer_byte_rate, consumer_" in cli.fails("quotas", "alter", *both, "-s", "producer_byterate=1")
    assert "this would delete 1 quota;" in cli.fails("quotas", "delete", *both)
    assert cli.ok("quotas", "delete", *both, "-y").lines == ["deleted 1 quota"]
    eventually(lambda: not cli.json("quotas", "list", "--user", user))
    assert "there are no such quotas" in cli.fails("quotas", "delete", *both, "-y")


def test_the_default_of_all_clients(cli: Cli) -> None:
    cli.ok("quotas", "alter", "--default-client-id", "-s", "consumer_byte_rate=1000000")
    (row,) = eventually(lambda: cli.json("quotas", "list", "--default-client-id"))
    assert (row["client_id"], row["key"]) == ("(default)", "consumer_byte_rate")
    cli.ok("quotas", "delete", "--default-client-id", "-y")


def test_wrong_options_of_quotas(cli: Cli) -> None:
    assert "name a --user, a --client-id or an --ip" in cli.fails("quotas", "alter", "-s", "a=1", status=2)
    assert "expected a number" in cli.fails("quotas", "alter", "--user", "u", "-s", "producer_byte_rate=fast", status=2)
    assert "nothing to change" in cli.fails("quotas", "alter", "--user", "u", status=2)
    cli.fails("quotas", "alter", "--user", "u", "-s", "no_such_key=1")


def test_a_password_is_never_shown(cli: Cli) -> None:
    result = cli.ok("users", "set-password", f"{cli.prefix}-bob", "-o", "json", stdin=b"a very secret text\n")
    assert b"secret" not in result.out
    assert hashlib.sha256(b"a very secret text").hexdigest().encode() not in result.out
