"""Every scenario under tests/data/coordinator/transactions, one test each."""

import os
from pathlib import Path

import pytest

from tests.coordinator.transaction_transcript import check

TRANSCRIPTS = sorted((Path(__file__).parent.parent / "data" / "coordinator" / "transactions").glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    written = path.read_text()
    happened = check(written)
    if os.environ.get("REWRITE_TRANSCRIPTS"):
        path.write_text(happened)
    else:
        assert happened == written


def test_there_are_transcripts() -> None:
    assert len(TRANSCRIPTS) >= 20
