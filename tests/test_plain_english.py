"""Counts phrases that readers stumble over (CONTRIBUTING.md, "How we write") in docstrings, comments and documents."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.medium

ROOT = Path(__file__).parents[1]
MOST_MARKED_LINES = 2
"""May only fall. Rephrase what you touch, and lower this number."""
MOST_MARKED_MESSAGES = 17
"""Log lines, errors, help and other strings with a blank. Those left are right, such as "does not have the expected version"."""
WORDS = (
    *("so many", "so (?:long|much) as", "[Ww]hoever", "anew", "told", "tells?", "(?:is|are) none", "heard of"),
    *(r"ha(?:ve|s) (?:the|it|each|a|an) \w+ed", "(?:of|with) whom", "those that", "others? than", "that there (?:is|are)"),
    *("what (?:is|are|was|were|has|it|they|he|comes|goes)", "[Ww]ho (?:has|is|may|takes|leads)", "(?:is|are|was|were) to be"),
    *("in any case", "for want of", "raises what"),
)
BEGINNINGS = ("[.:;] Have (?!been)", r"[.:;(] Who\b")
MARKED = re.compile(rf"\b(?:{'|'.join(WORDS)})\b|^Have (?!been)|^Who\b|{'|'.join(BEGINNINGS)}")


@cache
def _marked_lines(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if MARKED.search(line)]


def _prose_of_module(path: Path) -> Iterator[str]:
    """Return the lines of docstrings and comments. A module is parsed only if a line of it is marked: most are not."""
    text = path.read_text()
    marked = _marked_lines(path)
    if any("#" in line for line in marked):
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        yield from (token.string for token in tokens if token.type == tokenize.COMMENT)
    if marked:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                yield from node.value.value.splitlines()


def _messages_of_module(path: Path) -> Iterator[str]:
    """Find the strings with blanks that are no docstrings; an f-string has a part for each text between its values."""
    if not _marked_lines(path):
        return
    nodes = list(ast.walk(ast.parse(path.read_text())))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value and id(node) not in docstrings:
            yield node.value


def _prose() -> Iterator[tuple[Path, str]]:
    for folder in ("twisted_kafka", "spark", "pytest_plugin"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield from ((path, line) for line in _prose_of_module(path))
    for path in (*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))):
        if path.name != "CONTRIBUTING.md":  # which quotes them
            yield from ((path, line) for line in path.read_text().splitlines())


def test_no_more_lines_have_a_marked_phrase() -> None:
    marked = [f"{path.relative_to(ROOT)}: {line.strip()}" for path, line in _prose() if MARKED.search(line)]
    assert len(marked) <= MOST_MARKED_LINES, marked


def test_no_more_messages_have_a_marked_phrase() -> None:
    modules = [path for folder in ("twisted_kafka", "spark") for path in sorted((ROOT / folder).rglob("*.py"))]
    messages = [f"{path.relative_to(ROOT)}: {each.strip()}" for path in modules for each in _messages_of_module(path)]
    marked = [each for each in messages if MARKED.search(each)]
    assert len(marked) <= MOST_MARKED_MESSAGES, marked


def test_a_marked_phrase_is_found() -> None:
    assert MARKED.search("It tells who has no short name.")
    assert not MARKED.search("The broker reports a client that has no short name.")
