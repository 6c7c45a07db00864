"""What Apache Kafka 3.9.2 answered to the scenarios, so that a comparison of other brokers can show it.

``python -m tests.oracle.store_answers`` writes the file. Of an error's message it has the terms (``answers.TERMS``), not the
sentence.
"""

import gzip
import json
from pathlib import Path
from typing import Any, Final

FILE: Final = Path(__file__).with_name("kafka-3.9.2.json.gz")

Answers = dict[str, list[tuple[str, Any]]]
"""The requests and answers of each scenario and version, by ``name.version``."""


class StoredAnswers:
    """Stored answers by scenario and version."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    @classmethod
    def load(cls, file: Path = FILE) -> "StoredAnswers":
        """Read the file; without one nothing is stored."""
        try:
            return cls(json.loads(gzip.decompress(file.read_bytes())))
        except FileNotFoundError:
            return cls({})

    def save(self, file: Path = FILE) -> None:
        """Write the file; the same answers make the same bytes."""
        text = json.dumps(self._answers, separators=(",", ":"), sort_keys=True)
        file.write_bytes(gzip.compress(text.encode(), mtime=0))

    def of(self, scenario: str, version: int) -> list[tuple[str, Any]]:
        """Return each request and its answer as JSON values, in order."""
        return self._answers.get(f"{scenario}.{version}", [])

    def __len__(self) -> int:
        """The number of answers."""
        return sum(map(len, self._answers.values()))
