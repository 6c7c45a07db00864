"""Fault rules in files, and what is said of bad ones."""

import builtins
import json
from pathlib import Path
from typing import Any

import pytest

from twisted_kafka.testing import Broker, Cluster, Rule
from twisted_kafka.testing.fault_rules.faults import Faults
from twisted_kafka.testing.fault_rules.injection import MAX_RULES
from twisted_kafka.testing.fault_rules.rules_file import MAX_FILE_BYTES, RulesError, load_rules, rules_of

_YAML = """
# The second produce to orders fails.
- {api: Produce, topic: orders, nth: 2, error: NOT_LEADER_OR_FOLLOWER}
- api: Fetch
  client_id: "7"
  where: {isolation_level: 1}
  delay_ms: 500
- {api: Heartbeat, lose_response: true, probability: 0.5, seed: 3}
"""
_RULES = [
    Rule(api="Produce", topic="orders", nth=2, error="NOT_LEADER_OR_FOLLOWER"),
    Rule(api="Fetch", client_id="7", where={"isolation_level": 1}, delay_ms=500),
    Rule(api="Heartbeat", lose_response=True, probability=0.5, seed=3),
]


def written(folder: Path, text: str, name: str = "faults.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_rules_are_read_from_yaml_and_from_json(tmp_path: Path) -> None:
    pytest.importorskip("ruamel.yaml")
    assert load_rules(written(tmp_path, _YAML)) == _RULES
    as_json = json.dumps([{"api": "Produce", "topic": "orders", "nth": 2, "error": "NOT_LEADER_OR_FOLLOWER"}])
    assert load_rules(written(tmp_path, as_json, "faults.json")) == load_rules(written(tmp_path, as_json)) == _RULES[:1]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("- {api: Fetch, delay_ms: 1}\n- {api: Fetch, delay: 1}", "rule 2: a rule has no 'delay', only api, version"),
        ("- {api: Fetch, delay_ms: soon}", "rule 1: delay_ms='soon': expected a number"),
        ("- {api: Fetch, nth: 2.5, delay_ms: 1}", "rule 1: nth=2.5: expected a whole number"),
        ("- {api: Fetch, nth: true, delay_ms: 1}", "rule 1: nth=True: expected a whole number"),
        ("- {api: Fetch, lose_response: 1}", "rule 1: lose_response=1: expected true or false"),
        ("- {client_id: 7, delay_ms: 1}", "rule 1: client_id=7: expected a text"),
        ("- {api: Fetch, where: acks, delay_ms: 1}", "rule 1: where='acks': expected values by the names of fields"),
        ("- {api: Fetsch, delay_ms: 1}", "rule 1: there is no API 'Fetsch': did you mean 'Fetch'"),
        ("- Fetch", "rule 1 is 'Fetch': expected fields"),
        ("api: Fetch", "expected a list of rules"),
        ("", "expected a list of rules"),
        ("- {api: Fetch", " is no YAML at line 1: expected ',' or '}'"),
        ("[" * 500, " is no YAML"),
    ],
)
def test_what_is_wrong_is_told_in_one_line_with_the_file_and_the_number_of_the_rule(tmp_path: Path, text: str, told: str) -> None:
    pytest.importorskip("ruamel.yaml")
    path = written(tmp_path, text)
    with pytest.raises(RulesError) as refused:
        load_rules(path)
    assert str(refused.value).startswith(str(path))
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


def test_files_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    with pytest.raises(RulesError, match=r"nowhere\.yaml cannot be read: No such file"):
        load_rules(tmp_path / "nowhere.yaml")
    (tmp_path / "latin.json").write_bytes(b"\xff")
    with pytest.raises(RulesError, match=r"latin\.json is no text in UTF-8"):
        load_rules(tmp_path / "latin.json")
    with pytest.raises(RulesError, match=r"broken\.json is no JSON: "):
        load_rules(written(tmp_path, "[", "broken.json"))
    with pytest.raises(RulesError, match=f"is longer than {MAX_FILE_BYTES} bytes"):
        load_rules(written(tmp_path, " " * (MAX_FILE_BYTES + 1), "long.json"))
    with pytest.raises(RulesError, match=f"rules: more than {MAX_RULES} rules"):
        rules_of([_RULES[0]] * (MAX_RULES + 1), "rules")


def test_so_many_rules_are_in_force_at_most() -> None:
    rule = Rule(delay_ms=1)
    faults = Faults([rule] * (MAX_RULES - 1))
    last = faults.add(rule)
    with pytest.raises(ValueError, match=f"{MAX_RULES} rules are in force: remove some first"):
        faults.add(rule)
    faults.remove(last)
    faults.add(rule)


def test_yaml_without_its_package_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *arguments: Any) -> Any:
        if name.startswith("ruamel"):
            raise ImportError(name)
        return real(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(RulesError, match=r"rules in YAML need a package: pip install .*\[testing\]'.* \(a .json"):
        load_rules(written(tmp_path, _YAML))
    assert load_rules(written(tmp_path, "[]", "none.json")) == []


def test_a_broker_has_its_rules_from_the_start(tmp_path: Path) -> None:
    path = written(tmp_path, json.dumps([{"api": "Fetch", "delay_ms": 1}]), "faults.json")
    with Broker(rules=path) as broker:
        assert [str(fault.rule) for fault in broker.faults] == ["api=Fetch delay_ms=1"]
    with pytest.raises(RulesError, match=r"rules: rule 2: there is no error 'OOPS'"):
        Broker(rules=[Rule(delay_ms=1), {"error": "OOPS"}])
    with Cluster(1, rules=[{"api": "Fetch", "delay_ms": 2}]) as cluster:
        assert [str(cluster.faults)] == ["api=Fetch delay_ms=2: fired 0 of 0 times"]
