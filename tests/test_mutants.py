"""The list of accepted mutants, and the names of mutations in it."""

import ast
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from benchmarks.mutants import ACCEPTED, ROOT, mutation
from tests.support.syntax import Nodes


@pytest.mark.parametrize(
    ("was", "now", "expected"),
    [
        ("if size < 0:", "if size <= 0:", "if size < 0 => if size <= 0"),
        ("if size < 0:", "if size < 1:", "size < 0: => size < 1:"),
        ("if is_open:", "if not is_open:", "if is_open => if not is_open"),
        ("self._count += 1", "self._count -= 1", "self._count += 1 => self._count -= 1"),
        ("log.flush(to_offset)", "pass", "without log.flush"),
        ("break", "return", "break => return"),
        ("x = a if b(c) else d", "x = a if (b(c)) or True else d", "a if b(c) else => a if (b(c)) or True else"),
        ("return (a, a)", "return (a, a, a)", ", a) => , a, a)"),
    ],
)
def test_a_mutation_is_named_by_what_differs(was: str, now: str, expected: str) -> None:
    assert mutation(was, now) == expected


@cache
def _parsed(path: Path) -> tuple[ast.AST, list[str]]:
    text = path.read_text()
    return ast.parse(text), text.splitlines()


def _functions(node: ast.AST, name: str) -> list[Any]:
    nodes = Nodes(node, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return [each for each in nodes.all() if getattr(each, "name", None) == name]


def _sources(function: str) -> list[str]:
    """Return the lines of a function, or of each of its name in its class, with single spaces."""
    parts = function.split(".")
    for count in range(len(parts) - 1, 0, -1):
        path = ROOT.joinpath("twisted_kafka", *parts[:count]).with_suffix(".py")
        if path.is_file():
            tree, lines = _parsed(path)
            found: list[Any] = [tree]
            for name in parts[count:]:
                found = [each for node in found for each in _functions(node, name)]
            return [" ".join(" ".join(lines[each.lineno - 1 : each.end_lineno]).split()) for each in found]
    return []


@pytest.mark.medium
def test_each_accepted_mutant_is_one_of_a_function_as_it_is_now() -> None:
    stale = []
    for function, mutations in tomllib.loads(Path(ACCEPTED).read_text()).items():
        sources = _sources(function)
        for each in mutations:
            was = each.partition(" => ")[0].removeprefix("without ")
            if not any(was in source for source in sources):
                stale.append(f"{function}: {each}")
    assert stale == []
