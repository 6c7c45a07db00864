"""The declarations equal the key lists of a real Kafka (tests/data/config)."""

import csv
import re
from pathlib import Path

import pytest

from twisted_kafka.config import effects
from twisted_kafka.config.keys import BROKER_KEYS, BROKER_SYNONYMS, EXTENSION_KEYS, KAFKA_4_KEYS, KAFKA_4_TOPIC_KEYS, TOPIC_KEYS
from twisted_kafka.config.keys.declare import Between, ConfigKey, EachOf, MetadataVersion, OneOf, TopicKey
from twisted_kafka.config.keys.groups import GROUP_KEYS, GroupKey
from twisted_kafka.config.values import java_double, value_text

_DATA = Path(__file__).parent.parent / "data" / "config"


def _rows(name: str) -> dict[str, dict[str, str]]:
    with (_DATA / name).open() as file:
        return {row["key"]: row for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)}


AS_IN_4_4 = {
    "group.coordinator.append.linger.ms",
    "group.share.partition.max.record.locks",
    "group.share.record.lock.duration.ms",
}
"""Keys of 3.9 that have the declaration of 4.4: 3.9 does not have the linger -1, and its share groups do not work."""
BROKER_ROWS = _rows("broker-3.9.2.tsv") | {name: _rows("broker-4.4.0.tsv")[name] for name in AS_IN_4_4}
TOPIC_ROWS = _rows("topic-3.9.2.tsv") | {name: row for name, row in _rows("topic-4.4.0.tsv").items() if name in KAFKA_4_TOPIC_KEYS}
KAFKA_4_ROWS = {name: row for name, row in _rows("broker-4.4.0.tsv").items() if name in KAFKA_4_KEYS}
GROUP_ROWS = _rows("group-4.4.0.tsv")

OWN_DEFAULTS = {"group.consumer.assignment.interval.ms": "0"}
"""Kafka 4.4's default 1000 is that of its persona: Kafka 3.9 computes each assignment at once."""

KAFKA_4_WORDS = {"group.coordinator.rebalance.protocols": "streams, "}
"""What Kafka 4 allows in addition in a value of Kafka 3.9."""


def _rule(key: ConfigKey | TopicKey | GroupKey) -> str:
    match key.valid:
        case Between(low, None, None):
            return f"[{low},...]"
        case Between(low, high, None):
            return f"[{low},...,{high}]"
        case OneOf(words, False) | EachOf(words) | MetadataVersion(words):
            return f"[{', '.join(words)}]"
        case OneOf(words, True):
            return f"(case insensitive) [{', '.join(words)}]"
    return ""


def test_exactly_the_keys_of_kafka_are_declared() -> None:
    assert set(BROKER_KEYS) - EXTENSION_KEYS - KAFKA_4_KEYS == set(BROKER_ROWS)
    assert set(KAFKA_4_ROWS) == KAFKA_4_KEYS
    assert set(GROUP_KEYS) == set(GROUP_ROWS)
    assert set(TOPIC_KEYS) == set(TOPIC_ROWS)


@pytest.mark.parametrize(
    ("keys", "rows"),
    [(BROKER_KEYS, BROKER_ROWS), (BROKER_KEYS, KAFKA_4_ROWS), (TOPIC_KEYS, TOPIC_ROWS), (GROUP_KEYS, GROUP_ROWS)],
    ids=["broker", "broker-4", "topic", "group"],
)
def test_declarations_are_kafkas(keys: dict[str, ConfigKey | TopicKey | GroupKey], rows: dict[str, dict[str, str]]) -> None:
    for name, row in rows.items():
        key = keys[name]
        default = value_text(key, key.default)
        expected = None if row["default"] == "null" else row["default"].removeprefix('""')
        expected = OWN_DEFAULTS.get(name, expected)
        assert (name, key.type, default, key.importance) == (name, row["type"], expected, row["importance"])
        # Rules that the list describes in prose have another form here; all others are compared literally.
        is_prose = any(each in row["valid"] for each in ("by_duration", "partitionId", " or "))
        if row["valid"].startswith(("[", "(case")) and not is_prose:
            assert (name, _rule(key).replace(KAFKA_4_WORDS.get(name, ""), "")) == (name, row["valid"])


def test_update_modes_and_internal_keys_are_kafkas() -> None:
    for name, row in (BROKER_ROWS | KAFKA_4_ROWS).items():
        key = BROKER_KEYS[name]
        assert (name, key.update_mode, str(key.internal).lower()) == (name, row["update_mode"], row["internal"])


def test_group_keys_have_kafkas_internal_ones_and_the_brokers_bounds() -> None:
    for name, row in GROUP_ROWS.items():
        key = GROUP_KEYS[name]
        assert (name, str(key.internal).lower()) == (name, row["internal"])
        assert {each for each in (key.synonym, key.low, key.high) if each is not None} <= set(BROKER_KEYS)


def test_topic_defaults_come_from_kafkas_broker_keys() -> None:
    for name, row in TOPIC_ROWS.items():
        written = ",".join(key if factor == 1 else f"{key}*{factor}" for key, factor in TOPIC_KEYS[name].synonyms)
        assert (name, written) == (name, row["broker_synonyms"] or "")


def test_every_key_has_one_line_of_documentation() -> None:
    for key in [*BROKER_KEYS.values(), *TOPIC_KEYS.values(), *GROUP_KEYS.values()]:
        is_a_line = re.fullmatch(r"[A-Z][^\n]{10,130}\.", key.doc)  # type: ignore[attr-defined]
        assert is_a_line, f"the documentation of {key.name} must be a sentence of 12 to 132 characters"  # type: ignore[attr-defined]


def test_the_lists_of_effects_and_synonyms_name_declared_keys() -> None:
    assert set(BROKER_KEYS) >= effects.HONOURED
    assert set(TOPIC_KEYS) >= effects.TOPIC_HONOURED
    assert set(BROKER_SYNONYMS) <= set(BROKER_KEYS)
    for key in TOPIC_KEYS.values():
        assert {name for name, _ in key.synonyms} <= set(BROKER_KEYS)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (1e-300, "1.0E-300"),
        (123456789.0, "1.23456789E8"),
        (-1e7, "-1.0E7"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (float("nan"), "NaN"),
    ],
)
def test_numbers_are_written_as_java_does(value: float, text: str) -> None:
    assert java_double(value) == text
