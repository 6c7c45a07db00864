"""The list of accepted mutants, and the names of mutations in it."""

import ast
import tomllib
from pathlib import Path

import pytest

from benchmarks.mutants import ACCEPTED, ROOT, mutation


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


def _functions(node: ast.AST, name: str) -> list[ast.AST]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return [each for each in ast.walk(node) if isinstance(each, kinds) and each.name == name]


def _sources(function: str) -> list[str]:
    """Return the source of a function, or of each of its name in its class, with single spaces."""
    parts = function.split(".")
    for count in range(len(parts) - 1, 0, -1):
        path = ROOT.joinpath("twisted_kafka", *parts[:count]).with_suffix(".py")
        if path.is_file():
            text = path.read_text()
            found: list[ast.AST] = [ast.parse(text)]
            for name in parts[count:]:
                found = [each for node in found for each in _functions(node, name)]
            return [" ".join((ast.get_source_segment(text, each) or "").split()) for each in found]
    return []


def test_each_accepted_mutant_is_one_of_a_function_as_it_is_now() -> None:
    stale = []
    for function, mutations in tomllib.loads(Path(ACCEPTED).read_text()).items():
        sources = _sources(function)
        for each in mutations:
            was = each.partition(" => ")[0].removeprefix("without ")
            if not any(was in source for source in sources):
                stale.append(f"{function}: {each}")
    assert stale == []
