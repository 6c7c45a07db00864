"""Every scenario under tests/data/coordinator, one test each."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.expressions import requires_expressions
from tests.support.transcripts.groups import Transcript
from tests.support.transcripts.transactions import TransactionTranscript

DATA = Path(__file__).parent.parent / "data" / "coordinator"
KINDS: dict[str, type[Transcript] | type[TransactionTranscript]] = {
    "transcripts": Transcript,
    "transactions": TransactionTranscript,
}
PATHS = sorted(path for kind in KINDS for path in (DATA / kind).glob("*.txt"))
CASES = [
    pytest.param(
        path,
        id=f"{path.parent.name}-{path.stem}",
        marks=[requires_expressions] if re.search("^> .*regex=", path.read_text(), re.MULTILINE) else [],
    )
    for path in PATHS
]


def happened(text: str, run: Callable[[str], list[str]]) -> str:
    """Run the commands of a transcript; return what its text should have been."""
    output, skipping = [], False
    for line in text.splitlines():
        if line.startswith("> "):
            output.append(line)
            output.extend(run(line[2:]))
            skipping = True
        elif not line.strip() or line.startswith("#"):
            output.append(line)
            skipping = False
        elif not skipping:
            output.append(line)
    return "\n".join(output) + "\n"


@pytest.mark.parametrize("path", CASES)
def test_transcript(path: Path) -> None:
    written = path.read_text()
    found = happened(written, KINDS[path.parent.name]().run)
    if os.environ.get("REWRITE_TRANSCRIPTS"):
        path.write_text(found)
    else:
        assert found == written


@pytest.mark.parametrize(("kind", "least"), [("transcripts", 90), ("transactions", 20)])
def test_there_are_transcripts(kind: str, least: int) -> None:
    assert len(list((DATA / kind).glob("*.txt"))) >= least
