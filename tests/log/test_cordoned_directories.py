"""cordoned.log.dirs (KIP-1066): which directories get new logs."""

import pytest

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.log.directories.log_directories import LogDirectories


def chosen(cordoned: list[str]) -> list[str]:
    directories = LogDirectories(["/one", "/two", "/three"])
    directories.cordon(cordoned)
    return [directory.path.name for directory in directories.by_fewest_logs()]


def test_new_logs_go_to_other_directories_and_last_to_cordoned_ones() -> None:
    assert chosen([]) == ["one", "two", "three"]
    assert chosen(["/one"]) == ["two", "three", "one"]
    assert chosen(["/two", "/one"]) == ["three", "one", "two"]
    assert chosen(["*"]) == ["one", "two", "three"]


@pytest.mark.parametrize("value", ["/three", "/one,/one", "/one,*", "one"])
def test_entries_are_those_of_log_dirs(value: str) -> None:
    with pytest.raises(ConfigError, match=r"cordoned\.log\.dirs"):
        KafkaConfig.embedded({"log.dirs": "/one,/two", "cordoned.log.dirs": value})
