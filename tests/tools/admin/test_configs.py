"""``twisted-kafka configs``."""

from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.tools.admin.cli import Cli

pytestmark = pytest.mark.medium


def _settings(cli: Cli, *arguments: str) -> dict[str, object]:
    return {each["key"]: each["value"] for each in cli.json("configs", "describe", *arguments)}


def _row(cli: Cli, broker: str, key: str) -> Any:
    (row,) = cli.json("configs", "describe", "broker", broker, "--key", key)
    return row


def _broker(cli: Cli) -> str:
    (topic,) = cli.json("topics", "describe", cli.topic(name="any"))
    return str(topic["partitions"][0]["leader"])


def test_settings_of_a_topic(cli: Cli) -> None:
    topic = cli.topic("-c", "retention.ms=60000")
    assert _settings(cli, "topic", topic)["retention.ms"] == "60000"
    changed = cli.ok("configs", "alter", "topic", topic, "-s", "retention.ms=5000", "--set", "cleanup.policy=delete")
    assert changed.lines == [f"topic {topic} was changed"]
    cli.ok("configs", "alter", "topic", topic, "--append", "cleanup.policy=compact")
    found = _settings(cli, "topic", topic)
    assert (found["retention.ms"], found["cleanup.policy"]) == ("5000", "delete,compact")
    cli.ok("configs", "alter", "topic", topic, "--delete", "retention.ms", "--subtract", "cleanup.policy=delete")
    found = _settings(cli, "topic", topic)
    assert "retention.ms" not in found
    assert found["cleanup.policy"] == "compact"


def test_a_dry_run_of_a_change(cli: Cli) -> None:
    topic = cli.topic()
    assert "could be changed" in cli.ok("configs", "alter", "topic", topic, "-s", "retention.ms=5000", "--dry-run").text
    assert "retention.ms" not in _settings(cli, "topic", topic)


def test_all_settings_one_of_them_and_their_documentation(cli: Cli) -> None:
    topic = cli.topic()
    assert len(_settings(cli, "topic", topic, "--all")) > 20
    (row,) = cli.json("configs", "describe", "topic", topic, "--key", "retention.ms", "--documentation")
    assert (row["value"], row["source"], row["read_only"]) == ("604800000", "default", False)
    assert len(row["documentation"]) > 20


def test_a_misspelt_setting(cli: Cli) -> None:
    topic = cli.topic()
    said = cli.fails("configs", "alter", "topic", topic, "-s", "retension.ms=5")
    assert said == "there is no setting of a topic 'retension.ms': did you mean 'retention.ms'?"
    assert "did you mean 'retention.ms'" in cli.fails("configs", "describe", "topic", topic, "-k", "retension.ms")
    assert "retention.ms" in cli.fails("configs", "alter", "topic", topic, "-s", "retention.ms=soon")
    assert "did you mean" in cli.fails("configs", "alter", "topic", topic[:-1], "-s", "retention.ms=5")


def test_settings_of_one_broker_and_of_all(cli: Cli) -> None:
    broker = _broker(cli)
    cli.ok("configs", "alter", "broker", broker, "-s", "log.cleaner.threads=2")
    row = eventually(lambda: row if (row := _row(cli, broker, "log.cleaner.threads"))["value"] == "2" else None)
    assert row["source"] == "broker"
    cli.ok("configs", "alter", "broker", broker, "-d", "log.cleaner.threads")
    cli.ok("configs", "alter", "broker", "default", "-s", "log.cleaner.threads=1")
    eventually(lambda: _settings(cli, "broker", "default").get("log.cleaner.threads") == "1")
    cli.ok("configs", "alter", "broker", "default", "-d", "log.cleaner.threads")


def test_settings_of_a_broker_that_cannot_change(cli: Cli) -> None:
    broker = _broker(cli)
    assert "set it in server.properties, and restart" in cli.fails("configs", "alter", "broker", broker, "-s", "log.dirs=/x")
    assert "there is no broker '77': the cluster has" in cli.fails("configs", "describe", "broker", "77")


def test_levels_of_loggers(cli: Cli) -> None:
    broker = _broker(cli)
    levels = _settings(cli, "broker-logger", broker)
    logger = sorted(levels)[0]
    cli.ok("configs", "alter", "broker-logger", broker, "-s", f"{logger}=DEBUG")
    eventually(lambda: _settings(cli, "broker-logger", broker)[logger] == "DEBUG")
    cli.ok("configs", "alter", "broker-logger", broker, "-d", logger)


def test_wrong_options(cli: Cli) -> None:
    assert "nothing to change: use --set" in cli.fails("configs", "alter", "topic", "x", status=2)
    assert "expected KEY=VALUE" in cli.fails("configs", "alter", "topic", "x", "--set", "a", status=2)
    assert "name a group" in cli.fails("configs", "describe", "group", status=2)
