"""aiokafka's sets have the same order in each process."""

from typing import Any

import aiokafka.consumer.subscription_state
import pytest

from twisted_kafka.world.machine.aiokafka_order import replace_in_aiokafka

NAMES = [f"topic-{number}" for number in range(20)]


@pytest.mark.parametrize("kind", ["set", "frozenset"])
def test_sets_of_strings_are_sorted(kind: str) -> None:
    replaced: dict[tuple[str, str], Any] = {}
    replace_in_aiokafka(lambda owner, name, value: replaced.update({(owner.__name__, name): value}))
    made = replaced[aiokafka.consumer.subscription_state.__name__, kind]
    assert list(made(reversed(NAMES))) == sorted(NAMES)
    assert isinstance(set() if kind == "set" else frozenset(), made)
    assert len(list(made([1, "a"]))) == 2
