"""Rules of the house that no tool checks; the layers are import-linter's (pyproject.toml)."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "twisted_kafka"
MODULES = sorted(PACKAGE.rglob("*.py"))
LONGEST_MODULE = 500
CLOCK = PACKAGE / "timing" / "clock.py"
TIME_OF_DAY = {"time", "monotonic", "time_ns", "monotonic_ns", "sleep"}


def _calls_of_time(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "time"
            and node.attr in TIME_OF_DAY
        ):
            yield f"line {node.lineno}: time.{node.attr}"
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            yield f"line {node.lineno}: from time import ..."


def _imports_of_reactor(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.ImportFrom)
            and node.module == "twisted.internet"
            and any(name.name == "reactor" for name in node.names)
        ):
            yield f"line {node.lineno}"
        if isinstance(node, ast.Import) and any(name.name == "twisted.internet.reactor" for name in node.names):
            yield f"line {node.lineno}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_keeps_the_rules(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text)
    assert list(_imports_of_reactor(tree)) == [], "reactors are passed in"
    if path != CLOCK:
        assert list(_calls_of_time(tree)) == [], "an IClock is passed in"
    assert text.count("\n") <= LONGEST_MODULE, "a module of its own for a part of this"


def test_each_decision_has_a_number_of_its_own_and_is_listed() -> None:
    decisions = sorted(path.name for path in (PACKAGE.parent / "docs" / "adr").glob("0*.md"))
    assert [name[:4] for name in decisions] == [f"{number:04}" for number in range(1, len(decisions) + 1)]
    listed = (PACKAGE.parent / "docs" / "adr" / "README.md").read_text()
    assert [name for name in decisions if f"({name})" not in listed] == []
