"""Levels of loggers, seen through what a log publisher's observers get."""

from pathlib import Path
from typing import Any, cast

import pytest
from twisted.logger import ILogObserver, Logger, LogLevel, LogPublisher

import twisted_kafka
from twisted_kafka.admin.kafka_loggers import KAFKAS_LOGGERS
from twisted_kafka.admin.loggers import LoggerLevels
from twisted_kafka.protocol.errors import InvalidConfigurationError, InvalidRequestError


class Logs:
    def __init__(self) -> None:
        self.events: list[Any] = []
        self.observer = cast(ILogObserver, self.events.append)
        self.publisher = LogPublisher(self.observer)
        self.levels = LoggerLevels()
        self.levels.install(self.publisher)

    def log(self, level: str, namespace: str = "twisted_kafka.log.segment.log_segment") -> bool:
        self.events.clear()
        Logger(namespace, observer=self.publisher).emit(LogLevel.lookupByName(level), "said")
        return bool(self.events)


@pytest.fixture
def logs() -> Logs:
    return Logs()


def test_info_is_what_all_loggers_start_with(logs: Logs) -> None:
    assert [logs.log(level) for level in ("debug", "info", "critical")] == [False, True, True]
    assert logs.levels.level("root") == "INFO"
    assert set(logs.levels.all().values()) == {"INFO"}
    assert {"root", "twisted_kafka", "twisted_kafka.admin.loggers", "twisted"} <= logs.levels.all().keys()


def test_a_package_gives_its_level_to_all_below_it(logs: Logs) -> None:
    logs.levels.set("twisted_kafka.protocol", "DEBUG")
    assert logs.log("debug", "twisted_kafka.protocol.api")
    assert not logs.log("debug")
    logs.levels.set("twisted_kafka.admin.loggers", "ERROR")
    assert not logs.log("warn", "twisted_kafka.admin.loggers")
    assert (logs.levels.level("twisted_kafka.protocol"), logs.levels.level("twisted_kafka.admin.loggers")) == ("DEBUG", "ERROR")


def test_a_level_taken_back_is_that_of_the_package_again(logs: Logs) -> None:
    logs.levels.set("root", "WARN")
    logs.levels.set("twisted_kafka.protocol", "TRACE")
    logs.levels.set("twisted_kafka.protocol", None)
    assert logs.levels.level("twisted_kafka.protocol") == "WARN"
    assert not logs.log("info")


def test_what_other_packages_log_passes(logs: Logs) -> None:
    logs.levels.set("root", "FATAL")
    assert logs.log("debug", "somebody.elses")
    assert not logs.log("error")


def test_observers_are_given_back(logs: Logs) -> None:
    logs.levels.uninstall()
    assert logs.log("debug")


def test_brokers_of_a_process_may_stop_in_any_order(logs: Logs) -> None:
    mine = list(logs.publisher._observers)
    others = [LoggerLevels() for _ in range(3)]
    for _ in range(4):
        for each in others:
            each.install(logs.publisher)
        for each in others:
            each.uninstall()
        assert logs.log("info")
        assert len(logs.events) == 1, "each event comes once"
    assert not logs.log("debug")
    assert list(logs.publisher._observers) == mine
    logs.levels.uninstall()
    logs.levels.uninstall()
    assert list(logs.publisher._observers) == [logs.observer]


def test_an_event_passes_that_one_broker_of_the_process_wants(logs: Logs) -> None:
    other = LoggerLevels()
    other.install(logs.publisher)
    other.set("root", "DEBUG")
    assert logs.log("debug")
    other.set("root", "ERROR")
    assert logs.log("info")
    other.uninstall()
    assert not logs.log("debug")


@pytest.mark.parametrize(
    ("logger", "level", "error"),
    [
        ("nobody", "INFO", InvalidConfigurationError),
        ("somebody.elses", "INFO", InvalidConfigurationError),
        ("root", "LOUD", InvalidConfigurationError),
        ("root", "info", InvalidConfigurationError),
        ("root", None, InvalidRequestError),
    ],
)
def test_there_must_be_such_a_logger_and_such_a_level(
    logs: Logs, logger: str, level: str | None, error: type[InvalidRequestError] | type[InvalidConfigurationError]
) -> None:
    with pytest.raises(error):
        logs.levels.set(logger, level)


def test_the_authorizers_logger_has_a_level_though_it_is_no_module(logs: Logs) -> None:
    name = "kafka.authorizer.logger"
    assert [logs.log(level, name) for level in ("debug", "info")] == [False, True]
    assert name in logs.levels.all()
    logs.levels.set(name, "DEBUG")
    assert logs.log("debug", name)
    logs.levels.set(name, "WARN")
    assert not logs.log("info", name)


def test_who_follows_a_logger_hears_of_its_level(logs: Logs) -> None:
    heard: list[Any] = []
    logs.levels.follow("kafka.authorizer.logger", heard.append)
    logs.levels.set("kafka.authorizer.logger", "DEBUG")
    logs.levels.set("kafka.authorizer.logger", None)
    logs.levels.set("root", "ERROR")
    assert heard == [LogLevel.info, LogLevel.debug, LogLevel.info, LogLevel.error]


def test_names_of_kafkas_loggers_stand_for_those_here(logs: Logs) -> None:
    logs.levels.set("kafka.server.KafkaConfig", "DEBUG")
    assert logs.log("debug", "twisted_kafka.config.broker_config")
    assert not logs.log("debug", "twisted_kafka.server.kafka_apis")
    assert logs.levels.level("twisted_kafka.config") == logs.levels.all()["kafka.server.KafkaConfig"] == "DEBUG"
    logs.levels.set("kafka", "ERROR")
    assert not logs.log("warn", "twisted_kafka.server.kafka_apis")
    assert logs.log("debug", "twisted_kafka.config.broker_config")
    logs.levels.set("kafka.server.KafkaConfig", None)
    assert not logs.log("warn", "twisted_kafka.config.broker_config")
    logs.levels.set("kafka", None)
    assert logs.levels.all()["kafka"] == "INFO"


def test_each_of_kafkas_loggers_stands_for_a_module() -> None:
    package = Path(twisted_kafka.__file__).parent.parent
    for name, modules in KAFKAS_LOGGERS.items():
        for module in modules:
            path = package.joinpath(*module.split("."))
            assert path.is_dir() or path.with_suffix(".py").is_file(), name


def test_a_logger_of_kafkas_may_stand_for_several_here(logs: Logs) -> None:
    logs.levels.set("kafka.coordinator.group", "WARN")
    logs.levels.set("kafka.coordinator", "DEBUG")
    assert logs.log("debug", "twisted_kafka.coordinator.runtime")
    assert logs.log("debug", "twisted_kafka.transaction_coordinator.markers.marker_channels")
    assert not logs.log("info", "twisted_kafka.group_coordinator.group_shard"), "it has a level of its own"
    logs.levels.set("kafka.coordinator.group", None)
    assert logs.log("debug", "twisted_kafka.group_coordinator.group_shard")
    assert logs.levels.level("kafka.coordinator.transaction") == logs.levels.level("kafka.coordinator") == "DEBUG"
    logs.levels.set("kafka.coordinator", None)
    assert not logs.log("debug", "twisted_kafka.transaction_coordinator.markers.marker_channels")


def test_a_logger_that_kafka_does_not_have_is_refused(logs: Logs) -> None:
    for name in ("kafka.server.NoSuchClass", "kafka.", "org.apache.kafka.nothing"):
        with pytest.raises(InvalidConfigurationError):
            logs.levels.set(name, "DEBUG")
