"""``twisted-kafka topics``."""

import pytest

from tests.tools.admin.cli import Cli


@pytest.mark.medium
def test_a_topic_is_created_listed_described_and_deleted(cli: Cli) -> None:
    name = f"{cli.prefix}-orders"
    created = cli.ok("topics", "create", name, "-p", "3", "-r", "1", "--config", "retention.ms=60000")
    assert created.lines == [f"{name} was created with 3 partitions, replication factor 1"]
    assert cli.json("topics", "list", f"{cli.prefix}-*") == [
        {"topic": name, "partitions": 3, "replication_factor": 1, "internal": False}
    ]
    (described,) = cli.json("topics", "describe", name)
    assert described["settings"] == {"retention.ms": "60000"}
    assert len(described["id"]) == 22
    (broker,) = {each["leader"] for each in described["partitions"]}
    assert described["partitions"][2] == {
        "partition": 2,
        "leader": broker,
        "replicas": [broker],
        "in_sync": [broker],
        "first_offset": 0,
        "end_offset": 0,
    }
    assert cli.ok("topics", "delete", name, "--yes").lines == [f"{name} was deleted"]
    assert f"there is no topic '{name}'" in cli.fails("topics", "describe", name)


def test_a_table_has_a_header_and_numbers_at_the_right(cli: Cli) -> None:
    name = cli.topic("-p", "12")
    header, row = cli.ok("topics", "list", name).lines
    assert header.split("  ")[0] == "TOPIC"
    assert row.split() == [name, "12", "1"]
    assert row.index("12") + 2 == header.index("PARTITIONS") + len("PARTITIONS")


def test_a_topic_that_exists_is_an_error_or_not(cli: Cli) -> None:
    name = cli.topic()
    assert cli.fails("topics", "create", name).endswith("; choose another name, or add --if-not-exists")
    assert cli.ok("topics", "create", name, "--if-not-exists").lines == [f"{name} exists already"]


def test_one_bad_topic_does_not_stop_the_others(cli: Cli) -> None:
    result = cli.run("topics", "create", f"{cli.prefix}-a", f"{cli.prefix} b", f"{cli.prefix}-c")
    assert result.status == 1
    assert [line.split()[0] for line in result.lines] == [f"{cli.prefix}-a", f"{cli.prefix}-c"]
    assert result.err.startswith(f"twisted-kafka: topic {cli.prefix} b: ")


@pytest.mark.medium
def test_a_dry_run_changes_nothing(cli: Cli) -> None:
    name = f"{cli.prefix}-orders"
    assert "could be created" in cli.ok("topics", "create", name, "--dry-run").text
    cli.fails("topics", "describe", name)
    cli.ok("topics", "create", name)
    (row,) = cli.json("topics", "delete", name, "--dry-run")
    assert row == {"topic": name, "partitions": 1, "offsets": 0, "internal": False}
    assert "could have 2 partitions" in cli.ok("topics", "alter", name, "-p", "2", "--dry-run").text
    assert len(cli.json("topics", "describe", name)[0]["partitions"]) == 1


def test_partitions_are_added_but_not_removed(cli: Cli) -> None:
    name = cli.topic("-p", "2")
    assert cli.ok("topics", "alter", name, "--partitions", "4").lines == [f"{name} has 4 partitions"]
    assert "4 partition" in cli.fails("topics", "alter", name, "--partitions", "2")


@pytest.mark.medium
def test_a_deletion_asks_first_and_says_so_if_it_cannot(cli: Cli) -> None:
    name = cli.topic()
    cli.ok("produce", name, "a", "b")
    line = cli.fails("topics", "delete", name)
    advice = "nothing has changed: add --yes to do it, or --dry-run to see the details"
    assert line == f"this would delete 1 topic ({name}) with 2 records; {advice}"


def test_a_misspelt_topic_gets_the_name_that_was_meant(cli: Cli) -> None:
    name = cli.topic(name="payments")
    assert cli.fails("topics", "describe", name.replace("payments", "paymens")).endswith(f"did you mean '{name}'?")
    assert cli.fails("topics", "delete", "qqqq-*", "-y").endswith("list the topics with twisted-kafka topics list")


def test_a_misspelt_setting_gets_the_key_that_was_meant(cli: Cli) -> None:
    name = f"{cli.prefix}-misspelt"
    assert cli.fails("topics", "create", name, "-c", "retention.mss=3").endswith(": did you mean 'retention.ms'?")
    assert cli.fails("topics", "create", name, "-c", "qwertz=3").endswith("configs describe topic NAME --all lists the keys")


@pytest.mark.medium
def test_old_records_are_deleted(cli: Cli) -> None:
    name = cli.topic("-p", "1")
    cli.ok("produce", name, "a", "b", "c")
    assert cli.json("topics", "delete-records", name, "--before", "2", "--dry-run") == [
        {"partition": 0, "first_offset": 0, "new_first_offset": 2}
    ]
    assert cli.ok("topics", "delete-records", name, "--before", "-1", "-y").lines == [f"deleted 2 records of {name}"]
    assert cli.ok("consume", name).lines == ["c"]
    assert "no records before" in cli.ok("topics", "delete-records", name, "--before", "2", "-y").text


def test_an_election_that_no_partition_needs(cli: Cli) -> None:
    assert cli.ok("topics", "elect-leaders", cli.topic(), "-y").lines == ["no partition needs an election"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["topics", "create", "x", "-c", "retention.ms"], "expected KEY=VALUE"),
        (["topics", "list", "--timeout", "0"], "above 0"),
        (["topics", "list", "--command-config", "/no/such"], "/no/such"),
        (["topics", "delete-records", "x", "--before", "yesterday"], "'yesterday' is not a position"),
    ],
)
def test_a_wrong_option_is_one_line_and_status_2(arguments: list[str], said: str, cli: Cli) -> None:
    assert said in cli.fails(*arguments, status=2)
