"""A standalone cluster of Spark on this machine: a master and workers as processes, with the jars of pyspark."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pyspark

from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.processes import start_tied
from twisted_kafka_spark.runtime.java_home import ensure_java

HOME = Path(pyspark.__file__).parent
LIBRARIES = ("numpy", "numpy.libs", "pyarrow", "pyarrow.libs")
"""What workers need besides Python."""
START_S = 600.0


def python_with(directory: Path, libraries: tuple[str, ...]) -> str:
    """Make a Python that has these packages of this one's and no others; return its path."""
    venv.create(directory, with_pip=False, symlinks=True)
    (there,) = directory.glob("lib/python*/site-packages")
    mine = Path(pyspark.__file__).parent.parent
    for name in libraries:
        if (mine / name).exists():
            (there / name).symlink_to(mine / name)
    return str(directory / "bin" / "python")


class Standalone:
    """A master and two workers of one core each; executors can be killed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.url = f"spark://127.0.0.1:{free_port()}"
        self.processes: list[subprocess.Popen[Any]] = []
        self._output = (directory / "cluster.out").open("wb")

    def start(self, workers: int = 2) -> None:
        port = self.url.rpartition(":")[2]
        self._start("master.Master", "--host", "127.0.0.1", "--port", port, "--webui-port", "0")
        for number in range(workers):
            place = self.directory / f"worker-{number}"
            self._start(
                *("worker.Worker", "--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "1g"),
                *("--work-dir", str(place), self.url),
            )
        registered = re.compile("Registering worker")
        eventually(lambda: len(registered.findall(self.said())) == workers, self.said, START_S)

    def said(self) -> str:
        """Return what master and workers have logged."""
        return (self.directory / "cluster.out").read_text()

    def executors(self) -> dict[int, str]:
        """Return the processes of executors, with their command lines."""
        workers = {process.pid for process in self.processes[1:]}
        return {pid: command for pid, parent, command in _processes() if parent in workers and "ExecutorBackend" in command}

    def busy_executors(self) -> list[int]:
        """Return the executors that have a Python which works for a task."""
        daemons = {pid: parent for pid, parent, command in _processes() if "pyspark.daemon" in command}
        working = {daemons[parent] for _, parent, _ in _processes() if parent in daemons}
        return sorted(working & set(self.executors()))

    def stop(self) -> None:
        for pid in self.executors():
            with contextlib.suppress(ProcessLookupError):
                kill(pid)
        for process in self.processes:
            process.kill()
            process.wait()
        self._output.close()

    def _start(self, name: str, *arguments: str) -> None:
        ensure_java()
        # Spark's own script tells executors where Spark is.
        words = [f"{HOME}/bin/spark-class", f"org.apache.spark.deploy.{name}", *arguments]
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "PYTHON", "SPARK"))}
        environment |= {"SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "512m"}
        self.processes.append(
            start_tied(
                words, stdout=self._output, stderr=self._output, stdin=subprocess.DEVNULL, cwd=self.directory, env=environment
            )
        )


def kill(pid: int) -> None:
    """Kill a process as a machine that runs out of memory does."""
    os.kill(pid, signal.SIGKILL)


def _processes() -> list[tuple[int, int, str]]:
    """Return the ids of all processes, their parents' and their command lines."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            found.append((int(path.name), parent, (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")))
        except (OSError, IndexError):
            continue
    return found


def command(name: str, *arguments: object) -> list[str]:
    """Return a command of the program that makes no noise."""
    return [sys.executable, "-m", "twisted_kafka_spark", name, *map(str, arguments), "--quiet"]
