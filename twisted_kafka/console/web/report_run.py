"""The Spark report of the access log, made on request by a program of its own: one at a time, with a time limit."""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from twisted.logger import Logger

from twisted_kafka.system import machine
from twisted_kafka.system.installation import present_installation
from twisted_kafka.system.threads import make_thread
from twisted_kafka.timing.clock import IClock

HOURS: Final = (1, 3, 12, 24)
MOST_MINUTES: Final = 30
"""The program is ended after this time."""
MOST_PAGE_BYTES: Final = 32 * 1024 * 1024
MOST_PROGRESS_BYTES: Final = 4 * 1024
_NICENESS: Final = 10
_PACKAGE: Final = "twisted_kafka_spark"
_PAGE: Final = "report.html"
_OUTPUT: Final = "output.txt"

_log = Logger()


class ReportState(NamedTuple):
    """The latest report."""

    is_running: bool
    hours: int
    """The hours of the log that it is about; 0 before the first report."""
    began_ms: int
    ended_ms: int
    progress: str
    """The program's last line."""
    problem: str
    """Why there is no page, empty if it is made or being made."""


_NONE: Final = ReportState(False, 0, -1, -1, "", "")


class ReportRuns:
    """Runs the program. Any thread may call it."""

    def __init__(self, log_directory: str | None, clock: IClock) -> None:
        """``log_directory`` is the access log's, None without one."""
        self._log_directory = log_directory
        self._clock = clock
        self._lock = machine.Lock()
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._state = _NONE
        self._is_closed = False

    @property
    def why_not(self) -> str:
        """Why no report can be made; empty if one can."""
        if self._log_directory is None:
            return "The broker has no access log: set access.log.dir."
        if importlib.util.find_spec(_PACKAGE) is None:
            return f"The report needs the package twisted-kafka-spark: {present_installation().command_for_report()}"
        return ""

    def state(self) -> ReportState:
        """Return the latest report, with its progress."""
        with self._lock:
            if self._folder is None or not self._state.is_running:
                return self._state
            return self._state._replace(progress=_last_line(self._folder / _OUTPUT))

    def page(self) -> bytes | None:
        """Return the latest report as a page, None without one."""
        with self._lock:
            path = None if self._folder is None or self._state.is_running else self._folder / _PAGE
        if path is None or not path.is_file() or path.stat().st_size > MOST_PAGE_BYTES:
            return None
        return path.read_bytes()

    def start(self, hours: int) -> str:
        """Start the program, unless it runs; return a line about it."""
        if why := self.why_not:
            return why
        with self._lock:
            if self._is_closed or self._state.is_running:
                return "A report is being made already."
            self._remove()
            self._folder = folder = Path(tempfile.mkdtemp(prefix="kafka-console-report-"))
            words = [sys.executable, "-m", _PACKAGE, "report", str(self._log_directory), "--since", f"{hours}h"]
            with (folder / _OUTPUT).open("wb") as output:
                self._process = process = subprocess.Popen(
                    [*words, "--out", str(folder / _PAGE)],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            self._state = ReportState(True, hours, self._clock.wall_ms(), -1, "", "")
            try:
                make_thread(lambda: self._await(process), "kafka-console-report").start()
            except RuntimeError as error:
                _end(process)
                process.wait()
                self._state = self._state._replace(is_running=False, ended_ms=self._clock.wall_ms(), problem=str(error))
                return f"No report can be made for now: {error}."
        return f"A report of the last {hours} h is being made."

    def close(self) -> None:
        """End the program, and remove its files."""
        with self._lock:
            self._is_closed = True
            if self._process is not None and self._process.poll() is None:
                _end(self._process)
            self._remove()

    def _await(self, process: "subprocess.Popen[bytes]") -> None:
        problem = ""
        try:
            if os.name == "posix":
                os.setpriority(os.PRIO_PROCESS, process.pid, _NICENESS)
            status = process.wait(MOST_MINUTES * 60)
            problem = "" if status == 0 else f"The report has failed with status {status}."
        except subprocess.TimeoutExpired:
            _end(process)
            problem = f"The report took longer than {MOST_MINUTES} minutes, and was ended."
        except OSError as error:
            _log.warn("The report's program could not be followed: {error}", error=error)
            process.wait()
        with self._lock:
            folder = self._folder
            progress = "" if folder is None else _last_line(folder / _OUTPUT)
            if not problem and (folder is None or not (folder / _PAGE).is_file()):
                problem = "The report has no page."
            self._state = self._state._replace(is_running=False, ended_ms=self._clock.wall_ms(), progress=progress, problem=problem)

    def _remove(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
        self._process = None


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End the program and its Java virtual machine, which are a session of their own."""
    try:
        if os.name == "posix":
            os.killpg(process.pid, 9)
        else:
            process.kill()
    except OSError:
        pass  # it has ended meanwhile


def _last_line(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - MOST_PROGRESS_BYTES))
            lines = file.read(MOST_PROGRESS_BYTES).decode("utf-8", "replace").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
