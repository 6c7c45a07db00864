"""The cost of requests in process before and after a change, in one run.

    git worktree add --detach ../before COMMIT
    python -m benchmarks.before_and_after ../before [--rounds 3] [--only 'produce*'] [--frames]

Runs ``benchmarks.request_path`` of this checkout alternately on the package of the other checkout and on this one's, and prints for
each scenario the fastest microseconds of processor time of all rounds, before and after, and their ratio. ``--frames`` measures the
requests of one partition. ``BROKER_PYTHON`` is the interpreter.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

from benchmarks.scratch import scratch

HERE = Path(__file__).resolve().parent.parent
ROW = re.compile(r"(.{32}) +([\d.]+) +([\d.]+)\n")


def costs(folder: Path, words: list[str]) -> dict[str, float]:
    """Return the fastest time of each scenario in one run of the package in ``folder``."""
    python = os.environ.get("BROKER_PYTHON", sys.executable)
    command = [python, "-m", "benchmarks.request_path", *words]
    printed = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout
    return {name.strip(): float(fastest) for name, fastest, _ in ROW.findall(printed)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="the root of a checkout")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="*", metavar="PATTERN", help="scenarios of benchmarks.traffic")
    parser.add_argument("--frames", action="store_true", help="the requests of one partition instead")
    options = parser.parse_args()
    words = [] if options.frames else ["--traffic", options.only]
    with scratch() as folder:
        for name in ("benchmarks", "tests"):
            (folder / name).symlink_to(HERE / name)
        (folder / "twisted_kafka").symlink_to(options.before.resolve() / "twisted_kafka")
        found: list[dict[str, float]] = [{}, {}]
        for _ in range(options.rounds):
            for fastest, where in zip(found, (folder, HERE), strict=True):
                for name, cost in costs(where, words).items():
                    fastest[name] = min(cost, fastest.get(name, cost))
        print(f"{'us of processor time':30}{'before':>10}{'after':>10}{'ratio':>8}")
        for name, before in found[0].items():
            after = found[1][name]
            print(f"{name:30}{before:10.1f}{after:10.1f}{after / before:8.2f}")


if __name__ == "__main__":
    main()
