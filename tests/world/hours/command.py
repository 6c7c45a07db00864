"""Runs seed after seed, each on one processor, until the time is over: ``python -m tests.world.hours --minutes 60``.

Results are lines of JSON in a file. A later run continues after them. The end is a summary; failed seeds make the status 1.
"""

import argparse
import json
import logging
import multiprocessing
import os
import sys
import time
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

from tests.world.hours.runs import run, smallest
from twisted_kafka.world.moments.copies import Moments
from twisted_kafka.world.moments.prompt import talk
from twisted_kafka.world.seeds import report

RUN_S = 120.0
"""Virtual seconds of each run, its quiet end not included."""


def work(seed: int, virtual_s: float) -> dict[str, Any]:
    """Return the result of one seed, as in the file."""
    logging.disable(logging.CRITICAL)
    began_s = time.process_time()
    outcome = run(seed, virtual_s)
    found: dict[str, Any] = {
        "seed": seed,
        "virtual_s": round(outcome.world.now_s, 3),
        "cpu_s": round(time.process_time() - began_s, 2),
        "faults": [fault.text for fault in outcome.faults],
        "digest": outcome.world.trace.digest,
    }
    if outcome.error is not None:
        found["error"] = report(smallest(outcome, virtual_s), name="the cluster")
    return found


def known(path: Path) -> list[dict[str, Any]]:
    """Return the results in a file; none if it does not exist."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run_all(path: Path, minutes: float, jobs: int, virtual_s: float) -> list[dict[str, Any]]:
    """Run seeds that are not in the file until the time is over; return all results."""
    results = known(path)
    done = {each["seed"] for each in results}
    seeds = (seed for seed in range(sys.maxsize) if seed not in done)
    until_s = time.monotonic() + minutes * 60
    path.parent.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    with path.open("a") as file, ProcessPoolExecutor(jobs, mp_context=context, max_tasks_per_child=20) as pool:
        running: set[Future[dict[str, Any]]] = set()
        while True:
            while len(running) < jobs and time.monotonic() < until_s:
                running.add(pool.submit(work, next(seeds), virtual_s))
            if not running:
                return results
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for each in ended:
                results.append(each.result())
                file.write(json.dumps(each.result()) + "\n")
                file.flush()


def summary(results: list[dict[str, Any]]) -> str:
    """Return what the results say."""
    hours = sum(each["virtual_s"] for each in results) / 3600
    cpu_s = sum(each["cpu_s"] for each in results)
    failed = [each for each in results if "error" in each]
    lines = [f"{len(results)} seeds, {hours:.2f} simulated hours, {cpu_s:.0f} s of processors, {len(failed)} failed"]
    lines += [f"\nseed {each['seed']}:\n{each['error']}" for each in failed]
    return "\n".join(lines)


def visit(seed: int, virtual_s: float, at_s: float) -> int:
    """Run a seed, and talk to the user at a moment of it."""
    moments = Moments(talk)
    outcome = run(seed, virtual_s, moments=moments)
    print(f"{outcome.world.now_s:.6f} s, {outcome.error}")
    try:
        moments.visit(at_s)
    finally:
        moments.close()
    return int(outcome.error is not None)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.world.hours")
    parser.add_argument("--minutes", type=float, default=10.0, help="real time after which no further seed begins")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2)
    parser.add_argument("--results", type=Path, default=Path("build/world/results.jsonl"))
    parser.add_argument("--virtual-seconds", type=float, default=RUN_S)
    parser.add_argument("--seed", type=int, help="run this seed only, print its trace, and write no result")
    parser.add_argument("--at", type=float, help="with --seed: open a prompt in the world at this virtual second")
    arguments = parser.parse_args()
    if arguments.at is not None and arguments.seed is not None:
        return visit(arguments.seed, arguments.virtual_seconds, arguments.at)
    if arguments.seed is not None:
        outcome = run(arguments.seed, arguments.virtual_seconds)
        print(outcome.world.trace.text(), outcome.world.trace.digest, outcome.error)
        return int(outcome.error is not None)
    results = run_all(arguments.results, arguments.minutes, arguments.jobs, arguments.virtual_seconds)
    print(summary(results))
    return int(any("error" in each for each in results))
