"""Levels of loggers, seen through what a log publisher's observers get."""

import pytest
from twisted.logger import Logger, LogLevel, LogPublisher

from twisted_kafka.admin.loggers import LoggerLevels
from twisted_kafka.protocol.errors import InvalidConfigurationError, InvalidRequestError


class Logs:
    def __init__(self):
        self.events = []
        self.publisher = LogPublisher(self.events.append)
        self.levels = LoggerLevels()
        self.levels.install(self.publisher)

    def log(self, level, namespace="twisted_kafka.log.segment.log_segment"):
        self.events.clear()
        Logger(namespace, observer=self.publisher).emit(LogLevel.lookupByName(level), "said")
        return bool(self.events)


@pytest.fixture
def logs():
    return Logs()


def test_info_is_what_all_loggers_start_with(logs):
    assert [logs.log(level) for level in ("debug", "info", "critical")] == [False, True, True]
    assert logs.levels.level("root") == "INFO"
    assert set(logs.levels.all().values()) == {"INFO"}
    assert {"root", "twisted_kafka", "twisted_kafka.admin.loggers", "twisted"} <= logs.levels.all().keys()


def test_a_package_gives_its_level_to_all_below_it(logs):
    logs.levels.set("twisted_kafka.server", "DEBUG")
    assert logs.log("debug", "twisted_kafka.server.kafka_apis")
    assert not logs.log("debug")
    logs.levels.set("twisted_kafka.admin.loggers", "ERROR")
    assert not logs.log("warn", "twisted_kafka.admin.loggers")
    assert (logs.levels.level("twisted_kafka.server"), logs.levels.level("twisted_kafka.admin.loggers")) == ("DEBUG", "ERROR")


def test_a_level_taken_back_is_that_of_the_package_again(logs):
    logs.levels.set("root", "WARN")
    logs.levels.set("twisted_kafka.server", "TRACE")
    logs.levels.set("twisted_kafka.server", None)
    assert logs.levels.level("twisted_kafka.server") == "WARN"
    assert not logs.log("info")


def test_what_other_packages_log_passes(logs):
    logs.levels.set("root", "FATAL")
    assert logs.log("debug", "somebody.elses")
    assert not logs.log("error")


def test_observers_are_given_back(logs):
    logs.levels.uninstall()
    assert logs.log("debug")


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
def test_there_must_be_such_a_logger_and_such_a_level(logs, logger, level, error):
    with pytest.raises(error):
        logs.levels.set(logger, level)
