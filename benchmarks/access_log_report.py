"""How long the report of an access log takes, beside DuckDB, Polars and GoAccess where they are there.

    python -m benchmarks.access_log_report [--rows 1000000] [--directory DIR] [--rounds 1]

A quiet synthetic day is written as JSONL, and turned into Parquet as the broker's archive does it. Each program runs in a process
of its own: wall time from its start to its end. `report` makes the whole report (every table, page and JSON); the others
answer a part of it: requests, errors, bytes and p99 by minute, API and client, and bytes by topic. GoAccess reads the same requests
as lines of a web server, and makes its own report. The marginal rate leaves out what a report of a thousand rows takes, which is
Java's and Spark's start.
"""

import argparse
import contextlib
import importlib.util
import json
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


def timed(command: list[str]) -> float:
    """Run a program and return its wall seconds; raise CalledProcessError when it fails."""
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def commands(directory: Path) -> dict[str, list[str]]:
    """Return what is measured by name."""
    python, logs = sys.executable, {"JSONL": directory / "jsonl", "Parquet": directory / "parquet"}
    found = {}
    for form, log in logs.items():
        report = [python, "-m", "twisted_kafka_spark", "report", str(log), "--quiet", "--out", str(directory / "report.html")]
        found[f"report, {form}"] = report
        for name, program in {"duckdb": DUCKDB, "polars": POLARS}.items():
            if importlib.util.find_spec(name) is not None:
                found[f"{name}, {form}"] = [python, "-c", program, str(log), form.lower()]
    if shutil.which("goaccess") is not None:
        web = directory / "web.log"
        as_web_log(logs["JSONL"], web)
        found["goaccess"] = ["goaccess", str(web), "--log-format=COMMON", "-o", str(directory / "goaccess.html"), "--no-progress"]
    return found


def measure(directory: Path, options: argparse.Namespace) -> None:
    log, columns, small = directory / "jsonl", directory / "parquet", directory / "small"
    rows = Day(options.rows).write(log)
    Day(SMALL_ROWS).write(small)
    shutil.copytree(log, columns)
    to_parquet(columns)
    size_mb = sum(path.stat().st_size for path in log.rglob("*.jsonl")) / 1e6
    print(f"{rows:,} rows, {size_mb:,.0f} MB of JSONL, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    report = commands(directory)["report, JSONL"]
    base = timed([str(small) if word == str(log) else word for word in report])
    print(f"{'report of ' + format(SMALL_ROWS, ',') + ' rows':22} {base:7.1f} s wall")
    for name, command in commands(directory).items():
        for _ in range(options.rounds):
            wall = timed(command)
            marginal = f"  {rows / max(wall - base, 0.1):>11,.0f} rows/s marginal" if name.startswith("report") else ""
            print(f"{name:22} {wall:7.1f} s wall  {rows / wall:>11,.0f} rows/s{marginal}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--directory", type=Path, help="keep the files here; default: a temporary directory")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        directory = options.directory or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        measure(directory, options)


if __name__ == "__main__":
    main()
