"""The speed of `follow` with a backlog, and its delay with a growing log.

    python -m benchmarks.access_log_follow [--rows 5000000] [--directory DIR] [--trickle-seconds 30] [--trickle-rows 2000]

Backlog: `follow --once` processes a thousand rows, which measures the start of Java and Spark, and `--rows` of a synthetic day; the
rate excludes the start. The output is checked: no row may be lost or duplicated. Growing log: `--trickle-rows` lines per second are
appended to an open file while `follow --every 1s --late 0s` runs. The lines of each second have the time of another minute, so a
minute ends, and is searched for findings, every second; the result is the delay between the last line of a minute and its cells on
disk. Files in `--directory` are created once and reused.
"""

import argparse
import contextlib
import datetime
import math
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from pyarrow import compute, parquet

from benchmarks.scratch import scratch
from twisted_kafka_spark.synthetic.day import Day

SMALL_ROWS = 1000
START_TIMEOUT_S = 120
POLL_S = 0.05
LINES_OF = 200_000
MIDNIGHT = datetime.datetime(2026, 11, 21)


def prepared(directory: Path, rows: int) -> Path:
    """Create the files of a day, unless they exist."""
    log = directory / f"{rows}"
    if not log.exists():
        Day(rows).write(log)
    return log


def follow(log: Path, out: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "twisted_kafka_spark", "follow", str(log), "--out", str(out), *options]


def written(out: Path) -> dict[datetime.datetime, int]:
    """Return the number of requests of each minute on disk."""
    found: dict[datetime.datetime, int] = {}
    for path in out.glob("followed=4/batches=*/*.parquet"):
        with contextlib.suppress(FileNotFoundError):
            table = parquet.ParquetFile(path).read(["kind", "at", "requests"])
            for row in table.filter(compute.equal(table["kind"], "traffic")).to_pylist():
                found[row["at"]] = found.get(row["at"], 0) + row["requests"]
    return found


def count_lines(log: Path) -> dict[str, int]:
    """Return the number of lines of each minute of a log."""
    found: dict[str, int] = {}
    for path in log.rglob("*.jsonl"):
        for line in path.open():
            minute = line[15:31]
            found[minute] = found.get(minute, 0) + 1
    return found


def backlog(log: Path, scratch: Path) -> float:
    """Follow the existing lines once, check the output, and return the seconds."""
    out = scratch / f"rolled-{log.name}"
    began = time.perf_counter()
    subprocess.run(follow(log, out, "--once"), check=True, stdout=subprocess.DEVNULL)
    wall = time.perf_counter() - began
    expected = count_lines(log)
    rolled = {f"{at:%Y-%m-%dT%H:%M}": requests for at, requests in written(out).items()}
    if rolled != expected:
        raise RuntimeError(f"{log}: {sum(rolled.values()):,} requests were rolled up, but there are {sum(expected.values()):,}")
    return wall


def trickle(log: Path, scratch: Path, options: argparse.Namespace) -> None:
    """Append the lines of a minute every second to an open file while it is followed, and print the delay of the output."""
    lines = [line.partition("Z")[2] for path in sorted(log.rglob("*.jsonl")) for line in path.open()][:LINES_OF]
    grown, out = scratch / "grown", scratch / "rolled-grown"
    grown.mkdir()
    ended: dict[str, float] = {}
    seen: dict[str, float] = {}
    first_measured = 0
    began = time.monotonic()
    with subprocess.Popen(follow(grown, out, "--every", "1s", "--late", "0s"), stdout=subprocess.DEVNULL) as running:
        try:
            with (grown / ".node-1-000001.jsonl").open("w") as file:
                while not seen or len(ended) < first_measured + options.trickle_seconds:
                    if running.poll() is not None or (not seen and time.monotonic() - began > START_TIMEOUT_S):
                        raise RuntimeError("follow has written nothing")
                    minute = MIDNIGHT + datetime.timedelta(minutes=len(ended))
                    head, at = f'{{"v":1,"time":"{minute:%Y-%m-%dT%H:%M}:30.000Z', len(ended) * options.trickle_rows % LINES_OF
                    file.writelines(head + rest for rest in lines[at : at + options.trickle_rows])
                    file.flush()
                    ended[f"{minute:%Y-%m-%dT%H:%M}"] = time.monotonic()
                    while time.monotonic() - began < len(ended):
                        seen.update(
                            {each: time.monotonic() for each in written_minutes(out, options.trickle_rows) if each not in seen}
                        )
                        time.sleep(POLL_S)
                    first_measured = first_measured or (len(ended) if seen else 0)
        finally:
            running.terminate()
    waits = sorted(seen[each] - ended[each] for each in list(ended)[first_measured:] if each in seen)
    print(
        f"{options.trickle_rows:,} rows/s appended, one minute per second: a minute is on disk {statistics.median(waits):.1f} s "
        f"after its last line (median of {len(waits)}, at most {waits[-1]:.1f} s)"
    )


def written_minutes(out: Path, rows: int) -> set[str]:
    """Return the minutes all of whose rows are on disk."""
    return {f"{at:%Y-%m-%dT%H:%M}" for at, requests in written(out).items() if requests >= rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--trickle-seconds", type=int, default=30, help="0: skip the growing log")
    parser.add_argument("--trickle-rows", type=int, default=2000)
    parser.add_argument("--directory", type=Path, help="directory for the files; default: a temporary directory")
    options = parser.parse_args()
    with scratch() as temporary:
        directory = options.directory or temporary
        small, large = prepared(directory, SMALL_ROWS), prepared(directory, options.rows)
        start = wall = math.inf
        for number in range(options.rounds):
            outputs = temporary / str(number)
            outputs.mkdir()
            load = os.getloadavg()[0]
            start, wall = min(start, backlog(small, outputs)), min(wall, backlog(large, outputs))
        print(f"backlog of {SMALL_ROWS:,} rows: {start:.1f} s; of {options.rows:,} rows: {wall:.1f} s, "
              f"{options.rows / max(wall - start, 0.1):,.0f} rows/s without the start; load {load:.1f}")  # fmt: skip
        if options.trickle_seconds:
            trickle(large, temporary, options)


if __name__ == "__main__":
    main()
