"""``twisted-kafka completion``."""

import shutil
import subprocess
from pathlib import Path

import pytest

from twisted_kafka.tools.main import main

pytestmark = pytest.mark.medium


@pytest.fixture
def script(request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """The script for a shell, which must be installed."""
    shell: str = request.param
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    assert main(["completion", shell]) == 0
    path = tmp_path / "script"
    path.write_text(capsys.readouterr().out)
    return path


def completed_by_bash(script: Path, *words: str) -> list[str]:
    """Return what bash offers for the last word."""
    line = " ".join(f"'{word}'" for word in words)
    commands = (
        f"source {script}; COMP_WORDS=(twisted-kafka {line}); COMP_CWORD={len(words)}; _twisted_kafka; echo ${{COMPREPLY[@]}}"
    )
    run = subprocess.run(["bash", "--norc", "-c", commands], capture_output=True, text=True, check=True)
    assert run.stderr == ""
    return run.stdout.split()


@pytest.mark.parametrize("script", ["bash"], indirect=True)
def test_bash_completes_commands_actions_options_and_choices(script: Path) -> None:
    assert {"topics", "serve", "report", "doctor"} <= set(completed_by_bash(script, ""))
    assert completed_by_bash(script, "topi") == ["topics"]
    assert completed_by_bash(script, "topics", "cr") == ["create"]
    assert completed_by_bash(script, "topics", "create", "--part") == ["--partitions"]
    assert completed_by_bash(script, "topics", "create", "orders", "-r", "1", "--if") == ["--if-not-exists"]
    assert completed_by_bash(script, "topics", "list", "--output", "") == ["text", "json"]
    assert completed_by_bash(script, "configs", "describe", "bro") == ["broker", "broker-logger"]
    assert completed_by_bash(script, "groups", "--part") == []


@pytest.mark.parametrize("script", ["fish"], indirect=True)
def test_fish_completes_the_same(script: Path, tmp_path: Path) -> None:
    def completed(line: str) -> set[str]:
        commands = f"source {script}; complete -C '{line}'"
        home = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
        run = subprocess.run(["fish", "--no-config", "-c", commands], capture_output=True, text=True, check=True, env=home)
        return {each.split("\t")[0] for each in run.stdout.splitlines()}

    assert {"topics", "serve", "report"} <= completed("twisted-kafka ")
    assert completed("twisted-kafka topics cr") == {"create"}
    assert completed("twisted-kafka topics create --part") == {"--partitions"}
    assert completed("twisted-kafka topics list --output ") == {"text", "json"}


@pytest.mark.parametrize("script", ["zsh"], indirect=True)
def test_zsh_completes_the_same(script: Path) -> None:
    def completed(*words: str) -> str:
        stubs = 'compdef() { :; }; compadd() { print -l -- "$@"; }; _files() { :; }; _describe() { print -l -- ${(P)2}; }'
        line = " ".join(f"'{word}'" for word in words)
        commands = f"{stubs}; source {script}; words=(twisted-kafka {line}); CURRENT={len(words) + 1}; _twisted_kafka"
        run = subprocess.run(["zsh", "-f", "-c", commands], capture_output=True, text=True, check=True)
        assert run.stderr == ""
        return run.stdout

    assert "topics:list, describe, create" in completed("")
    assert "create:create topics\n" in completed("topics", "")
    assert "--partitions" in completed("topics", "create", "")
    assert completed("topics", "list", "--output", "").split() == ["--", "text", "json"]


def test_an_unknown_shell_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["completion", "tcsh"])
    assert exit_.value.code == 2
    assert "invalid choice: 'tcsh'" in capsys.readouterr().err
