"""Following the notifications of changed configs, and purging old ones."""

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.logger import capturedLogs

from twisted_kafka.metadata import change_notifications, znodes
from twisted_kafka.metadata.change_notifications import CHANGE_EXPIRATION_MS, ChangeNotifications
from twisted_kafka.metadata.config_repository import MAX_CHANGE_ATTEMPTS, ConfigRepository
from twisted_kafka.metadata.embedded import SqliteStore
from twisted_kafka.metadata.store import StoreError
from twisted_kafka.timing.clock import ManualClock


class Followed:
    def __init__(self, path: Path) -> None:
        self.clock = ManualClock()
        self.store = SqliteStore(path / "metadata.sqlite", self.clock, threaded=False)
        self.store.create(znodes.CONFIG_CHANGES, make_parents=True)
        self.repositories: list[Any] = []
        self.configs, self.heard = self.follow()

    def follow(self) -> tuple[ConfigRepository, list[Any]]:
        heard = []
        configs = ConfigRepository(self.store, self.clock, threaded=False)
        configs.add_listener("topics", lambda topic, config: heard.append((topic, config)))
        configs.startup()
        self.repositories.append(configs)
        return configs, heard

    def pump(self) -> None:
        self.store.pump()
        for configs in self.repositories:
            configs.pump()

    def write(self, topic: str) -> None:
        self.configs.write(f"topics/{topic}", {"retention.ms": "1"})

    def notifications(self) -> Any:
        return len(self.store.children(znodes.CONFIG_CHANGES))


@pytest.fixture
def followed(tmp_path: Path) -> Iterator[Followed]:
    made = Followed(tmp_path)
    yield made
    made.store.close()


def test_notifications_expire_fifteen_minutes_after_their_creation(followed: Followed) -> None:
    followed.write("a")
    followed.clock.advance_ms(CHANGE_EXPIRATION_MS / 2)
    followed.write("b")
    followed.pump()
    assert [topic for topic, _ in followed.heard] == ["a", "b"]
    assert followed.notifications() == 2
    followed.clock.advance_ms(CHANGE_EXPIRATION_MS / 2)
    followed.write("c")
    followed.pump()
    assert followed.notifications() == 3
    followed.clock.advance_ms(1)
    followed.write("d")
    followed.pump()
    assert followed.notifications() == 3
    followed.clock.advance_ms(CHANGE_EXPIRATION_MS + 1)
    followed.write("e")
    followed.pump()
    assert followed.notifications() == 1
    assert [topic for topic, _ in followed.heard] == ["a", "b", "c", "d", "e"]
    assert followed.configs.topic_config("a") == {"retention.ms": "1"}


def test_very_many_notifications_are_deleted_in_parts(followed: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch thread has other work; a start deletes all."""
    monkeypatch.setattr(change_notifications, "PURGED_AT_ONCE", 10)
    for number in range(45):
        followed.write(f"t{number}")
    followed.pump()
    left = []
    for _ in range(3):
        followed.clock.advance_ms(CHANGE_EXPIRATION_MS + 1)
        followed.write("later")
        followed.pump()
        left.append(followed.notifications())
    assert left == [36, 27, 18]
    followed.clock.advance_ms(CHANGE_EXPIRATION_MS + 1)
    followed.follow()
    assert followed.notifications() == 0


def test_a_notification_that_cannot_be_handled_keeps_no_later_one_from_being_passed_on(followed: Followed) -> None:
    heard = []

    def received(data: bytes) -> None:
        heard.append(data)
        if data == b"bad":
            raise RuntimeError("a fault of ours")
        if data == b"later" and heard.count(data) == 1:
            raise StoreError("the store does not answer")

    followed.store.create("/changes")
    following = ChangeNotifications(followed.store, followed.clock, "/changes", received, lambda action: action())
    following.startup()
    for data in (b"bad", b"good", b"later", b"last"):
        followed.store.create("/changes/c_", data, sequence=True)
    with capturedLogs():
        for _ in range(2):
            with contextlib.suppress(StoreError):
                following.pass_on()
    assert heard == [b"bad", b"good", b"later", b"later", b"last"]


def test_a_start_deletes_expired_notifications_and_follows_new_ones(followed: Followed) -> None:
    followed.write("a")
    followed.clock.advance_ms(CHANGE_EXPIRATION_MS + 1)
    _, heard = followed.follow()
    assert followed.notifications() == 0
    followed.write("b")
    followed.pump()
    assert [topic for topic, _ in heard] == ["b"]


def test_a_listener_that_fails_keeps_neither_the_others_nor_later_changes_from_being_applied(followed: Followed) -> None:
    def failing(topic: Any, config: Any) -> None:
        raise TimeoutError

    others = []
    followed.configs.add_listener("topics", failing)
    followed.configs.add_listener("topics", lambda topic, _: others.append(topic))
    with capturedLogs() as logs:
        followed.write("a")
        followed.write("b")
        followed.pump()
    assert [topic for topic, _ in followed.heard] == others == ["a", "b"]
    assert [event["path"] for event in logs if "log_failure" in event] == ["topics/a", "topics/b"]


def test_two_brokers_purge_at_the_same_time(followed: Followed) -> None:
    configs, heard = followed.follow()
    followed.write("a")
    followed.pump()
    followed.clock.advance_ms(CHANGE_EXPIRATION_MS + 1)
    configs.write("topics/b", {})
    followed.pump()
    assert followed.notifications() == 1
    assert [topic for topic, _ in heard] == [topic for topic, _ in followed.heard] == ["a", "b"]


def test_changes_at_the_same_time_keep_each_other(followed: Followed) -> None:
    """Two brokers change different keys; each reads the config before the other writes it."""
    configs, other = followed.configs, followed.follow()[0]
    configs.write("topics/a", {"retention.ms": "1"})
    interruptions = ["retention.bytes", "segment.bytes"]

    def alter(config: dict[str, str]) -> dict[str, str]:
        if interruptions:
            key = interruptions.pop()
            other.change("topics/a", lambda theirs: {**theirs, key: "5"})
        return {**config, "flush.ms": "7"}

    configs.change("topics/a", alter)
    assert configs.config("topics/a") == {"retention.ms": "1", "retention.bytes": "5", "segment.bytes": "5", "flush.ms": "7"}


def test_an_entity_that_two_create_at_the_same_time_has_the_config_of_both(followed: Followed) -> None:
    configs, other = followed.configs, followed.follow()[0]
    created: list[bool] = []

    def alter(config: dict[str, str]) -> dict[str, str]:
        if not created:
            created.append(True)
            other.change("users/u/clients/c", lambda theirs: {**theirs, "producer_byte_rate": "5"})
        return {**config, "consumer_byte_rate": "7"}

    configs.change("users/u/clients/c", alter)
    assert configs.config("users/u/clients/c") == {"producer_byte_rate": "5", "consumer_byte_rate": "7"}


def test_a_config_that_is_always_changed_meanwhile_is_given_up(followed: Followed) -> None:
    numbers = itertools.count()

    def alter(config: dict[str, str]) -> dict[str, str]:
        followed.configs.write("topics/a", {"flush.ms": str(next(numbers))})
        return config

    with pytest.raises(StoreError, match="/config/topics/a was changed 100 times"):
        followed.configs.change("topics/a", alter)
    assert next(numbers) == MAX_CHANGE_ATTEMPTS


def test_a_change_that_returns_nothing_writes_nothing(followed: Followed) -> None:
    followed.configs.change("topics/a", lambda _: None)
    followed.pump()
    assert (followed.heard, followed.notifications()) == ([], 0)


def test_users_clients_and_addresses_go_with_the_last_entry_of_their_configs(followed: Followed) -> None:
    configs, store = followed.configs, followed.store

    def left(entity_path: str) -> str | None:
        found = store.get(znodes.config_path(entity_path))
        return None if found is None else found[0].decode()

    for entity in ("users/alice", "clients/app", "ips/10.0.0.1", "users/bob/clients/app", "users/bob/clients/other"):
        configs.write(entity, {"a": "1"})
        configs.write(entity, {})
    assert [left(each) for each in ("users/alice", "clients/app", "ips/10.0.0.1", "users/bob")] == [None] * 4
    configs.write("users/carol", {"a": "1"})
    configs.write("users/carol/clients/app", {"a": "1"})
    configs.write("users/carol", {})
    assert left("users/carol/clients/app") == '{"version":1,"config":{"a":"1"}}'
    configs.write("users/carol/clients/other", {"a": "1"})
    configs.write("users/carol/clients/other", {})
    assert store.children(znodes.config_path("users/carol/clients")) == ["app"]
    configs.write("users/carol/clients/app", {})
    assert left("users/carol") is None
    configs.write("users/nobody", {})
    assert left("users/nobody") is None
    configs.write("topics/t", {})
    assert left("topics/t") == '{"version":1,"config":{}}'
