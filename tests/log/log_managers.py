"""Log managers as a broker has them, one after the other."""

import os

from tests.log.support import NOW_MS
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.log.log_manager import LogManager
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.timing.clock import ManualClock
from twisted_kafka.timing.scheduler import ManualScheduler

ONE = TopicPartition("one", 0)
TWO = TopicPartition("two", 0)


class Broker:
    """Log managers over the same directories, one after the other."""

    def __init__(self, path):
        self.path = path
        self.clock = ManualClock(NOW_MS)
        self.failed = []
        self.topic_configs = {}

    def manager(self, dirs=("a",), terminal=None, metrics=None, failed=None, **settings):
        self.scheduler = ManualScheduler(self.clock)
        properties = {key.replace("_", "."): str(value) for key, value in settings.items()}
        properties.setdefault("log.cleaner.threads", "0")  # the tests clean by hand
        properties["log.dirs"] = ",".join(str(self.path / name) for name in dirs)
        return LogManager(
            KafkaConfig.from_properties(properties),
            self.scheduler,
            self.clock,
            on_directory_failure=failed or self.failed.append,
            terminal=terminal,
            metrics=metrics,
        )

    def start(self, dirs=("a",), **settings):
        manager = self.manager(dirs, **settings)
        manager.startup(lambda topic: self.topic_configs.get(topic, {}))
        return manager

    def crash(self, manager):
        for directory in manager.directories:
            directory.release()

    def later(self, ms):
        self.clock.advance_ms(ms)
        self.scheduler.run_due()

    def names(self, directory="a"):
        return sorted(os.listdir(self.path / directory))
