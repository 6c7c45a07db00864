"""Benchmarks and tests that end, or are ended, leave nothing behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.eventually import WAIT_S, eventually
from tests.support.processes import signals_end

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[1]

STARTS_ONE = """
import sys
from tests.support.processes import start_tied
print(start_tied(["sleep", "600"]).pid, flush=True)
sys.stdin.read()
"""
HAS_FILES = """
import pathlib, sys
from benchmarks.scratch import scratch
with scratch(pathlib.Path(sys.argv[1])) as directory:
    (directory / "data").mkdir()
    print(directory, flush=True)
    sys.stdin.read()
"""


def run(program: str, *arguments: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", program, *arguments]
    with signals_end():
        return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def first_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills children with their parent")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_what_a_process_started_dies_with_it(how: signal.Signals) -> None:
    with run(STARTS_ONE) as starter:
        started = int(first_line(starter))
        assert is_running(started)
        starter.send_signal(how)
        starter.wait(WAIT_S)
    eventually(lambda: not is_running(started))


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_files_go_with_a_benchmark_that_is_told_to_end(tmp_path: Path, how: signal.Signals) -> None:
    with run(HAS_FILES, str(tmp_path)) as benchmark:
        assert Path(first_line(benchmark)).is_dir()
        benchmark.send_signal(how)
        assert benchmark.wait(WAIT_S) != 0
    assert list(tmp_path.iterdir()) == []


def test_the_next_benchmark_removes_the_files_of_one_that_was_killed(tmp_path: Path) -> None:
    (tmp_path / "kafka-bench-build").mkdir()  # what nobody owned stays
    with run(HAS_FILES, str(tmp_path)) as killed, run(HAS_FILES, str(tmp_path)) as other:
        left, used = Path(first_line(killed)), Path(first_line(other))
        killed.kill()
        killed.wait(WAIT_S)
        assert left.is_dir()
        with run(HAS_FILES, str(tmp_path)) as last:
            made = Path(first_line(last))
            assert set(tmp_path.iterdir()) == {tmp_path / "kafka-bench-build", used, made}
