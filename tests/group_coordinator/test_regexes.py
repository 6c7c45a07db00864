"""Which topics a group's expressions match as topics come and go, and what that costs."""

import random
import re
from typing import Any

import pytest

from tests.support.coordinator_fakes import Bench
from twisted_kafka.group_coordinator.consumer import regexes
from twisted_kafka.group_coordinator.consumer.regexes import match_known
from twisted_kafka.group_coordinator.requests import Client
from twisted_kafka.protocol.messages.coordinators.consumer_groups import ConsumerGroupHeartbeatRequest

EXPRESSIONS = ("a.*", ".*b", "[ab]+", "c")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that are matched, by Python's own expressions."""
    names: list[str] = []

    class Compiled:
        def __init__(self, regex: str) -> None:
            self._pattern = re.compile(regex)

        def fullmatch(self, name: str) -> Any:
            names.append(name)
            return self._pattern.fullmatch(name)

    monkeypatch.setattr(regexes, "compile_regex", Compiled)
    return names


def test_what_is_known_of_former_topics_gives_the_same_matches(asked: list[str]) -> None:
    dice = random.Random(1)
    every = [first + second + third for first in "abc" for second in "abc" for third in ("", "a", "b")]
    former: set[str] = set()
    matched: dict[str, frozenset[str]] = {}
    for _ in range(200):
        topics = set(dice.sample(every, dice.randrange(len(every)))) if dice.random() < 0.5 else former ^ {dice.choice(every)}
        some = [each for each in EXPRESSIONS if dice.random() < 0.8]
        found = match_known("g", some, topics, former, matched)
        assert found == match_known("g", some, topics, set(), {})
        former, matched = topics, found


def test_only_new_topics_are_matched(asked: list[str]) -> None:
    topics = {f"a{number}" for number in range(1000)}
    matched = match_known("g", EXPRESSIONS, topics, set(), {})
    asked.clear()
    assert match_known("g", EXPRESSIONS, topics | {"ab"}, topics, matched)["a.*"] == topics | {"ab"}
    assert asked == ["ab"] * len(EXPRESSIONS)


def heartbeat(bench: Bench, member_id: str, epoch: int, regex: str | None = None) -> None:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member_id,
        member_epoch=epoch,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=[] if regex else None,
        subscribed_topic_regex=regex,
        topic_partitions=[] if regex else None,
    )
    bench.groups.consumer_heartbeat(request, Client("client", "/host"), 1)


def test_a_group_matches_its_expressions_against_new_topics_alone(asked: list[str]) -> None:
    bench = Bench()
    topics = {f"a{number}": 1 for number in range(50)}
    bench.topics.change(topics)
    for number in range(10):
        heartbeat(bench, f"m{number}", 0, f"a[^x]*|x{number}")
    bench.topics.change({**topics, "a": 1})
    bench.clock.advance_ms(11_000)
    heartbeat(bench, "m0", 1)
    bench.topics.change({**topics, "a": 1, "ab": 1, "x": 1})
    bench.clock.advance_ms(11_000)
    asked.clear()
    heartbeat(bench, "m0", 1)
    assert sorted(asked) == ["ab"] * 10 + ["x"] * 10
