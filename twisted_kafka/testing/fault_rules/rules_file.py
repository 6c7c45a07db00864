"""Fault rules in a file: a list of mappings in YAML or JSON, each as ``Rule.from_mapping`` takes it.

# faults.yaml
- {api: Produce, topic: orders, nth: 2, error: NOT_LEADER_OR_FOLLOWER}
- api: Fetch
  client_id: billing
  delay_ms: 500
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from twisted_kafka.system.installation import install_command
from twisted_kafka.testing.fault_rules.faults import Faults, Rule
from twisted_kafka.testing.fault_rules.injection import MAX_RULES

MAX_FILE_BYTES: Final = 1024 * 1024


Rules = Path | str | Iterable[Rule | Mapping[str, Any]]
"""A file, or rules."""


class RulesError(ValueError):
    """Rules that cannot be used. The text is one line: the file, the number of the rule from 1 on, and the fault."""


def read_rules(rules: Rules | None) -> list[Rule]:
    """Return the rules of a file, or of a list of Rules and mappings; no rules for None. Raises RulesError."""
    if rules is None:
        return []
    return load_rules(rules) if isinstance(rules, Path | str) else rules_of(rules, "rules")


def checked_faults(
    rules: list[Rule],
    served: Callable[[int], tuple[int, int] | None] | None = None,
    nodes: Callable[[], Collection[int]] = tuple,
) -> Faults:
    """Return the Faults with these rules. Raises RulesError for a rule that cannot match there."""
    try:
        return Faults(rules, served, nodes)
    except ValueError as error:
        raise RulesError(f"rules: {error}") from None


def load_rules(path: Path | str) -> list[Rule]:
    """Return the rules of a file, which is read as JSON if its name ends in ``.json``, and as YAML 1.2 otherwise.

    Raises RulesError.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise RulesError(f"{path} is longer than {MAX_FILE_BYTES} bytes")
        text = content.decode()
    except OSError as error:
        raise RulesError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise RulesError(f"{path} is no text in UTF-8") from None
    found = _read_json(path, text) if path.suffix == ".json" else _read_yaml(path, text)
    return rules_of(found, str(path))


def rules_of(found: Any, where: str) -> list[Rule]:
    """Return the rules of a list of mappings, or of Rules. Raises RulesError, which begins with ``where``."""
    if not isinstance(found, Iterable) or isinstance(found, str | bytes | Mapping):
        raise RulesError(f"{where}: expected a list of rules, as in [{{api: Fetch, delay_ms: 500}}]")
    rules = []
    for number, values in enumerate(found, 1):
        if number > MAX_RULES:
            raise RulesError(f"{where}: more than {MAX_RULES} rules")
        if isinstance(values, Rule):
            rules.append(values)
            continue
        if not isinstance(values, Mapping):
            raise RulesError(f"{where}: rule {number} is {values!r:.80}: expected fields, as in {{api: Fetch, delay_ms: 500}}")
        try:
            rules.append(Rule.from_mapping(values))
        except ValueError as error:
            raise RulesError(f"{where}: rule {number}: {error}") from None
    return rules


def _read_json(path: Path, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RulesError(f"{path} is no JSON: {error}") from None


def _read_yaml(path: Path, text: str) -> Any:
    try:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import MarkedYAMLError, YAMLError
    except ImportError:
        raise RulesError(f"{path}: rules in YAML need a package: {install_command('testing')} (a .json file needs none)") from None
    try:
        return YAML(typ="safe", pure=True).load(text)
    except MarkedYAMLError as error:
        at = f" at line {error.problem_mark.line + 1}" if error.problem_mark is not None else ""
        raise RulesError(f"{path} is no YAML{at}: {error.problem}") from None
    except (YAMLError, RecursionError) as error:
        raise RulesError(f"{path} is no YAML: {' '.join(str(error).split())}") from None
