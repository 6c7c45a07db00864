"""A broker in a process of its own, started as a user starts it."""

import os
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

from tests.support.budget import patient
from tests.support.eventually import WAIT_S
from tests.support.ports import free_port
from tests.support.processes import start_tied

BROKER_PYTHON = os.environ.get("BROKER_PYTHON", sys.executable)
"""The interpreter of the brokers, in an environment that has them installed: `make test PYTHON=pypy3` tests PyPy so."""
START_TIMEOUT_S = 30
START_CPU_S = 10
"""A broker that has had less of the processor than this is not late but starved: it is waited for on, up to START_LIMIT_S."""
START_LIMIT_S = patient(240)
STOP_TIMEOUT_S = patient(30)


def answers(port: int) -> bool:
    """Whether an ApiVersions request on this port gets an answer."""
    request = struct.pack(">hhih", 18, 0, 1, -1)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            return len(connection.recv(64)) > 0
    except OSError:
        return False


def is_open(port: int) -> bool:
    """Whether something listens on this port."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=WAIT_S).close()
    except OSError:
        return False
    return True


def lists_brokers(port: int) -> bool:
    """Whether the Metadata of a broker that answers names one: a topic created before that has no brokers for its replicas."""
    request = struct.pack(">hhihi", 3, 1, 1, -1, 0)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            received = b""
            while len(received) < 12:
                more = connection.recv(4096)
                if not more:
                    return False
                received += more
            return bool(struct.unpack_from(">i", received, 8)[0] > 0)
    except OSError:
        return False


def cpu_s(pid: int) -> float:
    """Return the processor time that a process has had; 0 when there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class ServedBroker:
    """``twistd -n kafka`` on a free port with a data directory of its own; can be stopped, killed and started again."""

    def __init__(self, data: Path, *overrides: str) -> None:
        self.data = data
        self.port = free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.listeners = f"PLAINTEXT://{self.bootstrap}"
        self.overrides = overrides
        self.output = data.parent / f"{data.name}.out"
        self.process: subprocess.Popen[bytes] | None = None
        self.options: tuple[str, ...] = ()
        """Further options of the command line."""
        self.is_ready = answers
        """Whether the broker serves this port."""
        self.environment: dict[str, str] = {}
        """Beside this process's own."""

    @property
    def log_dir(self) -> Path:
        return self.data / "log"

    @property
    def access_dir(self) -> Path:
        return self.data / "access"

    def command(self) -> list[str]:
        twistd = str(Path(BROKER_PYTHON).with_name("twistd"))
        words = [twistd, "--pidfile=", "-n", "kafka", "--listeners", self.listeners, "--data-dir", str(self.data), *self.options]
        for override in self.overrides:
            words += ["--override", override]
        return words

    def start(self) -> None:
        with self.output.open("ab") as output:
            self.process = start_tied(
                self.command(),
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                cwd=self.data.parent,
                env={**os.environ, **self.environment},
            )
        began = time.monotonic()
        while not self.is_ready(self.port):
            if self.process.poll() is not None or self._is_late(time.monotonic() - began):
                raise AssertionError(f"the broker did not start:\n{self.output.read_text()[-3000:]}")
            time.sleep(0.02)

    def _is_late(self, waited_s: float) -> bool:
        assert self.process is not None
        return waited_s > START_LIMIT_S or (waited_s > START_TIMEOUT_S and cpu_s(self.process.pid) > START_CPU_S)

    def stop(self) -> int:
        """Ask the broker to stop and return its exit status."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> int:
        if self.process is None:
            return 0
        self.process.send_signal(how)
        try:
            status = self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the broker did not stop on {how.name}:\n{self.output.read_text()[-3000:]}") from None
        self.process = None
        return status
