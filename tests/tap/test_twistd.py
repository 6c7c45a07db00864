"""The service as an operator meets it: twistd in a process of its own."""

import contextlib
import os
import re
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from tests.support.budget import first_of
from tests.support.eventually import WAIT_S, eventually
from tests.support.processes import signals_end, start_tied

pytestmark = pytest.mark.long

REMEDY = "Remove broker.id from the settings to keep the directories' id, or use other log directories for another broker\n"
TAP = Path(__file__).resolve().parents[2] / "tap"


class Twistd:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str, ignored: Collection[signal.Signals] = ()) -> "subprocess.Popen[str]":
        command = [str(Path(sys.executable).with_name("twistd")), "-n", "--pidfile=", *arguments]
        with signals_end(ignored):
            process = start_tied(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.running.append(process)
        return process

    def file_fails(self, file: Path) -> str:
        command = [str(Path(sys.executable).with_name("twistd")), "-n", "--pidfile=", "-y", str(file)]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=WAIT_S, check=False)
        assert done.returncode == 1
        assert "Traceback" not in done.stdout
        return done.stderr

    def fails(self, *arguments: str) -> str:
        process = self.start("kafka", *arguments)
        _, errors = process.communicate(timeout=WAIT_S)
        assert process.returncode == 1
        return errors

    def started(self, *arguments: str, ignored: Collection[signal.Signals] = ()) -> tuple["subprocess.Popen[str]", int]:
        return self.started_with("kafka", "--listeners", "PLAINTEXT://127.0.0.1:0", *arguments, ignored=ignored)

    def started_with(self, *arguments: str, ignored: Collection[signal.Signals] = ()) -> tuple["subprocess.Popen[str]", int]:
        process = self.start(*arguments, ignored=ignored)
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.search(r"listens on PLAINTEXT://127\.0\.0\.1:(\d+), data in (\S+), started in \d+ ms", line):
                return process, int(found[1])
        raise AssertionError(process.communicate(timeout=WAIT_S)[1])


@pytest.fixture
def twistd(tmp_path: Path) -> Iterator[Twistd]:
    made = Twistd(tmp_path)
    yield made
    for process in made.running:
        if process.poll() is None:
            process.kill()
            process.communicate(timeout=WAIT_S)


@pytest.mark.parametrize("how", first_of([signal.SIGTERM, signal.SIGINT, signal.SIGHUP]))
def test_it_serves_and_stops_cleanly(twistd: Twistd, how: signal.Signals) -> None:
    process, port = twistd.started()
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as client:
        client.sendall(bytes.fromhex("0000000a 0012 0000 00000007 ffff"))
        assert client.recv(8)[4:8] == bytes.fromhex("00000007")
    process.send_signal(how)
    process.communicate(timeout=WAIT_S)
    assert process.returncode == 0
    log = twistd.folder / "kafka-data" / "log"
    assert (log / ".kafka_cleanshutdown").exists()
    lines = [line for file in (twistd.folder / "kafka-data" / "access").rglob("node-*.jsonl") for line in file.open()]
    assert len(lines) == 1
    assert '"api":"ApiVersions"' in lines[0]


@pytest.mark.slow
def test_nohup_keeps_it_running(twistd: Twistd) -> None:
    process, port = twistd.started(ignored=[signal.SIGHUP])
    process.send_signal(signal.SIGHUP)
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as client:
        client.sendall(bytes.fromhex("0000000a 0012 0000 00000007 ffff"))
        assert client.recv(8)[4:8] == bytes.fromhex("00000007")
    assert process.poll() is None


@pytest.mark.slow
def test_it_may_open_as_many_files_as_the_system_allows(twistd: Twistd) -> None:
    """A partition takes a descriptor, and running out of them takes a directory offline."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard - 1, hard))
    try:
        process, _ = twistd.started()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE) == (hard, hard)


def test_a_taken_port_is_one_line_and_status_1(twistd: Twistd) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        errors = twistd.fails("--listeners", f"PLAINTEXT://127.0.0.1:{port}")
    (line,) = errors.splitlines()
    assert line.startswith(f"twistd kafka: Socket server failed to bind to 127.0.0.1:{port}: Address already in use; stop what")


@pytest.mark.slow
def test_an_application_file_fails_in_one_line_and_stops_with_status_0(twistd: Twistd) -> None:
    sample = (TAP / "broker.tac").read_text()
    file = twistd.folder / "broker.tac"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        file.write_text(sample.replace("PLAINTEXT://:9092", f"PLAINTEXT://127.0.0.1:{port}"))
        errors = twistd.file_fails(file)
    (line,) = errors.splitlines()
    assert line.startswith(f"twistd kafka: Socket server failed to bind to 127.0.0.1:{port}: Address already in use; stop what")
    file.write_text(sample.replace("PLAINTEXT://:9092", "PLAINTEXT://127.0.0.1:none"))
    assert twistd.file_fails(file).startswith("twistd kafka: Invalid value 'PLAINTEXT://127.0.0.1:none' for listeners: ")
    file.write_text(sample.replace("PLAINTEXT://:9092", "PLAINTEXT://127.0.0.1:0"))
    process, _ = twistd.started_with("-y", str(file))
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=WAIT_S)
    assert process.returncode == 0


def test_a_signal_between_the_start_and_the_loop_stops_with_status_0(twistd: Twistd) -> None:
    file = twistd.folder / "broker.tac"
    signal_first = (
        "import os, signal\nfrom twisted.internet import reactor\nreactor.callWhenRunning(os.kill, os.getpid(), signal.SIGTERM)\n"
    )
    file.write_text(signal_first + (TAP / "broker.tac").read_text().replace("PLAINTEXT://:9092", "PLAINTEXT://127.0.0.1:0"))
    process, _ = twistd.started_with("-y", str(file))
    process.communicate(timeout=WAIT_S)
    assert process.returncode == 0
    assert (twistd.folder / "kafka-data" / "log" / ".kafka_cleanshutdown").exists()


@pytest.mark.slow  # tests/tools/test_serve.py has the same of serve
def test_a_locked_directory_is_one_line_and_status_1(twistd: Twistd) -> None:
    twistd.started()
    errors = twistd.fails("--listeners", "PLAINTEXT://127.0.0.1:0")
    assert errors.count("\n") == 1
    assert f"{twistd.folder}/kafka-data/log is in use" in errors


@pytest.mark.slow
def test_a_daemon_logs_why_it_cannot_start(twistd: Twistd) -> None:
    twistd.started()
    log = twistd.folder / "log"
    words = ["--pidfile=", "--logfile", str(log), "kafka", "--listeners", "PLAINTEXT://127.0.0.1:0"]
    command = [str(Path(sys.executable).with_name("twistd")), *words]
    done = subprocess.run(command, cwd=twistd.folder, capture_output=True, timeout=WAIT_S, check=False)
    assert done.returncode == 1
    # The daemon logs it after its parent has ended.
    (line,) = eventually(lambda: [line for line in log.read_text().splitlines() if "critical" in line])
    assert f"{twistd.folder}/kafka-data/log is in use" in line


@pytest.mark.slow
def test_a_daemon_stops_cleanly(twistd: Twistd) -> None:
    pid_file, log = twistd.folder / "pid", twistd.folder / "log"
    words = [f"--pidfile={pid_file}", "--logfile", str(log), "kafka", "--listeners", "PLAINTEXT://127.0.0.1:0"]
    command = [str(Path(sys.executable).with_name("twistd")), *words]
    subprocess.run(command, cwd=twistd.folder, capture_output=True, timeout=WAIT_S, check=True)
    eventually(lambda: "listens on PLAINTEXT" in log.read_text())
    os.kill(int(pid_file.read_text()), signal.SIGTERM)
    eventually(lambda: "Server Shut Down" in log.read_text())
    assert (twistd.folder / "kafka-data/log/.kafka_cleanshutdown").exists()


@pytest.mark.slow
def test_another_brokers_directory_is_one_line_and_status_1(twistd: Twistd) -> None:
    process, _ = twistd.started("--broker-id", "3")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=WAIT_S)
    errors = twistd.fails("--broker-id", "4", "--listeners", "PLAINTEXT://127.0.0.1:0")
    assert errors == "twistd kafka: Invalid value '4' for broker.id: must be 3, as the log directories have it. " + REMEDY


@pytest.mark.slow
def test_a_daemons_log_may_be_rotated(twistd: Twistd) -> None:
    log = twistd.folder / "kafka.log"
    process = twistd.start("--logfile", str(log), "kafka", "--listeners", "PLAINTEXT://127.0.0.1:0")
    eventually(lambda: log.exists() and "listens on PLAINTEXT" in log.read_text())
    log.rename(twistd.folder / "kafka.log.1")
    process.send_signal(signal.SIGUSR1)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=WAIT_S)
    assert process.returncode == 0
    assert "Server Shut Down" in log.read_text()
    assert "Server Shut Down" not in (twistd.folder / "kafka.log.1").read_text()


def test_a_bad_option_is_one_line_and_status_1(twistd: Twistd) -> None:
    assert (
        twistd.fails("--override", "num.partitions=0") == "twistd kafka: Invalid value '0' for num.partitions: must be at least 1\n"
    )


def test_after_a_kill_the_access_log_is_whole(twistd: Twistd) -> None:
    process, port = twistd.started()
    access = twistd.folder / "kafka-data" / "access"
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as client:
        client.sendall(bytes.fromhex("0000000a 0012 0000 00000007 ffff"))
        client.recv(100)
        found = eventually(lambda: [file for file in access.rglob(".node-*.jsonl") if file.stat().st_size])
    process.kill()
    process.communicate(timeout=WAIT_S)
    with found[0].open("a") as file:
        file.write('{"v":1,"ti')
    process, _ = twistd.started()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=WAIT_S)
    assert not list(access.rglob(".*.jsonl"))
    assert all(line.endswith("}\n") for file in access.rglob("*.jsonl") for line in file.open())


def test_a_signal_ends_a_start_that_loads_logs(twistd: Twistd) -> None:
    logs = twistd.folder / "data" / "log"
    for number in range(500):  # more than can be loaded before the main thread has its turn and handles the signal
        (logs / f"t-{number}").mkdir(parents=True)
    pipe = logs / "t-0" / "leader-epoch-checkpoint"  # whoever reads it waits for what is written into it
    os.mkfifo(pipe)
    process = twistd.start("kafka", "--listeners", "PLAINTEXT://127.0.0.1:0", "--data-dir", "data")
    writers: list[int] = []

    def is_read() -> bool:
        with contextlib.suppress(OSError):  # nobody reads yet
            writers.append(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        return bool(writers) or process.poll() is not None

    eventually(is_read)
    assert writers, process.communicate()
    process.send_signal(signal.SIGTERM)
    os.close(writers[0])
    _, errors = process.communicate(timeout=WAIT_S)
    assert errors == "twistd kafka: SIGTERM received: the loading of the logs was interrupted\n"
    assert process.returncode == 0
