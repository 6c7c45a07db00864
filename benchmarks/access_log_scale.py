"""How the report grows: its memory with lines and clients, its time with workers, and the time to plan many files.

    python -m benchmarks.access_log_scale memory [--rows 1000000,10000000] [--clients 100,100000] [--brokers 64] [--directory DIR]
    python -m benchmarks.access_log_scale workers [--rows 2000000] [--clients 400] [--brokers 1] [--directory DIR]
    python -m benchmarks.access_log_scale listing [--files 100000]

`memory` makes a report of each number of lines for each number of clients on a standalone cluster of two workers of one core, and
prints its time, and the peak memory of the driver's two processes, Python and a JVM with a heap of 512 MiB. `workers` takes one
worker and then two, each bound to a processor: its Java and its Python would otherwise use more than the one core that it has.
`listing` creates small files, lists and divides them into tasks.

Several brokers have the same lines but for their id, compressed with zstd; if there are more clients than lines of a broker, all
lines differ. One broker's are plain. Files in `--directory` are created once and kept.
"""

import argparse
import contextlib
import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import zstandard

from benchmarks import realistic_day
from benchmarks.access_log_report import SMALL_ROWS, report, used
from benchmarks.scratch import scratch
from tests.support.processes import start_tied
from twisted_kafka_spark.cells.fold import Folding, Planned
from twisted_kafka_spark.pipeline.rollup import is_small
from twisted_kafka_spark.records.pieces import file_size, tasks
from twisted_kafka_spark.records.read import find_sources
from twisted_kafka_spark.runtime.java_home import ensure_java
from twisted_kafka_spark.synthetic.day import Day

HEAP = "512m"
SAMPLE_S = 0.2
MASTER_PORT = 17077
CORES = 2
MANY_BROKERS = 64
START_TIMEOUT_S = 120


def prepared(directory: Path, rows: int, clients: int, brokers: int) -> Path:
    """Create the files of a day, unless they exist; lines that are copied, with few clients, are compressed."""
    log = directory / f"{rows}-{clients}-{brokers}"
    if log.exists():
        return log
    if brokers == 1 or clients > rows // brokers:
        realistic_day.write(log, rows, clients, max(3000, 2 * clients), nodes=brokers)
        return log
    one = prepared(directory, rows // brokers, clients, 1)
    for path in sorted(one.rglob("*.jsonl")):
        lines, folder = path.read_bytes(), log / path.parent.relative_to(one)
        folder.mkdir(parents=True)
        for node in range(1, brokers + 1):
            copy = lines.replace(b'"node":1,', b'"node":%d,' % node)
            (folder / f"node-{node}-000001.jsonl.zst").write_bytes(zstandard.compress(copy, 1))
    return log


class Cost(NamedTuple):
    """What a report took: the CPU time is that of driver and executors, the peak memory that of the driver's two processes."""

    wall_s: float
    cpu_s: float
    python_mb: float
    jvm_mb: float


def cost(command: list[str]) -> Cost:
    """Run a program, and return what it took. The executors are started by the cluster, so all of this process's children count."""
    most = {"driver": 0.0, "JVM": 0.0}
    began, before = time.perf_counter(), used(os.getpid())[1]
    ticks = before
    with start_tied(command, stdout=subprocess.DEVNULL) as running:
        while running.poll() is None:
            ticks = max(ticks, used(os.getpid())[1])
            for pid in _with_children(running.pid):
                for name, peak_mb in _peak(pid, "driver" if pid == running.pid else ""):
                    most[name] = max(most[name], peak_mb)
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.wait(SAMPLE_S)
    if running.returncode:
        raise subprocess.CalledProcessError(running.returncode, command)
    cpu_s = (ticks - before) / os.sysconf("SC_CLK_TCK")
    return Cost(time.perf_counter() - began, cpu_s, most["driver"], most["JVM"])


def _with_children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        threads = Path(f"/proc/{pid}/task").iterdir()
        return [pid, *(int(child) for thread in threads for child in (thread / "children").read_text().split())]
    return []


def _peak(pid: int, name: str) -> Iterator[tuple[str, float]]:
    """Yield the peak memory in MB of the driver or the JVM."""
    with contextlib.suppress(OSError):
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
        name = "JVM" if status["Name"].strip() == "java" else name
        if name and "VmHWM" in status:
            yield name, int(status["VmHWM"].split()[0]) / 1024


def memory(directory: Path, options: argparse.Namespace) -> None:
    brokers = options.brokers or MANY_BROKERS
    logs = {
        (rows, clients): prepared(directory, rows, clients, brokers)
        for clients in map(int, options.clients.split(","))
        for rows in map(int, options.rows.split(","))
    }
    for (rows, clients), log in logs.items():
        with cluster(CORES) as master:
            took = cost([*on(master, report(log, directory / "report.html")), "--conf", f"spark.driver.memory={HEAP}"])
        print(
            f"{rows:,} lines of {clients:,} clients, {brokers} brokers: {took.wall_s:.1f} s, CPU time {took.cpu_s:.1f} s, "
            f"driver {took.python_mb:,.0f} MB, JVM {took.jvm_mb:,.0f} MB, load {os.getloadavg()[0]:.1f}",
            flush=True,
        )


def on(master: str, command: list[str]) -> list[str]:
    """Return the command of a report on a cluster of this machine."""
    return [*command, "--master", master, "--conf", "spark.driver.host=127.0.0.1"]


@contextlib.contextmanager
def cluster(workers: int, *, is_bound: bool = False) -> Iterator[str]:
    """Run a master and workers of one core each on this machine, bound to it or not; yield the master's URL."""
    import pyspark

    home = Path(pyspark.__file__).parent
    ensure_java()
    url = f"spark://127.0.0.1:{MASTER_PORT}"
    web = str(MASTER_PORT + 1)
    names = ["Master", "--host", "127.0.0.1", "--port", str(MASTER_PORT), "--webui-port", web]
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    with contextlib.ExitStack() as stack, scratch() as work:

        def begin(module: str, *arguments: str, bound: Sequence[str] = ()) -> None:
            command = [*bound, str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{module.lower()}.{module}", *arguments]
            process = stack.enter_context(start_tied(command, env=environment, stderr=subprocess.DEVNULL))
            stack.callback(process.terminate)

        begin(*names)
        for number in range(workers):
            port = str(MASTER_PORT + 2 + number)
            bound = ("taskset", "--cpu-list", str(number)) if is_bound else ()
            begin("Worker", "--cores", "1", "--memory", "2g", "--work-dir", str(work), "--webui-port", port, url, bound=bound)
        _wait_for(workers, web)
        yield url


def _wait_for(workers: int, web: str) -> None:
    from urllib.request import urlopen

    began = time.monotonic()
    while time.monotonic() - began < START_TIMEOUT_S:
        with contextlib.suppress(OSError, ValueError), urlopen(f"http://127.0.0.1:{web}/json/") as answer:  # while it starts
            if json.load(answer)["aliveworkers"] == workers:
                return
        time.sleep(SAMPLE_S)
    raise RuntimeError(f"{workers} workers did not start within {START_TIMEOUT_S} s")


def workers(directory: Path, options: argparse.Namespace) -> None:
    log = prepared(directory, int(options.rows), int(options.clients), options.brokers or 1)
    small = directory / str(SMALL_ROWS)
    if not small.exists():
        Day(SMALL_ROWS).write(small)
    took: list[float] = []
    for count in range(1, CORES + 1):
        with cluster(count, is_bound=True) as master:
            start, whole = (cost(on(master, report(each, directory / "report.html"))) for each in (small, log))
        took.append(whole.wall_s - start.wall_s)
        print(
            f"{count} workers: {whole.wall_s:.1f} s, of {SMALL_ROWS:,} lines {start.wall_s:.1f} s; "
            f"{whole.cpu_s:.1f} and {start.cpu_s:.1f} s of CPU time, load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
    print(f"without the start, {CORES} workers are {took[0] / took[-1]:.2f} times as fast as one")


def listing(directory: Path, options: argparse.Namespace) -> None:
    for number in range(options.files):
        hour, node = divmod(number, 100)
        folder = directory / f"date=2026-{1 + hour // 24 // 28:02}-{1 + hour // 24 % 28:02}" / f"hour={hour % 24:02}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"node-{node}-000001.jsonl").write_bytes(b"{}\n")
    began = time.perf_counter()
    sources = find_sources(None, [str(directory)])
    is_small(sources)
    planned = tasks(map(file_size, sources.lines), CORES)
    sent = pickle.dumps(Planned(Folding(), planned))
    taken = time.perf_counter() - began
    print(f"{len(sources):,} files: {taken:.1f} s, {len(planned):,} tasks, a plan of {len(sent) / 1e6:.1f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("what", choices=("memory", "workers", "listing"))
    parser.add_argument("--rows", default="2000000")
    parser.add_argument("--clients", default="400")
    parser.add_argument("--brokers", type=int)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--directory", type=Path, help="directory for the files; default: a temporary directory")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        directory = options.directory or stack.enter_context(scratch())
        {"memory": memory, "workers": workers, "listing": listing}[options.what](directory, options)


if __name__ == "__main__":
    main()
