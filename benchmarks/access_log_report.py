"""The time of a report on an access log, compared to DuckDB, Polars and GoAccess if they are installed.

    python -m benchmarks.access_log_report [--rows 1000000] [--brokers 1] [--skewed] [--realistic] [--clients 400]
                                          [--directory DIR] [--rounds 1] [--only report,duckdb] [--jsonl-only]

A quiet synthetic day is written as JSONL, and converted to Parquet as by the broker's archive. Each program runs in a separate
process, and its wall time is measured from start to end. `report` creates the complete report (all tables, page and JSON); DuckDB
and Polars compute a part of it: requests, errors, bytes and p99 by minute, API and client, and bytes by topic; "duckdb tables"
groups by the keys of all kinds of cells, from which a report is made (`access_log_rivals`). GoAccess reads the
same requests as lines of a web server and creates its own report. The marginal rate excludes the time of a report on a thousand
rows, which is the start of Java and Spark. The programs run in turn in each round; the fastest round of each is printed, with the
machine's load before it and the peak memory of all its processes. `--brokers N` repeats the lines of the day for N brokers, N times
`--rows` in total; with `--skewed`, nine of ten lines are from one client. `--realistic` takes the day of `realistic_day`, with
`--clients`, all of whose lines differ, also those of several brokers. Files in `--directory` are created once and kept.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks import realistic_day
from benchmarks.access_log_rivals import DUCKDB_PART, DUCKDB_TABLES, POLARS_PART
from benchmarks.scratch import scratch
from twisted_kafka.access_log.archive import PARQUET, Archive
from twisted_kafka.timing.clock import ManualClock
from twisted_kafka_spark.synthetic.day import Day

FAR_AHEAD_MS = 4_000_000_000_000
SMALL_ROWS = 1000
SAMPLE_S = 0.5
CLIENT = re.compile(rb'"client_id":"[^"]*"')


def to_parquet(directory: Path, node: int) -> None:
    """Convert every file of a broker as with access.log.archive.format=parquet."""
    Archive(directory, node, ManualClock(wall_ms=FAR_AHEAD_MS), form=PARQUET, retention_hours=-1, retention_bytes=-1).run_once()


def as_web_log(log: Path, out: Path) -> None:
    """Write the same requests as lines of a web server, with client, API and topic in place of host, method and path."""
    with out.open("w") as file:
        for path in sorted(log.rglob("*.jsonl")):
            for line in path.open():
                each = json.loads(line)
                topic = each["topics"][0]["topic"] if each["topics"] else "-"
                file.write(
                    f"10.0.0.1 - {each['client_id']} [20/Nov/2026:{each['time'][11:19]} +0000] "
                    f'"POST /{each["api"]}/{topic} HTTP/1.1" {500 if each["error"] else 200} {each["response_bytes"]}\n'
                )


def multiplied(log: Path, out: Path, brokers: int, *, is_skewed: bool) -> None:
    """Write the lines of a log once per broker; with `is_skewed`, nine of ten lines are from one client."""
    one = b'"client_id":"billing"'
    for path in sorted(log.rglob("*.jsonl")):
        lines = path.read_bytes().splitlines(keepends=True)
        if is_skewed:
            lines = [CLIENT.sub(one, line, 1) if number % 10 else line for number, line in enumerate(lines)]
        data = b"".join(lines)
        for node in range(1, brokers + 1):
            copy = out / path.parent.relative_to(log) / f"node-{node}-000001.jsonl"
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(data.replace(b'"node":1,', b'"node":%d,' % node))


def name_of(options: argparse.Namespace) -> str:
    """Return the name of the files of one size."""
    brokers = f"x{options.brokers}" if options.brokers > 1 else ""
    return f"{options.rows}{brokers}" + (f"-{options.clients}-clients" if options.realistic else "-skewed" * options.skewed)


def prepared(directory: Path, options: argparse.Namespace) -> dict[str, Path]:
    """Create the files of one size, unless they exist; return the path of each form."""
    name, rows = name_of(options), options.rows
    forms = {"JSONL": directory / name, "Parquet": directory / f"{name}-parquet", "web": directory / f"{name}.log"}
    if options.realistic:
        if not forms["JSONL"].exists():
            connections = max(3000, 2 * options.clients)
            realistic_day.write(forms["JSONL"], rows * options.brokers, options.clients, connections, nodes=options.brokers)
    elif not (directory / str(rows)).exists():
        Day(rows).write(directory / str(rows))
    if not forms["JSONL"].exists():
        multiplied(directory / str(rows), forms["JSONL"], options.brokers, is_skewed=options.skewed)
    if options.jsonl_only:
        return {"JSONL": forms["JSONL"]}
    if not forms["Parquet"].exists():
        shutil.copytree(forms["JSONL"], forms["Parquet"])
        for node in range(1, options.brokers + 1):
            to_parquet(forms["Parquet"], node)
    if not forms["web"].exists():
        as_web_log(forms["JSONL"], forms["web"])
    return forms


class Usage(NamedTuple):
    """The time and memory of a run."""

    wall_s: float
    cpu_s: float
    memory_mb: float
    load: float


def timed(command: list[str]) -> Usage:
    """Run a program and return its usage; raise CalledProcessError when it fails."""
    load = os.getloadavg()[0]
    began = time.perf_counter()
    most_kb, ticks = 0, 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as running:
        while running.poll() is None:
            now_kb, now_ticks = used(running.pid)
            most_kb, ticks = max(most_kb, now_kb), max(ticks, now_ticks)
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.wait(SAMPLE_S)
    wall_s = time.perf_counter() - began
    if running.returncode:
        raise subprocess.CalledProcessError(running.returncode, command)
    return Usage(wall_s, ticks / os.sysconf("SC_CLK_TCK"), most_kb / 1024, load)


def used(pid: int) -> tuple[int, int]:
    """Return the memory in KB (shared memory once) and the CPU ticks of a process and its descendants; 0 except on Linux."""
    try:
        memory = Path(f"/proc/{pid}/smaps_rollup").read_text()
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        below = [child for thread in Path(f"/proc/{pid}/task").iterdir() for child in (thread / "children").read_text().split()]
    except OSError:
        return 0, 0
    kb, ticks = sum(int(line.split()[1]) for line in memory.splitlines() if line.startswith("Pss:")), sum(map(int, state[11:15]))
    for child in below:
        more = used(int(child))
        kb, ticks = kb + more[0], ticks + more[1]
    return kb, ticks


def report(log: Path, out: Path) -> list[str]:
    return [sys.executable, "-m", "twisted_kafka_spark", "report", str(log), "--quiet", "--out", str(out)]


def commands(forms: dict[str, Path], out: Path) -> dict[str, list[str]]:
    """Return the commands to measure by name; print which programs are not installed."""
    found = {}
    for form in (form for form in ("JSONL", "Parquet") if form in forms):
        found[f"report, {form}"] = report(forms[form], out)
        for name, program in {"duckdb": DUCKDB_PART, "duckdb tables": DUCKDB_TABLES, "polars": POLARS_PART}.items():
            package = name.split()[0]
            if importlib.util.find_spec(package) is not None:
                found[f"{name}, {form}"] = [sys.executable, "-c", program, str(forms[form]), form.lower()]
            else:
                print(f"{package} is not installed: pip install {package}")
    if "web" not in forms:
        return found
    if shutil.which("goaccess") is not None:
        found["goaccess, web log"] = ["goaccess", str(forms["web"]), "--log-format=COMMON", "-o", str(out), "--no-progress"]
    else:
        print("goaccess is not installed: apt-get install goaccess")
    return found


def measure(directory: Path, options: argparse.Namespace) -> None:
    small = directory / str(SMALL_ROWS)
    if not small.exists():
        Day(SMALL_ROWS).write(small)
    forms = prepared(directory, options)
    rows = options.rows * options.brokers
    size_mb = sum(path.stat().st_size for path in forms["JSONL"].rglob("*.jsonl")) / 1e6
    print(f"{rows:,} rows, {size_mb:,.0f} MB of JSONL, {os.cpu_count()} cores")
    out = directory / "report.html"
    chosen = options.only.split(",") if options.only else ()
    whole = commands(forms, out)
    wanted = {"start": report(small, out)}
    wanted.update((name, command) for name, command in whole.items() if not chosen or name.partition(",")[0] in chosen)
    best: dict[str, Usage] = {}
    for _ in range(options.rounds):
        for name, command in wanted.items():
            usage = timed(command)
            best[name] = min(best.get(name, usage), usage)
    print(f"{'':22}{'wall':>9}{'CPU':>12}{'memory':>11}{'rows/s':>12}{'marginal rows/s':>17}{'load':>7}")
    base = best.pop("start")
    print(f"{'report of 1,000 rows':22}{base.wall_s:7.1f} s{base.cpu_s:10.1f} s{base.memory_mb:8,.0f} MB{'':29}{base.load:7.1f}")
    for name, (wall, cpu, memory, load) in best.items():
        marginal = f"{rows / max(wall - base.wall_s, 0.1):17,.0f}" if name.startswith("report") else f"{'':17}"
        print(f"{name:22}{wall:7.1f} s{cpu:10.1f} s{memory:8,.0f} MB{rows / wall:12,.0f}{marginal}{load:7.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--brokers", type=int, default=1)
    parser.add_argument("--skewed", action="store_true")
    parser.add_argument(
        "--realistic", action="store_true", help="many clients, connections and topics, whose shares follow Zipf's law"
    )
    parser.add_argument("--clients", type=int, default=400, help="the clients of a realistic day")
    parser.add_argument("--jsonl-only", action="store_true", help="skip Parquet and GoAccess, whose files take long to create")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", default="", help="comma-separated programs: report, duckdb, duckdb tables, polars, goaccess")
    parser.add_argument("--directory", type=Path, help="directory for the files; default: a temporary directory")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        directory = options.directory or stack.enter_context(scratch())
        measure(directory, options)


if __name__ == "__main__":
    main()
