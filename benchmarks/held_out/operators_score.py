"""Score the findings on days with incidents from post-mortems and runbooks, and on days without incidents.

    python -m benchmarks.held_out.operators_score [--seeds 40] [--first 0] [--quiet 0.2] [--verbose]

An incident is named if one finding has an acceptable name, says who or where it was, and differs from its begin and
its end by at most `TOLERANCE` minutes. Lines are folded and searched in this process, by the code that reports on a small log.
"""

from __future__ import annotations

import argparse
import datetime
import time
from collections import Counter
from collections.abc import Iterator

import numpy as np

from benchmarks.held_out.cluster_day import DATE, quiet, write
from benchmarks.held_out.operators import Expected, plant
from twisted_kafka_spark import views
from twisted_kafka_spark.cells.fold import Folding
from twisted_kafka_spark.findings.find import find, in_order
from twisted_kafka_spark.findings.finding import Finding
from twisted_kafka_spark.pipeline.few import FewCells
from twisted_kafka_spark.records.lines import LineReader

TOLERANCE = 10
"""Minutes."""
_TICK_S = 600


def findings_of(lines: list[str]) -> list[Finding]:
    """Return the findings of lines, as a report has them."""
    reader = LineReader()
    few = FewCells.of_tables(Folding().folded(reader.frames_of_block("".join(lines).encode()), reader))
    assert few is not None
    return in_order(find(views.compute(few.of_page(_TICK_S), _TICK_S)))


def days(seeds: range, quiet_share: float) -> Iterator[tuple[int, list[Expected], int, list[Finding]]]:
    """Yield each seed with the incidents of its day, the number of lines and the findings."""
    for seed in seeds:
        draw = np.random.default_rng(seed)
        day = quiet(draw)
        planted = [] if draw.random() < quiet_share else plant(day, draw)
        lines = write(day, None)
        yield seed, planted, len(lines), findings_of(lines)


def is_about(found: Finding, planted: Expected) -> bool:
    """Return whether a finding has an acceptable name, and names who or where it was."""
    evidence = found.evidence
    is_named = any(all(evidence.get(key) == value for key, value in who.items()) for who in planted.who)
    return found.name in planted.names and is_named


def is_named(found: Finding, planted: Expected) -> bool:
    """Return whether a finding names an incident: who, where and when."""
    if not is_about(found, planted) or found.first is None or found.last is None:
        return False
    begins = abs(_minute(found.first) - planted.first) <= TOLERANCE
    return begins and (planted.is_point or abs(_minute(found.last) - planted.last) <= TOLERANCE)


def _minute(text: str) -> int:
    at = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return (at - datetime.datetime.fromisoformat(f"{DATE}T00:00+00:00")) // datetime.timedelta(minutes=1)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.held_out.operators_score", description=__doc__)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--quiet", type=float, default=0.2, help="share of the days that are quiet")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    started = time.monotonic()
    planted_of, named_of = Counter[str](), Counter[str]()
    false = other = quiet_days = lines_read = 0
    for seed, planted, lines, found in days(range(options.first, options.first + options.seeds), options.quiet):
        lines_read += lines
        quiet_days += not planted
        about = {id(each) for each in found for one in planted if is_about(each, one)}
        rest = [each for each in found if id(each) not in about]
        false, other = (false, other + len(rest)) if planted else (false + len(rest), other)
        for one in planted:
            planted_of[one.kind] += 1
            named = any(is_named(each, one) for each in found)
            named_of[one.kind] += named
            if options.verbose and not named:
                print(f"seed {seed}: missed {one.kind} {one.who} {one.first}-{one.last}", flush=True)
                for each in (each for each in found if is_about(each, one)):
                    print(f"    {each.title}", flush=True)
        for each in rest if options.verbose else ():
            print(f"seed {seed}: {'other' if planted else 'false'}: {each.name}: {each.title}", flush=True)
    print(f"{'kind':32} {'planted':>8} {'named':>6}")
    for kind in sorted(planted_of):
        print(f"{kind:32} {planted_of[kind]:8} {named_of[kind]:6}")
    share = named_of.total() / max(planted_of.total(), 1)
    print(f"{named_of.total()} of {planted_of.total()} named ({share:.1%}); {other} other findings on those days")
    print(f"{false} false findings on {quiet_days} quiet days; {lines_read:,} lines, {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
