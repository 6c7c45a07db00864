"""``twisted-kafka serve`` as an operator meets it, in a process of its own; what it shares with twistd is in tests/tap."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.budget import first_of
from tests.support.eventually import WAIT_S
from tests.support.processes import start_tied
from twisted_kafka.system.interpreter import MEMORY_SETTINGS

pytestmark = pytest.mark.long
_TIMEOUT_S = 30
_BIN = Path(sys.executable).parent
_SERVE = [str(_BIN / "twisted-kafka"), "serve"]
_TWISTD = [str(_BIN / "twistd"), "-n", "--pidfile=", "kafka"]


def run(command: list[str], folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)


def start(*options: str, folder: Path) -> "tuple[subprocess.Popen[Any], int]":
    command = [*_SERVE, "--listeners", "PLAINTEXT://127.0.0.1:0", *options]
    process = start_tied(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    read = []
    for line in process.stdout:
        read.append(line)
        if found := re.search(r"listens on PLAINTEXT://127\.0\.0\.1:(\d+)", line):
            return process, int(found[1])
    raise AssertionError("".join(read))


def test_it_serves_leaves_no_pid_file_and_stops_cleanly(tmp_path: Path) -> None:
    process, port = start("--data-dir", "data", folder=tmp_path)
    try:
        assert [path.name for path in tmp_path.iterdir()] == ["data"]
        with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as client:
            client.sendall(bytes.fromhex("0000000a 0012 0000 00000007 ffff"))
            assert client.recv(8)[4:8] == bytes.fromhex("00000007")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=_TIMEOUT_S)
    finally:
        process.kill()
        process.communicate(timeout=_TIMEOUT_S)
    assert process.returncode == 0
    assert (tmp_path / "data" / "log" / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize(
    "options",
    first_of([["--override", "num.partitions=0"], ["--nonsense"], ["extra"], ["--config", "/no/such/file"], ["--broker-id", ""]]),
    ids=" ".join,
)
def test_a_bad_option_ends_both_commands_alike(options: list[str], tmp_path: Path) -> None:
    ours, twistds = run([*_SERVE, *options], tmp_path), run([*_TWISTD, *options], tmp_path)
    assert (ours.returncode, twistds.returncode) == (1, 1)
    assert ours.stderr == twistds.stderr.replace("twistd kafka:", "twisted-kafka serve:")
    assert ours.stderr.startswith("twisted-kafka serve: ")
    assert ours.stderr.count("\n") == 1


@pytest.mark.slow  # tests/tap has the same of twistd
def test_a_taken_port_is_one_line_and_status_1(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        listener = f"127.0.0.1:{taken.getsockname()[1]}"
        done = run([*_SERVE, "--listeners", f"PLAINTEXT://{listener}"], tmp_path)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"twisted-kafka serve: Socket server failed to bind to {listener}: Address already in use; stop what")


def test_a_directory_in_use_is_one_line_that_names_the_process(tmp_path: Path) -> None:
    process, _ = start("--data-dir", "data", folder=tmp_path)
    try:
        done = run([*_SERVE, "--data-dir", "data"], tmp_path)
    finally:
        process.kill()
        process.communicate(timeout=_TIMEOUT_S)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "is in use: process " in line
    assert line.endswith("stop that broker, or take another directory")


def test_zookeeper_that_is_away_is_one_line_with_a_way_out(tmp_path: Path) -> None:
    pytest.importorskip("kazoo")
    options = ["zookeeper.connect=127.0.0.1:1", "zookeeper.connection.timeout.ms=100"]
    done = run([*_SERVE, *[f"--override={option}" for option in options]], tmp_path)
    assert done.returncode == 1
    assert "remove zookeeper.connect: the broker keeps its metadata itself then" in done.stderr.splitlines()[-1]


def test_metadata_of_a_broker_that_is_not_there_are_not_exported(tmp_path: Path) -> None:
    command = [str(_BIN / "twisted-kafka"), "metadata", "export", "--data-dir", "typo", "out.jsonl"]
    done = run(command, tmp_path)
    assert done.returncode != 0
    (line,) = done.stderr.splitlines()
    assert "There is no directory" in line
    assert list(tmp_path.iterdir()) == []


def test_help_names_the_command_that_was_run(tmp_path: Path) -> None:
    ours, twistds = run([*_SERVE, "--help"], tmp_path), run([*_TWISTD, "--help"], tmp_path)
    assert ours.stdout.startswith("Usage: twisted-kafka serve [options]\n")
    assert "twistd" not in ours.stdout
    assert "twistd -n kafka --listeners" in twistds.stdout


def test_every_command_prints_the_version(tmp_path: Path) -> None:
    printed = {run([*command, "--version"], tmp_path).stdout for command in ([_SERVE[0]], _SERVE, _TWISTD)}
    assert len(printed) == 1
    assert re.fullmatch(r"twisted_kafka \d\S*\n", printed.pop())


@pytest.mark.slow
@pytest.mark.parametrize("command", [_SERVE, _TWISTD], ids=" ".join)
def test_both_commands_run_with_the_memory_settings_of_the_interpreter(command: list[str], tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in MEMORY_SETTINGS}
    process = start_tied(
        [*command, "--listeners", "PLAINTEXT://127.0.0.1:0", "--data-dir", "data"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert any("listens on PLAINTEXT" in line for line in process.stdout)
        settings = dict(entry.split("=", 1) for entry in Path(f"/proc/{process.pid}/environ").read_text().split("\0") if entry)
    finally:
        process.kill()
        process.communicate(timeout=_TIMEOUT_S)
    assert settings == {**environment, **MEMORY_SETTINGS}
