"""Every key that is listed as having an effect is read somewhere."""

import re
from functools import cache
from pathlib import Path

import pytest

from twisted_kafka.config.effects import HONOURED, TOPIC_HONOURED
from twisted_kafka.config.keys import BROKER_SYNONYMS, EXTENSION_KEYS, TOPIC_KEYS
from twisted_kafka.config.keys.groups import GROUP_KEYS

PACKAGE = Path(__file__).parents[2] / "twisted_kafka"


@cache
def _strings() -> frozenset[str]:
    """Return the strings of the package that look like keys."""
    return frozenset(re.findall(r'"(?=([\w.]+)")', _code()))


@cache
def _attributes() -> frozenset[str]:
    return frozenset(re.findall(r"\b(?:config|context)\.(?=(\w+))", _code()))


@cache
def _code() -> str:
    paths = [path for path in PACKAGE.rglob("*.py") if path.parent.name != "keys" and path.name != "effects.py"]
    return "\n".join(path.read_text() for path in paths)


def _topic_key_is_read(name: str) -> bool:
    return name in _strings() or name.replace(".", "_") in _attributes()


@pytest.mark.medium
def test_topic_keys_with_an_effect_are_read() -> None:
    # LogConfig turns the difference into the limits before and after.
    unread = {name for name in TOPIC_HONOURED - {"message.timestamp.difference.max.ms"} if not _topic_key_is_read(name)}
    assert unread == set()


def _through_groups() -> set[str]:
    """Return the defaults and bounds of a group's configs."""
    return {each for key in GROUP_KEYS.values() if key.name in _strings() for each in (key.synonym, key.low, key.high) if each}


def test_broker_keys_with_an_effect_are_read() -> None:
    through_topics = {synonym for name in TOPIC_HONOURED for synonym, _ in TOPIC_KEYS[name].synonyms}
    direct = HONOURED & _strings()
    through_synonyms = {name for name in HONOURED if direct & set(BROKER_SYNONYMS.get(name, ()))}
    assert HONOURED - through_topics - direct - through_synonyms - _through_groups() == set()


def test_a_key_that_is_read_for_groups_is_listed() -> None:
    assert _through_groups() <= HONOURED


def test_every_key_of_this_broker_has_an_effect() -> None:
    assert EXTENSION_KEYS <= HONOURED, "name the key in twisted_kafka/config/effects.py"
