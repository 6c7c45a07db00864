"""How long the report of an access log takes, beside DuckDB, Polars and GoAccess where they are there.

    python -m benchmarks.access_log_report [--rows 1000000] [--directory DIR] [--rounds 1] [--only report,duckdb]

A quiet synthetic day is written as JSONL, and turned into Parquet as the broker's archive does it. Each program runs in a process
of its own: wall time from its start to its end. `report` makes the whole report (every table, page and JSON); the others
answer a part of it: requests, errors, bytes and p99 by minute, API and client, and bytes by topic. GoAccess reads the same requests
as lines of a web server, and makes its own report. The marginal rate leaves out what a report of a thousand rows takes, which is
Java's and Spark's start. Programs take turns in each round, the fastest round of each is told, with the
machine's load before it. Files in `--directory` are made once and used again.
"""

import argparse
import contextlib
import importlib.util
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from twisted_kafka.access_log.archive import PARQUET, Archive
from twisted_kafka.timing.clock import ManualClock
from twisted_kafka_spark.synthetic.day import Day

FAR_AHEAD_MS = 4_000_000_000_000
SMALL_ROWS = 1000

DUCKDB = """
import duckdb, sys
log = sys.argv[1]
source = f"read_parquet('{log}/*/*/*.parquet')" if sys.argv[2] == "parquet" else (
    f"read_json('{log}/*/*/*.jsonl', format='newline_delimited', columns={{time: 'VARCHAR', api: 'VARCHAR', client_id: 'VARCHAR', "
    "error: 'VARCHAR', request_bytes: 'BIGINT', response_bytes: 'BIGINT', total_us: 'BIGINT', "
    "topics: 'STRUCT(topic VARCHAR, partitions INT, records BIGINT, bytes BIGINT, error VARCHAR)[]'})")
c = duckdb.connect()
c.execute("CREATE TABLE log AS SELECT time[:16] AS minute, api, client_id, error, request_bytes, response_bytes, total_us, topics "
          f"FROM {source}")
c.execute("SELECT minute, api, client_id, count(*), count(error), sum(request_bytes), sum(response_bytes), "
          "quantile_cont(total_us, 0.99) FROM log GROUP BY ALL").fetchall()
c.execute("SELECT t.topic, sum(t.bytes) FROM (SELECT unnest(topics) AS t FROM log) GROUP BY ALL").fetchall()
"""
POLARS = """
import polars as pl, sys
log = sys.argv[1]
frame = pl.scan_parquet(f"{log}/*/*/*.parquet") if sys.argv[2] == "parquet" else pl.scan_ndjson(f"{log}/*/*/*.jsonl")
by = [pl.col("time").str.slice(0, 16).alias("minute"), "api", "client_id"]
one = frame.group_by(by).agg(pl.len(), pl.col("error").count(), pl.col("request_bytes", "response_bytes").sum(),
                             pl.col("total_us").quantile(0.99))
two = frame.select(pl.col("topics").explode()).unnest("topics").group_by("topic").agg(pl.col("bytes").sum())
pl.collect_all([one, two])
"""


def to_parquet(directory: Path) -> None:
    """Turn every file into what access.log.archive.format=parquet makes of it."""
    Archive(directory, 1, ManualClock(wall_ms=FAR_AHEAD_MS), form=PARQUET, retention_hours=-1, retention_bytes=-1).run_once()


def as_web_log(log: Path, out: Path) -> None:
    """Write the same requests as a web server would: client, API and topic in the place of host, method and path."""
    with out.open("w") as file:
        for path in sorted(log.rglob("*.jsonl")):
            for line in path.open():
                each = json.loads(line)
                topic = each["topics"][0]["topic"] if each["topics"] else "-"
                file.write(
                    f"10.0.0.1 - {each['client_id']} [20/Nov/2026:{each['time'][11:19]} +0000] "
                    f'"POST /{each["api"]}/{topic} HTTP/1.1" {500 if each["error"] else 200} {each["response_bytes"]}\n'
                )


def made(directory: Path, rows: int) -> dict[str, Path]:
    """Make the files of one size, unless they are there; return where each form is."""
    forms = {"JSONL": directory / f"{rows}", "Parquet": directory / f"{rows}-parquet", "web": directory / f"{rows}.log"}
    if not forms["JSONL"].exists():
        Day(rows).write(forms["JSONL"])
    if not forms["Parquet"].exists():
        shutil.copytree(forms["JSONL"], forms["Parquet"])
        to_parquet(forms["Parquet"])
    if not forms["web"].exists():
        as_web_log(forms["JSONL"], forms["web"])
    return forms


def timed(command: list[str]) -> float:
    """Run a program and return its wall seconds; raise CalledProcessError when it fails."""
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def report(log: Path, out: Path) -> list[str]:
    return [sys.executable, "-m", "twisted_kafka_spark", "report", str(log), "--quiet", "--out", str(out)]


def commands(forms: dict[str, Path], out: Path) -> dict[str, list[str]]:
    """Return what is measured by name; say what is not installed."""
    found = {}
    for form in ("JSONL", "Parquet"):
        found[f"report, {form}"] = report(forms[form], out)
        for name, program in {"duckdb": DUCKDB, "polars": POLARS}.items():
            if importlib.util.find_spec(name) is not None:
                found[f"{name}, {form}"] = [sys.executable, "-c", program, str(forms[form]), form.lower()]
            else:
                print(f"{name} is not installed: pip install {name}")
    if shutil.which("goaccess") is not None:
        found["goaccess, web log"] = ["goaccess", str(forms["web"]), "--log-format=COMMON", "-o", str(out), "--no-progress"]
    else:
        print("goaccess is not installed: apt-get install goaccess")
    return found


def measure(directory: Path, options: argparse.Namespace) -> None:
    small, forms = made(directory, SMALL_ROWS), made(directory, options.rows)
    size_mb = sum(path.stat().st_size for path in forms["JSONL"].rglob("*.jsonl")) / 1e6
    print(f"{options.rows:,} rows, {size_mb:,.0f} MB of JSONL, {os.cpu_count()} cores")
    out = directory / "report.html"
    chosen = options.only.split(",") if options.only else ()
    whole = commands(forms, out)
    wanted = {"start": report(small["JSONL"], out)}
    wanted.update((name, command) for name, command in whole.items() if not chosen or name.partition(",")[0] in chosen)
    best: dict[str, tuple[float, float]] = {}
    for _ in range(options.rounds):
        for name, command in wanted.items():
            load = os.getloadavg()[0]
            best[name] = min(best.get(name, (math.inf, 0.0)), (timed(command), load))
    print(f"{'':20}{'wall':>9}{'rows/s':>12}{'marginal rows/s':>17}{'load':>7}")
    base = best.pop("start")[0]
    print(f"{'report of 1,000 rows':20}{base:7.1f} s")
    for name, (wall, load) in best.items():
        marginal = f"{options.rows / max(wall - base, 0.1):17,.0f}" if name.startswith("report") else f"{'':17}"
        print(f"{name:20}{wall:7.1f} s{options.rows / wall:12,.0f}{marginal}{load:7.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", default="", help="names of programs: report, duckdb, polars, goaccess")
    parser.add_argument("--directory", type=Path, help="keep the files here; default: a temporary directory")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        directory = options.directory or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        measure(directory, options)


if __name__ == "__main__":
    main()
