"""Lets the simulated hours look for each fault until they find it, or have taken a number of seconds of a processor.

    python -m tests.world.mutants --cpu-seconds 60 --minutes 60 [--only log.epochs-unsynced]

Results are lines of JSON in a file. A later call goes on after them.
"""

import argparse
import json
import logging
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from tests.world.hours.runs import run
from tests.world.mutants.faults import Mutant, all_mutants, make_copy

VIRTUAL_S: Final = 30.0
"""Virtual seconds with load and faults of each run, without its quiet end."""
_SHM: Final = Path("/dev/shm")
_NOTHING: Final = "nothing"
"""The name of the copy without a fault."""


def _most_cpu_s(cpu_s: float) -> int:
    """Return after how much processor time a process ends: its last run may take some time beyond ``cpu_s``."""
    return int(2 * cpu_s) + 60


def hunt(cpu_s: float) -> dict[str, Any]:
    """Run seed after seed until one fails, or the time is over. It is for a process that has the fault."""
    logging.disable(logging.CRITICAL)
    resource.setrlimit(resource.RLIMIT_CPU, (_most_cpu_s(cpu_s), _most_cpu_s(cpu_s)))
    seed, virtual_s = 0, 0.0
    while True:
        outcome = run(seed, VIRTUAL_S)
        virtual_s += outcome.world.now_s
        seed += 1
        found: dict[str, Any] = {"seeds": seed, "virtual_s": round(virtual_s, 1), "cpu_s": round(time.process_time(), 1)}
        if outcome.error is not None:
            return {**found, "error": f"{type(outcome.error).__name__}: {outcome.error}"[:2000]}
        if time.process_time() > cpu_s:
            return found


def hunt_elsewhere(mutant: Mutant | None, cpu_s: float) -> dict[str, Any]:
    """Return the result of a hunt in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="mutant-", dir=_SHM if _SHM.is_dir() else None) as name:
        make_copy(Path(name), mutant)
        done = subprocess.run(
            [sys.executable, "-m", "tests.world.mutants", "--hunt", "--cpu-seconds", str(cpu_s)],
            cwd=name,
            env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": name},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode < 0:
        return {"error": f"the process took more than {_most_cpu_s(cpu_s)} s of its processor: a run does not end"}
    if done.returncode:
        return {"error": f"the process ended with {done.returncode}: {done.stderr[-1000:]}"}
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def known(path: Path) -> dict[str, dict[str, Any]]:
    """Return the results in a file, by the faults' titles."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {each["mutant"]: each for each in map(json.loads, lines)}


def table(results: dict[str, dict[str, Any]]) -> str:
    """Return the results as a table of Markdown."""
    lines = ["| fault | found after | as |", "|---|---|---|"]
    for title, each in results.items():
        spent = f"{each.get('virtual_s', 0) / 60:.0f} min ({each.get('seeds', 0)} seeds)"
        first = each.get("error", "").splitlines()[:2]
        lines.append(f"| {title} | {spent if first else f'not in {spent}'} | {' '.join(first)[:160]} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.world.mutants")
    parser.add_argument("--cpu-seconds", type=float, default=60.0, help="of each fault")
    parser.add_argument("--minutes", type=float, default=60.0, help="real time after which no further fault is looked for")
    parser.add_argument("--only", nargs="+", default=(), help="these faults, also if there are results")
    parser.add_argument("--results", type=Path, default=Path("build/world/mutants.jsonl"))
    parser.add_argument("--hunt", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.hunt:
        print(json.dumps(hunt(arguments.cpu_seconds)))
        return 0
    until_s = time.monotonic() + arguments.minutes * 60
    mutants: dict[str, Mutant | None] = {_NOTHING: None, **{each.title: each for each in all_mutants()}}
    done = known(arguments.results)
    wanted = arguments.only or [title for title in mutants if title not in done]
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    with arguments.results.open("a") as file:
        for title in wanted:
            if time.monotonic() > until_s:
                break
            done[title] = {"mutant": title, **hunt_elsewhere(mutants[title], arguments.cpu_seconds)}
            print(json.dumps(done[title]), file=file, flush=True)
    print(table(done))
    return 0
