"""The commands of the report, which another distribution has."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.support.budget import patient
from twisted_kafka.tools.main import main
from twisted_kafka.tools.report import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.long


def test_the_command_does_what_the_module_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyspark")  # which the tests' environment of PyPy does without
    assert main(["demo", str(tmp_path / "day"), "--rows", "200", "--quiet-day"]) == 0
    assert capsys.readouterr().out.startswith("wrote ")
    assert list((tmp_path / "day").rglob("*.jsonl"))
    for command in ("report", "rollup"):
        assert main([command, str(tmp_path / "none")]) == 1
        assert capsys.readouterr().err.startswith("twisted-kafka: ")


def test_the_help_names_the_commands_and_each_has_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    told = capsys.readouterr().out
    assert all(f"    {command} " in told for command in COMMANDS)
    for command in COMMANDS:
        with pytest.raises(SystemExit) as ended:
            main([command, "--help"])
        assert ended.value.code == 0
        assert capsys.readouterr().out.startswith(f"usage: twisted-kafka {command} ")


def test_without_the_package_it_says_what_to_install() -> None:
    # -S leaves out spark/, which a file in site-packages puts on the path.
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{sysconfig.get_path('purelib')}"}
    command = [sys.executable, "-S", "-m", "twisted_kafka.tools.main", "report", "log"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=patient(60), check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"twisted-kafka: report needs the package twisted-kafka-spark: pip install {ROOT / 'spark'}\n"


def test_a_broker_starts_without_the_report(tmp_path: Path) -> None:
    probe = "import sys; from twisted_kafka.tools import main; assert not [each for each in sys.modules if 'kafka_spark' in each]"
    subprocess.run([sys.executable, "-c", probe], cwd=tmp_path, check=True, timeout=patient(60))
