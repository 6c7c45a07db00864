"""The tests of examples/ pass as they are: kafkajs, franz-go and Java's client against ``twisted-kafka test-server``."""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.clients.clients import run

pytestmark = [pytest.mark.slow, pytest.mark.clients, pytest.mark.timeout(900)]
_EXAMPLES = Path(__file__).parents[2] / "examples"
_COMMANDS = {
    "kafkajs": [["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"], ["npm", "test"]],
    "franz-go": [["go", "test", "-count=1", "./..."]],
    "java": [["mvn", "-B", "-ntp", "test"]],
}
_TOLD = {"kafkajs": "# pass ", "franz-go": "ok  \tshop", "java": "Tests run: 2, Failures: 0, Errors: 0, Skipped: 0"}
_TIMEOUT_S = 800


def found(program: str) -> str:
    path = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/local/go/bin")
    if path is None:
        pytest.skip(f"needs {program}")
    return path


@pytest.mark.parametrize("name", _COMMANDS)
def test_an_example_passes(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWISTED_KAFKA", str(Path(sys.executable).parent / "twisted-kafka"))
    folder = tmp_path / name
    shutil.copytree(_EXAMPLES / name, folder)
    commands: Sequence[Sequence[str]] = [[found(words[0]), *words[1:]] for words in _COMMANDS[name]]
    for command in commands:
        printed = run(command, cwd=folder, timeout_s=_TIMEOUT_S)
    assert _TOLD[name] in printed.decode()
