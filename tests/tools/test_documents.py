"""The commands in the documents are ones that the command line accepts."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cases import case
from twisted_kafka.tools.commands import COMMANDS
from twisted_kafka.tools.main import parse

pytestmark = pytest.mark.medium

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_FEWEST = 50


def _written() -> Iterator[tuple[str, list[str]]]:
    """Return the commands of code blocks and between backquotes."""
    for path in DOCUMENTS:
        text = path.read_text().replace("\\\n", " ")
        blocks = re.findall(r"^ {4}(?:.*[|] )?(twisted-kafka .*)$", text, re.MULTILINE)
        for line in (*blocks, *re.findall(r"`(twisted-kafka [\w-]+ [\w-]+ [^`]* --[^`]+)`", text)):
            for part in line.split(" | "):
                words = shlex.split(part.partition(" < ")[0].partition(" > ")[0], comments=True)
                if words[0] == "twisted-kafka" and len(words) > 2 and words[1] in COMMANDS:
                    yield f"{path.name}: {line}", words[1:]


def test_a_command_in_a_document_can_be_typed(capsys: pytest.CaptureFixture[str]) -> None:
    written = list(_written())
    assert len(written) > _FEWEST
    for line, words in written:
        with case(line=line):
            if any(each.isupper() and each.isalpha() for each in words[2:]) or "..." in line:
                continue  # a form, not an example
            parse(words)
    assert capsys.readouterr().err == ""
