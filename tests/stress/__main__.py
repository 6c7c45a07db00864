"""Let threads use the broker's shared structures at once, with or without the interpreter lock, and check what must hold.

    python -m tests.stress [--seconds 5] [--seeds 1] [--first-seed 0] [NAME ...]

Each scenario runs for ``--seconds`` with each seed. What it finds is a fault of a structure that is shared, or of its use here;
threads interleave differently each time, so a seed repeats what they do and not when. Ends with 1 if a scenario failed.
"""

import argparse
import faulthandler
import sys
import time
import traceback

from tests.stress.crew import Crew, restless
from tests.stress.scenarios import SCENARIOS
from twisted_kafka.system.interpreter import HAS_INTERPRETER_LOCK


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SCENARIOS))
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    options = parser.parse_args()
    faulthandler.enable()
    print(f"{sys.version}\nwith{'' if HAS_INTERPRETER_LOCK else 'out'} the interpreter lock", flush=True)
    failed = 0
    with restless():
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            for name in options.names or SCENARIOS:
                print(f"seed {seed}: {name}", end="", flush=True)
                began_s = time.monotonic()
                try:
                    SCENARIOS[name](Crew(seed, options.seconds))
                except Exception:  # noqa: BLE001 the others run, too
                    failed += 1
                    print(f": failed\n{traceback.format_exc()}", flush=True)
                else:
                    print(f": {time.monotonic() - began_s:.1f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
