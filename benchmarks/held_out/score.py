"""Score the report's findings on days with incidents that are planted by a seed, and on quiet days.

    python -m benchmarks.held_out.score [--seeds 200] [--first 0] [--quiet 0.3] [--results FILE] [--verbose]

With `--results`, what was planted and found is kept there, a line for each day, and days that are there are not made again.

Prints for each kind how many incidents above its stated floor were named with the right client, API and minutes, how many below it
were reported all the same, and the false findings on quiet days. Every finding goes through `job.run`. Seeds below 10,000 are for
scores only; to choose thresholds, use others.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.held_out.fleet import quiet_day
from benchmarks.held_out.planted import MAKERS, Planted, plant
from benchmarks.held_out.streams import lines_of, write
from benchmarks.scratch import scratch
from twisted_kafka_spark.pipeline.job import Job, run
from twisted_kafka_spark.runtime import session

DATE = "2026-03-17"
TOLERANCE = 2
"""Minutes by which the beginning and the end of a finding may differ from the incident's."""
_API = re.compile(r"api = '(\w+)'")
Found = dict[str, Any]


def make_day(seed: int, quiet_share: float, directory: Path) -> tuple[list[Planted], int]:
    """Write the day of a seed; return its incidents and the number of its lines."""
    draw = np.random.default_rng(seed)
    fleet = quiet_day(draw)
    planted = [] if draw.random() < quiet_share else plant(fleet, draw)
    lines = [line for stream in fleet.streams for line in lines_of(stream, fleet.weather, draw)]
    return planted, write(lines, [each for one in planted for each in one.damaged], DATE, directory)


def kept_days(results: Path | None) -> dict[int, tuple[list[Planted], int, list[Found]]]:
    """Return what was planted, the number of lines and the findings of each seed in a file of results."""
    days = {}
    for line in results.read_text().splitlines() if results is not None and results.exists() else ():
        day = json.loads(line)
        planted = [Planted(**{**each, "apis": frozenset(each["apis"])}) for each in day["planted"]]
        days[day["seed"]] = planted, day["lines"], day["findings"]
    return days


def keep(results: Path, seed: int, planted: list[Planted], lines: int, findings: list[Found]) -> None:
    """Append the result of a day."""
    told = [{**asdict(each), "apis": sorted(each.apis), "damaged": []} for each in planted]
    with results.open("a") as file:
        file.write(json.dumps({"seed": seed, "lines": lines, "planted": told, "findings": findings}, default=_plain) + "\n")


def _plain(value: np.generic) -> Any:
    return value.item()


def days(seeds: range, quiet_share: float, results: Path | None) -> Iterator[tuple[int, list[Planted], int, list[Found]]]:
    """Yield each seed with what is planted in its day, the number of lines and the findings of its report."""
    known = kept_days(results)
    spark = None if all(seed in known for seed in seeds) else session.start("local[1]")
    try:
        with scratch() as directory:
            for seed in seeds:
                if seed not in known:
                    assert spark is not None
                    planted, lines = make_day(seed, quiet_share, directory / "day")
                    document = json.loads(json.dumps(run(spark, Job(paths=[str(directory / "day")])), default=str))
                    shutil.rmtree(directory / "day")
                    known[seed] = planted, lines, document["findings"]
                    if results is not None:
                        keep(results, seed, *known[seed])
                yield seed, *known[seed]
    finally:
        if spark is not None:
            spark.stop()


def matches(found: Found, planted: Planted) -> bool:
    """Return whether the finding is of this kind, and names whom and which API."""
    if found["name"] != planted.kind or any(found["evidence"].get(key) != value for key, value in planted.names.items()):
        return False
    apis = {found["evidence"]["api"]} if "api" in found["evidence"] else set(_API.findall(found["where"]))
    return not planted.apis or not apis or bool(apis & planted.apis)


def is_right(found: list[Found], planted: Planted) -> bool:
    """Return whether the findings, which match, have the right minutes together."""
    if planted.first is None or planted.last is None:
        return bool(found)
    if not found:
        return False
    first = min(_minute(each["first"]) for each in found)
    last = max(_minute(each["last"]) for each in found)
    return abs(first - planted.first) <= TOLERANCE and abs(last - planted.last) <= TOLERANCE


def _minute(text: str | None) -> int:
    if text is None:
        return -1_000_000
    at = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return (at - datetime.datetime.fromisoformat(f"{DATE}T00:00+00:00")) // datetime.timedelta(minutes=1)


class Score:
    """Counts over days."""

    def __init__(self) -> None:
        self.above: Counter[str] = Counter()
        self.right: Counter[str] = Counter()
        self.seen: Counter[str] = Counter()
        """Named with the right client and API, but not with the right minutes."""
        self.below: Counter[str] = Counter()
        self.wrong_below: Counter[str] = Counter()
        self.quiet_days = self.days = self.lines = 0
        self.false: Counter[str] = Counter()
        self.other: Counter[str] = Counter()
        """Findings of days with incidents that name none of them."""

    def add(self, planted: list[Planted], findings: list[Found]) -> list[str]:
        """Count a day; return what was not as it should be."""
        self.days += 1
        self.quiet_days += not planted
        problems = []
        unexplained = list(findings)
        for one in planted:
            found = [each for each in findings if matches(each, one)]
            unexplained = [each for each in unexplained if each not in found]
            if one.is_above:
                self.above[one.kind] += 1
                right = is_right(found, one)
                self.right[one.kind] += right
                self.seen[one.kind] += bool(found) and not right
                if not right:
                    problems.append(f"{'minutes of' if found else 'missed'} {_told(one)} {[each['title'] for each in found]}")
            elif one.is_below:
                self.below[one.kind] += 1
                self.wrong_below[one.kind] += bool(found)
                if found:
                    problems.append(f"below the floor: {_told(one)} {found[0]['title']}")
        for each in unexplained:
            (self.other if planted else self.false)[each["name"]] += 1
            problems.append(f"{'other' if planted else 'false'}: {each['name']} {each['title']}")
        return problems

    def print(self) -> None:
        """Print the table."""
        print(
            f"{'kind':22} {'above':>6} {'named':>6} {'share':>7} {'minutes':>8} {'below':>6} {'told':>5} {'false':>6} {'other':>6}"
        )
        for kind in MAKERS:
            share = f"{self.right[kind] / self.above[kind]:.0%}" if self.above[kind] else "-"
            print(
                f"{kind:22} {self.above[kind]:6} {self.right[kind]:6} {share:>7} {self.seen[kind]:8} {self.below[kind]:6} "
                f"{self.wrong_below[kind]:5} {self.false[kind]:6} {self.other[kind]:6}"
            )
        above, right, false = self.above.total(), self.right.total(), self.false.total()
        print(f"{self.days} days, {self.lines:,} lines, {self.quiet_days} of the days quiet")
        print(f"incidents above their floor: {above}, of which named with client, API and minutes: {right / max(above, 1):.1%}")
        print(f"incidents below their floor: {self.below.total()}, of which reported: {self.wrong_below.total()}")
        print(f"false findings: {false} on {self.quiet_days} quiet days, {10 * false / max(self.quiet_days, 1):.1f} per ten days")


def _told(planted: Planted) -> str:
    when = "" if planted.first is None or planted.last is None else f" {_clock(planted.first)}-{_clock(planted.last)}"
    return f"{planted.kind} of size {planted.size:.2f}{when} {planted.names or ''}"


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.held_out.score", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--quiet", type=float, default=0.3, help="share of the days that are quiet")
    parser.add_argument("--results", type=Path, help="file to keep the results of days in")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    score, started = Score(), time.monotonic()
    seeds = range(options.first, options.first + options.seeds)
    for seed, planted, lines, findings in days(seeds, options.quiet, options.results):
        score.lines += lines
        for problem in score.add(planted, findings):
            if options.verbose:
                print(f"seed {seed}: {problem}", flush=True)
    score.print()
    print(f"{time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
