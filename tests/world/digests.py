"""Runs the shop in the worlds of many seeds, each in two processes with different hash seeds, and compares the digests.

    python -m tests.world.digests --results FILE --seeds 1000 --minutes 10

The results are lines of JSON in a file. A later call continues after them. Calls of several interpreters with the same file are
compared with each other, too, if they have the same versions of the packages. Any difference makes the status 1.
"""

import argparse
import json
import logging
import os
import platform
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.world.a_run import visit
from tests.world.shop import Shop

KINDS: Final = ((1, False), (3, False), (1, True), (3, True))
"""Brokers, and whether there are faults, by seed."""
CHUNK: Final = 20
"""Seeds of one process."""
RUNS: Final = 2


class Run(NamedTuple):
    """One run of a seed."""

    seed: int
    python: str
    number: int
    """0 or 1: the first or the second run with this interpreter."""
    digest: str
    """Of the trace, or the error."""


def digest(seed: int) -> str:
    """Run the world of a seed; return the digest of its trace, or its error."""
    brokers, has_faults = KINDS[seed % len(KINDS)]
    try:
        return visit(Shop(), seed, brokers, has_faults=has_faults).digest
    except Exception as error:  # noqa: BLE001 it must be the same error in each run
        return f"{type(error).__name__}: {error}"


def digests_elsewhere(seeds: Sequence[int], hash_seed: int, wait_s: float) -> list[str]:
    """Return the digests of seeds, from a process with a hash seed. Raises SubprocessError."""
    command = [sys.executable, "-m", "tests.world.digests", "--print", *map(str, seeds)]
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, timeout=wait_s, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def known(path: Path) -> list[Run]:
    """Return the results in a file; none if it does not exist."""
    return [Run(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def continue_runs(path: Path, seeds: int, minutes: float) -> None:
    """Add the missing runs of this interpreter to the file until the time is over. The second run goes through seeds backwards."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    until_s = time.monotonic() + minutes * 60
    done = {(each.seed, each.number) for each in known(path) if each.python == python}
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        for first in range(0, seeds, CHUNK):
            for number in range(RUNS):
                chunk = [seed for seed in range(first, min(first + CHUNK, seeds)) if (seed, number) not in done]
                chunk = chunk[::-1] if number else chunk
                if not chunk:
                    continue
                if time.monotonic() > until_s:
                    return
                found = digests_elsewhere(chunk, 1 + 1000 * number + first, wait_s=3600)
                for seed, text in zip(chunk, found, strict=True):
                    file.write(json.dumps(Run(seed, python, number, text)._asdict()) + "\n")
                file.flush()


def summary(runs: Iterable[Run]) -> tuple[str, bool]:
    """Return what the runs say, and whether all runs of each seed are equal."""
    seen: dict[int, set[str]] = defaultdict(set)
    counts: dict[str, list[int]] = defaultdict(lambda: [0] * RUNS)
    errors = set()
    for each in runs:
        seen[each.seed].add(each.digest)
        counts[each.python][each.number] += 1
        if " " in each.digest:
            errors.add(f"seed {each.seed}: {each.digest}")
    different = sorted(seed for seed, digests in seen.items() if len(digests) > 1)
    lines = [f"{python}: {min(count)} seeds run twice" for python, count in counts.items()]
    return "\n".join([*lines, *sorted(errors), f"seeds with different runs: {different or 'none'}"]), not different


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.world.digests")
    parser.add_argument("--results", type=Path, default=Path("build/world/digests.jsonl"))
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=10.0, help="real time after which no further process starts")
    parser.add_argument("--print", type=int, nargs="+", default=(), metavar="SEED", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.print:
        logging.disable(logging.CRITICAL)
        for seed in arguments.print:
            print(json.dumps(digest(seed)), flush=True)
        return 0
    continue_runs(arguments.results, arguments.seeds, arguments.minutes)
    text, are_equal = summary(known(arguments.results))
    print(text)
    return int(not are_equal)


if __name__ == "__main__":
    sys.exit(main())
