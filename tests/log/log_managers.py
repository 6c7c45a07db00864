"""Log managers as a broker has them, one after the other."""

import os
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

from tests.support.logs import NOW_MS
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.log.log_manager import LogManager
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.timing.clock import ManualClock
from twisted_kafka.timing.scheduler import ManualScheduler

ONE = TopicPartition("one", 0)
TWO = TopicPartition("two", 0)


_managers: list[LogManager] = []
"""All that were made in this test."""


class Broker:
    """Log managers over the same directories, one after the other."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = ManualClock(NOW_MS)
        self.failed: list[Any] = []
        self.topic_configs: dict[Any, Any] = {}

    def manager(
        self,
        dirs: tuple[str, ...] = ("a",),
        terminal: StringIO | None = None,
        metrics: MetricsRegistry | None = None,
        failed: Callable[..., Any] | None = None,
        **settings: Any,
    ) -> LogManager:
        self.scheduler = ManualScheduler(self.clock)
        properties = {key.replace("_", "."): str(value) for key, value in settings.items()}
        properties.setdefault("log.cleaner.threads", "0")  # the tests clean by hand
        properties["log.dirs"] = ",".join(str(self.path / name) for name in dirs)
        manager = LogManager(
            KafkaConfig.from_properties(properties),
            self.scheduler,
            self.clock,
            on_directory_failure=failed or self.failed.append,
            terminal=terminal,
            metrics=metrics,
        )
        _managers.append(manager)
        return manager

    def start(self, dirs: tuple[str, ...] = ("a",), **settings: Any) -> LogManager:
        manager = self.manager(dirs, **settings)
        manager.startup(lambda topic: self.topic_configs.get(topic, {}))
        return manager

    def crash(self, manager: LogManager) -> None:
        for directory in manager.directories:
            directory.release()
            for log in directory.logs.values():
                for segment in log.segments:
                    segment.release_file()  # the kernel closes the files of a dead process

    def later(self, ms: int) -> None:
        self.clock.advance_ms(ms)
        self.scheduler.run_due()

    def names(self, directory: str = "a") -> list[str]:
        return sorted(os.listdir(self.path / directory))


def end_all_brokers() -> None:
    """Let all log managers release locks and files and write nothing, as when their processes die."""
    for manager in _managers:
        for directory in manager.directories:
            directory.release()
            for log in directory.logs.values():
                log.close_handles()
    _managers.clear()
