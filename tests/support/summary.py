"""Sums up the runs of ``make test-all``: python -m tests.support.summary RUN.xml..., files that ``pytest --junitxml`` writes.

Its exit status is 0 only if each run has ended and no test failed.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

MOST_SHOWN = 20


class Run(NamedTuple):
    """One run of pytest."""

    took_s: float
    times_s: dict[str, float]
    """By test."""
    failed: list[str]
    skipped: int


def read(path: Path) -> Run:
    """Read a file that ``pytest --junitxml`` has written. Raises OSError if the run did not end."""
    suite = ElementTree.parse(path).getroot()[0]
    names = [(f"{case.get('classname')}::{case.get('name')}", case) for case in suite.iter("testcase")]
    failed = [name for name, case in names if case.find("failure") is not None or case.find("error") is not None]
    skipped = sum(case.find("skipped") is not None for _, case in names)
    return Run(float(suite.get("time", 0)), {name: float(case.get("time", 0)) for name, case in names}, failed, skipped)


def main(paths: Sequence[str]) -> int:
    """Print the longest and the failed tests, and one line about each run."""
    runs: list[tuple[str, Run]] = []
    missing = []
    for path in paths:
        try:
            runs.append((Path(path).stem, read(Path(path))))
        except (OSError, ElementTree.ParseError) as error:
            missing.append(f"{path} cannot be read, so its run did not end: {error}")
    times_s = sorted(((took_s, name) for _, run in runs for name, took_s in run.times_s.items()), reverse=True)
    print("The longest tests:", *(f"{took_s:8.1f} s  {name}" for took_s, name in times_s[:MOST_SHOWN]), sep="\n")
    failed = [name for _, run in runs for name in run.failed]
    print("", *(f"FAILED {name}" for name in failed), *missing, sep="\n")
    for name, run in runs:
        passed = len(run.times_s) - len(run.failed) - run.skipped
        print(f"{name}: {passed} passed, {len(run.failed)} failed, {run.skipped} skipped in {run.took_s / 60:.0f} minutes")
    return int(bool(failed or missing or not any(run.times_s for _, run in runs)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
