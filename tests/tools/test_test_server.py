"""``twisted-kafka test-server`` as a program of another language starts it."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.budget import first_of
from tests.support.control_client import ControlClient
from tests.support.eventually import eventually
from twisted_kafka.tools.main import main

pytestmark = pytest.mark.long
_COMMAND = [str(Path(sys.executable).parent / "twisted-kafka"), "test-server"]
_TIMEOUT_S = 30


class Started:
    """A test-server that a program started, with a pipe as its stdin."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.stderr.read() if process.stderr else ""
        self.told = json.loads(line)
        self.control = ControlClient(self.told["control_url"], self.told["token"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where servers have their temporary directories."""
    (tmp_path / "tmp").mkdir()
    return tmp_path / "tmp"


@pytest.fixture
def start(folder: Path) -> Iterator[Any]:
    processes: list[subprocess.Popen[str]] = []

    def run(*options: str, **environment: str) -> Started:
        process = subprocess.Popen(
            [*_COMMAND, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(folder), **environment},
        )
        processes.append(process)
        return Started(process)

    yield run
    for process in processes:
        process.kill()
        process.communicate(timeout=_TIMEOUT_S)


def files(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_it_tells_its_addresses_and_ends_with_its_stdin(start: Any, folder: Path) -> None:
    rules = folder.parent / "faults.json"
    rules.write_text('[{"api": "Fetch", "delay_ms": 5}]')
    server = start("--rules", str(rules), "--override", "num.partitions=3", "--persona", "2.8", TWISTED_KAFKA_TOKEN="known")
    assert sorted(server.told) == ["bootstrap_servers", "control_url", "pid", "token"]
    assert (server.told["token"], server.told["pid"]) == ("known", server.process.pid)
    told = server.control.get("/")
    assert told["bootstrap_servers"] == server.told["bootstrap_servers"]
    assert [each["rule"] for each in server.control.get("/faults")["faults"]] == [{"api": "Fetch", "delay_ms": 5}]
    assert len(server.control.post("/topics", name="orders", partitions=None)["partitions"]) == 1
    assert files(folder) != []
    out, err = server.process.communicate(timeout=_TIMEOUT_S)  # closes its stdin
    assert (server.process.returncode, out, err, files(folder)) == (0, "", "", [])


@pytest.mark.parametrize("number", first_of([signal.SIGTERM, signal.SIGINT]))
def test_it_ends_with_a_signal(start: Any, folder: Path, number: signal.Signals) -> None:
    server = start()
    server.process.send_signal(number)
    assert server.process.wait(_TIMEOUT_S) == 0
    assert files(folder) == []


@pytest.mark.slow
def test_what_one_that_was_killed_leaves_is_removed_by_the_next(start: Any, folder: Path) -> None:
    killed = start()
    killed.process.kill()
    killed.process.wait(_TIMEOUT_S)
    (left,) = files(folder)
    start()
    assert left not in files(folder)


@pytest.mark.slow
def test_a_port_that_is_taken_is_told_in_one_line(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [*_COMMAND, "--port", str(port)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, env={**os.environ, "TMPDIR": str(folder)}
        )
    assert (done.returncode, done.stdout, files(folder)) == (2, "", [])
    assert "Address already in use" in done.stderr
    assert done.stderr.count("\n") == 1


_PARENT = """
import subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
sys.stdin.read()
"""


@pytest.mark.slow
def test_it_ends_with_the_program_that_started_it(folder: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, *_COMMAND],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(folder)},
    )
    try:
        server = Started(parent)
        parent.kill()
        parent.wait(_TIMEOUT_S)
        eventually(lambda: not files(folder), lambda: files(folder))
        eventually(lambda: not Path(f"/proc/{server.told['pid']}").exists())
    finally:
        parent.kill()
        parent.communicate(timeout=_TIMEOUT_S)


_HASTY_PARENT = """
import os, subprocess, sys
wait = 'while kill -0 "$0" 2>/dev/null; do sleep 0.05; done; exec "$@"'
command = ["sh", "-c", wait, str(os.getpid()), *sys.argv[1:]]
print(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr).pid)
"""


def test_it_does_not_run_when_its_parent_has_ended_before_it_looks(folder: Path) -> None:
    told = folder.parent / "told"
    with told.open("w") as output:  # no pipe, which would break with the parent
        command = [sys.executable, "-c", _HASTY_PARENT, *_COMMAND]
        parent = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=output, timeout=_TIMEOUT_S, check=True, start_new_session=True
        )
    process = Path(f"/proc/{int(parent.stdout)}")
    try:
        eventually(lambda: not process.exists())
    finally:
        if process.exists():
            os.kill(int(process.name), signal.SIGKILL)
    assert (
        told.read_text() == "twisted-kafka: the program that started test-server has already ended; use --stay to run without it\n"
    )
    assert files(folder) == []


@pytest.mark.slow  # tests/testing/control has these requests
def test_several_brokers_are_a_cluster_in_which_one_is_killed(start: Any, folder: Path) -> None:
    control = start("--brokers", "3").control
    assert [each["id"] for each in control.get("/")["brokers"]] == [1, 2, 3]
    (partition,) = control.post("/topics", name="orders", replication_factor=3)["partitions"]
    assert sorted(partition["replicas"]) == [1, 2, 3]
    assert control.post("/topics/orders/records", records=["1"])["offset"] == 0
    fault = control.post("/faults", api="Produce", delay_ms=1)
    assert len(control.post(f"/brokers/{partition['leader']}/kill")["brokers"]) == 2
    leader = control.post("/waits", leader_of="orders", timeout_s=30)["seen"]
    assert control.get("/topics/orders")["partitions"][0]["leader"] == leader != partition["leader"]
    assert [each["value"] for each in control.get("/topics/orders/records")["records"]] == ["1"]
    control.post(f"/brokers/{partition['leader']}/start")
    assert [each["id"] for each in control.get("/faults")["faults"]] == [fault["id"]]
    assert control.refused("POST", "/brokers/9/start").body == "there is no broker 9: expected one of 1, 2, 3"
    assert control.refused("POST", f"/brokers/{partition['leader']}/start").status == 409
    assert len(control.post("/reset")["brokers"]) == 3
    assert control.get("/topics") == {"topics": []}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--brokers", "0"], "brokers=0: expected 1 to 20"),
        (["--brokers", "2", "--persona", "2.8"], "--persona works with one broker only: leave out --brokers"),
        (["--persona", "7"], "There is no persona '7': use one of 0.11, 2.8, 3.9, 4.1, 4.2, 4.4"),
        (["--override", "num.partitions=x"], "Invalid value 'x' for num.partitions: must be a whole number"),
        (["--override", "num.partitons=3"], "There is no setting 'num.partitons': did you mean 'num.partitions'?"),
        (["--rules", "/no/faults.json"], "/no/faults.json cannot be read: No such file or directory"),
        (["--control", "9999"], "'9999' is not an address: expected HOST:PORT, as in 127.0.0.1:9092"),
        (["--port", "70000"], "--port 70000: expected 0 to 65534"),
    ],
)
def test_a_wrong_option_is_told_in_one_line(options: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, printed = main(["test-server", *options]), capsys.readouterr()
    assert (status, printed.out) == (2, "")
    assert printed.err.startswith(f"twisted-kafka: {told}")
    assert printed.err.count("\n") == 1


def test_it_serves_a_schema_registry(start: Any) -> None:
    started = start("--schema-registry")
    url = started.told["schema_registry_url"]
    with urllib.request.urlopen(f"{url}/subjects", timeout=_TIMEOUT_S) as answer:
        assert json.loads(answer.read()) == []
    assert started.control.get("/schema-registry/requests", api="list")["requests"][0]["status"] == 200
