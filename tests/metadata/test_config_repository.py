"""Following the announcements of changed configs, and forgetting old ones."""

import pytest

from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.config_repository import CHANGES_KEPT_MS, ConfigRepository
from twisted_kafka.metadata.embedded import SqliteStore
from twisted_kafka.timing.clock import ManualClock


class Followed:
    def __init__(self, path):
        self.clock = ManualClock()
        self.store = SqliteStore(path / "metadata.sqlite", self.clock, threaded=False)
        self.store.create(znodes.CONFIG_CHANGES, make_parents=True)
        self.repositories = []
        self.configs, self.heard = self.follow()

    def follow(self):
        heard = []
        configs = ConfigRepository(self.store, self.clock, threaded=False)
        configs.add_listener("topics", lambda topic, config: heard.append((topic, config)))
        configs.startup()
        self.repositories.append(configs)
        return configs, heard

    def pump(self):
        self.store.pump()
        for configs in self.repositories:
            configs.pump()

    def write(self, topic):
        self.configs.write(f"topics/{topic}", {"retention.ms": "1"})

    def announced(self):
        return len(self.store.children(znodes.CONFIG_CHANGES))


@pytest.fixture
def followed(tmp_path):
    made = Followed(tmp_path)
    yield made
    made.store.close()


def test_announcements_go_fifteen_minutes_after_they_were_made(followed):
    followed.write("a")
    followed.clock.advance_ms(CHANGES_KEPT_MS / 2)
    followed.write("b")
    followed.pump()
    assert [topic for topic, _ in followed.heard] == ["a", "b"]
    assert followed.announced() == 2
    followed.clock.advance_ms(CHANGES_KEPT_MS / 2)
    followed.write("c")
    followed.pump()
    assert followed.announced() == 3
    followed.clock.advance_ms(1)
    followed.write("d")
    followed.pump()
    assert followed.announced() == 3
    followed.clock.advance_ms(CHANGES_KEPT_MS + 1)
    followed.write("e")
    followed.pump()
    assert followed.announced() == 1
    assert [topic for topic, _ in followed.heard] == ["a", "b", "c", "d", "e"]
    assert followed.configs.topic_config("a") == {"retention.ms": "1"}


def test_a_start_deletes_old_ones_and_hears_of_the_next(followed):
    followed.write("a")
    followed.clock.advance_ms(CHANGES_KEPT_MS + 1)
    _, heard = followed.follow()
    assert followed.announced() == 0
    followed.write("b")
    followed.pump()
    assert [topic for topic, _ in heard] == ["b"]


def test_two_brokers_delete_at_once(followed):
    configs, heard = followed.follow()
    followed.write("a")
    followed.pump()
    followed.clock.advance_ms(CHANGES_KEPT_MS + 1)
    configs.write("topics/b", {})
    followed.pump()
    assert followed.announced() == 1
    assert [topic for topic, _ in heard] == [topic for topic, _ in followed.heard] == ["a", "b"]
