"""Runs a test in many worlds, and shrinks the faults of one in which it fails."""

from collections.abc import Callable, Collection, Coroutine, Sequence
from contextlib import nullcontext
from typing import Any, Final, NamedTuple

from twisted_kafka.timing.clock import SystemClock
from twisted_kafka.world.faults import Fault
from twisted_kafka.world.moments.copies import Moments
from twisted_kafka.world.world import World

MAX_SHRINKS: Final = 60
MAX_SHRINKING_NS: Final = 120_000_000_000
"""Shrinking ends after this number of runs, or after this real time, with the smallest plan so far."""
SHOWN_EVENTS: Final = 40

Test = Callable[[World], Coroutine[Any, Any, object]]
MakeWorld = Callable[[Collection[int] | None], World]
"""Makes a closed world of one seed, with these faults of its plan; all if None."""


class Outcome(NamedTuple):
    """One run of a test in a world, which is closed."""

    error: BaseException | None
    world: World

    @property
    def faults(self) -> list[Fault]:
        """The faults that happened."""
        return self.world.happened


class SeedFailedError(AssertionError):
    """A test failed in a world. The message says how to repeat that."""


def run_test(world: World, test: Test, moments: Moments | None = None) -> Outcome:
    """Open the world, run the test, look for stuck threads and broken promises, and close the world.

    Then ``moments`` can be visited.
    """
    error: BaseException | None = None
    try:
        with world, nullcontext() if moments is None else moments.along(world):
            world.drive(test(world))
            stuck = world.stuck_threads()
            if stuck:
                raise AssertionError("threads wait for a lock:\n" + "\n".join(stuck))
            world.kafka.all()
    except Exception as failure:  # noqa: BLE001 the outcome has it
        error = failure
    return Outcome(error, world)


def shrink(make_world: MakeWorld, test: Test, failed: Outcome, now_ns: Callable[[], int] = SystemClock.monotonic_ns) -> Outcome:
    """Return a failed run with fewer faults: without any of them, the test passes, as far as the runs have shown.

    Halves are left out first, then smaller parts. The error need not stay the same.
    """
    numbers = [fault.number for fault in failed.faults]
    until_ns, left = now_ns() + MAX_SHRINKING_NS, MAX_SHRINKS
    size = len(numbers)
    while size and numbers:
        at = 0
        while at < len(numbers) and left and now_ns() < until_ns:
            fewer = numbers[:at] + numbers[at + size :]
            left -= 1
            outcome = run_test(make_world(fewer), test)
            if outcome.error is not None:
                failed, numbers = outcome, [fault.number for fault in outcome.faults]
            else:
                at += size
        size = size // 2 if size > 1 else 0
    return failed


def report(outcome: Outcome, *, name: str) -> str:
    """Return what a person needs to understand and to repeat a failed run."""
    world = outcome.world
    faults = [f"  {fault.at_s:12.6f}  {fault.number}: {fault.text}" for fault in outcome.faults] or ["  none is needed"]
    events: Sequence[Any] = list(world.trace.events)[-SHOWN_EVENTS:]
    numbers = ",".join(str(fault.number) for fault in outcome.faults)
    return "\n".join(
        [
            f"{name} fails in the world of seed {world.seed}: {type(outcome.error).__name__}: {outcome.error}",
            f"To repeat it: pytest --kafka-seed={world.seed} --kafka-faults={numbers or 'none'}",
            "To look at its brokers and logs at a moment: add --kafka-at=SECONDS",
            "The faults that it needs:",
            *faults,
            f"The last of {world.trace.count} events (all: --kafka-trace=FILE), in virtual seconds:",
            *[f"  {event.text()}" for event in events],
        ]
    )
