"""Runs the correct versions in the worlds of one seed after the other: ``python -m tests.world.programs --minutes 10``.

Results are lines of JSON in a file, one for each seed. A later call continues after them. Any alarm makes the status 1.
"""

import argparse
import json
import logging
import sys
import time
from pathlib import Path

from tests.world.programs import PROGRAMS
from twisted_kafka.world import World
from twisted_kafka.world.seeds import report, run_test


def alarms_of(seed: int) -> dict[str, str]:
    """Return the reports of the programs that fail in their worlds of a seed."""
    alarms = {}
    for program in PROGRAMS:
        outcome = run_test(World(seed, properties=program.settings), program.make(True))
        if outcome.error is not None:
            alarms[program.name] = report(outcome, name=program.name)
    return alarms


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.world.programs")
    parser.add_argument("--minutes", type=float, default=10.0, help="real time after which no further seed begins")
    parser.add_argument("--results", type=Path, default=Path("build/world/programs.jsonl"))
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    path: Path = arguments.results
    path.parent.mkdir(parents=True, exist_ok=True)
    results = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    until_s = time.monotonic() + arguments.minutes * 60
    with path.open("a") as file:
        while time.monotonic() < until_s:
            seed = len(results)
            results.append({"seed": seed, "alarms": alarms_of(seed)})
            print(json.dumps(results[-1]), file=file, flush=True)
    failed = [alarm for each in results for alarm in each["alarms"].values()]
    print(f"{len(results)} seeds of {len(PROGRAMS)} correct programs, {len(failed)} alarms")
    print("\n\n".join(failed))
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
